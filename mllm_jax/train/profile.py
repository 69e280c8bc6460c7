"""Profiles of a run: the phases in them by name, and the files of `run.profile_steps`.

On the host a step is a `StepTraceAnnotation`, and in it `read`, `place`, `wait` and `dispatch` are
annotations; `save` and `evaluate` lie between steps. The scopes of the compiled step name the work
of the devices.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import jax

from mllm_jax.config.sections import RunConfig
from mllm_jax.runtime.folder import RunError
from mllm_jax.runtime.part import peers, waiting
from mllm_jax.train.events import Event, Reading, Stopwatch, Taken
from mllm_jax.train.state.progress import Progress

logger = logging.getLogger(__name__)

#: Folder in that of the run; TensorBoard finds profiles in `plugins/profile` below it.
FOLDER = "profile"
#: How profiles name a step of the optimizer.
STEP = "train"


@contextmanager
def phase(name: str) -> Iterator[Stopwatch]:
    """Context that profiles show by `name`, and that is measured."""
    with jax.profiler.TraceAnnotation(name):
        yield Stopwatch()


def check_processes(config: RunConfig) -> None:
    """Check that the run has every process that `run.profile_processes` names.

    Raises:
        RunError: a process is not there.
    """
    count = peers().count
    absent = [index for index in config.profile_processes if index >= count]
    if absent:
        valid = f"0 to {count - 1}" if count > 1 else "0, as there is one process"
        raise RunError(
            f"run.profile_processes: {', '.join(map(str, absent))} in "
            f"{list(config.profile_processes)} would be behind the last process; valid: {valid}"
        )


class Profile:
    """Listens: writes a profile of the steps that `run.profile_steps` names.

    If a run resumes within these steps, the profile has the steps that are left.

    Args:
        config: configuration of the run.
        progress: progress of the run, whose steps' time leaves out starting and writing profiles.
    """

    def __init__(self, config: RunConfig, progress: Progress) -> None:
        self._folder, self._running, self._progress = config.path / FOLDER, False, progress
        chosen = peers().index in config.profile_processes
        self._steps = config.profile_steps if chosen else None
        if self._steps and self._steps[1] <= progress.step:
            logger.warning(
                "no profile is written, as the run goes on after step %d, and run.profile_steps "
                "are %d to %d",
                progress.step,
                *self._steps,
            )

    @property
    def folder(self) -> Path:
        """The folder of profiles; each process but the first has a folder of its own."""
        index = peers().index
        return self._folder / f"process-{index}" if index else self._folder

    def __call__(self, event: Event) -> None:
        """Take an event in.

        Raises:
            RunError: another profile is running in this process.
        """
        if self._steps is None:
            return
        first, last = self._steps
        if isinstance(event, Reading) and first <= event.step <= last and not self._running:
            self._apart(self._begin)
        if isinstance(event, Taken) and event.step == last:
            with waiting(f"step {event.step}"):
                jax.block_until_ready(dict(event.scalars))
            self._apart(self.close)

    def close(self) -> None:
        """Write the profile, if one is running."""
        if self._running:
            self._running = False
            jax.profiler.stop_trace()
            logger.info("profile in %s", self.folder)

    def _apart(self, action: Callable[[], None]) -> None:
        """Do something that is no part of a step."""
        own = Stopwatch()
        action()
        self._progress.paused += own.seconds

    def _begin(self) -> None:
        try:
            jax.profiler.start_trace(self.folder)
        except RuntimeError as error:
            raise RunError(f"run.profile_steps: {error}") from error
        self._running = True

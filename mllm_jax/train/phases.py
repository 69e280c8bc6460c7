"""Profiles of a run: the phases in them by name, and the files, by key and by signal.

On the host a step is a `StepTraceAnnotation`, and in it `read`, `place`, `wait` and `dispatch` are
annotations; `agree`, `copy`, `save` and `evaluate` lie between steps. The scopes of the compiled
step name the work of the devices.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import jax

from mllm_jax.config.run import RunConfig
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
    """Listens: writes a profile of the steps that `run.profile_steps` names, or that are asked for.

    If a run resumes within the named steps, the profile has the steps that are left.

    Args:
        config: configuration of the run.
        progress: progress of the run, whose steps' time leaves out starting and writing profiles.
        asked: whether a profile of the next `run.profile_on_signal` steps was asked for, since this
            was called last.
    """

    def __init__(
        self, config: RunConfig, progress: Progress, asked: Callable[[], bool] = lambda: False
    ) -> None:
        self._folder, self._progress = config.path / FOLDER, progress
        self._asked, self._count = asked, config.profile_on_signal
        self._last: int | None = None  # step with which the running profile ends
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
        if isinstance(event, Reading) and self._last is None:
            last = self._due(event.step)
            if last is not None:
                self._apart(self._begin)
                self._last = last
        if isinstance(event, Taken) and event.step == self._last:
            with waiting(f"step {event.step}", by_all=False):
                jax.block_until_ready(dict(event.scalars))
            self._apart(self.close)

    def close(self) -> None:
        """Write the profile, if one is running."""
        if self._last is not None:
            self._last = None
            jax.profiler.stop_trace()
            logger.info("profile in %s", self.folder)

    def _due(self, step: int) -> int | None:
        """The last step of a profile that is to begin with `step`; None: none is."""
        if self._steps and self._steps[0] <= step <= self._steps[1]:
            return self._steps[1]
        if self._count is None or not self._asked():
            return None
        last = step + self._count - 1
        logger.info("a signal has come: steps %d to %d are profiled", step, last)
        return last

    def _apart(self, action: Callable[[], None]) -> None:
        """Do something that is no part of a step."""
        own = Stopwatch()
        action()
        self._progress.paused += own.seconds

    def _begin(self) -> None:
        try:
            jax.profiler.start_trace(self.folder)
        except RuntimeError as error:
            raise RunError(f"another profile is running in this process: {error}") from error

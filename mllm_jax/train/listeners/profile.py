"""Profiles of a run, by key and by signal; `mllm_jax.train.phases` names what they show."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import jax

from mllm_jax.config.run import RunConfig
from mllm_jax.runtime.folder import RunError
from mllm_jax.runtime.run_peers import current_peers, waiting_for_peers
from mllm_jax.train.events import Event, StepEnded, StepStarted, StepStopwatch
from mllm_jax.train.state.progress import Progress

logger = logging.getLogger(__name__)

#: Folder in that of the run; TensorBoard finds profiles in `plugins/profile` below it.
FOLDER = "profile"


def check_processes(config: RunConfig) -> None:
    """Check that the run has every process that `run.profile_processes` names.

    Raises:
        RunError: a process is not there.
    """
    count = current_peers().count
    absent = [index for index in config.profile_processes if index >= count]
    if absent:
        valid = f"0 to {count - 1}" if count > 1 else "0, as there is one process"
        raise RunError(
            f"run.profile_processes: {', '.join(map(str, absent))} in "
            f"{list(config.profile_processes)} would be after the last process; valid: {valid}"
        )


class StepProfile:
    """Writes a profile of the steps that `run.profile_steps` names or a signal requests.

    If a run resumes within the named steps, the profile has the steps that are left.

    Args:
        config: configuration of the run.
        progress: progress of the run, whose steps' time leaves out starting and writing profiles.
        is_requested: whether a profile of the next `run.profile_on_signal` steps was asked for,
            since this was called last.
    """

    def __init__(
        self,
        config: RunConfig,
        progress: Progress,
        is_requested: Callable[[], bool] = lambda: False,
    ) -> None:
        self._folder, self._progress = config.path / FOLDER, progress
        self._is_requested, self._count = is_requested, config.profile_on_signal
        self._last: int | None = None  # step with which the running profile ends
        is_profiled = current_peers().index in config.profile_processes
        self._steps = config.profile_steps if is_profiled else None
        if self._steps and self._steps[1] <= progress.step:
            logger.warning(
                "no profile is written, as the run goes on after step %d, and run.profile_steps "
                "are %d to %d",
                progress.step,
                *self._steps,
            )

    @property
    def folder(self) -> Path:
        """The folder of profiles; each process but the first has another one."""
        index = current_peers().index
        return self._folder / f"process-{index}" if index else self._folder

    def __call__(self, event: Event) -> None:
        """Start a profile before a step, or write it after one, where that is due.

        Raises:
            RunError: another profile is running in this process.
        """
        if isinstance(event, StepStarted) and self._last is None:
            last = self._find_last(event.step)
            if last is not None:
                self._pause_for(self._start_profile)
                self._last = last
        if isinstance(event, StepEnded) and event.step == self._last:
            with waiting_for_peers(f"step {event.step}", by_all=False):
                jax.block_until_ready(dict(event.results))
            self._pause_for(self.close)

    def close(self) -> None:
        """Write the profile, if one is running."""
        if self._last is not None:
            self._last = None
            jax.profiler.stop_trace()
            logger.info("profile in %s", self.folder)

    def _find_last(self, step: int) -> int | None:
        """The last step of a profile that starts with `step`; None: none does."""
        if self._steps and self._steps[0] <= step <= self._steps[1]:
            return self._steps[1]
        if self._count is None or not self._is_requested():
            return None
        last = step + self._count - 1
        logger.info("a signal has come: steps %d to %d are profiled", step, last)
        return last

    def _pause_for(self, action: Callable[[], None]) -> None:
        """Stop the time of the step while other work is done."""
        watch = StepStopwatch()
        action()
        self._progress.paused += watch.seconds

    def _start_profile(self) -> None:
        try:
            jax.profiler.start_trace(self.folder)
        except RuntimeError as error:
            raise RunError(f"another profile is running in this process: {error}") from error

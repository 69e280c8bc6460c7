"""Saves of a run's checkpoints: repeated after failures, marked as good once losses are usual."""

from __future__ import annotations

import errno
import logging
import os
import shutil
import time
from collections.abc import Callable
from typing import Any

import jax

from mllm_jax.config.load import ExperimentConfig
from mllm_jax.runtime.collective import true_on_all_processes
from mllm_jax.runtime.folder import UnwritableError
from mllm_jax.runtime.run_peers import current_peers
from mllm_jax.runtime.run_status import resume_command
from mllm_jax.train.state.checkpoint import CheckpointManager
from mllm_jax.train.state.progress import Progress
from mllm_jax.train.state.saved import first_line

logger = logging.getLogger(__name__)

#: Seconds before the last save is tried again, twice as long after each failure.
_PAUSE = 1.0


class SaveError(UnwritableError):
    """Checkpoints that could not be saved, too many in a row."""


class CheckpointSaver:
    """Saves the checkpoints of a run, and repeats failed saves; good checkpoints are kept longest.

    Args:
        checkpoints: checkpoints of the run.
        config: configuration of the run.
        resumed: progress that the run continues from; that of step 0 if none.
    """

    def __init__(
        self, checkpoints: CheckpointManager, config: ExperimentConfig, resumed: Progress
    ) -> None:
        self._checkpoints, self._config = checkpoints, config
        self._running: int | None = None
        # The run may continue from a snapshot that is newer than every checkpoint.
        self._newest = max((n for n in checkpoints.steps if n <= resumed.step), default=None)
        self._checkpoints.retention.good = resumed.good
        self._failures = 0

    def save_state(
        self, state: Any, progress: Progress, usual_step: int, *, last: bool = False
    ) -> None:
        """Begin to save, unless the step is saved; a failure is noticed at the next save.

        Args:
            usual_step: newest step whose loss was usual, see `StepGuard`.
            last: no save will follow, so that this one is waited for and tried until it is done.

        Raises:
            SaveError: more saves in a row have failed than may.
        """
        self.wait_for_save()
        self._mark_good(usual_step)
        progress.good = self._checkpoints.retention.good
        if self._newest != progress.step:
            self._begin_save(progress.step, state, progress.to_json())
        if last:
            self._save_until_done(progress.step, state, progress.to_json())

    def wait_for_save(self) -> None:
        """Wait for the save that is running.

        Raises:
            SaveError: as in `save_state`.
        """
        step, self._running = self._running, None
        if step is not None and self._try_action(step, self._checkpoints.wait_for_saves):
            self._newest, self._failures = step, 0

    def give_advice(self, usual_step: int) -> str:
        """Advice for a run that has diverged.

        Args:
            usual_step: newest step whose loss was usual, see `StepGuard`.
        """
        self.wait_for_save()
        self._mark_good(usual_step)
        good = self._checkpoints.retention.good
        if good not in self._checkpoints.steps:
            return (
                "No checkpoint of the run is known to be good: start afresh under another run.name,"
                " with a lower train.learning_rate or train.clip_norm"
            )
        return (
            f"The newest checkpoint that is known to be good is that of step {good}: go on from it "
            f"with --from-step {good} and a lower train.learning_rate or train.clip_norm"
        )

    def _mark_good(self, usual_step: int) -> None:
        """Mark the newest checkpoint as good if a later step had a usual loss."""
        if self._newest is not None and usual_step > self._newest:
            self._checkpoints.retention.good = self._newest

    def _save_until_done(self, step: int, state: Any, progress: dict[str, Any]) -> None:
        """Wait for the last save, and try it again until it is done."""
        self.wait_for_save()
        while self._newest != step:
            pause = _PAUSE * 2 ** (self._failures - 1)
            with current_peers().noting_activity(
                f"saving step {step} again in {pause:g} s", limited=False
            ):
                time.sleep(pause)
            self._begin_save(step, state, progress)
            self.wait_for_save()

    def _begin_save(self, step: int, state: Any, progress: dict[str, Any]) -> None:
        """Begin one save, or count a failure."""
        is_ready = self._try_action(step, lambda: self._check_folder(state))
        save, config = self._checkpoints.save_state, self._config.model_dump(mode="json")
        if is_ready and self._try_action(step, lambda: save(step, state, progress, config)):
            self._running = step

    def _check_folder(self, state: Any) -> None:
        """Check that the folder exists and has space, before processes wait for each other."""
        if self._failures:
            self._checkpoints.reset_after_failure()
        folder = self._checkpoints.directory
        if not folder.is_dir():
            raise FileNotFoundError(errno.ENOENT, "the folder is gone", str(folder))
        needed = sum(leaf.nbytes for leaf in jax.tree.leaves(state))
        free = shutil.disk_usage(folder).free
        if free < needed:
            what = f"{free / 2**20:.0f} MiB are free, and {needed / 2**20:.0f} MiB needed"
            raise OSError(errno.ENOSPC, f"{os.strerror(errno.ENOSPC)}: {what}", str(folder))

    def _try_action(self, step: int, action: Callable[[], None]) -> bool:
        """Whether `action` has succeeded on all processes; else a failure is counted."""
        reason = ""
        try:
            action()
        except Exception as error:  # Orbax and TensorStore raise many kinds
            reason = first_line(error) or type(error).__name__
        if true_on_all_processes("a checkpoint is saved", not reason):
            return True
        self._failures += 1
        allowed = self._config.checkpoint.failures
        problem = (
            f"the checkpoint of step {step} cannot be saved: {reason or 'see another process'}"
        )
        if self._failures > allowed:
            newest = "none" if self._newest is None else f"that of step {self._newest}"
            raise SaveError(
                f"{problem}; {self._failures} saves in a row have failed, and checkpoint.failures "
                f"allows {allowed}. Newest checkpoint of this process: {newest}. "
                f"Free some space or mend the folder, then go on with\n  {resume_command()}"
            )
        logger.warning("%s; it is tried again with the next one", problem)
        return False

"""Checkpoints that are fetched from the place of a run's copies.

A start of a run takes the newest of its snapshots, its checkpoints and their copies that is whole
(`CheckpointManager.restore_state`); a copy is fetched into the run's folder once its turn has
come. What only reads a run fetches a copy if the folder has no checkpoint at all.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from data.sample import StorageError, UnreachableError
from mllm_jax.config.load import ExperimentConfig, load_config
from mllm_jax.runtime.folder import IDENTITY, RESOLVED, steps_in
from mllm_jax.runtime.run_peers import current_peers
from mllm_jax.train.state.mirrors.store import FETCH_PREFIX, KEY, CheckpointMirror, MirrorStore
from mllm_jax.train.state.saved import CheckpointDamageError, SavedParameters

logger = logging.getLogger(__name__)

#: Errors of a store by their names, as process 0 tells the others of them.
_ERRORS = {kind.__name__: kind for kind in (UnreachableError, StorageError)}


@dataclass(frozen=True)
class RemoteCheckpoint:
    """A copy that a start may go on from.

    Attributes:
        step: step of the checkpoint.
        store: place of the copy, for messages.
    """

    step: int
    store: str

    def __str__(self) -> str:
        return f"the copy of step {self.step} in {self.store}"


class RemoteCheckpoints:
    """The copies that a start of a run finds; all processes call its methods at the same points.

    Process 0 asks the store, for all that see the run's folder. A store that does not answer is
    told, and the start goes on without it, unless the start needs it: see `raise_if_unanswered`.

    Args:
        config: configuration of the run, which has `checkpoint.copy_to`.
        requested_step: step of the checkpoint that the start is asked to go on from; None: the
            newest.

    Raises:
        DataError: the URL cannot be opened. RunError: the copies are of another run.
        StorageError, UnreachableError: the store does not answer, and the run has no past here, or
            copies of steps after `requested_step` may have to be set aside there.
    """

    def __init__(self, config: ExperimentConfig, requested_step: int | None = None) -> None:
        self.store, self.run, self.requested_step = (
            MirrorStore(config),
            config.run.path,
            requested_step,
        )
        self._copies: dict[int, CheckpointMirror] = {}
        self._error: StorageError | None = None
        begun = (self.run / IDENTITY).exists()
        copies, why = self._of_first(f"looking for copies in {self.store}", self._list_steps)
        self.checkpoints = [RemoteCheckpoint(step, str(self.store)) for step in copies or ()]
        if not why:
            return
        if requested_step is not None or not begun:
            self.raise_if_unanswered()
        logger.warning(
            "whether %s has newer copies is unknown: %s; the run goes on from what is here",
            *(self.store, why),
        )

    @property
    def has_answered(self) -> bool:
        """Whether the store has answered all requests."""
        return self._error is None

    def fetch_checkpoint(self, checkpoint: RemoteCheckpoint, *, replaces: bool) -> str:
        """Get a copy into the run's folder, with the records that the folder lacks.

        Args:
            replaces: whether the folder has a damaged checkpoint of that step, which is set aside.

        Returns:
            Why that has failed; empty if it has not.
        """

        def get() -> None:
            self.store.fetch_records(self.run)
            copy, directory = self._copies[checkpoint.step], self.run / "checkpoints"
            self.store.fetch_checkpoint(copy, directory, replaces=replaces)
            logger.info("the checkpoint of step %d is fetched from %s", checkpoint.step, self.store)

        return self._of_first(f"fetching {checkpoint}", get)[1]

    def raise_if_unanswered(self) -> None:
        """Raise the error of a store that has not answered.

        Raises:
            StorageError, UnreachableError: there was one.
        """
        if self._error is None:
            return
        if self.requested_step is None:
            raise self._error
        raise type(self._error)(
            f"{self._error}; --from-step {self.requested_step} needs that place, as newer copies "
            "are set aside there"
        )

    def _list_steps(self) -> list[int]:
        for left in (self.run / "checkpoints").glob(f"{FETCH_PREFIX}*"):  # of a start that ended
            shutil.rmtree(left, ignore_errors=True)
        copies = self.store.list_copies()
        self.store.check_same(self.run, copies)
        self._copies = {copy.step: copy for copy in copies}
        return [*self._copies]

    def _of_first(self, what: str, action: Callable[[], Any]) -> tuple[Any, str]:
        """The result of process 0, or its error, which all processes store."""
        answer = None
        if current_peers().index == 0:
            with current_peers().noting_activity(what, limited=False, key=KEY):
                answer = _try_action(action)
        value, why, kind = current_peers().gather_values(what, answer)[0]
        if kind:
            self._error = _ERRORS[kind](why)
        return value, why


def _try_action(action: Callable[[], Any]) -> tuple[Any, str, str]:
    """The result of an action, the reason of its failure, and the name of a transient error."""
    try:
        return action(), "", ""
    except CheckpointDamageError as error:
        return None, str(error), ""
    except StorageError as error:
        return None, str(error), type(error).__name__
    except OSError as error:  # of the run's folder, such as a full disk
        return None, f"it cannot be written here: {error}", UnreachableError.__name__


def open_remote_checkpoints(
    config: ExperimentConfig, requested_step: int | None
) -> RemoteCheckpoints | None:
    """The copies that a start finds; None for a run without a store.

    Raises:
        Exception: as of `RemoteCheckpoints`.
    """
    has_store = config.checkpoint.copy_to is not None and config.checkpoint.enabled
    return RemoteCheckpoints(config, requested_step) if has_store else None


def fetch_newest(config: ExperimentConfig) -> None:
    """Get the newest checkpoint that is whole, if the run's folder has none and there is a copy.

    Process 0 does it, for all that see the folder; the others wait.

    Args:
        config: configuration of the run.

    Raises:
        RunError: the copies are of another run.
        DataError: the URL cannot be opened. UnreachableError: it stays out of reach.
    """
    enabled = config.checkpoint.copy_to is not None and config.checkpoint.enabled
    if enabled and current_peers().index == 0 and not steps_in(config.run.path):
        with current_peers().noting_activity("fetching a checkpoint", limited=False, key=KEY):
            _fetch_into(MirrorStore(config), config.run.path)
    if enabled:
        current_peers().gather_values("checkpoints are fetched", None)


def saved_parameters(run: Path) -> SavedParameters:
    """The parameters of a run's newest checkpoint, which is fetched if its folder has none.

    Raises:
        CheckpointError: there is none, here or in a store that the run's configuration names.
        ConfigError: the configuration in the folder is none. Exception: as of `fetch_newest`.
    """
    resolved = run / RESOLVED
    if not steps_in(run) and resolved.is_file():
        config = load_config(resolved)
        if config.checkpoint.copy_to is not None:
            _fetch_into(MirrorStore(config), run)
    return SavedParameters(run / "checkpoints")


def _fetch_into(store: MirrorStore, run: Path) -> None:
    copies = store.list_copies()
    store.check_same(run, copies)
    for copy in copies:
        try:
            store.fetch_checkpoint(copy, run / "checkpoints")
        except CheckpointDamageError as error:
            checkpoint = RemoteCheckpoint(copy.step, str(store))
            logger.warning("%s: %s; trying an older one", checkpoint, error)
            continue
        store.fetch_records(run)
        logger.info("the checkpoint of step %d is fetched from %s", copy.step, store)
        return

"""Checkpoints are copied beside training.

The newest checkpoint comes first, then older ones that are still here and have no copy. Records
follow every checkpoint, and the end of the run. A place that is out of reach, or takes no files,
holds up nothing and ends no copying: what has no copy is told, and tried again later. It is told,
too, if a checkpoint is removed here before its turn.
"""

from __future__ import annotations

import logging
import math
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from data.credentials import hidden
from data.sample import DataError, StorageError
from mllm_jax.runtime.folder import RunError, ensure_identity, steps_in
from mllm_jax.runtime.run_peers import current_peers
from mllm_jax.train.state.mirrors.remote_checkpoints import RemoteCheckpoints
from mllm_jax.train.state.mirrors.store import KEY, MirrorStore

logger = logging.getLogger(__name__)

#: Seconds between two polls for a complete checkpoint.
POLL_SECONDS = 1.0
#: Seconds after which a copy that has failed is tried again, if none has succeeded before.
AGAIN = 60.0


@contextmanager
def copying_checkpoints(remote: RemoteCheckpoints | None, newest: int) -> Iterator[None]:
    """Context in which the run's checkpoints are copied; its end waits for the last.

    An error waits for none: what has no copy is told, and copied once the run goes on.

    Args:
        remote: what the start of the run has found in its store; None for a run without one.
        newest: step that the run goes on from; copies of later ones are set aside.

    Raises:
        StorageError: the start was asked to go back (`RemoteCheckpoints.requested_step`), and the
            copies that the run leaves cannot be set aside.
    """
    if remote is None:
        yield
        return
    copier = _CheckpointCopier(remote, newest)
    try:
        yield
    except KeyboardInterrupt:  # which has saved what there is
        copier.finish_copies()
        raise
    except BaseException:
        copier.stop_copying()
        raise
    copier.finish_copies()


def copy_records(remote: RemoteCheckpoints | None) -> None:
    """Copy the records of an ended run to its copies of checkpoints; a failure is logged."""
    if remote is not None and not current_peers().index:
        with current_peers().noting_activity(
            "copying the records of the run", limited=False, key=KEY
        ):
            _put_records(remote.store, remote.run)


def _put_records(store: MirrorStore, run: Path) -> None:
    try:
        store.put_records(run)
    except (OSError, DataError) as error:
        logger.warning("the records of the run have no copy in %s: %s", store, error)


class _CheckpointCopier:
    """Copies, on a thread of its own."""

    def __init__(self, remote: RemoteCheckpoints, newest: int) -> None:
        self._store, self._run, self._newest = remote.store, remote.run, newest
        self._identity, self._place = (
            ensure_identity(self._run),
            (current_peers().index, current_peers().count),
        )
        self._start: str = current_peers().gather_values(
            "this start's copies", secrets.token_hex(4)
        )[0]
        self._begun = False
        self._seen: set[int] = set()
        self._copied: set[int] = set()
        self._failed: dict[int, float] = {}
        self._retained_steps: list[int] = []
        self._logged_messages: set[str] = set()
        self._reported_steps: set[int] = set()
        if not self._place[0] and remote.has_answered:
            self._begin_now(go_back=remote.requested_step is not None)
        self._over = threading.Event()
        # A daemon: a process that ends with an error waits for no store.
        self._thread = threading.Thread(target=self._go_on, name="copies", daemon=True)
        self._thread.start()

    def finish_copies(self) -> None:
        """Wait for the copies of saved checkpoints."""
        self._over.set()
        with current_peers().noting_activity("copying the last checkpoint", limited=False, key=KEY):
            self._thread.join()

    def stop_copying(self) -> None:
        """End without waiting; log the newest checkpoint if it has no copy yet."""
        self._over.set()
        newest = steps_in(self._run)[-1:]
        if not self._copied.issuperset(newest):
            logger.warning(
                "an error ends this process before the checkpoint of step %d has a copy in %s: %s; "
                "the copy is made once the run goes on here",
                *(newest[0], self._store, self._newest_there()),
            )

    def _begin_now(self, *, go_back: bool) -> None:
        """Begin before the first step, so that copies of an abandoned course are never restored."""
        try:
            with current_peers().noting_activity("setting copies aside", limited=False, key=KEY):
                self._prepare_store()
        except StorageError as error:
            if go_back:
                raise
            self._warn_once("no checkpoint is copied to %s yet: %s; training goes on", error)

    def _prepare_store(self) -> None:
        """Set aside copies of an abandoned course, and list the existing copies.

        A place that was out of reach as the run started is first seen here.

        Raises:
            RunError: the copies are of another run.
            StorageError: the place does not allow it, or stays out of reach.
        """
        if self._begun:
            return
        copies = self._store.list_copies()
        self._store.check_same(self._run, copies)
        if self._place[0]:
            self._wait_for_first()
        elif left := self._store.quarantine_newer(self._newest):
            logger.warning(
                "the run goes on after step %d: copies of steps %s in %s are set aside (newer-...)",
                *(self._newest, ", ".join(map(str, left)), self._store),
            )
        self._copied = {copy.step for copy in copies if copy.step <= self._newest}
        self._begun = True

    def _wait_for_first(self) -> None:
        """Wait until process 0 has set aside copies of an abandoned course."""
        until = time.monotonic() + self._store.retry_seconds
        while left := self._store.steps_of_other_starts(self._newest, self._start):
            if time.monotonic() > until:
                steps = ", ".join(map(str, left))
                raise StorageError(f"process 0 has not set aside the copies of steps {steps} there")
            time.sleep(POLL_SECONDS)

    def _go_on(self) -> None:
        """Copy until the end of training; an error is logged, and the next pass tries again."""
        over = done = False
        while not (over and done):
            over, done = self._over.wait(POLL_SECONDS), True
            try:
                done = self._copy_newest()
            except Exception as error:  # none may end the copies of what is saved later
                why = hidden(f"{type(error).__name__}: {error}")
                self._warn_once("copying to %s has failed: %s; it is tried again", why)

    def _copy_newest(self) -> bool:
        """Copy the newest checkpoint that has no copy; whether nothing is left to be copied."""
        steps = steps_in(self._run)
        self._tell_lost(steps)
        for step in self._steps_to_copy(steps)[:1]:
            self._copy_checkpoint(step)
        self._remove_old_copies(steps)
        return not self._steps_to_copy(steps_in(self._run))

    def _steps_to_copy(self, steps: list[int]) -> list[int]:
        """Steps to copy, the newest first; those that have failed a while ago among them."""
        now = time.monotonic()
        return [
            step
            for step in reversed(steps)
            if step not in self._copied and now - self._failed.get(step, -math.inf) > AGAIN
        ]

    def _tell_lost(self, steps: list[int]) -> None:
        """Log the first checkpoint that was deleted here and has no copy."""
        self._seen.update(steps)
        if lost := sorted(self._seen - self._copied - {*steps}):
            self._warn_once(
                "not every checkpoint has a copy in %s: %s",
                f"that of step {lost[0]} was removed here before its turn; checkpoints come faster "
                "than the place takes them, or it was away",
            )

    def _copy_checkpoint(self, step: int) -> None:
        """Copy a checkpoint; a failure is logged once, and the copy is tried again later."""
        try:
            self._prepare_store()
            if step in self._copied:
                return
            folder = self._run / "checkpoints" / str(step)
            self._store.copy_part(folder, self._identity, self._place, self._start)
            self._copied.add(step)
        except (OSError, DataError, RunError) as error:
            self._note_failure(step, error)
        else:
            self._failed.clear()  # the place takes files again
            if self._place[0] == 0:
                _put_records(self._store, self._run)

    def _note_failure(self, step: int, error: Exception) -> None:
        """Note that a copy has failed, and warn of it the first time."""
        if step not in steps_in(self._run):
            return  # it was removed here meanwhile, which the next look tells
        self._failed[step] = time.monotonic()
        if step not in self._reported_steps:
            self._reported_steps.add(step)
            logger.warning(
                "the checkpoint of step %d has no copy in %s: %s; %s, and training goes on",
                *(step, self._store, error, self._newest_there()),
            )

    def _newest_there(self) -> str:
        if not self._begun:
            return "what is there is not known"
        last = max(self._copied, default=None)
        return "none is there" if last is None else f"the newest there is that of step {last}"

    def _remove_old_copies(self, steps: list[int]) -> None:
        """Remove copies of steps that this folder no longer has."""
        if (
            self._place[0]
            or steps == self._retained_steps
            or steps[-1:] != [max(self._copied, default=0)]
        ):
            return
        try:
            self._store.keep_steps(steps)
        except (OSError, DataError) as error:
            self._warn_once("copies of older checkpoints are left in %s: %s", error)
        self._retained_steps = steps

    def _warn_once(self, text: str, why: object) -> None:
        """Warn once of a problem that may recur at every pass."""
        if text not in self._logged_messages:
            self._logged_messages.add(text)
            logger.warning(text, self._store, why)

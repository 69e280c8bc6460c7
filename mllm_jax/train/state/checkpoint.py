"""Checkpoints: model, optimizer, loader state and configuration as one atomic Orbax step.

A step folder appears under its final name only when every host has written its share, with
checksums of all its files (`checksums.py`). Arrays are restored straight into the shardings of the
running plan, which may differ from the one that saved.
"""

from __future__ import annotations

import logging
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import orbax.checkpoint as ocp

from mllm_jax.config.renamed_keys import of_command
from mllm_jax.config.sections import CheckpointConfig
from mllm_jax.runtime.collective import true_on_all_processes
from mllm_jax.runtime.run_peers import current_peers
from mllm_jax.train.state.fit import check_same_model
from mllm_jax.train.state.items import JsonHandler, JsonSave, StateHandler, StateRestore, StateSave
from mllm_jax.train.state.mirrors.remote_checkpoints import RemoteCheckpoint, RemoteCheckpoints
from mllm_jax.train.state.progress import Progress, ProgressError
from mllm_jax.train.state.regroup import LayerRegrouping, Shape, leaf_name
from mllm_jax.train.state.replicas import ReplicaReads
from mllm_jax.train.state.saved import (
    CheckpointDamageError,
    CheckpointError,
    first_line,
    quarantine_checkpoint,
    read_json,
    verify_checkpoint,
)
from mllm_jax.train.state.snapshots.memory import LocalSnapshot, SnapshotMemory
from mllm_jax.train.state.snapshots.shard import ShardError

logger = logging.getLogger(__name__)

#: Seconds between two polls of how much of a checkpoint is written.
POLL_SECONDS = 5.0
#: What the names of folders end with whose checkpoint is not whole.
_TMP_SUFFIX = ".orbax-checkpoint-tmp"


@dataclass(frozen=True)
class RestoredState:
    """The contents of a checkpoint.

    Attributes:
        step: number of optimizer steps taken.
        state: tree of arrays with the shardings that were asked for.
        progress: progress of the run, with the loader state.
        config: JSON of the configuration that saved it.
    """

    step: int
    state: Any
    progress: Progress
    config: dict[str, Any]


@dataclass(frozen=True)
class SavedCheckpoint:
    """A checkpoint in the run's folder."""

    step: int

    def __str__(self) -> str:
        return f"checkpoint of step {self.step}"


_Candidate = LocalSnapshot | RemoteCheckpoint | SavedCheckpoint


@dataclass
class Retention:
    """The checkpoints that are kept when a new one is complete: Orbax' preservation policy.

    Attributes:
        keep: newest ones.
        keep_every: multiples of this step, for ever; None for none.
        good: newest step whose state is known to be good, which is kept till a newer one is.
    """

    keep: int
    keep_every: int | None = None
    good: int | None = None

    def should_preserve(self, checkpoints: Sequence[Any], *, context: Any) -> list[bool]:
        """Whether each checkpoint, oldest first, is kept."""
        del context
        steps = [checkpoint.step for checkpoint in checkpoints]
        preserved = {*sorted(steps)[-self.keep :], self.good}
        return [step in preserved or self._for_ever(step) for step in steps]

    def _for_ever(self, step: int) -> bool:
        return self.keep_every is not None and step % self.keep_every == 0


class CheckpointManager:
    """The checkpoints of one run.

    Args:
        directory: folder of the run's checkpoints; made when absent.
        config: section `checkpoint`.
        regrouping: grouping of a pipeline's layers, and padding, under the running plan.
        read_only: nothing is saved, removed or renamed: the run may be going on elsewhere.
    """

    def __init__(
        self,
        directory: Path,
        config: CheckpointConfig,
        regrouping: LayerRegrouping,
        *,
        read_only: bool = False,
    ) -> None:
        self.directory, self._regrouping = directory.absolute(), regrouping
        self._names = regrouping.names
        self._read_only = read_only
        self.retention = Retention(config.keep, config.keep_every)
        self._asynchronous = config.asynchronous
        self._manager = self._open_manager()

    @property
    def steps(self) -> list[int]:
        """Steps that are whole, oldest first."""
        return sorted(self._manager.all_steps())

    def save_state(
        self, step: int, state: Any, progress: dict[str, Any], config: dict[str, Any]
    ) -> None:
        """Begin to save; arrays are copied before this returns, files are written in the
        background.

        Raises:
            OSError, ValueError, RuntimeError: this save or the one before has failed; see
                `reset_after_failure`.
        """
        items = ocp.args.Composite(
            state=StateSave(self._names.to_stored(state)),
            progress=JsonSave(progress),
            config=JsonSave(config),
        )
        with nullcontext() if self._asynchronous else report_write_progress(self.directory):
            # Forced: which steps are saved is the loop's choice and not Orbax's.
            self._manager.save(step, args=items, force=True)

    def restore_state(
        self,
        target: Any,
        step: int | None = None,
        accept: Callable[[RestoredState], None] = lambda restored: None,
        memory: SnapshotMemory | None = None,
        remote: RemoteCheckpoints | None = None,
    ) -> RestoredState | None:
        """The state of the newest readable checkpoint, copy or snapshot; None when there is none.

        Args:
            target: tree of `jax.ShapeDtypeStruct` with shardings.
            step: step of the state to restore; by default the newest. Newer ones are set aside.
            accept: raises if the run cannot go on from what was found, on all processes or on
                none; nothing is set aside then, but what a copy takes the place of.
            memory: snapshots in the memory of the hosts; those that are as new as a checkpoint come
                before it, and none comes with `step`.
            remote: copies of checkpoints at a URL; those that are as new as a checkpoint come
                after it.

        Raises:
            CheckpointError: every checkpoint is damaged, or the newest readable one holds another
                model; the message names the leaves. Or that of `step` is damaged or missing.
            StorageError, UnreachableError: nothing can be restored, and the place of the copies
                does not answer.
        """
        damaged: set[int] = set()
        reasons: list[tuple[_Candidate, str]] = []
        left = self._restore_candidates(step, memory, remote)
        target = self._names.to_stored(target)
        while left:
            tried = left.pop(0)
            restored, reason = self._try_candidate(tried, target, memory, remote, damaged)
            if true_on_all_processes("a checkpoint is read", restored is not None):
                assert restored is not None
                accept(restored)
                newer = [n for n in self.steps if step is not None and n > step]
                self._quarantine_checkpoints(
                    dict.fromkeys(damaged, "damaged") | dict.fromkeys(newer, "newer")
                )
                if memory is not None:
                    memory.resume_from(tried if isinstance(tried, LocalSnapshot) else None)
                return restored
            reason = reason or "cannot be read by another process"
            more = f"trying {left[0]}" if left else "there is no other to try"
            logger.warning("%s: %s; %s", tried, reason, more)
            reasons.append((tried, reason))
            if not isinstance(tried, LocalSnapshot) and tried.step in self.steps:
                damaged.add(tried.step)
        if remote is not None:
            remote.raise_if_unanswered()
        self._refuse_start(step, reasons, remote)
        if memory is not None:
            memory.resume_from(None)
        return None

    def wait_for_saves(self) -> None:
        """Block until all saved files are on disk."""
        with report_write_progress(self.directory):
            self._manager.wait_until_finished()

    def close(self) -> None:
        """Finish writing and release threads; a save that fails only now is reported."""
        try:
            with nullcontext() if self._read_only else report_write_progress(self.directory):
                self._manager.close()
        except Exception as error:  # Orbax and TensorStore raise many kinds
            logger.warning("the newest checkpoint could not be saved: %s", first_line(error))

    def reset_after_failure(self) -> None:
        """Reset after a failed save: its files are removed, a missing folder is made."""
        if jax.process_index() == 0:
            _remove_unfinished(self.directory)
        current_peers().gather_values("what a failed save has left is removed", None)
        self._manager = self._open_manager()

    def _open_manager(self) -> ocp.CheckpointManager:
        writable = not self._read_only
        options = ocp.CheckpointManagerOptions(
            preservation_policy=self.retention,
            enable_async_checkpointing=self._asynchronous and writable,
            cleanup_tmp_directories=writable,
            create=writable,
        )
        handlers = {"state": StateHandler(), "progress": JsonHandler(), "config": JsonHandler()}
        return ocp.CheckpointManager(self.directory, options=options, item_handlers=handlers)

    def _restore_candidates(
        self, step: int | None, memory: SnapshotMemory | None, remote: RemoteCheckpoints | None
    ) -> list[_Candidate]:
        """Restorable states, the newest first; of one step snapshot, checkpoint, copy."""
        copies = remote.checkpoints if remote is not None else []
        in_memory = memory.list_snapshots() if memory is not None and step is None else []
        every: list[_Candidate] = [*copies, *map(SavedCheckpoint, self.steps), *in_memory]
        chosen = [snapshot for snapshot in every if step in (None, snapshot.step)]
        return sorted(chosen, key=lambda candidate: candidate.step)[::-1]

    def _refuse_start(
        self,
        step: int | None,
        reasons: list[tuple[_Candidate, str]],
        remote: RemoteCheckpoints | None,
    ) -> None:
        """Raise if there were checkpoints, or one was requested, and none could be restored."""
        if step is not None:
            others = {
                *self.steps,
                *(copy.step for copy in (remote.checkpoints if remote else ())),
            } - {step}
            steps_text = ", ".join(map(str, sorted(others)))
            there = f"there are those of steps {steps_text}" if steps_text else "there is no other"
            if not reasons:
                raise CheckpointError(f"{self.directory} has no checkpoint of step {step}; {there}")
            raise CheckpointError(
                f"the checkpoint of step {step}, which --from-step asks for, is damaged: "
                + "; ".join(f"{copy}: {why}" for copy, why in reasons)
                + f"; {self.directory} is left as it is, and {there}"
            )
        if any(not isinstance(copy, LocalSnapshot) for copy, _ in reasons):
            elsewhere = f", and {remote.store}" if remote is not None and remote.checkpoints else ""
            raise CheckpointError(
                f"no readable checkpoint in {self.directory}:\n  "
                + "\n  ".join(f"{copy}: {why}" for copy, why in reasons)
                + f"\nremove the folder{elsewhere} to start afresh, or put a whole checkpoint there"
            )

    def _try_candidate(
        self,
        tried: _Candidate,
        target: Any,
        memory: SnapshotMemory | None,
        remote: RemoteCheckpoints | None,
        damaged: set[int],
    ) -> tuple[RestoredState | None, str]:
        """The checkpoint, copy or snapshot, or None and its error."""
        if isinstance(tried, LocalSnapshot):
            assert memory is not None, "there are no snapshots without it"
            return self._restore_snapshot(tried, target, memory)
        if isinstance(tried, RemoteCheckpoint):
            assert remote is not None, "there are no copies without them"
            if reason := remote.fetch_checkpoint(tried, replaces=tried.step in damaged):
                return None, reason
            damaged.discard(tried.step)
            self._manager.reload()
        return self._restore_checkpoint(tried.step, target)

    def _restore_snapshot(
        self, snapshot: LocalSnapshot, target: Any, memory: SnapshotMemory
    ) -> tuple[RestoredState | None, str]:
        """A snapshot, or None and its error."""
        reason = ""
        try:
            with memory.open_reader(snapshot) as reader:
                index = reader.index
                shapes = {name: leaf.shape for name, leaf in index.leaves.items()}
                check_same_model(str(snapshot), shapes, target, self._regrouping, index.config)
                state = reader.read_state(self._regrouping.on_disk(target, shapes))
            progress = Progress.from_json(index.progress)
        except (ShardError, ProgressError) as error:
            reason = str(error)
        # Agreed upon before the change of plans, in which processes wait for each other.
        if not true_on_all_processes("a snapshot is whole", not reason):
            return None, reason or "another process misses a part of it"
        converted = self._names.in_memory(self._regrouping.convert_state(state, target))
        return RestoredState(snapshot.step, converted, progress, of_command(index.config)), ""

    def _restore_checkpoint(self, step: int, target: Any) -> tuple[RestoredState | None, str]:
        """The checkpoint of `step`, or None and its error."""
        folder = self.directory / str(step)
        damage = ""
        try:
            verify_checkpoint(folder, share=(jax.process_index(), jax.process_count()))
            progress, config = read_json(folder)
        except CheckpointDamageError as error:
            damage = (
                str(error) if error.named else self._find_unreadable_leaf(folder, target, error)
            )
        # Agreed upon before the reading, in which processes wait for each other.
        if not true_on_all_processes("a checkpoint is whole", not damage):
            return None, damage or "another process has found damage"
        try:
            reading, read = self._read_arrays(step, target, config)
        except CheckpointError:
            raise
        except Exception as error:  # Orbax and TensorStore raise many kinds
            damage = self._find_unreadable_leaf(folder, target, error)
        # And before replicas send each other what they have read, in which they wait, too.
        if not true_on_all_processes("the arrays of a checkpoint are read", not damage):
            return None, damage or "another process cannot read its arrays"
        state = self._regrouping.convert_state(reading.send_to_all(read), target)
        return RestoredState(step, self._names.in_memory(state), progress, config), ""

    def _read_arrays(
        self, step: int, target: Any, config: dict[str, Any]
    ) -> tuple[ReplicaReads, Any]:
        """The parts of the arrays that this process reads, and their values."""
        shapes = _stored_shapes(self.directory / str(step))
        where = f"checkpoint {self.directory / str(step)}"
        check_same_model(where, shapes, target, self._regrouping, config)
        reading = ReplicaReads.from_target(self._regrouping.on_disk(target, shapes))
        restore_args = ocp.checkpoint_utils.construct_restore_args(reading.local_target)
        items = ocp.args.Composite(state=StateRestore(reading.local_target, restore_args))
        return reading, self._manager.restore(step, args=items).state

    def _quarantine_checkpoints(self, steps: dict[int, str]) -> None:
        """Rename checkpoints to `<why>-<step>`, so that these steps can be saved anew."""
        if not steps or self._read_only:
            return
        if jax.process_index() == 0:
            for step, why in steps.items():
                quarantine_checkpoint(self.directory / str(step), why)
        current_peers().gather_values("checkpoints are set aside", None)
        self._manager.reload()

    def _find_unreadable_leaf(self, folder: Path, target: Any, error: Exception) -> str:
        """Which leaf cannot be read; found by reading them one at a time."""
        on_disk = target
        with suppress(Exception):  # what is wrong is `error`, or will show
            on_disk = self._regrouping.on_disk(target, _stored_shapes(folder))
        leaves, tree = jax.tree_util.tree_flatten_with_path(on_disk)
        reader = StateHandler()
        for i, (path, leaf) in enumerate(leaves):
            skip_others = [ocp.PLACEHOLDER] * len(leaves)
            skip_others[i] = leaf
            single = jax.tree.unflatten(tree, skip_others)
            restore_args = ocp.checkpoint_utils.construct_restore_args(single)
            try:
                reader.restore(folder / "state", args=StateRestore(single, restore_args))
            except Exception as reason:
                return f"leaf {leaf_name(path)} cannot be read ({first_line(reason)})"
        return f"cannot be read ({first_line(error)})"


@contextmanager
def report_write_progress(directory: Path) -> Iterator[None]:
    """Context of a wait for files of a checkpoint: that more of them is written is an event.

    How long it takes to write a checkpoint to its end says little of the next one, which may find
    its disk busy. What shows that it goes on is that its files grow.

    Args:
        directory: folder of the run's checkpoints.
    """
    finished = threading.Event()

    def watch_size() -> None:
        known = 0
        while not finished.wait(POLL_SECONDS):
            size = _unfinished_bytes(directory)
            if size > known:
                current_peers().note_activity(_format_written(size), limited=False)
            known = size

    with current_peers().noting_activity(_format_written(0), limited=False):
        watcher = threading.Thread(target=watch_size, name="writes", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            finished.set()
            watcher.join()


def _format_written(size: int) -> str:
    return f"writing a checkpoint, {size / 2**20:.0f} MiB so far"


def _unfinished_bytes(directory: Path) -> int:
    """Bytes of the files of all checkpoints that are not whole."""
    total = 0
    for unfinished in directory.glob(f"*{_TMP_SUFFIX}"):
        # What is moved or removed meanwhile is left out, folders by `os.walk` itself.
        for folder, _, names in os.walk(unfinished):
            for name in names:
                with suppress(OSError):
                    total += (Path(folder) / name).stat().st_size
    return total


def _remove_unfinished(directory: Path) -> None:
    """Remove unfinished saves; writes of a failed one may still be ending."""
    for pause in (0.0, 0.1, 0.3, 1.0, 3.0, 10.0):
        time.sleep(pause)
        folders = list(directory.glob(f"*{_TMP_SUFFIX}"))
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
        if not folders:
            return


def _stored_shapes(folder: Path) -> dict[str, Shape]:
    """Shape of every leaf on disk by its name."""
    tree = StateHandler().metadata(folder / "state").tree
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {leaf_name(path): tuple(leaf.shape) for path, leaf in leaves}

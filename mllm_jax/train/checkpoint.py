"""Checkpoints: model, optimizer, loader state and configuration as one atomic Orbax step.

A step folder appears under its final name only when every host has written its share. Arrays are
restored straight into the layout of the running plan, which may differ from the one that saved.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp

from mllm_jax.config import CheckpointConfig
from mllm_jax.train.batch import everywhere
from mllm_jax.train.regroup import Regrouping, Shape, leaf_name

logger = logging.getLogger(__name__)

#: What the names of parameters begin with in a checkpoint's state.
_PARAMS = "params."


class CheckpointError(ValueError):
    """A checkpoint that cannot be read, or that belongs to another model."""


@dataclass(frozen=True)
class Restored:
    """What a checkpoint held.

    Attributes:
        step: number of optimizer steps taken.
        state: tree of arrays in the layout that was asked for.
        progress: JSON of what the run had done, the loader state in it.
        config: JSON of the configuration that saved it.
    """

    step: int
    state: Any
    progress: dict[str, Any]
    config: dict[str, Any]


class Checkpoints:
    """The checkpoints of one run.

    Args:
        directory: folder of the run's checkpoints; made when absent.
        config: section `checkpoint`.
        regrouping: how the running plan groups the layers of a pipeline.
    """

    def __init__(self, directory: Path, config: CheckpointConfig, regrouping: Regrouping) -> None:
        options = ocp.CheckpointManagerOptions(
            max_to_keep=config.keep,
            enable_async_checkpointing=config.asynchronous,
            cleanup_tmp_directories=True,
        )
        self._directory, self._regrouping = directory.absolute(), regrouping
        handlers = {
            "state": ocp.StandardCheckpointHandler(),
            "progress": ocp.JsonCheckpointHandler(),
            "config": ocp.JsonCheckpointHandler(),
        }
        self._manager = ocp.CheckpointManager(
            self._directory, options=options, item_handlers=handlers
        )

    @property
    def steps(self) -> list[int]:
        """Steps that are whole, oldest first."""
        return sorted(self._manager.all_steps())

    def save(self, step: int, state: Any, progress: dict[str, Any], config: dict[str, Any]) -> None:
        """Begin to save; arrays are copied before this returns, files are written behind."""
        items = ocp.args.Composite(
            state=ocp.args.StandardSave(state),
            progress=ocp.args.JsonSave(progress),
            config=ocp.args.JsonSave(config),
        )
        # Forced: which steps are saved is the loop's choice and not Orbax's.
        self._manager.save(step, args=items, force=True)

    def restore(self, target: Any) -> Restored | None:
        """The newest readable checkpoint, or None when there is none.

        Args:
            target: tree of `jax.ShapeDtypeStruct` with shardings.

        Raises:
            CheckpointError: every checkpoint is damaged, or the newest readable one holds another
                model; the message names the leaves.
        """
        damaged: dict[int, str] = {}
        for step in reversed(self.steps):
            found, reason = self._try(step, target)
            if everywhere(found is not None):
                self._set_aside(list(damaged))
                return found
            damaged[step] = f"step {step}: {reason or 'cannot be read by another process'}"
            logger.warning("checkpoint of %s; trying an older one", damaged[step])
        if damaged:
            raise CheckpointError(
                f"no readable checkpoint in {self._directory}:\n  "
                + "\n  ".join(damaged.values())
                + "\nremove the folder to start afresh, or put a whole checkpoint there"
            )
        return None

    def wait(self) -> None:
        """Block until what was saved is on disk."""
        self._manager.wait_until_finished()

    def close(self) -> None:
        """Finish writing and release threads."""
        self._manager.close()

    def _try(self, step: int, target: Any) -> tuple[Restored | None, str]:
        """The checkpoint of `step`, or None and what is wrong with it."""
        on_disk = target
        try:
            shapes = self._stored_shapes(step)
            self._check_same_model(step, shapes, target)
            on_disk = self._regrouping.on_disk(target, shapes)
            return self._read(step, on_disk, target), ""
        except CheckpointError:
            raise
        except Exception as error:  # Orbax and TensorStore raise many kinds
            return None, self._diagnose(step, on_disk, error)

    def _read(self, step: int, on_disk: Any, target: Any) -> Restored:
        items = ocp.args.Composite(
            state=ocp.args.StandardRestore(on_disk),
            progress=ocp.args.JsonRestore(),
            config=ocp.args.JsonRestore(),
        )
        restored = self._manager.restore(step, args=items)
        state = self._regrouping.convert(restored.state, target)
        return Restored(step, state, restored.progress, restored.config)

    def _stored_shapes(self, step: int) -> dict[str, Shape]:
        """Shape of every leaf on disk by its name."""
        tree = self._manager.item_metadata(step).state.tree
        leaves = jax.tree_util.tree_leaves_with_path(tree)
        return {leaf_name(path): tuple(leaf.shape) for path, leaf in leaves}

    def _set_aside(self, steps: list[int]) -> None:
        """Rename damaged checkpoints to `damaged-<step>`, so that these steps can be saved anew."""
        if not steps:
            return
        if jax.process_index() == 0:
            for step in steps:
                folder = self._directory / str(step)
                folder.rename(folder.with_name(f"damaged-{step}-{time.time_ns()}"))
        everywhere(True)  # the others wait for the renaming
        self._manager.reload()

    def _check_same_model(self, step: int, stored: dict[str, Shape], target: Any) -> None:
        """Compare names and shapes of the leaves on disk with those of `target`."""
        wanted = {
            leaf_name(path): tuple(leaf.shape)
            for path, leaf in jax.tree_util.tree_leaves_with_path(target)
        }
        lines = [f"{n}: missing in the checkpoint" for n in sorted(wanted.keys() - stored.keys())]
        lines += [f"{n}: not in the model" for n in sorted(stored.keys() - wanted.keys())]
        lines += [
            f"{n}: shape {stored[n]} in the checkpoint, {wanted[n]} in the model"
            for n in sorted(stored.keys() & wanted.keys())
            if not self._regrouping.fits(n, stored[n], wanted[n])
        ]
        if lines:
            shown = "\n  ".join(lines[:8]) + (f"\n  and {len(lines) - 8} more" * (len(lines) > 8))
            raise CheckpointError(
                f"checkpoint {self._directory / str(step)} belongs to another model:\n  {shown}\n"
                "use its own configuration, or another run.name"
            )

    def _diagnose(self, step: int, on_disk: Any, error: Exception) -> str:
        """Which leaf cannot be read; found by reading them one at a time."""
        folder = self._directory / str(step) / "state"
        leaves, tree = jax.tree_util.tree_flatten_with_path(on_disk)
        with ocp.PyTreeCheckpointer() as reader:
            for i, (path, leaf) in enumerate(leaves):
                skip_others = [ocp.PLACEHOLDER] * len(leaves)
                skip_others[i] = leaf
                single = jax.tree.unflatten(tree, skip_others)
                restore_args = ocp.checkpoint_utils.construct_restore_args(single)
                try:
                    reader.restore(
                        folder, args=ocp.args.PyTreeRestore(item=single, restore_args=restore_args)
                    )
                except Exception as reason:
                    return f"leaf {leaf_name(path)} cannot be read ({_first_line(reason)})"
        return f"cannot be read ({_first_line(error)})"


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:160]


class SavedParameters:
    """The parameters of a run's newest checkpoint, read leaf by leaf without its devices.

    Args:
        directory: folder of the run's checkpoints.

    Raises:
        CheckpointError: there is none.
    """

    def __init__(self, directory: Path) -> None:
        steps = [int(path.name) for path in directory.glob("*") if path.name.isdigit()]
        if not steps:
            raise CheckpointError(f"{directory} has no checkpoint; train the run first")
        self.step = max(steps)
        self._folder = directory.absolute() / str(self.step)
        # A handler by itself: the metadata of items are in the folder of the step.
        self._handler = ocp.PyTreeCheckpointHandler()
        tree = self._handler.metadata(self._folder / "state").tree
        leaves, self._structure = jax.tree_util.tree_flatten_with_path(tree)
        self._places = {leaf_name(path): i for i, (path, _) in enumerate(leaves)}

    @property
    def config(self) -> dict[str, Any]:
        """JSON of the configuration that saved it."""
        with ocp.Checkpointer(ocp.JsonCheckpointHandler()) as reader:
            values: dict[str, Any] = reader.restore(self._folder / "config")
        return values

    @property
    def names(self) -> list[str]:
        """Dotted names below `params`."""
        return [name.removeprefix(_PARAMS) for name in self._places if name.startswith(_PARAMS)]

    def __getitem__(self, name: str) -> np.ndarray:
        """A leaf as it was stored; layers of pipelines are grouped (see `Regrouping`).

        Raises:
            CheckpointError: it cannot be read.
        """
        place = self._places[_PARAMS + name]
        chosen = [0 if i == place else ocp.PLACEHOLDER for i in range(len(self._places))]
        item = jax.tree.unflatten(self._structure, chosen)
        as_numpy = jax.tree.map(lambda _: ocp.RestoreArgs(restore_type=np.ndarray), item)
        try:
            restored = self._handler.restore(
                self._folder / "state",
                args=ocp.args.PyTreeRestore(item=item, restore_args=as_numpy),
            )
        except Exception as error:  # Orbax and TensorStore raise many kinds
            raise CheckpointError(
                f"{self._folder}: leaf {name} cannot be read ({_first_line(error)})"
            ) from error
        return np.asarray(jax.tree.leaves(restored)[place])

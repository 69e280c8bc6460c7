"""Checkpoints on disk: whether they are complete, and their parameters leaf by leaf."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp

from mllm_jax.config.renamed_keys import RenameError, of_command
from mllm_jax.train.state.checksums import (
    ChecksumError,
    FileBlock,
    blocks_of,
    damaged_blocks,
    has_checksums,
    leaf_extents,
    leaves_of,
)
from mllm_jax.train.state.progress import Progress, ProgressError
from mllm_jax.train.state.regroup import leaf_name

logger = logging.getLogger(__name__)

#: Prefix of the names of parameters in a checkpoint's state.
_PARAMS = "params."
#: Parts of a checkpoint, each with checksums of its own.
_ITEMS = ("config", "progress", "state")
#: Sections that a configuration cannot lack.
_SECTIONS = ("run", "model", "data", "train")


class CheckpointError(ValueError):
    """A checkpoint that cannot be read, or that belongs to another model."""


class NoCheckpointError(CheckpointError):
    """A run that has no checkpoint yet."""


class CheckpointDamageError(Exception):
    """A checkpoint that is not as it was written, or cannot have been written by a run.

    Attributes:
        named: whether the message names the damaged part as precisely as possible.
    """

    def __init__(self, what: str, *, named: bool = True) -> None:
        super().__init__(what)
        self.named = named


def verify_checkpoint(
    folder: Path,
    needed: Callable[[FileBlock], bool] = lambda block: True,
    share: tuple[int, int] = (0, 1),
) -> None:
    """Verify the files of a checkpoint; warns of one that older versions saved without checksums.

    Args:
        folder: folder of one step.
        needed: blocks of the arrays that are checked.
        share: number of this process and of all, which verify a part each.

    Raises:
        CheckpointDamageError: a file has changed since it was written.
    """
    summed = [item for item in _ITEMS if has_checksums(folder / item)]
    if not summed:
        logger.warning("checkpoint %s has no checksums: whether it is whole is unknown", folder)
        return
    for item in _ITEMS:
        if item not in summed:
            raise CheckpointDamageError(f"the checksums of {item} are missing")
        try:
            only = needed if item == "state" else _any_block
            blocks = damaged_blocks(folder / item, only, share)
        except (ChecksumError, OSError) as error:  # a disk may fail while it is read
            raise CheckpointDamageError(str(error)) from error
        if blocks:
            raise _describe_damage(folder / item, blocks)


def _any_block(block: FileBlock) -> bool:
    return True


def _describe_damage(folder: Path, blocks: list[FileBlock]) -> CheckpointDamageError:
    """Names of damaged blocks: the leaves that they hold, or else their file."""
    where = f"{folder.name}/{blocks[0].file} has changed since it was written"
    if folder.name != "state":
        return CheckpointDamageError(where)
    try:
        leaves = leaves_of(folder, blocks)
    except ChecksumError:
        return CheckpointDamageError(where, named=False)
    if not leaves:
        return CheckpointDamageError(where, named=False)
    more = f" and {len(leaves) - 1} more" * (len(leaves) > 1)
    return CheckpointDamageError(f"leaf {leaves[0]}{more}: {where}")


def quarantine_checkpoint(folder: Path, why: str) -> None:
    """Rename a checkpoint to `<why>-<step>-<time>`, so that its step can be saved anew."""
    folder.rename(folder.with_name(f"{why}-{folder.name}-{time.time_ns()}"))


def read_json(folder: Path) -> tuple[Progress, dict[str, Any]]:
    """Progress and configuration of a checkpoint.

    Raises:
        CheckpointDamageError: the values are none that a run saves.
    """
    return _read_progress(folder), read_config(folder)


def _read_progress(folder: Path) -> Progress:
    try:
        progress = Progress.from_json(_read_json(folder / "progress" / "metadata"))
    except ProgressError as error:
        raise CheckpointDamageError(f"its progress is not that of a run ({error})") from error
    if progress.step != int(folder.name):
        raise CheckpointDamageError(f"its progress is that of step {progress.step}")
    return progress


def read_config(folder: Path) -> dict[str, Any]:
    """The configuration that saved a checkpoint.

    Raises:
        CheckpointDamageError: the text is no valid JSON of a run.
    """
    config = _read_json(folder / "config" / "metadata")
    sections = config if isinstance(config, dict) else {}
    lacking = [name for name in _SECTIONS if not isinstance(sections.get(name), dict)]
    if lacking:
        raise CheckpointDamageError(f"its configuration has no section {', '.join(lacking)}")
    try:
        return of_command(sections)
    except RenameError as error:
        raise CheckpointDamageError(f"its configuration cannot be read ({error})") from error


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointDamageError(
            f"{path.parent.name}/{path.name} cannot be read ({first_line(error)})"
        ) from error


def first_line(error: Exception) -> str:
    """The beginning of an error that may be long."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:160]


class SavedParameters:
    """The parameters of a run's newest whole checkpoint, read leaf by leaf without its devices.

    Args:
        directory: folder of the run's checkpoints.

    Raises:
        CheckpointError: there is none.
    """

    def __init__(self, directory: Path) -> None:
        steps = [int(path.name) for path in directory.glob("*") if path.name.isdigit()]
        if not directory.parent.is_dir():
            raise NoCheckpointError(f"there is no folder {directory.parent}; valid: that of a run")
        if not steps:
            raise NoCheckpointError(
                f"{directory} has no checkpoint; train the run first, or if the store of "
                "checkpoint.copy_to has one, fetch it: launch.py evaluate --config FILE"
            )
        self.step = _newest_whole(directory, sorted(steps))
        self._folder = directory.absolute() / str(self.step)

    # What follows asks JAX for devices, which the configuration may have to choose before.

    @cached_property
    def _handler(self) -> ocp.PyTreeCheckpointHandler:
        """A handler by itself: the metadata of items are in the folder of the step."""
        return ocp.PyTreeCheckpointHandler()

    @cached_property
    def _tree(self) -> Any:
        return self._handler.metadata(self._folder / "state").tree

    @cached_property
    def _places(self) -> dict[str, int]:
        """Numbers of the leaves by their names."""
        leaves = jax.tree_util.tree_leaves_with_path(self._tree)
        return {leaf_name(path): i for i, (path, _) in enumerate(leaves)}

    @cached_property
    def config(self) -> dict[str, Any]:
        """JSON of the configuration that saved it."""
        return read_config(self._folder)

    @property
    def description(self) -> str:
        """The checkpoint, for messages."""
        return f"checkpoint {self._folder}"

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the parameters by their dotted names, `params` included."""
        leaves = jax.tree_util.tree_leaves_with_path(self._tree)
        named = ((leaf_name(path), tuple(leaf.shape)) for path, leaf in leaves)
        return {name: shape for name, shape in named if name.startswith(_PARAMS)}

    @property
    def names(self) -> list[str]:
        """Dotted names below `params`."""
        return [name.removeprefix(_PARAMS) for name in self._places if name.startswith(_PARAMS)]

    def __getitem__(self, name: str) -> np.ndarray:
        """A leaf as it was stored; layers of pipelines are grouped (see `LayerRegrouping`).

        Raises:
            CheckpointError: the checkpoint cannot be read.
        """
        place = self._places[_PARAMS + name]
        chosen = [0 if i == place else ocp.PLACEHOLDER for i in range(len(self._places))]
        item = jax.tree.unflatten(jax.tree.structure(self._tree), chosen)
        as_numpy = jax.tree.map(lambda _: ocp.RestoreArgs(restore_type=np.ndarray), item)
        try:
            restored = self._handler.restore(
                self._folder / "state",
                args=ocp.args.PyTreeRestore(item=item, restore_args=as_numpy),
            )
        except Exception as error:  # Orbax and TensorStore raise many kinds
            raise CheckpointError(
                f"{self._folder}: leaf {name} cannot be read ({first_line(error)})"
            ) from error
        return np.asarray(jax.tree.leaves(restored)[place])


def _newest_whole(directory: Path, steps: list[int]) -> int:
    """The newest step whose parameters and configuration are as they were written."""
    reasons = []
    for step in reversed(steps):
        try:
            folder = directory / str(step)
            verify_checkpoint(folder, _of_parameters(folder / "state"))
            read_json(folder)
        except (CheckpointDamageError, ChecksumError) as error:
            reasons.append(f"step {step}: {error}")
            logger.warning("checkpoint of %s; trying an older one", reasons[-1])
        else:
            return step
    raise CheckpointError(f"no whole checkpoint in {directory}:\n  " + "\n  ".join(reasons))


def _of_parameters(folder: Path) -> Callable[[FileBlock], bool]:
    """Which blocks hold something else than the state of the optimizer alone."""
    if not has_checksums(folder):
        return _any_block
    file_extents = leaf_extents(folder)
    read = blocks_of(
        [
            extent
            for name in file_extents
            if name.startswith(_PARAMS)
            for extent in file_extents[name]
        ]
    )
    skipped = blocks_of([extent for extents in file_extents.values() for extent in extents]) - read
    return lambda block: block not in skipped

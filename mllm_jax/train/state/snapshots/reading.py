"""The state from a snapshot: each process reads what its devices hold, wherever that is kept."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import jax
import numpy as np

from mllm_jax.train.state.regroup import leaf_name
from mllm_jax.train.state.snapshots.array_box import (
    ArrayBox,
    assemble_array,
    assemble_part,
    processes_by_part,
)
from mllm_jax.train.state.snapshots.shard import ShardError, ShardIndex, ShardLeaf, ShardPart

logger = logging.getLogger(__name__)


class ShardSource(Protocol):
    """A shard that can be read."""

    @property
    def index(self) -> ShardIndex:
        """What is in it."""

    def read(self, leaf: ShardLeaf, part: ShardPart) -> np.ndarray:
        """Values of a part, verified; a ShardError says why there are none."""


class ShardReader:
    """Reads one snapshot.

    Args:
        here: shards in this machine's memory.
        away: opens those in the memory of other machines; they are asked only for what is not here.

    Raises:
        ShardError: no shard can be read.
    """

    def __init__(
        self, here: Sequence[ShardSource], away: Callable[[], Sequence[ShardSource]]
    ) -> None:
        self._away: Callable[[], Sequence[ShardSource]] | None = away
        self._parts: dict[str, dict[ArrayBox, list[tuple[ShardSource, ShardLeaf, ShardPart]]]] = (
            defaultdict(dict)
        )
        self._first: ShardIndex | None = None
        self._add_sources(here)
        if self._first is None:
            self._ask_remote()

    @property
    def index(self) -> ShardIndex:
        """What the first shard says of the run."""
        if self._first is None:
            raise ShardError("no host has a shard of it any more")
        return self._first

    def read_state(self, target: Any) -> Any:
        """Arrays with the shardings of `target`, whose shapes are those of the snapshot.

        Raises:
            ShardError: a part that devices of this process hold is nowhere, or damaged everywhere.
        """
        return jax.tree_util.tree_map_with_path(
            lambda path, leaf: self._read_leaf(leaf_name(path), leaf), target
        )

    def _read_leaf(self, name: str, leaf: jax.ShapeDtypeStruct) -> jax.Array:
        process = jax.process_index()
        boxes = [box for box, processes in processes_by_part(leaf).items() if process in processes]
        return assemble_array(leaf, {box: self._read_box(name, leaf.dtype, box) for box in boxes})

    def _read_box(self, name: str, dtype: Any, target_box: ArrayBox) -> np.ndarray:
        while True:
            try:
                return assemble_part(
                    target_box, dtype, self._parts[name], lambda box: self._read_part(name, box)
                )
            except (KeyError, ShardError) as error:
                if self._away is None:
                    why = f"; {error}" if isinstance(error, ShardError) else ""
                    raise ShardError(
                        f"leaf {name}, {target_box}, is in the memory of no host{why}"
                    ) from error
                self._ask_remote()

    def _read_part(self, name: str, box: ArrayBox) -> np.ndarray:
        """Values of a part, from the first source that has them undamaged."""
        problems = []
        for source, leaf, part in self._parts[name][box]:
            try:
                return source.read(leaf, part)
            except ShardError as error:
                problems.append(str(error))
                logger.warning("leaf %s in a snapshot: %s", name, error)
        raise ShardError("; ".join(problems))

    def _ask_remote(self) -> None:
        assert self._away is not None, "other hosts are asked once"
        away, self._away = self._away, None
        self._add_sources(away())

    def _add_sources(self, sources: Sequence[ShardSource]) -> None:
        for source in sources:
            self._first = self._first or source.index
            for name, leaf in source.index.leaves.items():
                for part in leaf.parts:
                    sources_of_box = self._parts[name].setdefault(part.box, [])
                    sources_of_box.append((source, leaf, part))

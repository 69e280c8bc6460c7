"""Batches from the host to the devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh

from mllm_jax.train.step import batch_specs
from sharding.grid import JointGrid, View, shardings


def place(microbatches: Sequence[Any], grid: JointGrid, mesh: Mesh) -> Any:
    """Stack this process's rows of every microbatch into global arrays `[microbatches, rows, ..]`.

    Args:
        microbatches: packed batches with the rows of `local_rows` only.
    """
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *microbatches)
    layout = shardings(mesh, batch_specs(stacked, grid))
    return jax.tree.map(jax.make_array_from_process_local_data, layout, stacked)


def local_rows(grid: JointGrid, mesh: Mesh, rows: int) -> dict[str, list[int]]:
    """Rows of a batch of `rows` rows that this process must read, by module."""
    return {name: _rows_of(view, mesh, rows) for name, view in grid.views.items()}


def select_rows(batch: Any, rows: Mapping[str, Sequence[int]]) -> Any:
    """The rows of a whole batch that `rows` lists by module."""

    def pick(tree: Any, chosen: Sequence[int]) -> Any:
        return jax.tree.map(lambda leaf: leaf[list(chosen)], tree)

    encoders = {name: pick(tree, rows[name]) for name, tree in batch["encoders"].items()}
    return {"decoder": pick(batch["decoder"], rows["decoder"]), "encoders": encoders}


def everywhere(yes: bool) -> bool:
    """Whether `yes` holds on every process; all must ask at the same point of the program."""
    if jax.process_count() == 1:
        return yes
    return bool(np.all(multihost_utils.process_allgather(np.array(yes))))


def whole(array: jax.Array) -> np.ndarray:
    """All of a global array on every process."""
    if array.is_fully_addressable:
        return np.asarray(array)
    return np.asarray(multihost_utils.process_allgather(array, tiled=True))


def _rows_of(view: View, mesh: Mesh, rows: int) -> list[int]:
    sharding = jax.sharding.NamedSharding(mesh, view.rows())
    shares = sharding.addressable_devices_indices_map((rows,)).values()
    return sorted({row for share in shares if share for row in range(*share[0].indices(rows))})

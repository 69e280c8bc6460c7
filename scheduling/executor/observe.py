"""Observers: callbacks on the host at the start and end of a pipeline's bundles."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback

from scheduling.lowering.lowered import FusedKind
from scheduling.schedules.task_kinds import TaskKind
from scheduling.schedules.tasks import Observer, Task
from sharding.collectives import Axes, axis_index, vary
from sharding.layerstack.loops import Tree


def record_event(
    observe: Observer, axes: Axes, kind: FusedKind, row: Tree, *, end: bool, after: Tree
) -> jax.Array:
    """Tell the observer that a bundle starts or ends, once `after` has been computed.

    Args:
        observe: function that is told of every event.
        axes: all axes of the grid.
        kind: kind of the bundle.
        row: row of the program's tables.
        end: as in `Observer`.
        after: arrays.

    Returns:
        Zero: computations that depend on it wait for the observer to return.
    """
    numbers = [
        (name, module, table["microbatch"], table[part])
        for name, module, table, part in _tables_of(kind, row)
    ]
    names = tuple((name, module) for name, module, _, _ in numbers)
    values = [number for _, _, *pair in numbers for number in pair]
    call = partial(_notify, observe, end, names)
    shape = jax.ShapeDtypeStruct((), jnp.int32)
    device, after = axis_index(axes), sum(first_elements(after))
    return vary(io_callback(call, shape, after, device, row["tick"], *values), axes)


def first_elements(tree: Tree) -> list[jax.Array]:
    """A number of every array."""
    return [leaf.ravel()[0].astype(jnp.float32) for leaf in jax.tree.leaves(tree)]


def _tables_of(kind: FusedKind, row: Tree) -> list[tuple[TaskKind, str, Tree, str]]:
    """Kind, module, row of the table and name of the part of every task of a bundle."""
    tasks: list[tuple[TaskKind, str, Tree, str]] = []
    for task, module in kind.tasks:
        own, part = (row["encoders"][module], "piece") if task.encoder else (row, "chunk")
        tasks.append((task, module, own[task.cost], part))
    return tasks


def _notify(
    observe: Observer,
    end: bool,
    names: Sequence[tuple[TaskKind, str]],
    probe: Any,
    device: Any,
    tick: Any,
    *values: Any,
) -> np.ndarray:
    """Host side of a stamp."""
    del probe
    pairs = zip(values[::2], values[1::2], strict=True)
    tasks = tuple(
        Task(kind, int(microbatch), int(part), module)
        for (kind, module), (microbatch, part) in zip(names, pairs, strict=True)
    )
    observe(end, int(device), int(tick), tasks)
    return np.zeros((), np.int32)

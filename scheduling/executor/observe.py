"""Observers: callbacks on the host at the start and end of a pipeline's fused tasks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback

from scheduling.lowering.instructions import TickRow
from scheduling.lowering.lowered import FusedKind
from scheduling.schedules.task_kinds import TaskKind
from scheduling.schedules.tasks import Observer, Task
from sharding.collectives import Axes, axis_index, vary
from sharding.layerstack.loops import PyTree


def record_event(
    observe: Observer,
    axes: Axes,
    kind: FusedKind,
    row: TickRow[jax.Array],
    *,
    end: bool,
    after: PyTree,
) -> jax.Array:
    """Notify the observer that a fused task starts or ends, once `after` has been computed.

    Args:
        observe: function that is called for every event.
        axes: all axes of the grid.
        kind: kind of the fused task.
        row: entries of the tick.
        end: as in `Observer`.
        after: arrays.

    Returns:
        Zero: computations that depend on it wait for the observer to return.
    """
    values = [value for task in kind.tasks for value in _task_numbers(*task, row)]
    call = partial(_notify_observer, observe, end, kind.tasks)
    shape = jax.ShapeDtypeStruct((), jnp.int32)
    device, after = axis_index(axes), sum(first_elements(after))
    return vary(io_callback(call, shape, after, device, row.tick, *values), axes)


def first_elements(tree: PyTree) -> list[jax.Array]:
    """A number of every array."""
    return [leaf.ravel()[0].astype(jnp.float32) for leaf in jax.tree.leaves(tree)]


def _task_numbers(
    kind: TaskKind, module: str, row: TickRow[jax.Array]
) -> tuple[jax.Array, jax.Array]:
    """Microbatch and chunk of a task."""
    task = row.modules[module].of_kind(kind)
    return task.microbatch, task.chunk


def _notify_observer(
    observe: Observer,
    end: bool,
    names: Sequence[tuple[TaskKind, str]],
    probe: Any,
    device: Any,
    tick: Any,
    *values: Any,
) -> np.ndarray:
    """Host side of `record_event`."""
    del probe
    pairs = zip(values[::2], values[1::2], strict=True)
    tasks = tuple(
        Task(kind, module, int(microbatch), int(chunk))
        for (kind, module), (microbatch, chunk) in zip(names, pairs, strict=True)
    )
    observe(end, int(device), int(tick), tasks)
    return np.zeros((), np.int32)

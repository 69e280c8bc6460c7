"""Merges of the outputs of modules into the rows of the modules that they feed, and gradients back.

They run at stage syncs: a microbatch that enters a module takes the outputs that lie on each stage,
and one that has left it returns their gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from scheduling.executor.control import for_range
from scheduling.executor.step_batch import StepBatch
from scheduling.lowering.bounds import ScheduleBounds
from scheduling.lowering.instructions import TickRow
from scheduling.lowering.lowered import MergeSlots
from sharding.collectives import Axes, vary
from sharding.layerstack.loops import PyTree, read_slot, write_slot
from sharding.layerstack.module import Merge

#: What the executor reads of a tick on a stage.
Row = TickRow[jax.Array]


class FeedMerges:
    """The merges of one traced step.

    Args:
        bounds, merges, batch, axes: as of `scheduling.executor.tasks.PipelineTasks`.
        zero_outputs: zeros in place of the outputs of a module, by its name.
    """

    def __init__(
        self,
        bounds: ScheduleBounds,
        merges: Mapping[str, Merge],
        batch: StepBatch[Any],
        axes: Axes,
        zero_outputs: Callable[[str], jax.Array],
    ) -> None:
        self.bounds, self.merges, self.batch = bounds, merges, batch
        self.vary = partial(vary, axes=axes)
        self.zero_outputs = zero_outputs

    def zero_samples(self, name: str) -> PyTree:
        """Zeros in place of what losses read of the modules that feed a module.

        Each is of all of its modules together, by name.
        """
        rows, samples = self._read_rows(name, jnp.int32(0)), dict[str, PyTree]()
        for source in (feed.source for feed in self.bounds.feeds if feed.target == name):
            merge = partial(self._merge_pair, source, self.zero_outputs(source), jnp.int32(0), rows)
            shapes = jax.eval_shape(merge)[1]
            zeros = jax.tree.map(lambda shape: jnp.zeros(shape.shape, shape.dtype), shapes)
            samples |= self.vary(zeros)
        return samples

    def merge_outputs(
        self, number: int, entering: tuple[jax.Array, PyTree], buffer: jax.Array, row: Row
    ) -> tuple[jax.Array, PyTree]:
        """What enters with a microbatch, with the outputs that lie on this stage.

        Args:
            number: number of the feed.
            entering: input of the microbatch, and what losses read with it.
        """
        feed, tables = self.bounds.feeds[number], row.feeds[number]
        ends = row.modules[feed.target].ends
        assert ends is not None  # as of every module that is fed
        rows = self._read_rows(feed.target, ends.embed_microbatch)

        def add_merged(
            pair: jax.Array, entering: tuple[jax.Array, PyTree]
        ) -> tuple[jax.Array, PyTree]:
            (x, samples), slots = entering, self._read_slots(number, pair)
            outputs = read_slot(buffer, slots.output_buffer)
            merged, brought = self._merge_pair(feed.source, outputs, pair, rows)
            x = x if merged is None else x + merged.astype(x.dtype)
            return x, samples | {key: samples[key] + value for key, value in brought.items()}

        merged: tuple[jax.Array, PyTree] = for_range(
            f"{feed.source}_merge", tables.merge_first, tables.merge_count, add_merged, entering
        )
        return merged

    def return_gradients(
        self, number: int, leaving: tuple[jax.Array, PyTree], buffer: jax.Array, row: Row
    ) -> jax.Array:
        """`buffer` with the gradients of outputs that entered with the microbatch that leaves.

        Args:
            number: number of the feed.
            leaving: gradients of what entered with the microbatch.
        """
        feed, tables = self.bounds.feeds[number], row.feeds[number]
        if not self.bounds.modules[feed.source].sizes.output_grad_buffer:  # no backward reads one
            return buffer
        ends = row.modules[feed.target].ends
        assert ends is not None  # as of every module that is fed
        rows, nothing = (
            self._read_rows(feed.target, ends.return_microbatch),
            self.zero_outputs(feed.source),
        )

        def add_returned(pair: jax.Array, buffer: jax.Array) -> jax.Array:
            slots = self._read_slots(number, pair)

            def merge(outputs: jax.Array) -> tuple[jax.Array | None, PyTree]:
                return self._merge_pair(feed.source, outputs, pair, rows)

            (merged, brought), pull = jax.vjp(merge, nothing)
            of_input, of_samples = leaving
            of_merged = None if merged is None else of_input
            (new,) = pull((of_merged, {key: of_samples[key] for key in brought}))
            old = jnp.where(slots.is_first > 0, 0, read_slot(buffer, slots.output_grad_buffer))
            written: jax.Array = write_slot(buffer, slots.output_grad_buffer, old + self.vary(new))
            return written

        returned: jax.Array = for_range(
            f"{feed.source}_return", tables.return_first, tables.return_count, add_returned, buffer
        )
        return returned

    def _merge_pair(
        self, name: str, outputs: jax.Array, pair: jax.Array, rows: PyTree
    ) -> tuple[jax.Array | None, PyTree]:
        """What outputs of a pair of microbatches bring to the `rows` of the target, see `Merge`."""
        routes = self.batch.routes.get(name)
        routes_of_pair = None if routes is None else read_slot(routes, pair)
        brought: tuple[jax.Array | None, PyTree] = self.vary(
            self.merges[name](outputs, routes_of_pair, rows)
        )
        return brought

    def _read_slots(self, number: int, pair: jax.Array) -> MergeSlots[jax.Array]:
        """The slots of a pair of microbatches of this stage, by number of the feed."""
        assert self.batch.schedule is not None  # the step of a pipeline has one
        slots = self.batch.schedule.merges[number]
        entries: MergeSlots[jax.Array] = jax.tree.map(lambda rows: read_slot(rows[0], pair), slots)
        return entries

    def _read_rows(self, name: str, position: jax.Array) -> PyTree:
        return read_slot(self.batch.rows[name], position)

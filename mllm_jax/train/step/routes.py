"""Arrays of the routes by which encoder outputs reach the decoder: between any devices.

A microbatch whose rows of media are assigned by themselves lists `runs`: by bucket, which outputs
are merged where (`sharding.routes`). On the devices that becomes the batch's `routes`: by bucket,
of every pair of an encoder microbatch and a decoder microbatch that it feeds, what the bucket's
exchange needs. That is for an all-to-all `picks` (with ragged routes `slices` too) of the device
that sends and `receive` of the one that receives; for the other exchanges the `index` of the
outputs that are merged; and for all of them their `count`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.sharding import PartitionSpec

from data.batch import PackedBatch
from sharding.exchange import RouteArrays
from sharding.exchange_kinds import DEFAULT_EXCHANGE, Exchange, Exchanges
from sharding.grid import Axes, MeshView, Views
from sharding.routes import Routes, RouteSide

#: Numbers of an encoder microbatch and of a decoder microbatch that it feeds; None: an empty slot.
Pair = tuple[int, int] | None


@dataclass(frozen=True)
class BucketRoutes:
    """Routes of the outputs of one bucket, one of each pair of microbatches, for its exchange.

    Attributes:
        routes: those whose outputs this process knows.
        counts: number of outputs of each pair that are merged; the same on all processes.
    """

    routes: Sequence[Routes]
    counts: Sequence[int]
    exchange: Exchange = DEFAULT_EXCHANGE

    @classmethod
    def build(
        cls,
        name: str,
        microbatches: Sequence[PackedBatch],
        pairs: Sequence[Pair],
        size: tuple[int, int],
        view: MeshView,
        target: MeshView,
        rows: int,
        ragged: bool,
        exchange: Exchange = DEFAULT_EXCHANGE,
    ) -> BucketRoutes:
        """Routes of the decoder's `microbatches`, batches of `rows` rows of which some are here.

        Args:
            size: rows of the encoder's microbatches, and outputs of a row.
            view, target: views of the bucket and of the decoder.
        """
        tokens = microbatches[0].text_rows.inputs.shape[1]
        sides = RouteSide(view, *size), RouteSide(target, rows, tokens)
        runs = [_runs_of_pair(microbatches, name, pair) for pair in pairs]
        routes = [Routes.build(*sides, runs_of_pair, ragged) for runs_of_pair in runs]
        return cls(routes, [int(runs_of_pair[:, 4].sum()) for runs_of_pair in runs], exchange)

    @property
    def arrays(self) -> dict[str, tuple[tuple[int, ...], Callable[[Any], np.ndarray]]]:
        """Shape of every array, and its part with an index; the first dimension is the pairs'.

        `count`, `[pairs]`, numbers of outputs that are merged. Of an all-to-all
        `picks`, `[pairs, devices, entries]`, see `Routes.send`; ragged ones with `slices`, `[pairs,
        devices, 4, devices]`, see `Routes.slices`; `receive`, `[pairs, rows, tokens]`, see
        `Routes.receive`. Of other exchanges than an all-to-all `index` alone, `[pairs, rows,
        tokens]`, see `Routes.index`.
        """
        first, count = self.routes[0], len(self.routes)
        devices, target = first.count, first.target
        shape = count, target.rows, target.positions
        if self.exchange != "all_to_all":
            return {"index": (shape, self._slice_index), "count": ((count,), self._slice_counts)}
        builders: dict[str, tuple[tuple[int, ...], Callable[[Any], np.ndarray]]] = {
            "picks": (
                (count, devices, first.entries[0]),
                partial(self._by_device, Routes.send_indices),
            ),
            "receive": (shape, self._slice_receive),
            "count": ((count,), self._slice_counts),
        }
        if first.ragged:
            slices = partial(self._by_device, Routes.ragged_slices)
            builders["slices"] = (count, devices, 4, devices), slices
        return builders

    def place_arrays(self, shardings: RouteArrays) -> RouteArrays:
        """The arrays on the devices."""
        return RouteArrays(
            **{
                name: jax.make_array_from_callback(
                    shape, getattr(shardings, name), part, dtype=np.int32
                )
                for name, (shape, part) in self.arrays.items()
            }
        )

    @property
    def shapes(self) -> RouteArrays:
        """Shapes and types of the arrays, which do not depend on the runs."""
        arrays = self.arrays.items()
        return RouteArrays(**{name: jax.ShapeDtypeStruct(s, np.int32) for name, (s, _) in arrays})

    def _by_device(
        self, part: Callable[[Routes, int], np.ndarray], index: tuple[slice, ...]
    ) -> np.ndarray:
        devices = range(*index[1].indices(self.routes[0].count))
        return np.stack([[part(route, d) for d in devices] for route in self.routes[index[0]]])

    def _slice_counts(self, index: tuple[slice, ...]) -> np.ndarray:
        return np.array(self.counts[index[0]], np.int32)

    def _slice_index(self, index: tuple[slice, ...]) -> np.ndarray:
        first, last, _ = index[1].indices(self.routes[0].target.rows)
        return np.stack([route.merge_index(first, last) for route in self.routes[index[0]]])

    def _slice_receive(self, index: tuple[slice, ...]) -> np.ndarray:
        first = self.routes[0]
        rows, positions = first.target.device_shape
        share = (index[1].start or 0) // rows, (index[2].start or 0) // positions
        device = int(first.target.device_numbers(first.axes)[share])
        return np.stack([route.receive_indices(device) for route in self.routes[index[0]]])


def _runs_of_pair(microbatches: Sequence[PackedBatch], name: str, pair: Pair) -> np.ndarray:
    """The runs from an encoder microbatch to a decoder microbatch.

    A sixth column names the encoder microbatch, if it is not the one with the decoder's number.
    """
    if pair is None:
        return np.zeros((0, 5), np.int64)
    source, microbatch = pair
    listed = microbatches[microbatch].runs
    assert listed is not None  # as `build_bucket_routes` has seen
    runs: np.ndarray = listed[name]
    return runs if runs.shape[1] == 5 else runs[runs[:, 5] == source, :5]


def build_bucket_routes(
    microbatches: Sequence[PackedBatch],
    pairs: Mapping[str, Sequence[Pair]],
    sizes: Mapping[str, tuple[int, int]],
    views: Views,
    target: MeshView,
    rows: int,
    ragged: bool,
    exchanges: Exchanges,
) -> dict[str, BucketRoutes]:
    """Routes by bucket, for microbatches that list runs; nothing if none does.

    Args:
        sizes: by bucket, rows of its microbatches, and outputs of a row.
        target: view of the decoder.
        ragged: see `sharding.exchange.is_ragged`.
        exchanges: the exchanges of buckets, `DEFAULT_EXCHANGE` if not named.

    Raises:
        ValueError: some microbatches list runs and others do not.
    """
    lists = [batch.runs is not None for batch in microbatches]
    if any(lists) and not all(lists):
        raise ValueError(f"microbatches list runs: {lists}; valid: all of them, or none")
    if not any(lists):
        return {}
    return {
        name: BucketRoutes.build(
            name,
            microbatches,
            pairs[name],
            size,
            views[name],
            target,
            rows,
            ragged,
            exchanges.get(name, DEFAULT_EXCHANGE),
        )
        for name, size in sizes.items()
    }


def route_specs(view: MeshView, pairs: Axes | None, routes: RouteArrays) -> RouteArrays:
    """Layouts of the arrays of routes, whose first dimension is split over axes `pairs`.

    Args:
        view: view of the decoder.
        routes: the arrays, some of which may not be there.
    """
    send = PartitionSpec(pairs or None, view.position_axes or None)
    receive = PartitionSpec(pairs or None, view.batch_axes or None, view.sequence_axes or None)
    index = PartitionSpec(pairs or None, view.batch_axes or None)
    count = PartitionSpec(pairs or None)
    specs = RouteArrays(count, index, picks=send, slices=send, receive=receive)
    there = {field.name: getattr(routes, field.name) is not None for field in fields(routes)}
    return replace(specs, **{name: None for name, is_there in there.items() if not is_there})

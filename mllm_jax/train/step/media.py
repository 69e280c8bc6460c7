"""Encoder outputs on their way to the decoder: within blocks of rows, or by routes from the host.

A microbatch whose encoder rows are dealt by themselves lists `runs`: by lane, what lands where
(`sharding.routes`). On the devices that becomes `send` among the lane's arrays and `receive` among
the decoder's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from mllm_jax.models.model_config import ModelConfig
from sharding.exchange import exchange, exchange_by_routes
from sharding.grid import View
from sharding.routes import Routes, Side

Views = Mapping[str, View]


def land(outputs: jax.Array, name: str, rows: Any, decoder_rows: Any, views: Views) -> jax.Array:
    """Outputs of a lane of an encoder where they land in the decoder's rows, else zero.

    Args:
        outputs: `[encoder rows, outputs / shards, d_model]`, local to this rank.
        name: name of the lane.
        rows, decoder_rows: local rows of the lane and of the decoder; by routes if they have
            any, and otherwise within the blocks of `sharding.exchange`.
        views: views of all modules.

    Returns:
        `[decoder rows, tokens / shards, d_model]`.
    """
    source, target = views[name], views["decoder"]
    if "send" not in rows:
        return exchange(outputs, decoder_rows["media"][name], source, target)
    send = {key: array[0] for key, array in rows["send"].items()}  # of this device alone
    return exchange_by_routes(outputs, send, decoder_rows["receive"][name], target.positions)


@dataclass(frozen=True)
class RoutedMicrobatches:
    """Routes of the outputs of one lane in every microbatch of a step, `routes`."""

    routes: Sequence[Routes]

    @classmethod
    def build(
        cls,
        name: str,
        microbatches: Sequence[Any],
        model: ModelConfig,
        views: Views,
        rows: int,
        ragged: bool,
    ) -> RoutedMicrobatches:
        """Routes of `microbatches`, batches of `rows` rows of which some are here."""
        inputs = microbatches[0]["encoders"][name]["segment_ids"].shape[1]
        tokens = microbatches[0]["decoder"]["tokens"].shape[1]
        source = Side(views[name], rows, inputs // model.encoder(name).reduction)
        target = Side(views["decoder"], rows, tokens)
        runs = (batch["runs"][name] for batch in microbatches)
        return cls([Routes.build(source, target, own, ragged) for own in runs])

    def send(self, layout: NamedSharding, order: np.ndarray | None = None) -> dict[str, jax.Array]:
        """`picks`, `[microbatches, devices, entries]`, see `Routes.send`.

        Ragged ones with `slices`, `[microbatches, devices, 4, devices]`, see `Routes.slices`.

        Args:
            layout: layout of each array; the second dimension is a device's own.
            order: microbatch in every slot of the first dimension, or -1; by default all in turn.
        """
        nothing = replace(self.routes[0], runs=self.routes[0].runs[:0])
        slots = range(len(self.routes)) if order is None else order.tolist()
        routes = [self.routes[m] if m >= 0 else nothing for m in slots]
        picks = _by_device(routes, Routes.send, layout)
        if not nothing.ragged:
            return {"picks": picks}
        return {"picks": picks, "slices": _by_device(routes, Routes.slices, layout)}

    def shapes(self, slots: int, microbatches: int) -> tuple[dict[str, Any], Any]:
        """Shapes and types of `send` and `receive`, which do not depend on the runs.

        Args:
            slots: length of the first dimension of `send`.
            microbatches: length of the first dimension of `receive`.
        """
        first = self.routes[0]
        sent: dict[str, tuple[int, ...]] = {"picks": (slots, first.count, first.entries[0])}
        if first.ragged:
            sent["slices"] = (slots, first.count, 4, first.count)
        received = (microbatches, first.target.rows, first.target.positions)
        int32 = partial(jax.ShapeDtypeStruct, dtype=np.int32)
        return {name: int32(shape) for name, shape in sent.items()}, int32(received)

    def receive(self, layout: NamedSharding) -> jax.Array:
        """`[microbatches, rows, tokens]`, see `Routes.receive`."""
        first = self.routes[0]
        side, devices = first.target, first.target.devices(first.axes)
        rows, positions = side.shape

        def shard(index: tuple[slice, ...] | None) -> np.ndarray:
            assert index is not None
            share = (index[1].start or 0) // rows, (index[2].start or 0) // positions
            device = int(devices[share])
            return np.stack([own.receive(device) for own in self.routes])

        shape = (len(self.routes), side.rows, side.positions)
        return jax.make_array_from_callback(shape, layout, shard)


def _by_device(
    routes: Sequence[Routes], part: Callable[[Routes, int], np.ndarray], layout: NamedSharding
) -> jax.Array:
    """`part` of all routes and devices, `[routes, devices, ...]`."""
    count = routes[0].count

    def shard(index: tuple[slice, ...] | None) -> np.ndarray:
        assert index is not None  # every device holds a shard
        devices = range(*index[1].indices(count))
        return np.stack([[part(own, device) for device in devices] for own in routes[index[0]]])

    shape = (len(routes), count, *part(routes[0], 0).shape)
    return jax.make_array_from_callback(shape, layout, shard)


def routed(
    microbatches: Sequence[Any], model: ModelConfig, views: Views, rows: int, ragged: bool
) -> Any:
    """Routes by lane, for microbatches that list runs; nothing if none does.

    Args:
        ragged: see `sharding.exchange.is_ragged`.

    Raises:
        ValueError: some microbatches list runs and others do not.
    """
    lists = ["runs" in batch for batch in microbatches]
    if any(lists) and not all(lists):
        raise ValueError(f"microbatches list runs: {lists}; valid: all of them, or none")
    if not any(lists):
        return {}
    return {
        name: RoutedMicrobatches.build(name, microbatches, model, views, rows, ragged)
        for name in model.lanes
    }


def route_specs(view: View) -> tuple[PartitionSpec, PartitionSpec]:
    """Layouts of `send` (after its first dimension, which is the microbatches') and `receive`."""
    return (
        PartitionSpec(view.positions or None),
        PartitionSpec(None, view.batch or None, view.sequence or None),
    )

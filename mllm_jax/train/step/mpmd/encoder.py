"""Forward and backward of the microbatches of a bucket on its own devices."""

from __future__ import annotations

from typing import Any

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from mllm_jax.train.step.mpmd.program import MpmdProgram, pick_microbatch, positions_spec
from mllm_jax.train.step.mpmd.split_gradient import Arguments, SplitGradient
from mllm_jax.train.step.mpmd.sums import GradientSums
from sharding.collectives import vary
from sharding.layerstack.partition import combine


class EncoderTasks(SplitGradient):
    """Forward and backward of the microbatches of a bucket on its own devices.

    Args:
        program: what all groups have in common.
        bucket: name of the bucket.
        mesh: mesh of its group.
        sums: sums of the gradients of its module; None if nothing of it trains.

    Attributes:
        layout: layout of the outputs, `[rows, outputs, width]`.
    """

    def __init__(
        self, program: MpmdProgram, bucket: str, mesh: Mesh, sums: GradientSums | None
    ) -> None:
        self._model, self._bucket = program.encoders, bucket
        module, view = program.model.buckets[bucket], program.grid.views[bucket]
        self.layout, self._all_axes = NamedSharding(mesh, positions_spec(view)), view.all_axes
        trained, constant = program.frozen.partition({module: program.form.specs[module]})
        data = program.batch_layout.rows[bucket], PartitionSpec()
        specs = Arguments(trained, constant, {}, data)
        super().__init__(self._encode, mesh, specs, (self.layout.spec, ()), sums)

    def _encode(
        self, trained: Any, constant: Any, inputs: Any, data: Any
    ) -> tuple[jax.Array, tuple[()]]:
        del inputs
        rows, number = data
        params = combine(trained, constant)
        outputs = self._model.encode_bucket(self._bucket, params, pick_microbatch(rows, number))
        return vary(outputs, self._all_axes), ()

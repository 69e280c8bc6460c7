"""Forward passes of modules in groups: others encode on their devices, the rest is the backbone's.

::

    encode (devices of the bucket)  ->  move  ->  a program of the backbone's devices

Parameters stay where they are, but for those of heads, of which the backbone has copies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
from jax import lax
from jax.sharding import Mesh, NamedSharding

from mllm_jax.models.module_rows import ModuleRows
from mllm_jax.train.step.gradient_program import Batch, microbatches_spec
from mllm_jax.train.step.mpmd.compile import compile_on
from mllm_jax.train.step.mpmd.program import MpmdProgram
from mllm_jax.train.step.mpmd.transfer import transfer_arrays
from sharding.collectives import vary
from sharding.in_order import shard_map
from sharding.mesh import named_shardings


class RemoteForward:
    """Outputs of modules on other devices, for forward passes on those of the backbone.

    Args:
        program: what all groups have in common.
        meshes: the mesh of every group.
    """

    def __init__(self, program: MpmdProgram, meshes: Sequence[Mesh]) -> None:
        self._program, self._modules = program, program.modules_of(0)
        self._layout = NamedSharding(meshes[0], microbatches_spec(program.grid.backbone))
        self._head_layouts = named_shardings(meshes[0], program.head_specs)
        self._encode = {
            bucket: self._encode_program(bucket, meshes[program.group_of(bucket)])
            for bucket in program.remote
        }

    @property
    def specs(self) -> Any:
        """Layouts of the parameters on the devices of the backbone."""
        specs = self._program.form.specs
        return {name: specs[name] for name in self._modules} | self._program.head_specs

    def __call__(self, params: Any, batch: Batch) -> tuple[Any, Batch]:
        """See `Step.forward_inputs`."""
        buckets, rows = self._program.model.buckets, batch.rows
        encoded = {
            bucket: transfer_arrays(encode(params[buckets[bucket]], rows[bucket]), self._layout)
            for bucket, encode in self._encode.items()
        }
        local = {name: x for name, x in rows.items() if name not in encoded}
        heads = transfer_arrays(self._program.pick_heads(params), self._head_layouts)
        params = {name: params[name] for name in self._modules} | heads
        return params, replace(batch, rows=local, encoded=encoded)

    def _encode_program(self, bucket: str, mesh: Mesh) -> Callable[[Any, ModuleRows], jax.Array]:
        """Program from parameters and rows `[microbatches, rows, ...]` to the outputs."""
        program, model = self._program, self._program.encoders
        view, module = program.grid.views[bucket], program.model.buckets[bucket]

        def encode(params: Any, rows: ModuleRows) -> jax.Array:
            outputs = lax.map(lambda x: model.encode_bucket(bucket, {module: params}, x), rows)
            return vary(outputs, view.all_axes)

        in_specs = program.form.specs[module], program.batch_layout.rows[bucket]
        out_specs = microbatches_spec(view)
        mapped = shard_map(encode, mesh=mesh, in_specs=in_specs, out_specs=out_specs)
        return compile_on(mesh, mapped, out_specs)

"""Sums of gradients: over the microbatches of a step on each device, then over replicas."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, PartitionSpec

from mllm_jax.layers.parameters import Params
from mllm_jax.models.freeze import part_of_leaf
from mllm_jax.train.state.loads import is_load, load_table, on_loads
from mllm_jax.train.state.optimizer import part_norms
from mllm_jax.train.step.mpmd.program import MpmdProgram
from sharding.collectives import psum
from sharding.mesh import named_shardings

_SCALAR = PartitionSpec()

#: Gradients of trained parameters, leaf by leaf: of every device those of its shards, float32
#: `[devices, ...]`; None as long as there are none.
Total = tuple[jax.Array | None, ...]


def add_to_total(total: Total, gradients: Any) -> Total:
    """The total with a device's gradients of a microbatch, a tree with None for no gradient."""
    leaves = jax.tree.leaves(gradients, is_leaf=lambda leaf: leaf is None)
    return tuple(map(_add_leaf, total, leaves))


def _add_leaf(total: jax.Array | None, gradient: jax.Array | None) -> jax.Array | None:
    if gradient is None:
        return total
    added = gradient[None].astype(jnp.float32)
    return added if total is None else total + added


class OtherSums(NamedTuple):
    """What the last sums take that is no gradient of a microbatch.

    Attributes:
        heads: gradients of heads of these modules, from the devices of the backbone.
        loss: of the step; None beside the backbone.
        tokens: number of tokens of the step; None beside the backbone.
    """

    heads: Params
    loss: jax.Array | None = None
    tokens: jax.Array | None = None


class SummedGradients(NamedTuple):
    """Gradients of the parameters of modules, which lie as these.

    Attributes:
        gradients: float32, with the loads of experts in the place of gradients.
        signals: what updates of all groups need, float32 `[parts + 1]`: the norm of every part, and
            0 if loss and loads are finite.
        loads: `[layers, experts]`; None without experts.
    """

    gradients: Any
    signals: jax.Array
    loads: jax.Array | None


class GradientSums:
    """Sums of the gradients of modules on one group of devices.

    Args:
        program: what all groups have in common.
        shardings: `ParameterSharding` of their parameters, by module.
        mesh: mesh of their group.

    Attributes:
        parts: parts of these modules that have gradients, in the order of their norms.
        nothing: the total before the first backward.
        stacked: layout of a total.
    """

    def __init__(self, program: MpmdProgram, shardings: Mapping[str, Any], mesh: Mesh) -> None:
        self._program, self._mesh = program, mesh
        self._layout = dict(shardings)
        self._trained, _ = program.frozen.partition(self._layout)
        leaves = jax.tree_util.tree_leaves_with_path(self._trained)
        self.parts = tuple(dict.fromkeys(part_of_leaf(p) for p, _ in leaves if not is_load(p)))
        self.nothing: Total = (None,) * len(leaves)
        self.stacked = PartitionSpec(tuple(mesh.axis_names))
        self._has_backbone = program.model.backbone in shardings
        self._layers = program.model.backbone_config.expert_layers if self._has_backbone else 0

    @cached_property
    def head_layouts(self) -> Params:
        """Layouts of the gradients of heads, see `OtherSums.heads`."""
        return cast("Params", named_shardings(self._mesh, self.other_specs.heads))

    @cached_property
    def other_specs(self) -> Any:
        """Layouts of `OtherSums`."""
        specs = self.gradient_specs
        heads: Params = {
            name: {block: specs[name][block] for block in blocks if block in specs[name]}
            for name, blocks in self._program.head_specs.items()
            if name in specs
        }
        scalar: Any = _SCALAR if self._has_backbone else None
        return OtherSums(heads, scalar, scalar)

    @property
    def specs(self) -> Any:
        """Layouts of `SummedGradients`."""
        loads: Any = _SCALAR if self._layers else None
        signals: Any = _SCALAR
        return SummedGradients(self.gradient_specs, signals, loads)

    @property
    def parameter_specs(self) -> Any:
        """Layouts of all parameters of these modules."""
        return jax.tree.map(lambda leaf: leaf.spec, self._layout)

    @cached_property
    def gradient_specs(self) -> Any:
        """Layouts of their gradients."""
        return jax.tree.map(lambda leaf: leaf.spec, self._trained)

    def pick_heads(self, by_heads: Params) -> Params:
        """The gradients of these modules' heads that train."""
        trained, _ = self._program.frozen.partition(by_heads)
        return {
            name: {block: trained[name][block] for block in blocks}
            for name, blocks in self.other_specs.heads.items()
        }

    def sum_total(self, total: Total, others: OtherSums) -> SummedGradients:
        """The sums of a step, inside a program of the group."""
        return self.finish(self.sum_replicas(total), others)

    def sum_replicas(self, total: Total) -> Any:
        """The sums of a total over the replicas of each parameter."""
        with jax.named_scope("sum_over_replicas"):
            return jax.tree.map(
                lambda leaf, x: psum(x[0], leaf.replicated), self._trained, self._unflatten(total)
            )

    def finish(self, summed: Any, others: OtherSums) -> SummedGradients:
        """Sums over replicas with all else that an update needs, inside a program of the group."""
        for name, blocks in others.heads.items():
            added = {
                block: jax.tree.map(jnp.add, summed[name][block], of_head)
                for block, of_head in blocks.items()
            }
            summed[name] = summed[name] | added
        tokens: Any = others.tokens  # only the backbone has loads
        gradients = on_loads(lambda load: load / tokens, summed)
        loads = load_table(gradients, self._trained, self._layers) if self._layers else None
        return SummedGradients(gradients, self._make_signals(gradients, others.loss, loads), loads)

    def _unflatten(self, total: Total) -> Any:
        return jax.tree.unflatten(jax.tree.structure(self._trained), total)

    def _make_signals(
        self, gradients: Any, loss: jax.Array | None, loads: jax.Array | None
    ) -> jax.Array:
        norms = part_norms(gradients, self._layout)
        finite = jnp.bool_(True) if loss is None else jnp.isfinite(loss)
        if loads is not None:  # sigmoids of infinite logits are finite, and so is the loss
            finite &= jnp.all(jnp.isfinite(loads))
        return jnp.stack([*(norms[part] for part in self.parts), jnp.where(finite, 0.0, jnp.nan)])

"""Conversion of NNX modules to plain trees of parameters, and back.

A `ParameterBlock` is a block of a module, perhaps stacked: its parameters live outside as a nested
dict of arrays, with a leading `layers` dimension when stacked, and come back as a module only
inside the computation, once their fsdp shards have been gathered. The gather is repeated in the
backward, whatever else is saved for it, which is ZeRO-3::

    scan over layers:  shards -> all-gather -> module(x) -> forget

Layers that are stacked may be of several kinds, in a period that repeats. They lie one after the
other in one stack; an entry that only some of them have, such as experts in place of an MLP, is
stacked for these alone.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from mllm_jax.layers.config.kinds import LayerKind
from sharding.grid import MeshView
from sharding.layerstack.spec import LayerStackSpec, interleave_kinds
from sharding.rules import gather_parameters

Params = dict[str, Any]
Build = Callable[[nnx.Rngs], nnx.Module]


@dataclass(frozen=True)
class ParameterBlock:
    """A block of a module.

    Attributes:
        build: makes the module (the first layer of it, if stacked) from random keys.
        layers: number of stacked copies; None = a single module without a `layers` dimension.
        others: make the further layers of a period, where layers are of several kinds.
    """

    build: Build
    layers: int | None = None
    others: tuple[Build, ...] = ()

    @property
    def period(self) -> int:
        """Layers after which kinds of layers repeat."""
        return 1 + len(self.others)

    @cached_property
    def _abstract_modules(self) -> list[tuple[Any, Any]]:
        """Structure and parameters of every layer of a period.

        Raises:
            TypeError: an entry of one has other parameters than in the first that has it.
        """
        kinds = (self.build, *self.others)
        split = [nnx.split(nnx.eval_shape(lambda b=b: b(nnx.Rngs(params=0)))) for b in kinds]
        shapes = [jax.tree.map(lambda x: (x.shape, x.dtype), nnx.to_pure_dict(s)) for _, s in split]
        first: Params = {}
        for kind, of_layer in enumerate(shapes):
            for name, entry in of_layer.items():
                if entry != first.setdefault(name, entry):
                    raise TypeError(
                        f"layer {kind} of a period has the parameters {entry} in {name}; valid: "
                        f"names and shapes as in the layers before it, {first[name]}"
                    )
        return split

    @cached_property
    def axes(self) -> Any:
        """Logical axes of the parameters of one copy, without `layers`; of all kinds of layers."""
        axes: Params = {}
        for _, state in self._abstract_modules:
            flat = nnx.to_flat_state(state)
            axes |= nnx.to_pure_dict(
                nnx.from_flat_state((path, leaf.get_metadata("axes")) for path, leaf in flat)
            )
        return axes

    @cached_property
    def without(self) -> tuple[frozenset[str], ...]:
        """Entries that layers of a period do not have; see `LayerStackSpec`."""
        of_kinds = [frozenset(nnx.to_pure_dict(state)) for _, state in self._abstract_modules]
        names = frozenset[str]().union(*of_kinds)
        return () if {*of_kinds} == {names} else tuple(names - each for each in of_kinds)

    @property
    def shapes(self) -> Params:
        """Shapes and types of what `init` returns, known without tracing it."""
        spec, shapes = LayerStackSpec(self.period, without=self.without), dict[str, Any]()
        for _, state in self._abstract_modules:
            for name, entry in nnx.to_pure_dict(state).items():
                if name not in shapes:
                    stacked = self._stacked_dims(len(spec.kinds_with(name)))
                    shapes[name] = jax.tree.map(
                        lambda x, stacked=stacked: jax.ShapeDtypeStruct(
                            (*stacked, *x.shape), x.dtype
                        ),
                        entry,
                    )
        return shapes

    def _stacked_dims(self, kinds: int) -> tuple[int, ...]:
        """Leading dimension of an entry that so many layers of a period have."""
        return () if self.layers is None else (self.layers // self.period * kinds,)

    def init(self, key: jax.Array) -> Params:
        """Initial parameters; every layer has its own key."""
        if self.layers is None:
            return _init_module(self.build, key)
        keys = jax.random.split(key, self.layers)
        if not self.without:
            return jax.vmap(partial(_init_module, self.build))(keys)
        of_kinds = [
            jax.vmap(partial(_init_module, build))(keys[kind :: self.period])
            for kind, build in enumerate((self.build, *self.others))
        ]
        spec = LayerStackSpec(self.period, without=self.without)
        return {
            name: jax.tree.map(
                interleave_kinds, *(of_kinds[n][name] for n in spec.kinds_with(name))
            )
            for name in self.axes
        }

    def stacked_axes(self) -> Any:
        """Logical axes of the parameters as `init` returns them."""
        if self.layers is None:
            return self.axes
        return jax.tree.map(
            lambda names: ("layers", *names), self.axes, is_leaf=lambda x: isinstance(x, tuple)
        )

    def bind(
        self, params: Params, view: MeshView, dtype: jnp.dtype | None = None, kind: int = 0
    ) -> Any:
        """The module with the local shards `params` of one copy, whole along fsdp.

        Args:
            dtype: data type in which shards are gathered if the module uses it so; None: their own.
            kind: number of the layer in its period.
        """
        structure, _ = self._abstract_modules[kind]
        return nnx.merge(structure, self.gathered(params, view, dtype))

    def gathered(self, params: Params, view: MeshView, dtype: jnp.dtype | None = None) -> Params:
        """Local shards of one copy made whole along fsdp; arguments as of `bind`."""
        axes = {name: self.axes[name] for name in params}
        return gather_parameters(params, axes, view, dtype)


def _init_module(build: Build, key: jax.Array) -> Params:
    return nnx.to_pure_dict(nnx.state(build(nnx.Rngs(params=key)), nnx.Param))


def layer_block(
    build: Callable[[LayerKind, nnx.Rngs], nnx.Module], kinds: Sequence[LayerKind], count: int
) -> ParameterBlock:
    """`count` layers, of a period of these kinds."""
    first, *others = (partial(build, kind) for kind in kinds)
    return ParameterBlock(first, count, tuple(others))


ModuleBlocks = Mapping[str, ParameterBlock]


def init_blocks(blocks: ModuleBlocks, key: jax.Array) -> Params:
    """Initial parameters of all blocks; a block's values depend on its name and `key` alone."""
    return {
        name: block.init(jax.random.fold_in(key, zlib.crc32(name.encode())))
        for name, block in blocks.items()
    }


def block_shapes(blocks: ModuleBlocks) -> Params:
    """Shapes and types of the result of `init_blocks`, in the same structure."""
    return {name: block.shapes for name, block in blocks.items()}


def block_axes(blocks: ModuleBlocks) -> dict[str, Any]:
    """Logical axes of the result of `init_blocks`, in the same structure."""
    return {name: block.stacked_axes() for name, block in blocks.items()}

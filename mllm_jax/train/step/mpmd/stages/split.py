"""The stages of the backbone: a mesh each, and which parameters each of them has.

::

    full mesh    data 2 x stage 2      state, sums of gradients, update
    stage 0      data 2 x stage 1      embedding, first half of the layers
    stage 1      data 2 x stage 1      second half of the layers, norm, head

The mesh of a stage keeps the axis of stages with one rank, so that specs of arrays are the same on
all meshes. Shards of layers are on the devices of their stage already and are not copied; the
vocabulary, which all stages share, is gathered on the stage that reads it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from mllm_jax.layers.config.linear import VOCABULARY_HEAD
from mllm_jax.models.graph import HEAD, OBJECTIVE
from mllm_jax.train.step.mpmd.program import GroupGrid, MpmdProgram
from mllm_jax.train.step.mpmd.transfer import transfer_arrays
from sharding.grid import Axes, JointGrid

LAYERS = "layers"


class StageSplit:
    """The stages of the backbone of a program.

    Args:
        program: what all groups have in common.
        mesh: mesh of the backbone's group.

    Attributes:
        program: the same step with one stage on the mesh of any of them.
        meshes: the mesh of every stage.
    """

    def __init__(self, program: MpmdProgram, mesh: Mesh) -> None:
        self._axes, self._name = program.grid.backbone.stage, program.model.backbone
        self._mesh, self._shardings = mesh, program.form.shardings[self._name]
        self.program = _program_of_stage(program)
        self.meshes = [_mesh_of_stage(mesh, self._axes, stage) for stage in range(program.stages)]

    @property
    def last(self) -> int:
        """Number of the last stage."""
        return len(self.meshes) - 1

    def shardings(self, stage: int) -> dict[str, Any]:
        """`ParameterSharding` of the parameters that a stage has, by module."""
        blocks = self.program.form.shardings[self._name]
        return {self._name: {name: blocks[name] for name in self._blocks[stage] if name in blocks}}

    @cached_property
    def _blocks(self) -> list[list[str]]:
        """Names of the backbone's blocks on each stage."""
        names: list[list[str]] = [[LAYERS] for _ in self.meshes]
        for name in self._shardings:
            if name != LAYERS:
                names[self.last if _follows_layers(name) else 0].append(name)
        return names

    def pick_parameters(self, stage: int, params: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters of a stage on its mesh, of those of the group, all or some."""
        blocks = params.get(self._name, {})
        picked = {
            name: self._pick_block(stage, name, blocks[name])
            for name in self._blocks[stage]
            if name in blocks
        }
        return {self._name: picked} if picked else {}

    def _pick_block(self, stage: int, name: str, block: Any) -> Any:
        if name == LAYERS:
            return self.view(stage, block)

        def pick(x: jax.Array) -> jax.Array:
            spec = _spec_of(x)
            is_split = any(_has_any(part, self._axes) for part in spec)
            layout = NamedSharding(self.meshes[stage], spec)
            moved: jax.Array = transfer_arrays(x, layout) if is_split else self.view(stage, x)
            return moved

        return jax.tree.map(pick, block)

    def view(self, stage: int, tree: Any) -> Any:
        """The shards of arrays that are on the devices of a stage, as arrays on its mesh.

        Nothing is copied.
        """
        mesh, count = self.meshes[stage], len(self.meshes)
        devices = {*mesh.devices.flat}

        def of_stage(x: jax.Array) -> jax.Array:
            spec = _spec_of(x)
            parts = *spec, *(None,) * x.ndim
            shape = tuple(
                size // count if _has_any(part, self._axes) else size
                for size, part in zip(x.shape, parts, strict=False)
            )
            layout = NamedSharding(mesh, spec)
            shards = [shard.data for shard in x.addressable_shards if shard.device in devices]
            return _join_shards(shape, layout, shards, x)

        return jax.tree.map(of_stage, tree)

    def join_gradients(self, parts: Sequence[Mapping[str, Any]], specs: Any) -> dict[str, Any]:
        """The gradients of all stages on the mesh of the group.

        Args:
            parts: those of each stage, which have different blocks but for the layers.
            specs: layouts of the gradients.
        """
        blocks = {
            name: self._join_block(name, [part[self._name] for part in parts], spec)
            for name, spec in specs[self._name].items()
        }
        return {self._name: blocks}

    def _join_block(self, name: str, parts: Sequence[Mapping[str, Any]], specs: Any) -> Any:
        of_block = [part[name] for part in parts if name in part]
        layouts = jax.tree.map(lambda spec: NamedSharding(self._mesh, spec), specs)
        if name != LAYERS:
            (block,) = of_block
            return transfer_arrays(block, layouts)
        return jax.tree.map(self._join_leaf, layouts, *of_block)

    def _join_leaf(self, layout: NamedSharding, *parts: jax.Array) -> jax.Array:
        shape = tuple(
            sum(part.shape[dim] for part in parts) if _has_any(names, self._axes) else size
            for dim, (names, size) in enumerate(
                zip((*layout.spec, *(None,) * parts[0].ndim), parts[0].shape, strict=False)
            )
        )
        shards = [shard.data for part in parts for shard in part.addressable_shards]
        return _join_shards(shape, layout, shards, parts[0])

    def layouts(self, spec: PartitionSpec) -> Iterator[NamedSharding]:
        """A layout on the mesh of each stage."""
        return (NamedSharding(mesh, spec) for mesh in self.meshes)


def _follows_layers(block: str) -> bool:
    return block in ("norm", VOCABULARY_HEAD) or block.startswith((HEAD, OBJECTIVE))


def _spec_of(x: jax.Array) -> PartitionSpec:
    assert isinstance(x.sharding, NamedSharding)
    return x.sharding.spec


def _has_any(part: str | Axes | None, axes: Axes) -> bool:
    """Whether an entry of a spec has some of these axes."""
    names = (part,) if isinstance(part, str) else part or ()
    return any(axis in names for axis in axes)


def _join_shards(
    shape: tuple[int, ...], layout: NamedSharding, shards: Sequence[jax.Array], like: jax.Array
) -> jax.Array:
    joined: jax.Array = jax.make_array_from_single_device_arrays(
        shape, layout, shards, dtype=like.dtype
    )
    return joined


def _program_of_stage(program: MpmdProgram) -> MpmdProgram:
    first, *others = program.groups
    groups = GroupGrid(first.group, _grid_of_stage(first.grid)), *others
    return MpmdProgram(program.model, groups, program.frozen, program.exchanges, program.form.stack)


def _grid_of_stage(grid: JointGrid) -> JointGrid:
    """The grid with one rank along the axes of stages."""
    stage = grid.backbone.stage
    axes = tuple((name, 1 if name in stage else size) for name, size in grid.axes)
    views = {name: replace(view, sizes=axes) for name, view in grid.views.items()}
    return replace(grid, axes=axes, views=views)


def _mesh_of_stage(mesh: Mesh, axes: Axes, stage: int) -> Mesh:
    (axis,) = axes
    dim = mesh.axis_names.index(axis)
    devices = np.take(mesh.devices, [stage], axis=dim)
    return Mesh(devices, mesh.axis_names, axis_types=mesh.axis_types)

"""The cost model's profile of a model agrees with the model itself."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec

from mllm_jax.config.hardware import load_hardware
from mllm_jax.models.model_config import ModelConfig
from mllm_jax.models.module import ShardedModule, abstract_parameters
from mllm_jax.models.module_rows import ModuleRows
from mllm_jax.models.work.flops import model_flops
from mllm_jax.models.work.profile import module_profiles
from mllm_jax.plan.traced import measure_layer_bytes
from mllm_jax.train.state.parameter_layout import ParameterLayout
from scheduling.costs.estimate import ModuleTiming
from scheduling.costs.strategy import Strategy
from scheduling.costs.work import TRAINING_FACTOR
from scheduling.costs.workload import LayerSplit, Workload
from sharding.collectives import vary
from sharding.grid import JointGrid
from sharding.layerstack.run import LayerStack
from sharding.mesh import make_mesh
from sharding.plan import ParallelPlan
from sharding.rules import parameter_shardings
from tests.models import towers
from tests.train.models import small_model

#: Positions of a row; images of 4 x 8 patches.
POSITIONS = {"decoder": 16, "media": 32}
ENCODERS = [("llama", family) for family in towers.ENCODERS]
FAMILIES = [
    *((family, None) for family in towers.DECODERS),
    *ENCODERS,
    *(("llama", family) for family in towers.VARIANTS),
]


def deep(decoder: str, encoder: str | None) -> ModelConfig:
    """A model with four layers in each tower."""
    values = towers.model(decoder, encoder).model_dump()
    values["decoder"]["vocab"] -= 1
    for tower in (values["decoder"], *values["encoders"].values()):
        tower["layers"] = 4
    return ModelConfig.model_validate(values)


def whole(config: ModelConfig) -> Workload:
    """A step of eight rows."""
    profiles = module_profiles(config)
    return Workload(profiles, {name: POSITIONS[name] for name in profiles}, rows=8)


def elements(shapes: Any, axes: Any, stacked: bool) -> dict[tuple[str | None, ...], int]:
    """Elements of a tree of parameters by logical axes; of one layer, where layers are stacked."""
    found: Counter[tuple[str | None, ...]] = Counter()

    def leaf(names: tuple[str | None, ...], shape: Any) -> None:
        found[names[stacked:]] += math.prod(shape.shape[stacked:])

    jax.tree.map(leaf, axes, shapes, is_leaf=lambda node: isinstance(node, tuple))
    return dict(found)


@pytest.mark.parametrize(("decoder", "encoder"), FAMILIES)
def test_profiles_count_every_parameter(decoder: str, encoder: str | None) -> None:
    config = deep(decoder, encoder)
    shapes, axes = abstract_parameters(config)
    profiles = module_profiles(config)
    assert set(profiles) == set(shapes)
    for name, tree in shapes.items():
        own, profile = axes[name], profiles[name]
        layers = elements(tree.pop("layers"), own.pop("layers"), stacked=True)
        assert profile.layer_parameters == layers
        assert profile.rest_parameters == elements(tree, own, stacked=False)
        whole = sum(leaf.size for leaf in jax.tree.leaves(tree)) + 4 * sum(layers.values())
        assert profile.parameters == whole


@pytest.mark.parametrize(("decoder", "encoder"), FAMILIES)
def test_workloads_count_the_flops_of_the_model(decoder: str, encoder: str | None) -> None:
    config = deep(decoder, encoder)
    workload = whole(config)
    forward = sum(workload.forward_flops(name) for name in workload.modules)
    rows = {name: [length] * 8 for name, length in workload.positions.items()}
    flops = model_flops(config, rows, targets=sum(rows["decoder"]))
    assert TRAINING_FACTOR * forward == pytest.approx(flops)


@pytest.mark.parametrize("encoder", towers.ENCODERS + towers.VARIANTS)
@pytest.mark.parametrize(
    ("decoder", "media"),
    [
        ({"data": 8}, {"fsdp": 8}),
        ({"fsdp": 4, "tensor": 2}, {"data": 2, "fsdp": 4}),
        ({"data": 2, "fsdp": 2, "stage": 2}, {"data": 4, "stage": 2}),
        ({"fsdp": 2, "stage": 2, "tensor": 2}, {"data": 4, "tensor": 2}),
        ({"fsdp": 2, "tensor": 4}, {"data": 4, "tensor": 2}),
    ],
)
def test_a_device_stores_the_shards_of_the_layout(
    encoder: str, decoder: dict[str, int], media: dict[str, int]
) -> None:
    config = deep("qwen2", encoder)
    plans = {"decoder": ParallelPlan(**decoder), "media": ParallelPlan(**media)}
    shapes, _ = abstract_parameters(config)
    grid = JointGrid.build(plans, config.decoder.kv_heads)
    layout = ParameterLayout(config, grid).shardings
    for name, tree in shapes.items():
        tree = jax.tree.map(
            lambda x, own: np.broadcast_to(0, own.padded_shape(x.shape)), tree, layout[name]
        )
        sizes = jax.tree.map(
            lambda x, own: x.size // own.view.degree_of(own.sharded), tree, layout[name]
        )
        timing = ModuleTiming(whole(config), Strategy(plans), load_hardware("h100"), name)
        assert timing.stored_elements == sum(jax.tree.leaves(sizes))
        whole_along_fsdp = jax.tree.map(
            lambda x, own: x.size // own.view.degree_of(_without_fsdp(own)), tree, layout[name]
        )
        assert timing.trained_resident_elements == sum(jax.tree.leaves(whole_along_fsdp))


def _without_fsdp(layout: Any) -> tuple[str, ...]:
    return tuple(axis for axis in layout.sharded if axis not in layout.view.fsdp)


# ---- what a layer keeps --------------------------------------------------------------------------


def batch(config: ModelConfig, name: str) -> ModuleRows:
    """One full row of a tower."""
    rows = towers.lay([[POSITIONS[name]]], POSITIONS[name])
    if name == "decoder":
        return ModuleRows(None, rows.ids, rows.index[..., None], rows.index)
    features = config.encoders[name].features
    media = [np.zeros((POSITIONS[name], features), np.float32)]
    return towers.media_rows(config, rows, media, [8])


def forwards(config: ModelConfig, name: str, tensor: int) -> list[list[list[np.ndarray]]]:
    """What `LayerStack` keeps of a forward, and all residuals, by rank, of two inputs."""
    heads = config.decoder.kv_heads if name == "decoder" else None
    grid = JointGrid.build({"decoder": ParallelPlan(tensor=tensor)}, heads)
    view = grid.backbone
    tower = ShardedModule(config, name, view)
    stack = towers.parameters(config)[name]["layers"]
    axes = abstract_parameters(config)[1][name]["layers"]
    specs = jax.tree.map(lambda own: own.spec, parameter_shardings(axes, view))
    settings = config.decoder if name == "decoder" else config.encoders[name]
    length = POSITIONS[name] // getattr(settings, "stride", 1)
    shape = (1, length, settings.d_model)

    def local(stack: Any, x: jax.Array, batch: ModuleRows) -> list[list[jax.Array]]:
        stack, x, context = vary((stack, x, tower.context(batch)), view.all_axes)
        run = LayerStack(tower.layer, stack, 1, "none", view.all_axes)
        _, kept = run.forward_loop(jnp.int32(0), x, context).run_scan()
        first = jax.tree.map(lambda leaf: leaf[0], stack)
        _, pull = jax.vjp(lambda p, x: tower.layer(p, x, context), first, x)
        return [[leaf[None] for leaf in jax.tree.leaves(tree)] for tree in (kept, pull)]

    inputs = specs, PartitionSpec(None, view.tensor), PartitionSpec()
    mesh = make_mesh(grid, jax.devices()[:tensor])
    mapped = jax.shard_map(
        local, mesh=mesh, in_specs=inputs, out_specs=PartitionSpec(view.all_axes)
    )
    run, rows = jax.jit(mapped), batch(config, name)
    xs = [np.random.default_rng(seed).normal(size=shape).astype(np.float32) for seed in (0, 1)]
    return [jax.tree.map(np.asarray, run(stack, x, rows)) for x in xs]


@pytest.mark.parametrize(
    ("decoder", "encoder", "tensor"),
    [*((*case, n) for case in [("qwen3", None), *ENCODERS] for n in (1, 2)), ("qwen3", None, 4)],
)
def test_kept_is_what_a_layer_keeps_and_no_backward_can_do_with_less(
    decoder: str, encoder: str | None, tensor: int
) -> None:
    config = towers.model(decoder, encoder, attention="reference")
    name = "decoder" if encoder is None else "media"
    (kept, one), (_, other) = forwards(config, name, tensor)
    found = measure_layer_bytes(config, LayerSplit(name, tensor), POSITIONS[name])
    assert found == sum(leaf.nbytes for leaf in kept) / tensor
    # What another input changes must be kept.
    pairs = zip(one, other, strict=True)
    changed = sum(own.nbytes for own, new in pairs if not np.array_equal(own, new))
    assert 0 < changed / tensor <= found <= sum(leaf.nbytes for leaf in one) / tensor


@pytest.mark.parametrize(("decoder", "encoder"), [("gpt", None), *ENCODERS])
def test_what_cudnn_keeps_is_counted_without_the_library(decoder: str, encoder: str | None) -> None:
    """cuDNN keeps as much as Pallas, and across ranks the mask as a bias of 16 bits."""
    changes = {"dtype": "bfloat16", "decoder_changes": {"d_model": 64}}
    values = towers.model(decoder, encoder, **changes).model_dump()
    for settings in values["encoders"].values():
        settings |= {"d_model": 64, "head_dim": 16}
    name = "decoder" if encoder is None else "media"
    tokens = 128 * getattr(ModelConfig.model_validate(values).encoders.get(name), "stride", 1)

    def kept(attention: str, tensor: int) -> float:
        config = ModelConfig.model_validate(values | {"attention": attention})
        return measure_layer_bytes(config, LayerSplit(name, tensor), tokens)

    assert kept("cudnn", 1) == kept("pallas_gpu", 1)
    bias, ids = 2 * 128**2, 4 * 128
    assert kept("cudnn", 2) == kept("pallas_gpu", 2) + bias - ids


def test_layers_whose_experts_are_shared_keep_nothing_of_their_products() -> None:
    """Wider experts keep more where a rank has all of them."""

    def kept(d_ff: int, *, shared: bool) -> float:
        section = {"count": 4, "top_k": 2, "d_ff": d_ff}
        model = small_model("mixtral", experts=section)
        return measure_layer_bytes(model, LayerSplit("decoder", 1, shared), 16)

    assert kept(16, shared=True) == kept(32, shared=True) < kept(16, shared=False)
    assert kept(16, shared=False) < kept(32, shared=False)

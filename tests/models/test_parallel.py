"""Tensor, sequence, context and fsdp parallel layers equal a single device, for every family."""

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from jax.sharding import PartitionSpec as P

from mllm_jax.layers import products
from mllm_jax.layers.config.elements import Dims
from mllm_jax.layers.dense import Dense
from mllm_jax.models import module as multimodal
from mllm_jax.models.model_config import ModelConfig
from mllm_jax.models.module_rows import ModuleRows
from sharding.collectives import psum
from sharding.exchange_kinds import OVERLAP_KINDS, OverlapKind
from sharding.grid import JointGrid, MeshView, ReduceDtype
from sharding.mesh import make_mesh
from sharding.plan import ParallelPlan
from sharding.rules import ParameterSharding, parameter_shardings
from tests.models import towers

PLAN = ParallelPlan(fsdp=2, tensor=2)
#: Ranks that do not divide the heads of keys and values, with other decoders; the last heads' ranks
#: have different ones of those that they hold.
COPIES: list[tuple[ParallelPlan, dict[str, Any]]] = [
    (ParallelPlan(context=4), {"heads": 4, "kv_heads": 2}),
    (ParallelPlan(tensor=4, fsdp=2), {"heads": 4, "kv_heads": 2, "vocab": 61}),
    (ParallelPlan(tensor=4, context=2), {"heads": 8, "kv_heads": 1, "head_dim": 8}),
    (ParallelPlan(tensor=4, context=2), {"heads": 24, "kv_heads": 6, "head_dim": 8}),
    (ParallelPlan(tensor=3, context=2), {"heads": 12, "kv_heads": 4, "head_dim": 8, "vocab": 50}),
]

#: Those that others resemble.
SELDOM = (0, 2, 4)


def decoder_loss(config: ModelConfig, params: Any, batch: ModuleRows, view: MeshView) -> Any:
    """Loss over all rows, and the most likely tokens."""
    hidden, _ = towers.decode_hidden(params, batch, None, config, view)
    total = towers.loss(params, hidden, batch, config, view)
    return psum(total, view.token_axes), multimodal.greedy_tokens(params, hidden, config, view)


def encoder_loss(config: ModelConfig, params: Any, batch: ModuleRows, view: MeshView) -> Any:
    """Any scalar that depends on every output, and nothing else of interest."""
    outputs = towers.encode(params, "media", batch, config, view)
    total = psum(jnp.sum(jnp.sin(outputs)), view.batch_axes + view.sequence_axes)
    return total, psum(batch.segment_ids[:, :1], ())


def both(
    loss: Any,
    config: ModelConfig,
    module: Any,
    params: Any,
    batch: ModuleRows,
    plan: ParallelPlan = PLAN,
    overlap: frozenset[OverlapKind] = frozenset(),
) -> Any:
    """`((loss, extra), gradients)` on one device and under `plan`."""
    step = jax.value_and_grad(loss, argnums=1, has_aux=True)
    alone = towers.quick(lambda p, b: step(config, p, b, MeshView()))(params, batch)
    grid = JointGrid.build({"decoder": plan}, config.decoder.kv_heads, overlap)
    view = grid.backbone
    lay = parameter_shardings(module, view)
    specs = jax.tree.map(lambda layout: layout.spec, lay)
    rows = P(view.batch_axes)
    sharded = jax.shard_map(
        lambda p, b: step(config, p, b, view),
        mesh=make_mesh(grid, jax.devices()[: grid.devices]),
        in_specs=(specs, rows),
        out_specs=((P(), rows), specs),
        check_vma=True,
    )
    results, gradients = towers.quick(sharded)(jax.tree.map(padded, params, lay), batch)
    return alone, (results, jax.tree.map(without_padding, gradients, params))


def padded(leaf: Any, layout: ParameterSharding) -> Any:
    """The parameter as it is stored: zeros after the vocabulary."""
    padding = np.subtract(layout.padded_shape(leaf.shape), leaf.shape)
    return np.pad(leaf, [(0, n) for n in padding])


def without_padding(gradient: Any, like: Any) -> Any:
    """The entries that are no padding; the gradient of padding is exactly zero."""
    own = gradient[tuple(slice(n) for n in like.shape)]
    assert np.count_nonzero(gradient) == np.count_nonzero(own)
    return own


def check(alone: Any, sharded: Any) -> None:
    ((loss, extra), gradients), ((loss2, extra2), gradients2) = alone, sharded
    assert float(loss2) == pytest.approx(float(loss), rel=1e-5)
    np.testing.assert_array_equal(extra, extra2)
    error, leaf = towers.worst_error(gradients, gradients2)
    assert error < 1e-5, leaf


@pytest.mark.parametrize(
    ("family", "plan", "changes"),
    [
        *((family, PLAN, {"tie_embeddings": family == "qwen2"}) for family in towers.DECODERS),
        *(
            pytest.param("qwen3", *case, marks=[pytest.mark.slow] * (number in SELDOM))
            for number, case in enumerate(COPIES)
        ),
    ],
)
def test_decoder(family: str, plan: ParallelPlan, changes: dict[str, Any]) -> None:
    config = towers.model(family, decoder_changes=changes)
    params, axes = towers.parameters(config), multimodal.parameter_axes(config)
    lengths = [[5, 9], [16], [3, 3, 7], [1]]
    texts = towers.texts([n for row in lengths for n in row])
    known = [text % config.decoder.vocab_size for text in texts]
    batch = towers.text_rows(towers.lay(lengths, 24), known)
    check(*both(decoder_loss, config, axes["decoder"], params["decoder"], batch, plan))


@pytest.mark.parametrize(
    "family",
    [*towers.ENCODERS, *(pytest.param(own, marks=pytest.mark.slow) for own in towers.VARIANTS)],
)
def test_encoder(family: str) -> None:
    config = towers.model(encoder=family)
    settings = config.encoders["media"]
    params, axes = towers.parameters(config), multimodal.parameter_axes(config)
    lengths = [[5, 9], [16], [3, 3, 7], [1]]
    flat = [n for row in lengths for n in row]
    media = towers.signals(flat, settings.features)
    rows = towers.lay(lengths, 24, config.reduction("media"))
    batch = towers.media_rows(config, rows, media, [min(3, n) for n in flat])
    module, owner = axes["media"], params["media"]
    check(*both(encoder_loss, config, module, owner, batch))


#: Pieces of overlap, plans and decoders; a period of layers of two kinds, and a parallel block.
PATTERN = {"layers": 4, "pattern": ("window", "full"), "window": 4}
#: Those of the quick tests.
QUICK = (2, 5)
PARALLEL = {"heads": 6, "head_dim": 8, "parallel_block": True}
OVERLAPS: list[tuple[tuple[OverlapKind, ...], ParallelPlan, str, dict[str, Any]]] = [
    (("gather",), ParallelPlan(fsdp=4), "layer", {"layers": 3}),
    (("scatter",), ParallelPlan(fsdp=4), "layer", {"layers": 3}),
    (("gather", "scatter"), ParallelPlan(fsdp=2), "full", PATTERN),
    (("tensor",), ParallelPlan(tensor=4), "none", {}),
    (("tensor",), ParallelPlan(tensor=3, fsdp=2), "layer", PARALLEL),
    (OVERLAP_KINDS, ParallelPlan(fsdp=2, tensor=2, context=2), "layer", {"layers": 2}),
]


@pytest.mark.parametrize(
    ("overlap", "plan", "remat", "changes"),
    [
        pytest.param(*own, marks=() if n in QUICK else pytest.mark.slow)
        for n, own in enumerate(OVERLAPS)
    ],
)
def test_collectives_beside_compute_change_no_gradient(
    overlap: tuple[OverlapKind, ...], plan: ParallelPlan, remat: str, changes: dict[str, Any]
) -> None:
    config = towers.model("qwen2", decoder_changes=changes, remat=remat)
    params, axes = towers.parameters(config), multimodal.parameter_axes(config)
    lengths = [[5, 9], [16], [3, 3, 7], [1]]
    texts = towers.texts([n for row in lengths for n in row])
    batch = towers.text_rows(towers.lay(lengths, 24), texts)
    own = config, axes["decoder"], params["decoder"], batch, plan
    check(*both(decoder_loss, *own, frozenset(overlap)))


@pytest.mark.parametrize("family", [pytest.param("siglip", marks=pytest.mark.slow), "vit22b"])
def test_encoders_with_collectives_beside_compute(family: str) -> None:
    config = towers.model(encoder=family)
    settings = config.encoders["media"]
    params, axes = towers.parameters(config), multimodal.parameter_axes(config)
    lengths = [[5, 9], [16], [3, 3, 7], [1]]
    flat = [n for row in lengths for n in row]
    media = towers.signals(flat, settings.features)
    batch = towers.media_rows(
        config, towers.lay(lengths, 24, config.reduction("media")), media, flat
    )
    module, owner = axes["media"], params["media"]
    check(*both(encoder_loss, config, module, owner, batch, PLAN, frozenset(OVERLAP_KINDS)))


def test_partial_sums_of_bfloat16_are_added_in_float32() -> None:
    # Each rank's partial sum is 257 or -256; in bfloat16, 257 is 256 and their sum 0.
    layer = Dense((("mlp", 4),), (("embed", 1),), nnx.Rngs(0))
    layer.kernel[...] = jnp.array([[1.0], [1.0], [-1.0], [0.0]])
    graph, state = nnx.split(layer)
    x = jnp.tile(jnp.array([256.0, 1.0, 256.0, 0.0], jnp.bfloat16), (1, 2, 1))
    grid = JointGrid.build({"decoder": ParallelPlan(tensor=2)})
    view = grid.backbone

    def total(state: Any, x: Any) -> Any:
        out = nnx.merge(graph, state).scattered_product(x, view)
        return psum(jnp.sum(out.astype(jnp.float32)), view.tensor), out

    shards = {"kernel": P(view.tensor)}, P(None, None, view.tensor)
    run = jax.shard_map(
        jax.value_and_grad(total, argnums=(0, 1), has_aux=True),
        mesh=make_mesh(grid, jax.devices()[:2]),
        in_specs=shards,
        out_specs=((P(), P(None, view.tensor)), shards),
        check_vma=True,
    )
    (_, out), (kernel, inputs) = jax.jit(run)({"kernel": state["kernel"][...]}, x)
    assert out.dtype == inputs.dtype == jnp.bfloat16
    np.testing.assert_array_equal(out.astype(jnp.float32), np.ones((1, 2, 1)))
    np.testing.assert_array_equal(kernel["kernel"][:, 0], [512, 2, 512, 0])
    np.testing.assert_array_equal(inputs[0, 0].astype(jnp.float32), [1, 1, -1, 0])


HEADS = (("heads", 2), ("head", 8))
KERNELS = [
    ((("embed", 16),), (("mlp", 32),)),
    ((("embed", 16),), HEADS),
    (HEADS, (("embed", 16),)),
]


def gradient_of_product(inputs: Dims, outputs: Dims) -> tuple[Any, tuple[Any, jax.Array]]:
    """A function of a linear layer's parameters and inputs, and these."""
    graph, state = nnx.split(Dense(inputs, outputs, nnx.Rngs(0)))
    x = jax.random.normal(jax.random.key(1), (2, 24, *(size for _, size in inputs)))

    def total(state: Any, x: Any) -> Any:
        return jnp.sum(nnx.merge(graph, state)(x) ** 2)

    return jax.jit(jax.grad(total, argnums=(0, 1))), (state, x)


@pytest.mark.parametrize(("inputs", "outputs"), KERNELS)
def test_gradients_of_products_are_made_without_transposed_copies(
    inputs: Dims, outputs: Dims
) -> None:
    # XLA writes such copies on CPUs where a gradient is a sum over rows and over tokens.
    gradient, arguments = gradient_of_product(inputs, outputs)
    text = gradient.lower(*arguments).compile().as_text() or ""
    assert " fusion(" in text or " dot(" in text
    assert not re.findall(r"= \S+ (?:copy|transpose)\(", text)


@pytest.mark.parametrize(("inputs", "outputs"), KERNELS)
def test_products_are_the_same_on_every_platform(
    inputs: Dims, outputs: Dims, monkeypatch: pytest.MonkeyPatch
) -> None:
    gradient, arguments = gradient_of_product(inputs, outputs)
    expected = gradient(*arguments)
    monkeypatch.setattr(products, "traced_platform", lambda: "tpu")
    gradient, arguments = gradient_of_product(inputs, outputs)
    assert "reshape" not in str(jax.make_jaxpr(gradient)(*arguments))
    for found, wanted in zip(*map(jax.tree.leaves, (gradient(*arguments), expected)), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def test_recomputation_changes_no_gradient() -> None:
    batch = towers.text_rows(towers.lay([[9]], 12), towers.texts([9]))

    def gradients(remat: str) -> Any:
        config = towers.model(remat=remat)
        params = towers.parameters(config)["decoder"]
        return towers.quick(jax.grad(lambda p: decoder_loss(config, p, batch, MeshView())[0]))(
            params
        )

    error, leaf = towers.worst_error(gradients("none"), gradients("layer"))
    assert error < 1e-5, leaf


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_gathered_parameters_are_not_kept_for_the_backward(dtype: str) -> None:
    """A rank keeps the values that one device keeps of the same rows, and its shards: ZeRO-3."""
    config = towers.model("llama", remat="none").model_copy(update={"dtype": dtype})
    params, axes = towers.parameters(config)["decoder"], multimodal.parameter_axes(config)

    def kept(plan: ParallelPlan) -> int:
        """Bytes of all that the backward reads."""
        rows = towers.lay([[5, 9]] * plan.fsdp, 16)
        batch = towers.text_rows(rows, towers.texts([5, 9] * plan.fsdp))
        grid = JointGrid.build({"decoder": plan})
        view = grid.backbone
        found: list[Any] = []

        def residuals(params: Any, batch: ModuleRows) -> Any:
            def hidden(params: Any) -> Any:
                return towers.decode_hidden(params, batch, None, config, view)[0]

            found.extend(jax.tree.leaves(jax.vjp(hidden, params)[1]))
            return jnp.zeros(())

        specs = jax.tree.map(lambda layout: layout.spec, parameter_shardings(axes["decoder"], view))
        mesh = make_mesh(grid, jax.devices()[: grid.devices])
        run = jax.shard_map(
            residuals,
            mesh=mesh,
            in_specs=(specs, P(view.batch_axes)),
            out_specs=P(),
            check_vma=True,
        )
        jax.eval_shape(run, params, batch)
        return sum(leaf.size * leaf.dtype.itemsize for leaf in found)

    kernels = sum(leaf.size * 4 for leaf in jax.tree.leaves(params["layers"]) if leaf.ndim > 2)
    assert kept(ParallelPlan()) - kept(ParallelPlan(fsdp=2)) == kernels / 2


@pytest.mark.parametrize("overlap", [frozenset(), frozenset({"tensor"})], ids=["scatter", "ring"])
@pytest.mark.parametrize("sums", ["float32", "bfloat16"])
def test_partial_sums_travel_in_the_type_that_is_asked_for(
    overlap: frozenset[OverlapKind], sums: ReduceDtype
) -> None:
    """Of a product over two tensor ranks; what arrives is of the operands' type."""
    grid = JointGrid.build({"decoder": ParallelPlan(tensor=2)}, None, overlap, sums)
    view = grid.backbone
    x, kernel = (
        jax.random.normal(jax.random.key(i), own) for i, own in enumerate([(1, 8, 6), (6, 4)])
    )
    mapped = jax.shard_map(
        lambda x, kernel: products.scatter_products(((x, kernel),), (1,), view),
        mesh=make_mesh(grid, jax.devices()[:2]),
        in_specs=(P(None, None, view.tensor), P(view.tensor)),
        out_specs=P(None, view.tensor),
    )
    sent = re.findall(
        r":(\w+)\[[^=]*= (?:reduce_scatter|ppermute)", str(jax.make_jaxpr(mapped)(x, kernel))
    )
    assert set(sent) == {"f32" if sums == "float32" else "bf16"}
    found, error = jax.jit(mapped)(x, kernel), 2e-6 if sums == "float32" else 2e-2
    assert found.dtype == x.dtype
    np.testing.assert_allclose(found, x @ kernel, atol=error * float(jnp.abs(found).max()))

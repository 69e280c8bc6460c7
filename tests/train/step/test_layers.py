"""Layers of several kinds in a period, and with an auxiliary loss, under every kind of plan."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mllm_jax.check.synthetic import scatter_rows, synthetic_batch
from mllm_jax.check.verify import compare_gradients, initial_parameters, loss_and_gradients
from mllm_jax.config.pipeline_plan import PipelinePlan
from mllm_jax.layers.parameters import ParameterBlock
from mllm_jax.models.model_config import ModelConfig
from mllm_jax.models.module import ShardedModule, abstract_parameters
from mllm_jax.models.module_rows import NEXT_TOKEN, ModuleRows
from mllm_jax.models.work.profile import module_profiles
from mllm_jax.train.step.batch_placement import place_microbatches
from mllm_jax.train.step.build import build_step
from scheduling.schedules.backbone_schedules import interleaved_schedule, zero_bubble_schedule
from scheduling.schedules.schedule import Schedule
from scheduling.schedules.tasks import ModuleStages
from sharding.grid import MeshView
from sharding.layerstack.run import LayerStack
from sharding.layerstack.spec import LayerStackSpec
from sharding.plan import ParallelPlan
from tests.models import towers
from tests.scheduling.placing import naive
from tests.train.models import small_model

ROWS, TOKENS, MICROBATCHES, PENALTY = 2, 24, 3, 0.25
#: Three periods: one of four is padding wherever there are two or four runs of layers.
MIXED = {
    "layers": 6,
    "pattern": ["window", "full"],
    "window": 3,
    "parallel_block": True,
    "activation_penalty": PENALTY,
}


@cache
def model(remat: str = "layer") -> ModelConfig:
    values = small_model(remat=remat).model_dump(mode="json")
    values["decoder"] |= MIXED
    return ModelConfig.model_validate(values | {"encoders": {}})


@cache
def parameters() -> Any:
    return initial_parameters(model(), seed=0)


@cache
def batches() -> list[Any]:
    return [synthetic_batch(model(), ROWS, TOKENS, {}, seed) for seed in range(MICROBATCHES)]


@cache
def on_one_device() -> tuple[np.ndarray, Any]:
    return loss_and_gradients(model(), {"decoder": ParallelPlan()}, parameters(), batches())


@pytest.mark.parametrize(
    ("plan", "schedule", "remat", "options"),
    [
        pytest.param(
            *(ParallelPlan(fsdp=2, context=2, tensor=2), None, "none", {}),
            marks=pytest.mark.slow,
        ),
        (ParallelPlan(stage=2, context=2), interleaved_schedule(2, 2, MICROBATCHES), "none", {}),
        pytest.param(
            ParallelPlan(stage=2, fsdp=2, tensor=2),
            interleaved_schedule(2, 1, MICROBATCHES),
            "full",
            {"gather": "layer", "co_issue": False},
            marks=pytest.mark.slow,
        ),
        pytest.param(
            *(
                ParallelPlan(stage=2, tensor=2),
                zero_bubble_schedule(2, 2, MICROBATCHES),
                "none",
                {},
            ),
            marks=pytest.mark.slow,
        ),
    ],
    ids=["without stages", "chunks", "gathered by layer", "zero bubble"],
)
def test_unlike_layers_and_their_losses_are_those_of_one_device(
    plan: ParallelPlan, schedule: Schedule | None, remat: str, options: dict[str, Any]
) -> None:
    pipeline = PipelinePlan(schedule, **options) if schedule else None
    plans = {"decoder": plan}
    got = loss_and_gradients(model(remat), plans, parameters(), batches(), pipeline)
    result = compare_gradients(got, on_one_device())
    assert result.loss_error < 1e-6, result
    assert max(result.worst.values()) < 2e-5, result


@pytest.mark.parametrize(
    ("plans", "schedule", "remat", "options"),
    [
        pytest.param(
            {
                "decoder": ParallelPlan(fsdp=2, tensor=2),
                "vision": ParallelPlan(data=2, context=2),
            },
            None,
            "none",
            {},
            marks=pytest.mark.slow,
        ),
        (
            {
                "decoder": ParallelPlan(stage=2, context=2),
                "vision": ParallelPlan(data=2, tensor=2),
            },
            (2, 1),
            "none",
            {},
        ),
        pytest.param(
            {
                "decoder": ParallelPlan(stage=2, context=2),
                "vision": ParallelPlan(data=2, tensor=2),
            },
            (2, 2),
            "layer",
            {},
            marks=pytest.mark.slow,
        ),
        pytest.param(
            {"decoder": ParallelPlan(stage=2, fsdp=2), "vision": ParallelPlan(data=4)},
            (2, 1),
            "full",
            {"co_issue": False},
            marks=pytest.mark.slow,
        ),
    ],
    ids=["without stages", "stages", "chunks", "one after the other"],
)
def test_layers_with_inputs_of_their_own_are_those_of_one_device(
    plans: dict[str, ParallelPlan],
    schedule: tuple[int, int] | None,
    remat: str,
    options: dict[str, Any],
) -> None:
    """Outputs of two of the encoder's layers are added after the decoder's first two.

    Both of these are in the first run of layers.
    """
    layers = 2 * math.prod(schedule or (2, 1))
    cuts = (ModuleStages("vision", chunks=2),)
    pipeline = None
    if schedule:
        placed = naive(interleaved_schedule(*schedule, MICROBATCHES), cuts)
        pipeline = PipelinePlan(placed, **options)
    batches = [scatter_rows(own, stacked(), 7 + i) for i, own in enumerate(media_batches())]
    got = loss_and_gradients(
        stacked(remat, layers=layers), plans, stacked_parameters(layers), batches, pipeline
    )
    result = compare_gradients(got, with_media_on_one_device(layers))
    assert result.loss_error < 1e-6, result
    assert max(result.worst.values()) < 2e-5, result


@cache
def stacked(
    remat: str = "layer", deepstack: tuple[int, ...] = (1, 3), layers: int = 4
) -> ModelConfig:
    values = small_model(remat=remat).model_dump(mode="json")
    values["decoder"] |= {"layers": layers}
    vision = values["encoders"]["vision"] | {"layers": 4, "deepstack": deepstack}
    return ModelConfig.model_validate(values | {"encoders": {"vision": vision}})


@cache
def stacked_parameters(layers: int = 4) -> Any:
    return initial_parameters(stacked(layers=layers), seed=0)


@cache
def media_batches() -> list[Any]:
    budgets = {"vision": 16}
    return [synthetic_batch(stacked(), ROWS, TOKENS, budgets, i) for i in range(MICROBATCHES)]


@cache
def with_media_on_one_device(layers: int) -> tuple[np.ndarray, Any]:
    plans = {"decoder": ParallelPlan(), "vision": ParallelPlan()}
    model, params = stacked(layers=layers), stacked_parameters(layers)
    return loss_and_gradients(model, plans, params, media_batches())


def test_outputs_of_earlier_layers_are_added_after_the_first_layers() -> None:
    """The sum is computed by hand: each output has a norm and a connector of its own."""
    model, batch, view = stacked(), media_batches()[0], MeshView()
    encoder, decoder = ShardedModule(model, "vision", view), ShardedModule(model, "decoder", view)
    alone = ShardedModule(stacked(deepstack=()), "vision", view)
    rows, tokens = batch.rows["vision"], batch.text_rows

    def merged(own: Any) -> list[jax.Array]:
        x, found, at = alone.embed(own, rows), [], tokens.merges["vision"]
        for i in range(4):
            one = jax.tree.map(lambda leaf, i=i: leaf[i], own["layers"])
            x, _ = alone.layer(one, x, alone.context(rows))
            name = {0: "deepstack0", 2: "deepstack1", 3: "connector"}.get(i)
            if name:
                kind = f"{name}_norm" if i < 3 else "norm"
                normed = encoder.blocks[kind].bind(own[kind], view)(x)
                real = (rows.segment_ids > 0)[..., None]
                joined = jnp.where(real, normed, 0).reshape(ROWS, -1, 2 * x.shape[-1])
                outputs = encoder.blocks[name].bind(own[name], view)(joined, view)
                flat = outputs.reshape(-1, outputs.shape[-1])
                found.append(jnp.where((at >= 0)[..., None], flat[np.maximum(at, 0)], 0))
        return found

    def loss(params: Any) -> jax.Array:
        first, second, last = merged(params["vision"])
        y = decoder.embed(params["decoder"], tokens)[..., : last.shape[-1]] + last
        for i in range(model.decoder.layers):
            one = jax.tree.map(lambda leaf, i=i: leaf[i], params["decoder"]["layers"])
            y, _ = decoder.layer(one, y, decoder.context(tokens))
            y = y + {0: first, 1: second}.get(i, 0.0)
        own = params["decoder"]
        return loss_of(decoder, own, y, tokens) / tokens.targets[NEXT_TOKEN].weights.sum()

    params = unlike(stacked_parameters())
    plans = {"decoder": ParallelPlan(), "vision": ParallelPlan()}
    is_as_by_hand(loss_and_gradients(model, plans, params, [batch]), loss, params)


def loss_of(decoder: ShardedModule, params: Any, x: jax.Array, rows: ModuleRows) -> jax.Array:
    """The loss of what comes out of the decoder's layers."""
    outputs = decoder.output(params, x, rows)
    return towers.loss(params, outputs, rows, decoder.config, decoder.view)


def unlike(params: Any) -> Any:
    """The parameters with noise added, so that no two norms are alike."""
    make = np.random.default_rng(0)
    return jax.tree.map(lambda x: x + make.normal(0, 0.1, x.shape).astype(np.float32), params)


def is_as_by_hand(found: tuple[np.ndarray, Any], loss: Callable[..., Any], params: Any) -> None:
    """Compare loss and gradients with those that JAX derives from the loss itself."""
    expected, gradients = jax.jit(jax.value_and_grad(loss))(params)
    result = compare_gradients(found, (np.asarray(expected), jax.tree.map(np.asarray, gradients)))
    assert result.loss_error < 1e-5, result
    assert max(result.worst.values()) < 2e-5, result


def test_connectors_of_earlier_layers_are_counted() -> None:
    shapes, _ = abstract_parameters(stacked())
    profile = module_profiles(stacked())["vision"]
    sizes = [leaf.size for leaf in jax.tree.leaves(shapes["vision"])]
    assert profile.parameters == sum(sizes)


def test_auxiliary_losses_are_means_over_tokens_summed_over_layers() -> None:
    """The loss is computed by hand, layer by layer: the penalty times the mean is added."""
    decoder = ShardedModule(model(), "decoder", MeshView())
    tokens = sum((batch.text_rows.segment_ids > 0).sum() for batch in batches())
    weight = sum(batch.text_rows.targets[NEXT_TOKEN].weights.sum() for batch in batches())

    def sums(params: Any) -> tuple[jax.Array, jax.Array]:
        loss, total = jnp.zeros(()), jnp.zeros(())
        for rows in (batch.text_rows for batch in batches()):
            x, context = decoder.embed(params, rows), decoder.context(rows)
            for i in range(decoder.config.decoder.layers):
                one = jax.tree.map(lambda leaf, i=i: leaf[i], params["layers"])
                x, _ = decoder.layer(one, x, context, i % decoder.spec.period)
                total += jnp.where(rows.segment_ids > 0, jnp.square(x).mean(-1), 0).sum()
            loss += loss_of(decoder, params, x, rows)
        return loss, total

    def loss(params: Any) -> jax.Array:
        own, total = sums(params["decoder"])
        return own / weight + PENALTY * total / tokens

    mean = jax.jit(sums)(parameters()["decoder"])[1] / tokens
    assert mean > 0.1
    is_as_by_hand(on_one_device(), loss, parameters())
    assert reported() == pytest.approx({"activation": float(mean)}, rel=1e-5)


def reported() -> dict[str, float]:
    """The auxiliary losses that a step on one device gives to the metrics."""
    step = build_step(model(), {"decoder": ParallelPlan()}, devices=jax.devices()[:1])
    params = step.form.to_stored(jax.tree.map(jnp.array, parameters()))
    state = {"step": jnp.int32(0), "params": params, "optimizer": step.optimizer.init(params)}
    _, scalars = step.update(state, place_microbatches(batches(), step))
    return {name: float(value) for name, value in scalars["aux"].items()}


def test_a_window_hides_what_is_before_it() -> None:
    """The first layer of the period sees three tokens, so a change reaches no further."""
    decoder, params = ShardedModule(model(), "decoder", MeshView()), parameters()["decoder"]
    first = jax.tree.map(lambda leaf: leaf[0], params["layers"])
    places = np.arange(8, dtype=np.int32)[None]
    context = decoder.context(ModuleRows(None, np.ones_like(places), places[..., None], places))
    x = np.random.default_rng(0).normal(size=(1, 8, 16)).astype(np.float32)
    other = x.copy()
    other[:, 2] += 1
    for index, reached in ((0, [2, 3, 4]), (1, [2, 3, 4, 5, 6, 7])):
        before, after = (
            decoder.layer(first, jnp.asarray(a), context, index)[0] for a in (x, other)
        )
        changed = np.asarray(before != after).any(axis=(0, 2))
        assert np.flatnonzero(changed).tolist() == reached


def test_layers_that_do_not_give_the_losses_of_their_stack_are_refused() -> None:
    def layer(params: Any, x: jax.Array, context: Any, kind: int) -> Any:
        return x, {"one": jnp.zeros(()), "two": jnp.zeros(())} if kind else {"one": jnp.zeros(())}

    spec = LayerStackSpec(period=2, aux=("one",))
    run = LayerStack(layer, jnp.zeros((2, 1)), 2, "layer", (), spec=spec)
    with pytest.raises(TypeError, match=r"layer 1 of a period gives .*'one', 'two'.*\['one'\]"):
        run.forward_loop(jnp.int32(0), jnp.zeros(3), ()).run_scan()


def test_layers_of_a_period_have_the_same_parameters() -> None:
    layers, wide = (
        model().model_copy(
            update={"decoder": model().decoder.model_copy(update={"d_ff": width, "pattern": ()})}
        )
        for width in (16, 24)
    )
    towers = (ShardedModule(own, "decoder", MeshView()).blocks for own in (layers, wide))
    first, other = (tower["layers"].build for tower in towers)
    with pytest.raises(TypeError, match="layer 1 of a period has the parameters"):
        ParameterBlock(first, 2, (other,)).axes  # noqa: B018  made to see what it refuses

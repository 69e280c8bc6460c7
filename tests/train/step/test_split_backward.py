"""Weight gradients apart from backwards: equal to one device's, and truly apart."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest

from mllm_jax.check.synthetic import synthetic_batch
from mllm_jax.models.model_config import ModelConfig
from mllm_jax.models.module import ShardedModule, abstract_parameters
from scheduling.schedules.backbone_schedules import zero_bubble_schedule
from scheduling.schedules.schedule import Schedule
from scheduling.schedules.tasks import ModuleStages
from sharding.grid import MeshView
from sharding.layerstack.run import LayerStack
from tests.train.models import small_model
from tests.train.step.test_pipeline import Case, check, placed

VISION = ModuleStages("vision", chunks=2)


@pytest.mark.parametrize(
    ("schedule", "options"),
    [
        pytest.param(
            placed(zero_bubble_schedule(2, 1, 5), (VISION,), "bubbles"),
            {"remat": "none", "tensor": 2},
            marks=pytest.mark.slow,
        ),
        (zero_bubble_schedule(2, 2, 3), {"remat": "layer", "context": 2, "co_issue": False}),
        pytest.param(
            *(zero_bubble_schedule(2, 1, 3), {"remat": "full", "fsdp": 2, "co_issue": False}),
            marks=pytest.mark.slow,
        ),
    ],
    ids=("none", "layer", "full"),
)
def test_loss_and_gradients_equal_one_device(schedule: Schedule, options: dict[str, Any]) -> None:
    check(Case(schedule, **options))


# ---- one layer -----------------------------------------------------------------------------------

WIDE = {"layers": 1, "d_model": 128, "heads": 8, "kv_heads": 4, "head_dim": 16, "d_ff": 384}
LENGTH = 16


class Alone:
    """One decoder layer of a family, its input and gradients of its output, for their shapes."""

    def __init__(self, family: str, remat: str) -> None:
        values = small_model(family, remat=remat).model_dump(mode="json")
        values["decoder"] |= WIDE | ({"kv_heads": 8} if family == "gpt" else {})
        model = ModelConfig.model_validate(values | {"encoders": {}})
        tower = ShardedModule(model, "decoder", MeshView())
        batch = synthetic_batch(model, 2, LENGTH, {}, seed=0).text_rows
        self.context = jax.tree.map(jnp.asarray, tower.context(batch))
        self.params = abstract_parameters(model)[0]["decoder"]["layers"]
        shape = (2, LENGTH, WIDE["d_model"])
        self.x = self.g = jnp.zeros(shape)
        self.remat, self.layer = remat, tower.layer

    def run(self, params: Any) -> LayerStack:
        return LayerStack(self.layer, params, 1, self.remat, ())

    def apart(self, params: Any) -> LayerStack:
        return self.run(params).split_backward(self.x, self.context)

    def forward(self, params: Any, x: jax.Array) -> Any:
        return self.apart(params).forward_loop(START, x, self.context).run_scan()

    def backward(self, params: Any, kept: Any, g: jax.Array) -> Any:
        run = self.apart(params)
        early, _ = run.leaves.partition_sums(zeros(params))
        return run.backward_loop(START, kept, g, {}, self.context, early).run_scan()

    def weights(self, params: Any, pairs: Any) -> Any:
        run = self.apart(params)
        _, late = run.leaves.partition_sums(zeros(params))
        return run.weight_gradients(START, pairs, self.x, self.context, late).run_scan()[0]


START = jnp.int32(0)


def zeros(tree: Any) -> Any:
    return jax.tree.map(jnp.zeros_like, tree)


def flops(function: Any, *args: Any) -> float:
    found = jax.jit(function).lower(*args).compile().cost_analysis()
    assert found is not None
    return float(found["flops"])


@pytest.mark.parametrize("family", [pytest.param("llama", marks=pytest.mark.slow), "gpt", "qwen3"])
@pytest.mark.parametrize("remat", ["none", "layer"])
def test_each_part_multiplies_once(family: str, remat: str) -> None:
    """Gradients of inputs without those of weights, and the other way round."""
    own = Alone(family, remat)
    forward = flops(own.forward, own.params, own.x)
    _, kept = jax.eval_shape(own.forward, own.params, own.x)
    _, pairs = jax.eval_shape(own.backward, own.params, kept, own.g)
    backward = flops(own.backward, own.params, kept, own.g) / forward
    if remat == "layer":
        # It computes the layer again, but for the last product.
        backward -= 1 - 2 * own.x.size * WIDE["d_ff"] / forward
    assert 0.9 < backward < 1.15
    assert 0.9 < flops(own.weights, own.params, pairs) / forward < 1.15

"""Gradient programs are open: what runs another way is another class, and nothing else changes."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
import optax
import pytest
from jax.sharding import Mesh

from data.batch import PackedBatch
from mllm_jax.check.synthetic import synthetic_batch
from mllm_jax.check.verify import compare_gradients, initial_parameters, loss_and_gradients
from mllm_jax.config.pipeline_plan import StageLayers
from mllm_jax.models.freeze import FrozenParameters
from mllm_jax.models.model_config import ModelConfig
from mllm_jax.models.module_rows import NEXT_TOKEN
from mllm_jax.models.short_form import BACKBONE
from mllm_jax.train.step.batch_placement import place_microbatches
from mllm_jax.train.step.build import (
    build_gradient_step,
    build_step,
    build_train_step,
    with_pipeline_plan,
)
from mllm_jax.train.step.gradient_program import Batch, GradientProgram, Gradients
from mllm_jax.train.step.plain import PlainProgram
from mllm_jax.train.step.step import TrainStep
from sharding.collectives import vary
from sharding.grid import JointGrid
from sharding.layerstack.spec import Aux
from sharding.mesh import make_mesh
from sharding.plan import ParallelPlan
from tests.train.models import small_model

TWO = {"decoder": ParallelPlan(data=2)}


class Unrolled(GradientProgram):
    """All microbatches in one expression, the last one first; three layers kept in two groups."""

    def __init__(self, model: ModelConfig, grid: JointGrid, frozen: FrozenParameters) -> None:
        super().__init__(model, grid, frozen, StageLayers(model.decoder.layers, 1, 2))

    def accumulate_gradients(
        self, params: Any, batch: Batch, weights: Mapping[str, jax.Array], aux: Aux
    ) -> Gradients:
        rows = [jax.tree.map(lambda x, i=i: x[i], batch.rows[BACKBONE]) for i in (1, 0)]

        def total(params: Any) -> jax.Array:
            decoder = params["decoder"]
            layers = jax.tree.map(
                lambda x: x.reshape(-1, *x.shape[2:])[: self.model.decoder.layers],
                decoder["layers"],
            )
            whole = params | {"decoder": decoder | {"layers": layers}}
            made = [self.sharded_model.loss(whole, {BACKBONE: own}, {}) for own in rows]
            losses = [loss[NEXT_TOKEN] for loss, _ in made]
            return sum(losses[1:], losses[0]) / weights[NEXT_TOKEN]

        loss, grads = jax.value_and_grad(total)(vary(params, self.grid.backbone.all_axes))
        return Gradients(loss, grads, {}, aux)


@pytest.fixture(scope="module")
def model() -> ModelConfig:
    whole = small_model().model_dump(mode="json")
    decoder = whole["decoder"] | {"layers": 3}
    return ModelConfig.model_validate(whole | {"decoder": decoder, "encoders": {}})


@pytest.fixture(scope="module")
def microbatches(model: ModelConfig) -> list[PackedBatch]:
    return [synthetic_batch(model, 2, 16, {}, seed) for seed in range(2)]


def test_another_program_trains_without_a_change_of_the_step(
    model: ModelConfig, microbatches: list[PackedBatch]
) -> None:
    """One step of gradient descent at rate 1 leaves the parameters less their gradients."""
    grid = JointGrid.build(TWO)
    program = Unrolled(model, grid, FrozenParameters(("decoder.extra",)))
    step = TrainStep(program, make_mesh(grid, jax.devices()[:2]), optax.sgd(1.0))
    canonical = initial_parameters(model, 0)
    state = step.abstract_state | {
        "step": jax.numpy.zeros((), jax.numpy.int32),
        "params": step.form.to_stored(canonical),
    }
    state = jax.device_put(state, jax.tree.map(lambda x: x.sharding, step.abstract_state))
    new, scalars = step.update(state, place_microbatches(microbatches, step))
    after = jax.tree.map(np.asarray, step.form.to_canonical(new["params"]))
    got = jax.tree.map(np.subtract, canonical, after)
    expected = loss_and_gradients(model, {"decoder": ParallelPlan()}, canonical, microbatches)
    result = compare_gradients((np.asarray(scalars["loss"]), got), expected)
    assert result.loss_error < 1e-6, result
    assert max(result.worst.values()) < 2e-5, result
    assert scalars["targets"] == sum(
        (m.text_rows.targets[NEXT_TOKEN].weights > 0).sum() for m in microbatches
    )
    stored = new["params"]["decoder"]["layers"]
    assert all(
        leaf.shape[:2] == (2, 2) and not leaf[1, 1].any() for leaf in jax.tree.leaves(stored)
    )


def test_what_the_step_before_has_left_must_be_there(
    model: ModelConfig, microbatches: list[PackedBatch]
) -> None:
    class Ahead(PlainProgram):
        carried_specs = {"vision": jax.sharding.PartitionSpec()}  # noqa: RUF012

    grid = JointGrid.build(TWO)
    step = TrainStep(
        Ahead(model, grid, FrozenParameters()), make_mesh(grid, jax.devices()[:2]), optax.identity()
    )
    with pytest.raises(ValueError, match=r"carried: \[\] is refused; valid: \['vision'\]"):
        step.gradients.lower(step.abstract_state["params"], place_microbatches(microbatches, step))


def test_a_step_runs_where_it_is_told(model: ModelConfig) -> None:
    first, other = jax.devices()[:2], jax.devices()[:1:-1][:2]
    assert [*build_step(model, TWO).mesh.devices.flat] == first
    assert {*build_step(model, TWO, devices=other).mesh.devices.flat} == {*other}
    mesh = Mesh(np.array(other), ("any",))
    step = build_step(model, TWO, devices=mesh)
    assert [*step.mesh.devices.flat] == other
    assert step.mesh.axis_names == tuple(name for name, _ in step.program.grid.axes)


def test_only_pipelines_have_a_plan_to_change(model: ModelConfig) -> None:
    with pytest.raises(TypeError, match="PlainProgram has no PipelinePlan"):
        with_pipeline_plan(build_step(model, TWO), co_issue=False)


def test_the_builder_takes_what_the_configuration_says(small_config: Any) -> None:
    config = small_config(train__freeze=["vision"], train__guard__skip=2)
    trains, alone = build_train_step(config), build_gradient_step(config)
    assert trains.program.frozen == alone.program.frozen == FrozenParameters(("vision",))
    assert trains.skips
    assert not alone.skips
    assert not jax.tree.leaves(alone.abstract_state["optimizer"])
    assert jax.tree.leaves(trains.abstract_state["optimizer"])

"""Held-out samples have the losses and answers under groups that they have without."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

from mllm_jax.config.load import ExperimentConfig
from mllm_jax.models.module import init_parameters
from mllm_jax.train.components.evaluator import LossEvaluator
from mllm_jax.train.experiment import Experiment
from sharding.plan import ParallelPlan
from tests.configs import ENCODERS_HALVED, MEDIA_APART, STAGES_APART, VISION_APART


@pytest.fixture(scope="module")
def params(experiment: Experiment, fresh_state: Callable[[], Any]) -> Any:
    """Parameters on the host, larger than at the start, so that answers depend on their prompts."""
    state, _ = fresh_state()
    canonical = experiment.step.form.to_canonical(state["params"])
    return jax.tree.map(lambda x: np.asarray(x) * 2, canonical)


def placed(experiment: Experiment, params: Any) -> Any:
    """These parameters on the devices of an experiment."""
    layout = jax.tree.map(lambda leaf: leaf.sharding, experiment.step.abstract_state["params"])
    return jax.device_put(experiment.step.form.to_stored(params), layout)


def measured(experiment: Experiment, params: Any) -> tuple[dict[str, Any], list[list[int]]]:
    """The measurements, and the answers of all samples."""
    evaluator, here = LossEvaluator(experiment), placed(experiment, params)
    prepared = evaluator.prepare_params(evaluator.convert_params(here))
    answers = [evaluator.decode_answers(prepared, batch) for batch in evaluator.read_prompts()]
    return evaluator(here), [ids for batch in answers for ids in batch]


@pytest.fixture(scope="module")
def expected(experiment: Experiment, params: Any) -> tuple[dict[str, Any], list[list[int]]]:
    return measured(experiment, params)


@pytest.mark.parametrize(
    "parallel",
    [
        MEDIA_APART,
        pytest.param(VISION_APART, marks=pytest.mark.slow),
        pytest.param(ENCODERS_HALVED, marks=pytest.mark.slow),
    ],
)
def test_held_out_samples_have_the_same_losses_and_answers(
    small_config: Callable[..., ExperimentConfig],
    params: Any,
    expected: tuple[dict[str, Any], list[list[int]]],
    parallel: dict[str, Any],
) -> None:
    result, answers = measured(Experiment.build(small_config(parallel=parallel)), params)
    losses = result.pop("heldout_loss"), expected[0]["heldout_loss"]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert result == {name: x for name, x in expected[0].items() if name != "heldout_loss"}
    assert answers == expected[1]
    assert len({*map(tuple, answers)}) > 1, "all answers are equal, whatever the prompts are"


@pytest.fixture(scope="module")
def staged(small_config: Callable[..., ExperimentConfig]) -> Experiment:
    return Experiment.build(small_config(parallel=STAGES_APART, model__decoder__layers=2))


@pytest.fixture(scope="module")
def staged_params(staged: Experiment) -> Any:
    """Initial parameters on the host, as the model makes them."""
    model = staged.config.model
    return jax.tree.map(np.asarray, init_parameters(model, jax.random.key(0)))


def test_stages_are_shards_of_held_out_samples(staged: Experiment, staged_params: Any) -> None:
    """A forward pass has no stages: their devices share the rows and the parameters."""
    evaluator = LossEvaluator(staged)
    converted = evaluator.convert_params(placed(staged, staged_params))
    step = staged.forward_step
    expected = step.form.to_stored(staged_params)
    target = step.abstract_state["params"]
    for leaf, same, like in zip(*map(jax.tree.leaves, (converted, expected, target)), strict=True):
        np.testing.assert_array_equal(np.asarray(leaf), np.asarray(same))
        assert leaf.sharding.is_equivalent_to(like.sharding, leaf.ndim)
    assert step.program.grid.plans["decoder"] == ParallelPlan(fsdp=2)


@pytest.mark.slow
def test_held_out_samples_are_measured_beside_stages(
    small_config: Callable[..., ExperimentConfig], staged: Experiment, staged_params: Any
) -> None:
    one = {"devices": 1, "decoder": {}, "encoders": {"vision": {}, "audio": {}}}
    alone = Experiment.build(small_config(parallel=one, model__decoder__layers=2))
    (got, answers), (expected, same) = (measured(each, staged_params) for each in (staged, alone))
    assert got.pop("heldout_loss") == pytest.approx(expected.pop("heldout_loss"), rel=1e-5)
    assert got == expected
    assert answers == same

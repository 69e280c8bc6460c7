"""Experts that ranks share: updated by Muon as on one device, and saved for any other plan."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from data.planning.stream import LoaderState
from mllm_jax.config.load import CheckpointConfig, TrainConfig
from mllm_jax.config.pipeline_plan import PipelinePlan
from mllm_jax.train.state.checkpoint import CheckpointManager
from mllm_jax.train.state.progress import Progress
from mllm_jax.train.step.build import build_step
from mllm_jax.train.step.step import State, TrainStep
from scheduling.schedules.backbone_schedules import interleaved_schedule
from sharding.plan import ParallelPlan
from tests.configs import config
from tests.train.step.test_experts import model, parameters

#: No decay and no warm-up: a step moves a matrix by the learning rate times a semi-orthogonal one.
MUON = TrainConfig.model_validate(
    {"steps": 9, "learning_rate": 0.1, "optimizer": {"kind": "muon"}}
    | {"weight_decay": 0.0, "warmup_steps": 0}
)
ONE = ParallelPlan()
SHARED = ParallelPlan(fsdp=2, expert=2)
STAGED = ParallelPlan(stage=2, expert=2)
SPLIT = ParallelPlan(fsdp=2, tensor=2)


@cache
def step(plan: ParallelPlan) -> TrainStep:
    """Three periods of an MLP and of experts; stages have two chunks, of which one is padding."""
    pipeline = PipelinePlan(interleaved_schedule(2, 2, 4)) if plan.stage > 1 else None
    own, devices = model("unlike"), jax.devices()[: plan.devices]
    return build_step(own, {"decoder": plan}, pipeline, train=MUON, devices=devices)


@cache
def gradients() -> Any:
    rng = np.random.default_rng(2)
    return jax.tree.map(lambda x: rng.normal(size=x.shape).astype(np.float32), parameters("unlike"))


@cache
def updated(plan: ParallelPlan) -> State:
    """The state after one update with these gradients."""
    own = step(plan)
    specs = own.state_specs["params"], own.state_specs["optimizer"]

    def update(params: Any, optimizer: Any, grads: Any) -> tuple[Any, Any]:
        updates, optimizer = own.optimizer.update(grads, optimizer, params)
        return jax.tree.map(jnp.add, params, updates), optimizer

    run = jax.shard_map(update, mesh=own.mesh, in_specs=(*specs, specs[0]), out_specs=specs)
    params, grads = (
        own.form.to_stored(jax.tree.map(jnp.array, tree))
        for tree in (parameters("unlike"), gradients())
    )
    params, optimizer = jax.jit(run)(params, own.optimizer.init(params), grads)
    return {"step": jnp.int32(1), "params": params, "optimizer": optimizer}


def canonical(plan: ParallelPlan, state: State) -> Any:
    return jax.tree.map(np.asarray, step(plan).form.to_canonical(state["params"]))


@pytest.mark.parametrize("plan", [SHARED, STAGED], ids=["ranks", "stages"])
def test_muon_moves_every_expert_as_on_one_device(plan: ParallelPlan) -> None:
    got, expected = canonical(plan, updated(plan)), canonical(ONE, updated(ONE))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-6), got, expected)
    before = parameters("unlike")["decoder"]["layers"]["experts"]["up_proj"]["kernel"]
    moved = got["decoder"]["layers"]["experts"]["up_proj"]["kernel"] - before
    assert moved.shape == (3, 4, 16, 16)
    values = np.linalg.svd(moved / (0.1 * 0.2 * 16**0.5), compute_uv=False)
    # The smallest values of a random square matrix need more iterations than others.
    assert np.median(values) > 0.7
    assert values.max() < 1.3


def through(folder: Path, plan: ParallelPlan, state: State, target: ParallelPlan) -> State:
    """The state of one plan, saved, as another plan restores it."""
    saving, restoring = (step(own).form.regrouping for own in (plan, target))
    checkpoints = CheckpointManager(folder, CheckpointConfig(), saving)
    progress, told = Progress(1, LoaderState(0)), config().model_dump(mode="json")
    told["model"]["decoder"] = model("unlike").decoder.model_dump(mode="json")
    checkpoints.save_state(1, state, progress.to_json(), told)
    checkpoints.close()
    checkpoints = CheckpointManager(folder, CheckpointConfig(), restoring)
    found = checkpoints.restore_state(step(target).abstract_state)
    checkpoints.close()
    assert found is not None
    return found.state


@pytest.mark.parametrize(
    ("source", "target"),
    [
        pytest.param(SHARED, SPLIT, id="ranks to shards"),
        pytest.param(SHARED, STAGED, id="ranks to stages"),
        pytest.param(STAGED, ONE, id="stages to one"),
        pytest.param(SHARED, ONE, id="ranks to one", marks=pytest.mark.slow),
        pytest.param(STAGED, SPLIT, id="stages to shards", marks=pytest.mark.slow),
        pytest.param(STAGED, STAGED, id="stages to stages", marks=pytest.mark.slow),
    ],
)
def test_checkpoints_of_shared_experts_become_those_of_other_plans_and_back(
    source: ParallelPlan, target: ParallelPlan, tmp_path: Path
) -> None:
    state = updated(source)
    other = through(tmp_path / "there", source, state, target)
    wanted, given = canonical(target, other), canonical(source, state)
    jax.tree.map(np.testing.assert_array_equal, wanted, given)
    back = through(tmp_path / "back", target, other, source)
    jax.tree.map(np.testing.assert_array_equal, back, state)
    moments = [leaf for leaf in jax.tree.leaves(back["optimizer"]) if leaf.ndim > 3]
    assert all(leaf.any() for leaf in moments)
    assert moments

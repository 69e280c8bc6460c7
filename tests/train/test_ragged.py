"""Train steps whose encoder outputs move by ragged all-to-alls, which CPUs lack."""

from __future__ import annotations

import os
import re
from typing import Any

import jax
import optax
import pytest
from jax.experimental import topologies

from mllm_jax.bench_overlap import TARGETS, Target
from mllm_jax.config import ExperimentConfig
from mllm_jax.train import batch as batches
from mllm_jax.train.schedule import pipeline_plan
from mllm_jax.train.step import TrainStep
from mllm_jax.train.synthetic import scattered, synthetic_batch
from mllm_jax.train.verify import verify
from sharding.grid import JointGrid, shardings
from tests.emulation import ragged_on_cpus
from tests.train.test_pipeline_run import MODEL, PIPELINED, Make

#: Four devices in a line, as some topologies have them.
PLANS: dict[str, Any] = {
    "parallel__decoder": {"data": 4},
    "parallel__encoders": {"vision": {"data": 4}, "audio": {"fsdp": 4}},
}


@pytest.fixture
def ragged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Routes of several devices are ragged, on CPUs too."""
    monkeypatch.setattr(batches, "is_ragged", lambda mesh, axes: mesh.size > 1 and bool(axes))


@pytest.mark.usefixtures("ragged")
@pytest.mark.parametrize(
    "changes",
    [{}, pytest.param(MODEL | PIPELINED, marks=pytest.mark.slow)],
    ids=["plain", "pipelined"],
)
def test_a_ragged_step_equals_one_device(small_config: Make, changes: dict[str, Any]) -> None:
    with ragged_on_cpus() as traced:
        result = verify(small_config(**changes, data__balance="per_phase"))
    assert result.ok, result
    assert traced


@pytest.mark.slow
@pytest.mark.usefixtures("ragged")
@pytest.mark.parametrize(
    "target",
    [
        pytest.param(TARGETS[0], marks=pytest.mark.tpu_compile),
        pytest.param(TARGETS[1], marks=pytest.mark.gpu_compile),
    ],
    ids=lambda target: target.name,
)
@pytest.mark.parametrize("changes", [PLANS, MODEL | PIPELINED], ids=["plain", "pipelined"])
def test_accelerators_take_ragged_steps(
    small_config: Make, target: Target, changes: dict[str, Any]
) -> None:
    pytest.importorskip(target.compiler)
    os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
    config = small_config(**changes)
    devices = topologies.get_topology_desc(**target.topology).devices[:4]
    shapes = abstract_batch(config)
    step = step_on(config, devices)
    layout = shardings(step.mesh, step.batch_specs(shapes))
    batch = jax.tree.map(
        lambda x, sharding: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding),
        shapes,
        layout,
    )
    text = step.step.lower(step.abstract, batch).compile().as_text() or ""
    found = re.findall(r"ragged-all-to-all(?:-start)?\(", text)
    assert len(found) >= 2 * len(config.model.encoders)


def step_on(config: ExperimentConfig, devices: Any) -> TrainStep:
    grid = JointGrid.build(config.parallel.plans)
    mesh = grid.mesh(devices)
    return TrainStep(config.model, grid, mesh, optax.sgd(0.1), pipeline_plan(config))


def abstract_batch(config: ExperimentConfig) -> Any:
    """Shapes of a batch whose encoder rows are dealt by themselves."""
    model, data = config.model, config.data
    budgets = {name: data.budgets[name] for name in model.encoders}
    whole = synthetic_batch(model, data.rows, data.budgets["tokens"], budgets, 0)
    step = step_on(config, jax.devices()[:4])
    placed = batches.place([scattered(whole, model, 0)] * config.train.accumulate, step)
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), placed)

"""Train steps whose encoder outputs move by ragged all-to-alls, which CPUs lack."""

from __future__ import annotations

import re
from typing import Any

import jax
import pytest

from benchmarks.overlap import TARGETS
from mllm_jax.check.verify import verify_plans
from mllm_jax.compile.target import CompileTarget, training_batch
from mllm_jax.train.step import batch_placement as batches
from mllm_jax.train.step.build import build_train_step
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


ROUTED: dict[str, Any] = {"data__balance": "per_phase", "parallel__exchange": "all_to_all"}


@pytest.mark.usefixtures("ragged")
def test_outputs_of_every_encoder_move_by_ragged_exchanges(
    small_config: Make,
) -> None:
    """No step is compiled; `tests/sharding/test_routes.py` compares a ragged exchange's values."""
    config = small_config(**ROUTED)
    step = build_train_step(config, jax.devices()[:4])
    with ragged_on_cpus() as traced:
        jax.eval_shape(step.gradients, step.abstract_state["params"], training_batch(config, step))
    assert len(traced) >= len(config.model.encoders)


@pytest.mark.slow
@pytest.mark.usefixtures("ragged")
@pytest.mark.parametrize("changes", [{}, MODEL | PIPELINED], ids=["plain", "pipelined"])
def test_a_ragged_step_equals_one_device(small_config: Make, changes: dict[str, Any]) -> None:
    with ragged_on_cpus() as traced:
        result = verify_plans(small_config(**changes, **ROUTED))
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
    ids=str,
)
@pytest.mark.parametrize("changes", [PLANS, MODEL | PIPELINED], ids=["plain", "pipelined"])
def test_accelerators_take_ragged_steps(
    small_config: Make, target: CompileTarget, changes: dict[str, Any]
) -> None:
    pytest.importorskip(target.compiler.module)
    config = small_config(**changes, parallel__exchange="all_to_all")
    step = build_train_step(config, target.devices()[:4])
    batch = training_batch(config, step)
    text = step.update.lower(step.abstract_state, batch).compile().as_text() or ""
    found = re.findall(r"ragged-all-to-all(?:-start)?\(", text)
    assert len(found) >= 2 * len(config.model.encoders)

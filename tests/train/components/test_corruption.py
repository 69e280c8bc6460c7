"""Training looks for silent corruption at its steps, and ends where replicas differ."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import jax.numpy as jnp
import pytest

from mllm_jax.train import trainer as loop
from mllm_jax.train.components.replica_check import CorruptionError, ReplicaDifference
from mllm_jax.train.events import Phase
from mllm_jax.train.step.gradient_program import Batch
from tests.configs import config
from tests.train.runs import take_steps


def test_steps_are_looked_at_before_they_are_taken(experiment, fresh_state, monkeypatch):
    looked: list[int] = []
    state, progress = fresh_state()

    class Compare:
        def __init__(self, step: Any) -> None:
            assert step is experiment.step

        def __call__(self, params: Any, batch: Batch) -> ReplicaDifference | None:
            looked.append(progress.step + 1)
            device: Any = SimpleNamespace(id=3, process_index=0)
            return ReplicaDifference((0,), (device,)) if len(looked) == 2 else None

    monkeypatch.setattr(loop, "ReplicaCheck", Compare)
    changed = experiment.config.train.model_copy(update={"check_every": 2})
    whole = experiment.config.model_copy(update={"train": changed})
    checking = replace(experiment, config=whole)
    told: list[int] = []

    def tell(event: Any) -> None:
        match event:
            case Phase("check", step) if event.is_over:
                told.append(step)

    runner = loop.StepRunner(checking, state, progress, tell)
    results = {"loss": jnp.float32(1.0), "learning_rate": 0.1, "carried": {}}
    runner.step = lambda state, batch: (state, results)
    with pytest.raises(CorruptionError, match="step 4: device 3 of process 0 computes wrongly"):
        list(take_steps(runner))
    assert looked == [2, 4]
    assert told == [2]


def test_a_decoder_with_one_replica_has_nothing_to_compare() -> None:
    with pytest.raises(ValueError, match=r"train\.check_every.* one replica") as refused:
        config(
            parallel__decoder={"tensor": 4},
            parallel__encoders={"vision": {"tensor": 4}, "audio": {"tensor": 4}},
            model__decoder__heads=4,
            model__encoders__vision__heads=4,
            model__encoders__audio__heads=4,
            train__check_every=10,
        )
    assert "valid: null, or parallel.decoder with data" in str(refused.value)

"""Modules without quotas are functions of one program that are marked for streams."""

from __future__ import annotations

import re
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from mllm_jax.check.verify import verify_plans
from mllm_jax.compile.target import training_batch
from mllm_jax.config.sections import ExperimentConfig
from mllm_jax.models.streams import run_on_stream
from mllm_jax.train.step.build import build_train_step
from tests.configs import config

MARK = re.compile(r'_xla_stream_annotation\s*=\s*"(\d+)"')
GROUPS = {
    "text": {"modules": ["decoder"], "quota": "none"},
    "images": {"modules": ["vision"], "quota": "none"},
    "sounds": {"modules": ["audio"], "quota": "none"},
}


def streamed(groups: dict[str, Any] = GROUPS, devices: int = 1) -> ExperimentConfig:
    plan = {"data": devices}
    parallel = {"devices": devices, "decoder": plan, "encoders": {"vision": plan, "audio": plan}}
    return config(parallel=parallel | {"groups": groups})


def lowered_text(settings: ExperimentConfig) -> str:
    step = build_train_step(settings)
    return step.update.lower(step.abstract_state, training_batch(settings, step)).as_text()


def test_the_compiled_step_has_marked_calls_of_encoders_forward_and_backward() -> None:
    settings = streamed()
    step = build_train_step(settings)
    lowered = step.update.lower(step.abstract_state, training_batch(settings, step))
    marks = MARK.findall(lowered.compile().as_text() or "")
    assert {*marks} == {"1", "2"}
    assert all(marks.count(stream) >= 2 for stream in "12")


def test_modules_of_a_group_share_a_stream() -> None:
    media = {"modules": ["vision", "audio"], "quota": "none"}
    text = lowered_text(streamed({"text": GROUPS["text"], "media": media}))
    assert {*MARK.findall(text)} == {"1"}


def test_without_groups_nothing_is_marked() -> None:
    assert not MARK.findall(lowered_text(streamed({})))


@pytest.mark.parametrize("devices", [1, 2])
def test_gradients_equal_one_device(devices: int) -> None:
    result = verify_plans(streamed(devices=devices))
    assert result.ok, result.rows


def test_the_program_for_gpus_is_marked() -> None:
    function = jax.grad(lambda x: jnp.sum(run_on_stream(jnp.sin, 3)(x)))
    lowered = jax.jit(function).trace(jnp.ones(4)).lower(lowering_platforms=("cuda",))
    assert {*MARK.findall(lowered.as_text())} == {"3"}

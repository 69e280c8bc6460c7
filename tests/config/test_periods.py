"""Periods of a run meet as asked, or are refused; what a run is too short for is told."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mllm_jax.config.checks.period_checks import PERIODS, short_run_notes
from mllm_jax.config.keys import iterate_keys
from mllm_jax.config.load import ConfigError, ExperimentConfig
from tests.config.test_load import holds_all, refused
from tests.configs import config


def test_every_period_has_a_rule() -> None:
    """A key whose description counts the steps between two things, or that is called `every`."""
    found = {
        key.name
        for key in iterate_keys(ExperimentConfig)
        if "int" in key.type
        and (key.description.startswith("steps between") or key.path[-1].endswith("every"))
        and "<name>" not in key.path
        and key.path[0] != "model"
    }
    assert found == {period.key for period in PERIODS}


def test_a_checkpoint_that_is_never_saved_cannot_be_kept_for_ever() -> None:
    own = {"every": 2, "keep_every": 3}
    said = (
        "checkpoint.keep_every: 3 is no multiple of checkpoint.every 2, so that only every 6 steps"
    )
    assert holds_all(refused(checkpoint=own), [said, "valid: 2, 4, checkpoint.every 1"])
    assert holds_all(refused(checkpoint={"keep_every": 50}), ["valid: 100, checkpoint.every 50"])
    assert config(checkpoint=own | {"enabled": False}).checkpoint.keep_every == 3


@given(st.integers(1, 40), st.integers(1, 40))
def test_checkpoints_that_are_kept_for_ever_have_the_gap_that_was_asked_for(
    every: int, kept: int
) -> None:
    try:
        config(checkpoint={"every": every, "keep_every": kept}, train__steps=200)
    except ConfigError:
        assert kept % every
    else:
        assert [n for n in range(1, 201) if n % every == n % kept == 0] == [*range(kept, 201, kept)]


STEPS = {"train__steps": 4}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, []),
        ({"run__log_every": 4, "checkpoint": {"every": 4, "keep_every": 4}}, []),
        ({"run__log_every": 5}, ["run.log_every 5 is not reached in train.steps 4: the last step"]),
        ({"run__gc_every": 5}, ["run.gc_every 5 is not"]),
        ({"run__gc_every": None}, []),
        ({"checkpoint": {"every": 5}}, ["checkpoint.every 5 is not"]),
        ({"checkpoint": {"keep_every": 200}}, ["keep_every 200 is not reached.*no checkpoint is"]),
        ({"checkpoint": {"every": 5, "enabled": False}}, []),
        (
            {"checkpoint": {"local_every": 4}},
            ["local_every 4 is not reached before the last of train.*no snapshot"],
        ),
        ({"checkpoint": {"local_every": 3}}, []),
        (
            {"evaluate": {"every": 4}},
            ["evaluate.every 4 is not reached before the last of train.steps 4.*end alone"],
        ),
        ({"evaluate": {"every": 3}}, []),
        ({"train__check_every": 5}, ["train.check_every 5 is not reached.*replicas are not"]),
        ({"train__check_every": 4}, []),
        ({"train__warmup_steps": 2}, []),
        (
            {"train__warmup_steps": 3},
            ["warmup_steps 3 leaves no step of train.steps 4.*reaches 0.78 .*; valid: at most 2"],
        ),
        (
            {"train__warmup_steps": 8},
            ["reaches 0.45 of train.learning_rate, and train.final_learning_rate_ratio has no eff"],
        ),
        ({"train__warmup_steps": 2, "train__steps": 2}, ["; valid: 0$"]),
        ({"train__warmup_steps": 1, "train__steps": 2}, []),
        ({"train__warmup_steps": 1, "train__steps": 1}, []),
    ],
)
def test_what_a_run_is_too_short_for_is_told(changes: dict[str, Any], told: list[str]) -> None:
    found = short_run_notes(config(**STEPS | changes))
    assert len(found) == len(told)
    for text, pattern in zip(found, told, strict=True):
        assert re.search(pattern, text), text


def test_a_step_that_is_measured_is_in_the_run() -> None:
    piped = {"parallel__decoder": {"stage": 2, "tensor": 2}, "model__decoder__layers": 2}
    said = ["run.trace_step: step 5 is after train.steps 4; valid: 4, null"]
    assert holds_all(refused(run__trace_step=5, **piped), said)

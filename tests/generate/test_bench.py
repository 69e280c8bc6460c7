"""The comparison of answers with transformers compares the same work, and its rates are right."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks import generate, peers
from mllm_jax.config.load import ConfigError, ExperimentConfig, load_config
from tests.configs import ROOT


def config(*overrides: str) -> ExperimentConfig:
    return load_config(ROOT / "configs" / "bench" / "generate.yaml", overrides)


def test_what_cannot_be_compared_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "find_spec", lambda name: None if name == "torch" else name)
    with pytest.raises(ConfigError, match="bench generate") as raised:
        generate.check_setup(config("model.dtype=bfloat16"))
    assert "torch not installed" in raised.value.problems[0]
    assert raised.value.problems[1:] == ("model.dtype: bfloat16; valid: float32",)


def test_rates_are_those_of_the_medians(monkeypatch: pytest.MonkeyPatch) -> None:
    turn: dict[str, Any] = {
        "ours": 2.0,
        "ours_prefill": 0.4,
        "ours_decode": 1.5,
        "transformers": 4.0,
        "transformers_prefill": 1.0,
    }
    slow = {name: 9 * seconds for name, seconds in turn.items()}
    found = generate.make_report(8, [turn, slow, turn])
    assert found["tokens_per_second"] == 8 * generate.ANSWER / 2
    assert found["speedup"] == 2
    assert found["decode_tokens_per_second"] == 8 * (generate.ANSWER - 1) / 1.5
    assert found["decode_speedup"] == 2

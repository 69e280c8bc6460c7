"""`bench cost` on a decoder with experts: its plans, and rows of exchanges beside steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks import cost, tokens
from benchmarks.cost import bench_cost, list_variants
from mllm_jax.config.hardware import load_hardware
from mllm_jax.config.load import ExperimentConfig, load_config
from mllm_jax.plan.memory import predict_memory
from mllm_jax.plan.simulate import simulate_step
from tests.configs import ROOT

FILE = ROOT / "configs" / "bench" / "cost_experts.yaml"
EXCHANGES = [f"exchange of tokens over expert 2, forward{also}" for also in ("", " and backward")]


def silent(line: str) -> None:
    """Progress that nobody reads."""


@pytest.fixture(scope="module")
def config() -> ExperimentConfig:
    return load_config(FILE)


def test_all_devices_share_the_experts_in_one_of_the_plans(config: ExperimentConfig) -> None:
    plans = {name: own.parallel.decoder for name, own in list_variants(config, silent).items()}
    assert plans["expert 2"].expert == plans["expert 2"].devices == 2
    assert "expert 2" not in list_variants(
        load_config(ROOT / "configs" / "bench" / "cost.yaml"), silent
    )
    told: list[str] = []
    fitting = list_variants(load_config(FILE, ["model.decoder.experts.count=5"]), told.append)
    assert "expert 2" not in fitting
    assert any(line.startswith("expert 2: left out: ") for line in told)


@pytest.mark.parametrize("changes", ["model.decoder.experts.count=5", "parallel.devices=1"])
def test_no_exchange_is_measured_where_there_is_none(changes: str) -> None:
    one = ["parallel.decoder={data: 1}"] if changes == "parallel.devices=1" else []
    assert cost._list_exchanges(load_config(FILE, [changes, *one])) == []


def test_exchanges_and_steps_stand_beside_their_predictions(
    config: ExperimentConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs are not compiled here, and every one takes two seconds and a gigabyte."""
    timed: list[list[str]] = []

    def seconds(programs: Mapping[str, Callable[[], Any]], _: int) -> dict[str, float]:
        timed.append(list(programs))
        return dict.fromkeys(programs, 2.0)

    def step(own: ExperimentConfig, devices: Sequence[Any]) -> list[Any]:
        return [SimpleNamespace(run=None, bytes=10**9)]

    monkeypatch.setattr(cost, "lower_quartiles", seconds)
    monkeypatch.setattr(cost, "compiled_steps", step)
    monkeypatch.setattr(tokens, "_compile_exchange", lambda *_: None)
    rows = bench_cost(config, silent, "h100")
    # After a step the first short program would take several times as long.
    assert timed == [list(list_variants(config, silent)), EXCHANGES]
    names = [row["what"].rpartition(":")[0] for row in rows]
    assert names == EXCHANGES + [name for name in timed[0] for _ in ("seconds", "bytes")]
    assert all(set(row) == {"what", "devices", "predicted", "measured", "error"} for row in rows)
    by_name = {row["what"]: row for row in rows}
    own = list_variants(config, silent)["expert 2"]
    hardware = load_hardware("h100")
    expected = {
        "expert 2: seconds": (simulate_step(own, hardware).makespan, 2.0),
        "expert 2: bytes": (predict_memory(own, hardware).total, 1e9),
    }
    for name, (predicted, measured) in expected.items():
        row = by_name[name]
        assert (row["predicted"], row["measured"]) == (pytest.approx(predicted), measured)
        assert row["error"] == pytest.approx(predicted / measured - 1)
    forward, both = (by_name[f"{name}: seconds"]["predicted"] for name in EXCHANGES)
    assert 0 < 2 * forward < both  # a backward moves gradients and tokens

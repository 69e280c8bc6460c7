"""`bench experts`: which models are compared, and the table of their times."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from benchmarks import experts
from benchmarks.experts import LIMIT, TURNS, bench_experts
from mllm_jax.config.load import ConfigError, ExperimentConfig, load_config
from mllm_jax.models.module import model_flops
from mllm_jax.models.work.profile import module_parameters
from tests.configs import ROOT

#: Seconds of the turns of each model, by its experts.
SECONDS = {0: [2.0, 1.0], 4: [1.5, 1.2], 16: [1.3, 9.0], 64: [1.8, 1.6]}


class Fake:
    """The gradients of a model that take known times."""

    turns: ClassVar[list[int]] = []

    def __init__(self, config: ExperimentConfig) -> None:
        own = config.model.decoder.experts
        self.count, self.taken = own.count if own else 0, 0
        self.seconds = float("inf")

    def measure_once(self) -> None:
        self.turns.append(self.count)
        times = SECONDS[self.count]
        self.seconds = min(self.seconds, times[self.taken % len(times)])
        self.taken += 1

    @property
    def columns(self) -> dict[str, Any]:
        return {"parameters": 1, "flops": 2.0, "seconds": self.seconds}


@pytest.fixture
def config() -> ExperimentConfig:
    return load_config(ROOT / "configs" / "bench" / "experts.yaml")


def test_times_stand_over_that_of_the_dense_model(
    config: ExperimentConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(experts, "_Run", Fake)
    monkeypatch.setattr(Fake, "turns", [])
    told: list[str] = []
    rows = bench_experts(config, told.append)
    assert [(row["experts"], row["seconds"]) for row in rows] == [
        (0, 1.0),
        (4, 1.2),
        (16, 1.3),
        (64, 1.6),
    ]
    assert [row["over_dense"] for row in rows] == [1.0, 1.2, 1.3, 1.6]
    keys = {"experts", "parameters", "flops", "seconds", "over_dense", "limit"}
    assert all(set(row) == keys and row["limit"] == LIMIT for row in rows)
    # In turns, so that a slow moment of the machine is in one turn of each.
    assert Fake.turns == TURNS * [0, 4, 16, 64]
    assert told[:2] == ["compiling the dense model", "compiling 4 experts"]


def test_fewer_experts_have_no_counts_between(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experts, "_Run", Fake)
    config = load_config(
        ROOT / "configs" / "bench" / "experts.yaml", ["model.decoder.experts.count=4"]
    )
    assert [row["experts"] for row in bench_experts(config, lambda line: None)] == [0, 4]


def test_the_dense_model_is_as_active(config: ExperimentConfig) -> None:
    """Its FLOPs are those of the others but for their router, and its parameters are fewer."""
    models = {count: experts._with_experts(config, count).model for count in SECONDS}
    flops = {n: model_flops(own, {"decoder": [512]}, targets=512) for n, own in models.items()}
    for count in (4, 16, 64):
        router = 6 * 512 * 256 * count * 2
        assert flops[count] == pytest.approx(flops[0] + router)
    sizes = [module_parameters(own)["decoder"] for own in models.values()]
    assert sizes == sorted(set(sizes))


def test_the_shortest_time_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    run = object.__new__(experts._Run)
    run.seconds = float("inf")
    monkeypatch.setattr(run, "_compute_gradients", lambda: None)
    clock = iter([0.0, 3.0, 10.0, 12.0, 20.0, 25.0])
    monkeypatch.setattr("time.perf_counter", lambda: next(clock))
    for _ in range(3):
        run.measure_once()
    assert run.seconds == 2


def test_a_decoder_without_experts_is_refused(small_config: Any) -> None:
    with pytest.raises(ConfigError, match=r"model\.decoder\.experts: the decoder has none"):
        bench_experts(small_config(), lambda line: None)


@pytest.mark.parametrize(("key", "value", "valid"), [("every", 2, 1), ("first_dense", 1, 0)])
def test_layers_without_experts_are_refused(
    key: str, value: int, valid: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their MLP is not as wide as that of the dense model."""
    monkeypatch.setattr(experts, "_Run", Fake)
    name = f"model.decoder.experts.{key}"
    changes = [f"{name}={value}", "model.decoder.d_ff=64"]
    config = load_config(ROOT / "configs" / "bench" / "experts.yaml", changes)
    with pytest.raises(ConfigError, match=rf"{name}: {value} leaves .*; valid: {valid}"):
        bench_experts(config, lambda line: None)

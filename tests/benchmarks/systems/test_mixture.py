"""Mixtures of media and text: what they are, and one program beside held plans."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import launch
from benchmarks.systems.mixture.compare import OURS, SystemComparison, compare_systems
from benchmarks.systems.mixture.draws import SampleDraw
from benchmarks.systems.mixture.files import FILES, write_files
from mllm_jax.config.configured_step import configure_step
from mllm_jax.config.hardware import load_hardware
from mllm_jax.config.load import ConfigError, ExperimentConfig, load_config
from mllm_jax.plan.memory import predict_memory
from mllm_jax.plan.mixtures import parse_mixtures
from mllm_jax.plan.prediction import describe_strategy
from mllm_jax.runtime.exits import ExitCode
from tests.configs import ROOT

#: A small model on two devices, for which little is searched; media may fill all of a row.
SMALL = (
    *("parallel.devices=2", "parallel.decoder={stage: 2}", "data.rows=2"),
    *("parallel.encoders={vision: {data: 2}}", "model.decoder.layers=4", "train.accumulate=2"),
    *("data.budgets={tokens: 512, segments: 128, vision: 8192}", "model.dtype=bfloat16"),
)


@cache
def config(*more: str) -> ExperimentConfig:
    return load_config(ROOT / "configs" / "bench" / "mixture.yaml", [*SMALL, *more], planned=False)


@cache
def compared() -> SystemComparison:
    own = parse_mixtures("1:9,1:1,1:3")
    return compare_systems(config(), load_hardware("h100"), "h100", own, None, lambda line: None)


@cache
def uneven() -> SystemComparison:
    """Under the first mixture alone, with samples of uneven lengths."""
    own = parse_mixtures("1:9")
    return compare_systems(
        config(), load_hardware("h100"), "h100", own, SampleDraw(), lambda line: None
    )


@pytest.mark.parametrize("text", ["", "1", "1:", "0:1", "1:-1", "1:9,", "a:b", "1:2:3", "1.5:2"])
def test_what_is_no_mixture_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not I:T, .*; valid: two whole numbers above 0"):
        parse_mixtures(text)


def test_mixtures_are_shares_of_tokens() -> None:
    assert [own.share for own in parse_mixtures("1:9,1:1")] == [0.1, 0.5]


def test_every_system_is_predicted_under_every_mixture_in_order() -> None:
    result = compared()
    assert [str(own) for own in result.mixtures] == ["1:9", "1:3", "1:1"]
    assert [*result.plans] == [OURS, "megatron", "apart", "balanced", "optimus"]
    for cells in result.cells:
        assert set(cells) == set(result.plans)
        assert 0 <= (cells[OURS].collectives or 0) <= (cells[OURS].idle or 0) < 1
        assert cells[OURS].memory <= result.limit
    steps = [cells[OURS].seconds for cells in result.cells]
    assert steps == sorted(steps)
    # One program: the memory of its slots is that of every mixture.
    assert len({cells[OURS].memory for cells in result.cells}) == 1


def test_the_gain_is_over_the_fastest_other_system_that_has_room() -> None:
    result = compared()
    cells = result.cells[0]
    others = [own.seconds for name, own in cells.items() if name != OURS]
    assert result.gain_of(cells) == pytest.approx(min(others) / cells[OURS].seconds)
    # Were our devices never idle, the step would take what they compute.
    computing = cells[OURS].seconds * (1 - (cells[OURS].idle or 0))
    assert result.busy_gain(cells) == pytest.approx(min(others) / computing)
    least = min(own.memory for name, own in cells.items() if name != OURS)
    crowded = SystemComparison(**(vars(result) | {"limit": least - 1}))
    assert (crowded.gain_of(cells), crowded.busy_gain(cells), crowded.mean_busy_gain) == (None,) * 3
    assert "never idle" not in "".join(crowded.notes)
    assert "no room" in "".join(crowded.rows[0])


def test_uneven_samples_slow_down_the_systems_that_do_not_distribute_them() -> None:
    even, result = compared(), uneven()
    assert even.to_json()["draw"] is None
    assert result.to_json()["draw"] == {"sigma": 1.0, "seed": 0}
    (own,), other = result.cells, even.cells[0]
    for name in ("megatron", "balanced", "optimus"):
        assert own[name].seconds > other[name].seconds
    assert (result.gain_of(own) or 0) > (even.gain_of(other) or 0)


def test_samples_that_fill_a_row_with_media_need_the_budget() -> None:
    own = config("data.budgets={tokens: 512, segments: 128, vision: 4096}")
    with pytest.raises(ConfigError, match=r"data\.budgets\.vision: 4096 holds no row"):
        compare_systems(
            own,
            load_hardware("h100"),
            "h100",
            parse_mixtures("1:1"),
            SampleDraw(),
            lambda line: None,
        )


def test_plan_figures_and_picture_are_written(tmp_path: Path) -> None:
    plan, figures, image = write_files(compared(), tmp_path / "new")
    assert [own.name for own in (plan, figures, image)] == list(FILES)
    value: dict[str, Any] = json.loads(figures.read_text())
    assert value == compared().to_json()
    assert value["mixtures"][0]["systems"][OURS]["tokens_per_second"] > 0
    assert image.read_bytes().startswith(b"\x89PNG")


def test_the_written_plan_trains_what_was_compared(tmp_path: Path) -> None:
    """Of one row on four devices the encoder computes two, one on each rank of a stage."""
    plans = "parallel.decoder={stage: 2, tensor: 2}", "parallel.encoders={vision: {data: 4}}"
    single = config("data.rows=1", "train.accumulate=1", "parallel.devices=4", *plans)
    told = compare_systems(
        single, load_hardware("h100"), "h100", parse_mixtures("1:1"), None, lambda line: None
    )
    plan, *_ = write_files(told, tmp_path)
    own, cell = load_config(plan), told.cells[0][OURS]
    assert (
        told.plans[OURS]
        == f"{describe_strategy(configure_step(own).strategy)}, vision 2 rows for each"
    )
    assert predict_memory(own, load_hardware("h100")).total == cell.memory
    assert f"predicted\n# {cell.seconds:.4g} to {cell.seconds:.4g} s a step" in plan.read_text()


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        (
            ("data.budgets={tokens: 512, segments: 128, vision: 1024}",),
            "data.budgets.vision: 1024 holds no row of mixture 9:1, which brings 7376 positions",
        ),
        (
            ("schedule.independent_microbatches=false", "schedule.independent_budgets={}"),
            "schedule.independent_microbatches: false does not follow a mixture; valid: true",
        ),
        (
            ("schedule.kind=zero_bubble",),
            "schedule.kind: zero_bubble has no effect, as every system is searched with",
        ),
    ],
)
def test_configurations_that_follow_no_mixture_are_refused(
    more: tuple[str, ...], reason: str
) -> None:
    with pytest.raises(ConfigError, match=reason.replace(".", r"\.")):
        compare_systems(
            config(*more),
            load_hardware("h100"),
            "h100",
            parse_mixtures("9:1"),
            None,
            lambda line: None,
        )


def test_the_command_answers_in_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    given = ["simulate", "--config", "configs/bench/mixture.yaml", *SMALL, "--json", "--even"]
    more = ["--mixture", "1:1", "--hardware", "h100", "--output", str(tmp_path)]
    assert launch.main([*given, *more]) == ExitCode.OK
    value = json.loads(capsys.readouterr().out)
    assert [Path(file).name for file in value.pop("files")] == list(FILES)
    assert value == json.loads((tmp_path / "mixture.json").read_text())
    (own,) = value["mixtures"]
    assert own["mixture"] == "1:1"
    assert {OURS, "megatron", "apart", "balanced", "optimus"} == set(own["systems"])
    fitting = [
        cell["step_seconds"]
        for name, cell in own["systems"].items()
        if cell["fits"] and name != OURS
    ]
    assert own["gain"] == min(fitting) / own["systems"][OURS]["step_seconds"]


@pytest.mark.parametrize(
    "options",
    [
        ["--even"],
        ["--mixture", "1:1", "--even", "--vary", "0.5"],
        ["--mixture", "1:1", "--slow", "0=2"],
    ],
)
def test_options_that_say_nothing_together_are_refused(
    options: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    given = ["simulate", "--config", "configs/bench/mixture.yaml", *options]
    assert launch.main(given) == ExitCode.BAD_INPUT
    assert "valid: " in capsys.readouterr().err

"""Sizes of `bench slices`, the ways in which modules share two cores, and its rows."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import launch
from benchmarks import slices
from benchmarks.slice_models import (
    MODELS,
    SEQUENCES,
    WIDTHS,
    ModelSize,
    describe_groups,
    on_both_devices,
    pair_halves,
)
from benchmarks.slices import DATA_PARALLEL, SERIAL, TimedSize, add_plan, kind_of
from mllm_jax.config.load import ExperimentConfig, load_config, resolve_config
from mllm_jax.runtime.exits import ExitCode
from tests.configs import ROOT
from tests.plan.test_groups import measured

CONFIG = ROOT / "configs" / "slices" / "towers.yaml"
#: Variants without groups.
SINGLE = {SERIAL, DATA_PARALLEL}


@pytest.mark.parametrize("model", MODELS)
def test_every_graph_has_every_size(model: str) -> None:
    assert (WIDTHS, SEQUENCES) == ((64, 128, 256, 512), (64, 256))
    for width, tokens in ((WIDTHS[0], SEQUENCES[0]), (WIDTHS[-1], SEQUENCES[-1])):
        config = ModelSize(model, width, tokens).load()
        for module in config.model.modules.values():
            assert (module.layers, module.d_model, module.d_ff) == (6, width, 4 * width)
            assert module.heads * 32 == width
        positions = {name: config.data.budgets[name] for name in ("tokens", *config.model.buckets)}
        frames = {"audio": 2 * tokens} if "audio" in positions else {}
        assert positions == dict.fromkeys(positions, tokens) | frames
        assert (config.data.rows * config.train.accumulate, config.parallel.groups) == (8, {})
        assert not config.gradient_caching or not config.waits_for_step


def test_modules_have_halves_in_every_way() -> None:
    ways = [describe_groups(half) for half in pair_halves(ModelSize("bound", 64, 64).load())]
    assert ways == ["decoder | image+audio", "decoder+image | audio", "decoder+audio | image"]
    for half in pair_halves(ModelSize("mllm", 64, 64).load()):
        resolve_config(half.model_dump(mode="json"), source="half")
        assert kind_of(half) == "slices"


def test_other_ways_have_one_device_or_two() -> None:
    serial = ModelSize("heads", 64, 64).load()
    both = on_both_devices(serial)
    resolve_config(both.model_dump(mode="json"), source="both")
    assert (kind_of(serial), kind_of(both)) == ("whole", "slices")
    assert {plan.data for plan in both.parallel.plans.values()} == {2}


def test_a_row_has_minima_and_medians_and_the_fastest_halves() -> None:
    timed = TimedSize.from_size(ModelSize("bound", 64, 64))
    names = list(timed.variants)
    assert names[:2] == [SERIAL, DATA_PARALLEL]
    timed.seconds = {name: [3.0 + n, 2.0 + n, 9.0] for n, name in enumerate(names)}
    timed.seconds[names[3]] = [1.0, 8.0, 5.0]
    row = timed.row()
    assert (row["model"], row["width"], row["tokens"]) == ("bound", 64, 64)
    assert (row["serial_seconds"], row["data_parallel_seconds"]) == (2.0, 3.0)
    assert (row["halves_seconds"], row["halves_median"]) == (1.0, 5.0)
    assert row["halves"] == "decoder+image | audio"
    unplanned = ("planned_seconds", "predicted_seconds", "planned_median", "planned")
    assert all(row[key] is None for key in unplanned)


def test_slow_pairings_have_one_turn() -> None:
    timed = TimedSize.from_size(ModelSize("mllm", 64, 64))
    timed.seconds = {name: [float(n)] for n, name in enumerate(timed.variants)}
    timed.seconds["halves decoder+fine+audio | coarse"] = [0.5]
    kept = {SERIAL, DATA_PARALLEL, timed.halves()[1], "halves decoder+fine+audio | coarse"}
    assert {*timed.kept()} == kept
    (*_, slow) = timed.halves()
    assert slow in replace(timed, planned=slow).kept()


def test_pairings_that_are_predicted_to_be_slow_are_left_out() -> None:
    timed = TimedSize.from_size(ModelSize("bound", 64, 64))
    seconds = {
        f"halves {pair}": each
        for pair, each in [
            ("decoder | image+audio", 1.0),
            ("decoder+image | audio", 1.2),
            ("decoder+audio | image", 1.05),
        ]
    }
    by_groups = {describe_groups(timed.variants[name]): each for name, each in seconds.items()}
    kept = timed.without_slow(lambda config: by_groups[describe_groups(config)])
    assert [*kept.variants] == [SERIAL, DATA_PARALLEL, *(n for n in seconds if seconds[n] < 1.1)]


def test_a_plan_that_is_measured_already_is_not_measured_again() -> None:
    timed = TimedSize.from_size(ModelSize("towers", 64, 64))
    (half,) = pair_halves(timed.size.load())
    groups = {f"g{n}": group for n, group in enumerate(half.parallel.groups.values())}
    parallel = half.parallel.model_copy(update={"groups": groups})
    planned = timed.with_plan(half.model_copy(update={"parallel": parallel}), 0.5)
    assert planned.variants.keys() == timed.variants.keys()
    assert (planned.planned, planned.predicted) == ("halves decoder | image", 0.5)


@pytest.mark.parametrize("gain", [0.0, 1.0])
def test_a_size_is_planned_by_its_calibration(
    gain: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Modules that gain nothing by a second core have halves, others all cores one by one."""
    timed = TimedSize.from_size(ModelSize("towers", 64, 64))
    config = load_config(CONFIG, [f"run.directory={tmp_path / 'runs'}"])

    def calibrate(config: ExperimentConfig, output: Path, notify: Any) -> None:
        output.parent.mkdir(exist_ok=True)
        costs = measured(gain).model_dump(mode="json")
        output.write_text(json.dumps({"costs": costs}))

    monkeypatch.setattr(slices, "calibrate_slices", calibrate)
    for _ in range(2):
        planned = add_plan(timed, tmp_path / "costs", config, lambda line: None)
        assert planned.planned in ({"halves decoder | image"} if gain == 0 else SINGLE)
        assert planned.predicted is not None
        monkeypatch.delattr(slices, "calibrate_slices", raising=False)


class InstantBench:
    """Stands in for the processes: every variant takes as many seconds as its number says."""

    def __init__(self, folder: Path, print_line: Any) -> None:
        self.folder = folder

    def __enter__(self) -> InstantBench:
        return self

    def __exit__(self, *raised: object) -> None:
        pass

    def time_size(self, timed: TimedSize) -> dict[str, Any]:
        timed.seconds = {name: [1.0 + n] for n, name in enumerate(timed.variants)}
        return timed.row()


def test_a_row_a_size_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(slices, "SliceBench", InstantBench)
    monkeypatch.setattr(slices, "use_cpu_only", lambda: None)
    (tmp_path / "towers-64-64.json").write_text(
        json.dumps({"costs": measured(0.0).model_dump(mode="json")})
    )
    line = ["bench", "slices", "--models", "towers", "--widths", "64", "--sequences", "64"]
    more = ["--calibrations", str(tmp_path), "--json", f"run.directory={tmp_path / 'runs'}"]
    assert launch.main([*line, *more]) == ExitCode.OK
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["serial_seconds"], row["data_parallel_seconds"]) == (1.0, 2.0)
    assert row["planned_seconds"] == row["halves_seconds"] == 3.0
    assert row["planned"] == "decoder | image"
    assert row["predicted_seconds"] > 0


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["parallel.platform=gpu"], "parallel.platform: gpu is refused"),
        (["--widths", "64,65"], "--widths: 65 is refused; valid: 64, 128, 256, 512"),
        (["--models", "duo"], "--models: duo is refused; valid: towers, mllm, bound, heads"),
    ],
)
def test_what_cannot_be_measured_is_refused(
    words: list[str], reason: str, tmp_path: Path, capsys: Any
) -> None:
    line = ["bench", "slices", f"run.directory={tmp_path}", *words]
    assert launch.main(line) == ExitCode.BAD_INPUT
    assert reason in capsys.readouterr().err

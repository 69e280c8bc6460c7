"""`launch.py plan` on a small model: what it prints, what it writes, and what it refuses."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import replace
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import yaml

import launch
from mllm_jax.config.checks.checks import find_problems
from mllm_jax.config.configured_step import configure_step
from mllm_jax.config.hardware import load_hardware
from mllm_jax.config.load import ExperimentConfig, load_config, resolve_config
from mllm_jax.plan import report as module
from mllm_jax.plan.comparison import named_subspaces, other_systems
from mllm_jax.plan.memory import predict_memory
from mllm_jax.plan.planner import PlanSearch
from mllm_jax.plan.prediction import COLUMNS, PlanPrediction
from mllm_jax.plan.same_remat import compare_seconds
from mllm_jax.plan.simulate import simulate_step
from mllm_jax.runtime.exits import ExitCode
from scheduling.costs.strategy import Strategy
from scheduling.search.scheduler import Scheduler
from scheduling.search.space import with_stages
from sharding.plan import ParallelPlan
from tests.configs import ROOT, values

BASELINES = ["fsdp", "prologue", "megatron", "balanced", "optimus"]
KEYS = {
    *("plan", "devices", "step_seconds", "encoder_hidden", "mfu", "mfu_with_recomputation"),
    *("memory_bytes", "compute_seconds", "idle_seconds", "reason"),
}
#: Two decoder layers, so that there can be two stages, and one encoder.
SMALL: dict[str, Any] = {
    "model__decoder__layers": 2,
    "model__encoders__audio": None,
    "parallel": {
        "devices": 4,
        "decoder": {"data": 2, "stage": 2},
        "encoders": {"vision": {"data": 4}},
    },
    "schedule": {"hardware": "h100"},
    "data__budgets": {"tokens": 64, "segments": 8, "vision": 64},
    "data__rows": 2,
    "train__accumulate": 4,
}
TEXT: dict[str, Any] = {
    "model__encoders": {},
    "parallel": {"devices": 4, "decoder": {"data": 2, "stage": 2}},
    "data__budgets": {"tokens": 64, "segments": 8},
}


def small(**changes: Any) -> dict[str, Any]:
    """Values of the small configuration."""
    made = values(**(SMALL | changes))
    made["model"]["encoders"].pop("audio", None)
    return made


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file with the small configuration."""
    return written(tmp_path, small())


def written(folder: Path, given: dict[str, Any]) -> Path:
    path = folder / "small.yaml"
    path.write_text(yaml.safe_dump(given))
    return path


def planned(
    file: Path, capsys: pytest.CaptureFixture[str], *more: str, output: Path | None = None
) -> dict[str, Any]:
    """The output of `plan --json`; `output` is beside `file` unless given."""
    output = output or file.parent / "plan.yaml"
    line = ["plan", "--config", str(file), "--json", "--output", str(output)]
    assert launch.main([*line, *more]) == ExitCode.OK
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


@cache
def found(count: int = 6) -> tuple[PlanSearch, Any]:
    """The best plans of the small configuration, each with other degrees of the decoder."""
    config = resolve_config(small(), source="test")
    planner = PlanSearch(config, load_hardware("h100"), "h100")
    return planner, planner.search_plans(count).best


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The plans for the small configuration."""
    planner, _ = found()
    file = tmp_path_factory.mktemp("usual") / "plan.yaml"
    systems = other_systems()
    made = module.plan_run(planner, 3, file, time.perf_counter, systems=systems).to_json()
    copy: dict[str, Any] = json.loads(json.dumps(made))
    return copy


def test_best_and_baselines_have_the_same_keys(usual: dict[str, Any]) -> None:
    result = usual
    assert list(result["baselines"]) == BASELINES
    every = [result["best"], *result["top"], *result["baselines"].values(), result["same_remat"]]
    assert all(set(own) == KEYS for own in every)
    assert result["search_seconds"] > 0
    assert result["top"][0] == result["best"]
    assert result["hardware"] == "4 x NVIDIA H100 SXM 80 GB, 72.5 GiB each"
    seconds = [own["step_seconds"] for own in result["top"]]
    assert seconds == sorted(seconds)
    assert 1 <= len(seconds) <= 3
    for own in every:
        assert 0 < own["mfu"] <= own["mfu_with_recomputation"] < 1
        assert own["memory_bytes"] > 0
        if own["idle_seconds"]:
            whole = own["compute_seconds"] + sum(own["idle_seconds"].values())
            assert whole == pytest.approx(own["step_seconds"])
    # Parts of the space.
    for name in ("fsdp", "prologue"):
        assert result["baselines"][name]["step_seconds"] >= result["best"]["step_seconds"]
    assert all(own["reason"] for own in result["baselines"].values())


def test_what_is_written_is_as_fast_as_any_way_that_was_simulated(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A search that may end early does not lose to a part of what it searches."""
    result = planned(file, capsys, "--within", "0.5")
    ways = [result["baselines"][name]["step_seconds"] for name in ("fsdp", "prologue")]
    assert result["best"]["step_seconds"] <= min(ways)


def test_all_devices_are_used_if_that_is_asked_for(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ("parallel.devices=8", "train.accumulate=8", "--within", "0.5")
    assert planned(file, capsys, *asked)["best"]["devices"] < 8
    assert planned(file, capsys, *asked, "--all-devices")["best"]["devices"] == 8


def test_baselines_whose_plan_is_not_configured_have_plans_of_their_own(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The baselines' plans do not depend on the best plan."""
    asked = ("parallel.devices=8", "train.accumulate=8")
    results = [planned(file, capsys, *asked, *more) for more in ((), ("--within", "0.5"))]
    for name in ("megatron", "balanced", "optimus"):
        first, second = (result["baselines"][name] for result in results)
        assert "; its own plan, the fastest of " in first["plan"]
        assert first["devices"] == 8
        assert [first[key] for key in ("plan", "step_seconds")] == [
            second[key] for key in ("plan", "step_seconds")
        ]


def test_a_long_search_shows_how_far_it_is(tmp_path: Path) -> None:
    planner, _ = found()
    told: list[str] = []
    seconds = count(step=5)
    module.plan_run(planner, 1, tmp_path / "plan.yaml", lambda: next(seconds), told.append)
    # A line every ten seconds; this clock is read once for each strategy that is simulated.
    assert told[0].startswith("fsdp: 10 s: 2 strategies simulated, ")
    begun = [line for line in told if line[0].isdigit()]
    assert [line.split()[0] for line in begun] == [str(10 * (i + 1)) for i in range(len(begun))]
    # The searches for baselines, too.
    others = {line.split(":")[0] for line in told if line not in begun}
    assert {"fsdp"} <= others <= {"fsdp", "prologue", "same remat"}
    assert all("what is left at least" in line for line in told)


def test_the_table_has_a_row_for_every_way(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = file.parent / "new" / "plan.yaml"
    line = ["plan", "--config", str(file), "--top", "2", "--output", str(output)]
    assert launch.main(line) == ExitCode.OK
    head, *rows = capsys.readouterr().out.splitlines()
    assert all(column in head for column in COLUMNS)
    for row, name in zip(rows, ["best", "best 2", *BASELINES], strict=False):
        assert row.startswith(name)
    assert f"written: {output}" in "".join(rows)
    assert f"train --config {output} run.name=NAME" in "".join(rows)
    assert output.exists()


def test_up_to_so_many_plans_are_shown_as_are_asked_for(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = planned(file, capsys, "--top", "1")
    _, best = found()
    assert [own["step_seconds"] for own in result["top"]] == [best[0].seconds]
    assert len(best) == 6


def test_the_best_at_equal_recomputation_is_told(
    file: Path, capsys: pytest.CaptureFixture[str], usual: dict[str, Any]
) -> None:
    """The model fits without recomputation, so full recomputation makes another plan."""
    result = planned(file, capsys, "model.remat=full")
    own, best = result["same_remat"], result["best"]
    assert "remat full" in own["plan"]
    assert "remat none" in best["plan"]
    assert own["step_seconds"] > best["step_seconds"]
    same = usual["same_remat"]
    assert same["step_seconds"] >= usual["best"]["step_seconds"]
    prediction = PlanPrediction("same remat", "", 4, 1.0, mfu=0.5, recomputed=0.6)
    slower = replace(prediction, name="optimus", seconds=1.25)
    told = compare_seconds(prediction, {"optimus": slower, "fsdp": slower})
    assert told == ["optimus: 1.25x the seconds of same remat"]


def test_what_is_written_runs_as_it_was_predicted(tmp_path: Path) -> None:
    """Schedule, seconds and memory, for plans with and without stages."""
    planner, best = found()
    stages = set()
    for number, outcome in enumerate(best):
        path = tmp_path / f"{number}.yaml"
        module.write_planned(planner, outcome, path)
        config = load_config(path)
        stages.add(config.parallel.decoder.stage)
        assert config.parallel.plans == dict(outcome.strategy.plans)
        assert config.data.rows * config.train.accumulate == 8
        assert config.schedule.hardware == "h100"
        assert schedule_of(config) == outcome.schedule
        hardware = load_hardware("h100")
        assert simulate_step(config, hardware).makespan == pytest.approx(outcome.seconds)
        assert predict_memory(config, hardware).total == pytest.approx(outcome.memory.total)
    assert stages == {1, 2}


def schedule_of(config: ExperimentConfig) -> Any:
    return configure_step(config).schedule


@pytest.mark.slow
def test_a_written_plan_trains(tmp_path: Path) -> None:
    """Training runs in a process of its own, with two stages."""
    planner, best = found()
    (outcome,) = [own for own in best if own.strategy.backbone.stage > 1][:1]
    path = tmp_path / "plan.yaml"
    module.write_planned(planner, outcome, path)
    changes = {
        "run.directory": tmp_path,
        "data.cache": tmp_path / "cache",
        "data.source.train": 64,
        "evaluate.enabled": "false",
        "train.steps": 2,
        "schedule.hardware": "h100",
    }
    line = ["launch.py", "train", "--config", str(path), "--json"]
    line += [f"{key}={value}" for key, value in changes.items()]
    run = subprocess.run([sys.executable, *line], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout)["steps"] == 2


def test_the_best_plan_is_written(usual: dict[str, Any], file: Path) -> None:
    result = usual
    config = load_config(result["file"])
    made = simulate_step(config, load_hardware("h100"))
    assert made.makespan == pytest.approx(result["best"]["step_seconds"])
    assert made.encoder_hidden == pytest.approx(result["best"]["encoder_hidden"])
    # What was not planned is as it was.
    given = load_config(file)
    changed = {"parallel", "schedule", "model", "data", "train"}
    for name in set(type(given).model_fields) - changed:
        assert getattr(config, name) == getattr(given, name)


def test_plans_need_not_be_given(
    usual: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    without = small(parallel={"devices": 4}, schedule={})
    best = planned(written(tmp_path, without), capsys)["best"]
    assert best == usual["best"]


@pytest.mark.parametrize("frozen", [["vision"], ["vision", "vision.connector"]])
def test_frozen_encoders_make_steps_shorter(
    frozen: list[str], usual: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = planned(written(tmp_path, small(train__freeze=frozen)), capsys)
    for name in BASELINES:
        of_frozen, of_all = (own["baselines"][name]["step_seconds"] for own in (result, usual))
        assert of_frozen < of_all, name
    assert result["best"]["step_seconds"] < usual["best"]["step_seconds"]
    assert load_config(result["file"]).train.freeze == tuple(frozen)


def test_text_alone_is_planned_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = planned(written(tmp_path, small(**TEXT)), capsys)
    assert set(result["baselines"]) == set(BASELINES)
    assert all(own["encoder_hidden"] is None for own in result["baselines"].values())
    assert not any("encoders" in own["plan"] for own in result["top"])
    baselines = result["baselines"]
    assert baselines["optimus"]["step_seconds"] == pytest.approx(
        baselines["megatron"]["step_seconds"], rel=0.5
    )
    assert load_config(result["file"]).model.encoders == {}


def test_without_stages_megatron_runs_the_whole_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All layers of all towers on one stage take the same time in whatever order."""
    plans = {"devices": 2, "decoder": {"data": 2}, "encoders": {"vision": {"data": 2}}}
    result = planned(written(tmp_path, small(parallel=plans)), capsys)["baselines"]
    assert result["megatron"]["step_seconds"] == pytest.approx(result["balanced"]["step_seconds"])
    assert result["megatron"]["mfu"] < 1


# ---- devices left idle ---------------------------------------------------------------------------


FREE = {"bandwidth": 1e30, "latency": 0.0}


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """H100 in pairs, with free links inside, that hardly reach each other."""
    hardware = load_hardware("h100").model_dump(mode="json")
    hardware |= {"domain": 2, "link": FREE, "network": {"bandwidth": 1e4, "latency": 1.0}}
    file = tmp_path_factory.mktemp("slow") / "slow.yaml"
    file.write_text(yaml.safe_dump(hardware))
    return file


def test_devices_that_would_wait_for_links_are_left_idle(
    slow: Path, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = planned(file, capsys, "--hardware", str(slow), "--top", "2")
    best, other = result["top"]
    assert best["devices"] == 2
    assert best["reason"] == "uses 2 of 4 devices: nothing that uses more, and fits, is faster"
    assert other["reason"] in ("", f"uses {other['devices']} of 4 devices")
    # What has no plan of its own does as the configuration says.
    for name in ("megatron", "balanced", "optimus"):
        assert result["baselines"][name]["devices"] == 4
        assert result["baselines"][name]["plan"].endswith("; as configured")
    text = Path(result["file"]).read_text()
    assert "GiB a device; uses 2 of 4 devices.\n" in text
    config = load_config(result["file"])
    assert config.parallel.devices == 2
    made = simulate_step(config, load_hardware(str(slow)))
    assert made.makespan == pytest.approx(best["step_seconds"])
    # Of the devices that are used.
    alone = planned(file, capsys, "--hardware", str(slow), "parallel.devices=2")["best"]
    assert alone["reason"] == ""
    assert best | {"reason": ""} == alone


def test_devices_that_nothing_divides_are_left_idle(
    slow: Path, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["plan", "--config", str(file), "--output", str(file.parent / "plan.yaml")]
    assert launch.main([*line, "--hardware", str(slow), "parallel.devices=3"]) == ExitCode.OK
    told = " ".join(capsys.readouterr().out.split())
    why = "no degrees that divide the model and the rows multiply to more"
    assert f"best: uses 2 of 3 devices: {why}" in told


def test_more_devices_never_make_the_best_plan_slower(slow: Path) -> None:
    def seconds(devices: int) -> float:
        planner = PlanSearch(
            resolve_config(small(), source="test"), load_hardware(str(slow)), str(slow)
        )
        (best,) = planner.with_devices(devices).search_plans().best
        return best.seconds

    many = [seconds(devices) for devices in range(1, 5)]
    assert many == sorted(many, reverse=True)


def test_tensor_groups_need_not_divide_the_devices() -> None:
    """Six heads are split three ways on four devices, and no more ways than there are devices.

    Neither heads of keys, which are copied, nor the vocabulary, which is padded, are in the way.
    """
    changes = {
        "model__decoder__heads": 6,
        "model__decoder__kv_heads": 2,
        "model__decoder__vocab": 101,
        "model__decoder__d_model": 48,
        "model__decoder__d_ff": 96,
    }
    budgets = {"tokens": 96, "segments": 8, "vision": 96}
    config = resolve_config(small(**changes, data__budgets=budgets), source="test")
    planner = PlanSearch(config, load_hardware("h100"), "h100")
    assert planner.space.tensors == (1, 2, 3)
    assert planner.with_devices(16).space.tensors == (1, 2, 3, 6)  # a domain has eight


def test_ranks_may_share_experts_in_any_number_that_divides_them() -> None:
    """What is found is simulated alike as a configuration, and takes as many bytes."""
    experts = {"count": 12, "top_k": 2, "d_ff": 16}
    sparse = {"model__decoder__family": "mixtral", "model__decoder__experts": experts}
    planner = PlanSearch(
        resolve_config(small(**sparse), source="test"), load_hardware("h100"), "h100"
    )
    assert planner.space.experts == (1, 2, 3, 4, 6, 12)
    assert PlanSearch(
        resolve_config(small(), source="test"), load_hardware("h100"), "h100"
    ).space.experts == (1,)
    space = replace(planner.space, experts=(2, 4), tensors=(1,), contexts=(1,))
    (best,) = planner.search_plans(space=space).best
    assert best.strategy.backbone.expert > 1
    made = planner.configure_plans(best.strategy)
    assert find_problems(made) == []
    assert simulate_step(made, planner.hardware).makespan == pytest.approx(best.seconds)
    assert predict_memory(made, planner.hardware).total == pytest.approx(best.memory.total)


def test_plans_split_the_rows_of_an_encoders_own_microbatches() -> None:
    schedule: dict[str, Any] = {"hardware": "h100", "independent_microbatches": True}
    schedule["independent_budgets"] = {"vision": 24}
    own = {"data__balance": "per_phase", "data__image": {"max_patches": 24}, "schedule": schedule}
    config = resolve_config(small(**own, train__check_schedules=True), source="test")
    planner = PlanSearch(config, load_hardware("h100"), "h100")
    # Rows of 24 patches have 6 outputs, those of the budget of 64 have 16.
    assert planner.space.fits_plan("vision", ParallelPlan(tensor=2))
    assert not planner.space.fits_plan("vision", ParallelPlan(tensor=4))
    vision = ParallelPlan(data=4)
    staged = Strategy({"decoder": ParallelPlan(data=2, stage=2), "vision": vision}, microbatches=4)
    whole = Strategy({"decoder": ParallelPlan(data=4), "vision": vision}, microbatches=2)
    before = replace(staged, placement="prologue")
    for strategy, budgets in ((staged, {"vision": 24}), (before, {}), (whole, {})):
        made = planner.configure_plans(strategy)
        resolve_config(made.model_dump(mode="json"), source="test")
        assert made.schedule.independent_budgets == budgets


def test_plans_keep_the_rows_of_an_encoders_own_microbatches() -> None:
    """An encoder may have more ranks than the decoder has rows; so has what is written."""
    schedule: dict[str, Any] = {"hardware": "h100", "independent_microbatches": True}
    schedule |= {"independent_budgets": {"vision": 24}, "independent_rows": {"vision": 2}}
    own = {"data__balance": "per_phase", "data__image": {"max_patches": 24}, "schedule": schedule}
    config = resolve_config(small(**own, data__rows=2), source="test")
    planner = PlanSearch(config, load_hardware("h100"), "h100")
    plans = {"decoder": ParallelPlan(data=2, stage=2), "vision": ParallelPlan(data=4)}
    made = planner.configure_plans(Strategy(plans, microbatches=4))
    assert made.schedule.independent_rows == {"vision": 2}
    assert find_problems(made) == []
    assert configure_step(made).workload.spread["vision"] == planner.workload.spread["vision"] == 2


def test_only_encoders_in_bubbles_cost_what_their_own_microbatches_do() -> None:
    """Every plan is predicted like the configuration that runs it, and its work is counted so."""
    schedule: dict[str, Any] = {"hardware": "h100", "independent_microbatches": True}
    schedule |= {"independent_budgets": {"vision": 24}, "independent_rows": {"vision": 2}}
    own = {"data__balance": "per_phase", "data__image": {"max_patches": 24}, "schedule": schedule}
    config = resolve_config(small(**own, data__rows=2), source="test")
    planner = PlanSearch(config, load_hardware("h100"), "h100")
    assert planner.workload.microbatch_counts["vision"] == 3
    whole = replace(planner.space, tensors=(1,), contexts=(1,), chunks=(1,), counts=(4,))
    ways = named_subspaces(whole, planner.workload) | {
        "bubbles": replace(with_stages(whole, planner.workload), placements=("bubbles",))
    }
    best = {name: planner.search_plans(space=space).best[0] for name, space in ways.items()}
    for name, found in best.items():
        made = planner.configure_plans(found.strategy)
        assert made.schedule.independent_microbatches == (name == "bubbles")
        assert simulate_step(made, planner.hardware).makespan == pytest.approx(found.seconds)
        assert predict_memory(made, planner.hardware).total == pytest.approx(found.memory.total)
        work = planner.workload_of(found.strategy)
        assert work.positions["vision"] == (24 if name == "bubbles" else 64)
    (fastest,) = planner.search_plans(space=whole).best
    assert fastest.seconds == min(own.seconds for own in best.values())
    lean = planner.find_leanest(whole)
    assert lean is not None
    assert lean[1] <= min(own.memory.total for own in best.values())


def test_encoders_are_cut_alike_whatever_was_cut_before() -> None:
    layer = {"d_model": 512, "heads": 8, "d_ff": 2048}
    changes: dict[str, Any] = {
        "model__decoder": {
            "family": "llama",
            "layers": 2,
            "d_model": 1024,
            "heads": 8,
            "d_ff": 2048,
        },
        **{f"model__encoders__vision__{key}": n for key, n in ({"layers": 8} | layer).items()},
        "data__budgets": {"tokens": 1024, "segments": 8, "vision": 1024},
    }
    config = resolve_config(small(**changes), source="test")

    def cuts(*plans: tuple[ParallelPlan, ParallelPlan]) -> list[Any]:
        planner = PlanSearch(config, load_hardware("h100"), "h100")
        schedule = Scheduler(planner.workload, planner.hardware)
        return [schedule(strategy(*own)).sources for own in plans]

    def strategy(decoder: ParallelPlan, vision: ParallelPlan) -> Strategy:
        return Strategy({"decoder": decoder, "vision": vision}, microbatches=4)

    shared = ParallelPlan(fsdp=2, stage=2), ParallelPlan(fsdp=4)
    whole = ParallelPlan(data=2, stage=2), ParallelPlan(data=4)
    few = ParallelPlan(stage=2), ParallelPlan(data=2)
    made = cuts(few, shared, whole)
    assert made[::-1] == cuts(whole, shared, few)


# ---- refused -------------------------------------------------------------------------------------


def refused(file: Path, capsys: pytest.CaptureFixture[str], *more: str) -> str:
    """The message of a plan that cannot be made; nothing else is printed or written."""
    output = file.parent / "plan.yaml"
    line = ["plan", "--config", str(file), "--json", "--output", str(output), *more]
    assert launch.main(line) == ExitCode.BAD_INPUT
    printed = capsys.readouterr()
    assert printed.out == ""
    assert not output.exists()
    return " ".join(printed.err.split())


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (["data.budgets={tokens: 64, segments: 8}"], "data.budgets.vision: required"),
        (["evaluate.max_new_tokens=64"], "64 leaves no room for a prompt in data.budgets.tokens"),
        (
            ["train.freeze=[sight]"],
            "sight is no part of the model; valid: decoder, vision, vision.conn",
        ),
        (
            ["model.decoder.family=gpt", "model.decoder.max_positions=32"],
            "32 learned positions are fewer than data.budgets.tokens 64",
        ),
    ],
)
def test_what_no_plan_mends_is_refused(
    changes: list[str], told: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert told in refused(file, capsys, *changes)


@pytest.mark.slow
def test_too_little_memory_names_what_would_do(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = refused(file, capsys, "--memory", "0.00001")
    assert "no plan for 4 x NVIDIA H100 SXM 80 GB within" in told
    assert "the leanest, decoder" in told
    enough = told.split("with --memory ")[1].split()[0]
    # So much is enough.
    result = planned(file, capsys, "--memory", enough)
    assert result["best"]["memory_bytes"] <= float(enough) * 2**30
    assert all(own["memory_bytes"] <= float(enough) * 2**30 for own in result["top"])


@pytest.mark.slow
def test_devices_too_few_for_the_model_are_refused_with_more_that_would_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = {"layers": 64, "d_model": 8192, "heads": 64, "d_ff": 28672}
    changes = {
        "model__decoder": {"family": "llama", **sizes},
        "parallel": {"devices": 2, "decoder": {"data": 2}, "encoders": {"vision": {"data": 2}}},
        "data__rows": 2,
        "train__accumulate": 1,
    }
    file = written(tmp_path, small(**changes))
    told = refused(file, capsys)
    assert "no plan for 2 x NVIDIA H100 SXM 80 GB within 72.5 GiB a device" in told
    assert "GiB of 72.5; fits with 16 devices" in told
    # More memory than a device has is no advice.
    assert "--memory" not in told
    told = refused(file, capsys, "--memory", "3")
    assert told.endswith("GiB of 3; 8x the devices do not do")


@pytest.mark.parametrize("given", ["0", "-1", "nan", "inf", "much"])
def test_memory_must_be_a_number(
    given: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        launch.main(["plan", "--config", str(file), f"--memory={given}"])
    assert ended.value.code == ExitCode.BAD_INPUT
    assert f"--memory: {given} is not a finite number above 0" in capsys.readouterr().err


def test_unknown_hardware_is_refused(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = refused(file, capsys, "--hardware", "abacus")
    assert "hardware 'abacus' is unknown; valid: a100, b200, h100" in told


def test_outputs_that_cannot_be_written_are_refused_before_the_search(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def searched(self: PlanSearch, top: int) -> None:
        raise AssertionError("searched")

    monkeypatch.setattr(PlanSearch, "search_plans", searched)
    for output in (file / "plan.yaml", file.parent):  # below a file; a folder
        told = refused(file, capsys, "--output", str(output))
        assert f"{output} cannot be written" in told
        assert "choose another --output" in told


def test_plans_that_cannot_be_run_say_why(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # Three layers over two stages of two chunks.
    result = planned(file, capsys, "schedule.chunks.decoder=2")["baselines"]
    for name in ("balanced", "optimus"):
        assert result[name]["step_seconds"] is None
        assert "layers cannot be cut into 4 virtual stages" in result[name]["reason"]

"""`launch.py plan --slices`: plans of groups as configurations that are trained."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import launch
from mllm_jax.config.checks.checks import find_problems
from mllm_jax.config.hardware import load_hardware, read_slice_costs
from mllm_jax.config.load import ExperimentConfig, load_config
from mllm_jax.plan.groups.planner import MARGIN, GroupPlanner, choose_run
from mllm_jax.plan.groups.report import plan_groups
from mllm_jax.plan.report import PlanningError
from mllm_jax.runtime.exits import ExitCode
from scheduling.costs.hardware import HardwareError
from scheduling.costs.slices import SliceCosts, TaskWork
from scheduling.simulate.groups.step import GroupRun
from tests.configs import ROOT
from tests.scheduling.module_graphs import Tasks, slice_costs, task_of

TOWERS = ROOT / "configs" / "slices" / "towers.yaml"
KEYS = {
    *("plan", "kind", "groups", "predicted_seconds", "serial_seconds", "data_parallel_seconds"),
    *("halves_seconds", "devices_seconds", "costs", "simulated", "bounded", "refused"),
    *("search_seconds", "file"),
}


def measured(gain: float, names: Sequence[str] = ("decoder", "image")) -> SliceCosts:
    """Modules of whose work a part of `gain` is spread over a device; the rest is fixed."""
    return slice_costs(dict.fromkeys(names, tasks_of(gain, 1 - gain)))


def tasks_of(gain: float, fixed: float, work: float = 1.0) -> Tasks:
    """Tasks of a module that was measured on a device and on a half of it.

    Args:
        gain: part of the seconds that is less on larger slices.
        fixed: part that is not less with fewer rows; the rest is less with fewer rows alone.
    """

    def task(seconds: float) -> TaskWork:
        rows = max(1 - fixed, 1e-3) * seconds * work
        return task_of(rows, gain=gain, fixed=fixed * seconds * work, quotas=(0.5, 1.0))

    return {"forward": task(0.01), "backward": task(0.02), "update": task(0.001)}


def towers(devices: int = 1) -> ExperimentConfig:
    return load_config(TOWERS, [f"parallel.devices={devices}"], planned=False)


def plan_of(config: ExperimentConfig, costs: SliceCosts | None, file: Path) -> dict[str, Any]:
    planner = GroupPlanner(config, load_hardware("h100"), costs)
    planned = plan_groups(planner, "a test", file, time.perf_counter)
    assert planned.rows[0][0] == "chosen"
    assert f"written: {file}" in planned.notes
    result = planned.to_json()
    assert set(result) == KEYS
    return result


def groups_in(file: Path) -> dict[str, Any]:
    """Groups of the configuration that was written, which training accepts."""
    config = load_config(file)
    assert not find_problems(config)
    return {
        name: (group.modules, group.devices, group.quota)
        for name, group in config.parallel.groups.items()
    }


def test_small_modules_get_a_half_each(tmp_path: Path) -> None:
    file = tmp_path / "plan.yaml"
    result = plan_of(towers(), measured(0.0), file)
    assert result["kind"] == "slices"
    assert result["predicted_seconds"] == result["halves_seconds"]
    assert result["predicted_seconds"] < 0.8 * result["serial_seconds"]
    assert result["devices_seconds"] is None
    assert groups_in(file) == {
        "decoder": (("decoder",), None, 0.5),
        "image": (("image",), None, 0.5),
    }
    assert [group["memory_bytes"] > 0 for group in result["groups"]] == [True, True]


def test_groups_keep_what_one_program_computes_twice(tmp_path: Path) -> None:
    """Two microbatches before a contrastive loss; a plan of groups says so by no key."""
    file, keys = tmp_path / "plan.yaml", ["train.gradient_caching=true"]
    result = plan_of(load_config(TOWERS, keys, planned=False), measured(1.0), file)
    assert result["kind"] == "slices"
    assert result["predicted_seconds"] < 0.8 * result["serial_seconds"]
    assert load_config(file).train.gradient_caching is None


def test_large_modules_run_one_at_a_time(tmp_path: Path) -> None:
    file = tmp_path / "plan.yaml"
    kept = load_config(TOWERS, ["train.gradient_caching=false"], planned=False)
    result = plan_of(kept, measured(1.0), file)
    assert result["kind"] == "one group"
    assert result["predicted_seconds"] == result["serial_seconds"]
    assert groups_in(file) == {}
    assert load_config(file).parallel.devices == 1


def test_replicas_on_slices_are_a_plan_of_two_devices(tmp_path: Path) -> None:
    """One module that does nearly all of the work cannot share it with the other."""
    file = tmp_path / "plan.yaml"
    costs = slice_costs({"decoder": tasks_of(0.0, 0.0), "image": tasks_of(0.0, 0.0, work=0.01)})
    result = plan_of(towers(), costs, file)
    assert result["predicted_seconds"] == result["data_parallel_seconds"]
    parallel = load_config(file).parallel
    assert parallel.devices == parallel.decoder.data == parallel.encoders["image"].data == 2
    assert not parallel.groups


def test_two_devices_may_be_ranges(tmp_path: Path) -> None:
    """The sums of gradients over a slow link take longer than what is gained by replicas."""
    file = tmp_path / "plan.yaml"
    costs = measured(1.0)
    slow = costs.device_link.model_copy(update={"bandwidth": 1e7})
    result = plan_of(towers(2), costs.model_copy(update={"device_link": slow}), file)
    assert result["kind"] == "devices"
    assert result["predicted_seconds"] == result["devices_seconds"]
    assert groups_in(file) == {
        "decoder": (("decoder",), (0, 0), None),
        "image": (("image",), (1, 1), None),
    }


def test_more_groups_have_to_be_faster_by_a_margin() -> None:
    def run(seconds: float) -> GroupRun:
        return GroupRun(plan=None, schedule=None, tasks=(), seconds=seconds)  # type: ignore[arg-type]

    one, little, much = run(1.0), run(1 - MARGIN / 2), run(1 - 2 * MARGIN)
    assert choose_run([one, little]) is one
    assert choose_run([one, much]) is much
    assert choose_run([one, much, run(1 - 2.5 * MARGIN)]) is much


def test_without_a_calibration_work_is_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "plan.yaml"
    line = ["plan", "--slices", "--config", str(TOWERS), "--output", str(file)]
    assert launch.main(line) == ExitCode.OK
    shown = capsys.readouterr().out
    assert "counted work on NVIDIA H100 SXM 80 GB; none was measured" in shown
    assert groups_in(file) == {}


def test_a_calibration_is_read_from_its_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "slices.json"
    file.write_text(json.dumps({"costs": measured(0.0).model_dump(mode="json")}))
    assert read_slice_costs(file) == measured(0.0)
    line = ["plan", "--slices", "--config", str(TOWERS), "--output", str(tmp_path / "plan.yaml")]
    assert launch.main([*line, "--calibration", str(file), "--json"]) == ExitCode.OK
    result = json.loads(capsys.readouterr().out)
    assert result["costs"] == f"measured modules and pairs of {file}"
    assert result["kind"] == "slices"


def test_what_was_not_measured_is_refused(tmp_path: Path) -> None:
    reason = r"--calibration: image was not measured, but decoder; valid: a calibration of this"
    with pytest.raises(HardwareError, match=reason):
        plan_of(towers(), measured(0.0, ["decoder"]), tmp_path / "plan.yaml")


def test_a_device_without_room_is_told(tmp_path: Path) -> None:
    planner = GroupPlanner(towers(), load_hardware("h100"), memory=1e6)
    with pytest.raises(PlanningError, match=r"no groups on 1 devices fit within .* need 0\.0"):
        plan_groups(planner, "a test", tmp_path / "plan.yaml", time.perf_counter)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--slices", "--top", "3"], "--top is no option of plan --slices"),
        (["--slices", "--all-devices"], "--all-devices is no option of plan --slices"),
        (["--quotas", "0.5"], "--quotas is an option of plan --slices"),
        (["--slices", "--quotas", "0.5,2"], "2 is not a number above 0 and below 1"),
    ],
)
def test_options_of_the_other_search_are_refused(
    options: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with suppress(SystemExit):  # of argparse
        assert launch.main(["plan", "--config", str(TOWERS), *options]) != ExitCode.OK
    output = capsys.readouterr()
    assert reason in " ".join((output.out + output.err).split())


def test_quotas_are_those_of_the_platform() -> None:
    config, h100, v5p = towers(), load_hardware("h100"), load_hardware("v5p")
    assert GroupPlanner(config, h100).space.quotas == (0.5,)
    assert GroupPlanner(config, h100).space.equal
    assert GroupPlanner(config, v5p).space.quotas == ()
    gpu = config.model_copy(
        update={"parallel": config.parallel.model_copy(update={"platform": "gpu"})}
    )
    space = GroupPlanner(gpu, h100).space
    assert space.quotas == (0.25, 0.5, 0.75)
    assert not space.equal
    assert replace(GroupPlanner(gpu, h100), quotas=(0.4, 0.6)).space.quotas == (0.4, 0.6)

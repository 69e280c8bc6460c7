"""Modules that share a device: published curves over quotas, shared bandwidth, interference."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from mllm_jax.config.hardware import read_slice_costs
from scheduling.costs.hardware import HardwareError, HardwareLink
from scheduling.costs.slices import (
    ModuleTasks,
    PairInterference,
    QuotaSpeeds,
    RunningTask,
    SliceCosts,
    TaskWork,
)

#: SMs of an H100 or an H200.
SMS = 132
#: Seconds of two stages of a served model by SMs, over those of the whole device
#: (sgl-project/sglang-omni, pull request 1934).
PUBLISHED = {
    "decode": {32: 1.33, 48: 1.21, 64: 1.09, 80: 1.08, 96: 1.06, 132: 1.00},
    "vocoder": {32: 2.5, 48: 1.83, 64: 1.49, 80: 1.30, 96: 1.18, 132: 1.00},
}
#: SMs of the points that the model is given; the others are predicted.
FITTED = (32, 132)
FLOPS, BANDWIDTH = 1e9, 1e12


def task(seconds: Mapping[float, float], traffic: float = 0.0) -> TaskWork:
    """A task that takes so long by quota."""
    speeds = {quota: FLOPS / each for quota, each in seconds.items()}
    return TaskWork(flops=FLOPS, traffic=traffic, speeds=QuotaSpeeds(points=speeds))


def costs(
    tasks: Mapping[str, TaskWork], pairs: Mapping[tuple[str, str], float] | None = None
) -> SliceCosts:
    return SliceCosts(
        modules={
            name: ModuleTasks(tasks={"forward": work}, output_bytes=1e6)
            for name, work in tasks.items()
        },
        bandwidth=BANDWIDTH,
        pairs=tuple(
            PairInterference(module=module, concurrent=beside, factor=factor)
            for (module, beside), factor in (pairs or {}).items()
        ),
        slice_link=HardwareLink(bandwidth=1e12, latency=0),
        device_link=HardwareLink(bandwidth=1e10, latency=1e-5),
    )


def running(module: str, quota: float = 0.5, rows: float = 1.0) -> RunningTask:
    return RunningTask(module, "forward", quota, rows)


@pytest.mark.parametrize("stage", PUBLISHED)
@pytest.mark.parametrize("sms", [48, 64, 80, 96])
def test_held_out_points_of_published_curves_are_predicted(stage: str, sms: int) -> None:
    curve = PUBLISHED[stage]
    model = costs({stage: task({n / SMS: curve[n] for n in FITTED})})
    predicted = model.seconds(running(stage, sms / SMS))
    assert predicted == pytest.approx(curve[sms], rel=0.03)


@pytest.mark.parametrize("stage", PUBLISHED)
def test_measured_quotas_are_as_measured(stage: str) -> None:
    model = costs({stage: task({sms / SMS: x for sms, x in PUBLISHED[stage].items()})})
    for sms, seconds in PUBLISHED[stage].items():
        assert model.seconds(running(stage, sms / SMS)) == pytest.approx(seconds)


def test_a_larger_slice_than_was_measured_gains_nothing_and_a_smaller_one_is_in_proportion() -> (
    None
):
    model = costs({"small": task({0.25: 2.0, 0.5: 1.5})})
    assert model.seconds(running("small", 1.0)) == pytest.approx(1.5)
    assert model.seconds(running("small", 0.125)) == pytest.approx(4.0)


def test_one_neighbour_takes_bandwidth_only_if_both_ask_for_more_than_there_is() -> None:
    by_quota = {0.5: 1.0, 1.0: 1.0}
    model = costs(
        {
            "heavy": task(by_quota, traffic=0.8e12),
            "light": task(by_quota, traffic=0.2e12),
            "bound": task(by_quota, traffic=2e12),
        }
    )
    assert model.seconds(running("heavy"), [running("light")]) == pytest.approx(1.0)
    assert model.seconds(running("heavy"), [running("heavy")]) == pytest.approx(1.6)
    # Memory alone takes two seconds, and all of the bandwidth in them.
    assert model.seconds(running("bound")) == pytest.approx(2.0)
    assert model.seconds(running("bound"), [running("heavy")]) == pytest.approx(3.6)
    assert model.seconds(running("heavy"), [running("bound")]) == pytest.approx(1.8)
    assert model.seconds(running("bound", rows=0.5)) == pytest.approx(1.0)


def test_interference_is_of_one_module_beside_another() -> None:
    work = task({1.0: 1.0})
    model = costs({"a": work, "b": work, "c": work}, {("a", "b"): 1.2, ("a", "c"): 1.1})
    alone = model.seconds(running("a"))
    assert model.seconds(running("a"), [running("b"), running("c")]) == pytest.approx(1.32 * alone)
    assert model.seconds(running("b"), [running("a")]) == pytest.approx(alone)


def test_fewer_rows_leave_what_is_fixed() -> None:
    work = task({1.0: 1.0}).model_copy(update={"fixed_seconds": 0.5})
    assert work.compute_seconds(1.0, rows=0.5) == pytest.approx(1.0)


def test_copies_between_slices_stay_on_the_device() -> None:
    model = costs({"a": task({1.0: 1.0})})
    assert model.copy_seconds("a", same_device=True) == pytest.approx(1e-6)
    assert model.copy_seconds("a", same_device=False, rows=0.5) == pytest.approx(6e-5)


def test_a_file_brings_them_back(tmp_path: Path) -> None:
    model = costs({"a": task({0.5: 2.0, 1.0: 1.0})}, {("a", "a"): 1.1})
    path = tmp_path / "slices.json"
    path.write_text(json.dumps({"costs": model.model_dump(mode="json")}))
    assert read_slice_costs(path) == model


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "No such file or directory"),
        ("[]", "holds no JSON with `costs`"),
        ("{", "holds no JSON with `costs`"),
        ('{"costs": {"bandwidth": -1}}', "costs.bandwidth: Input should be greater than 0"),
    ],
)
def test_a_file_of_something_else_is_refused(tmp_path: Path, text: str | None, reason: str) -> None:
    path = tmp_path / "slices.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(HardwareError, match=re.escape(reason)) as told:
        read_slice_costs(path)
    assert str(told.value).startswith(str(path))
    assert "valid: a file that `launch.py calibrate --slices` has written" in str(told.value)


def test_what_was_not_measured_is_refused() -> None:
    model = costs({"a": task({1.0: 1.0})})
    with pytest.raises(HardwareError, match="b forward was not measured; valid: a forward"):
        model.seconds(running("b"))
    with pytest.raises(HardwareError, match=r"quota: 1\.5 is no share of a device; valid"):
        model.seconds(running("a", 1.5))
    with pytest.raises(ValueError, match="names no quota; valid: at least one"):
        QuotaSpeeds(points={})

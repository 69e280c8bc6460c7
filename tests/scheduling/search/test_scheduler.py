"""Schedules are made of workload, strategy and times alone."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from mllm_jax.config.configured_step import configure_step
from scheduling.costs.flops import task_flops
from scheduling.costs.strategy import Strategy
from scheduling.schedules.backbone_schedules import (
    gpipe_schedule,
    interleaved_schedule,
    zero_bubble_schedule,
)
from scheduling.schedules.check import check_schedule
from scheduling.schedules.kinds import ScheduleKind
from scheduling.schedules.make import SCHEDULES
from scheduling.schedules.schedule import Schedule
from scheduling.search.scheduler import choose_source_chunks, make_schedule, seconds_on
from sharding.plan import ParallelPlan
from tests.configs import config
from tests.scheduling import workloads as small

STAGES = {"decoder": ParallelPlan(stage=2), "vision": ParallelPlan(data=2)}


def decoder_of(schedule: Schedule) -> list[Any]:
    """The decoder tasks of a schedule, by the ticks that have some, stage by stage."""
    rows = [
        [[str(task) for task in own if task.module == "decoder"] for own in row]
        for row in schedule.ticks
    ]
    return [row for row in rows if any(row)]


@pytest.mark.parametrize("times", [task_flops, seconds_on(small.hardware())])
def test_every_kind_of_schedule_takes_encoders(times: Any) -> None:
    workload = small.workload()
    alone = {"1f1b": interleaved_schedule(2, 1, 4), "gpipe": gpipe_schedule(2, 1, 4)}
    alone["zero_bubble"] = zero_bubble_schedule(2, 1, 4)
    assert set(alone) == set(SCHEDULES) == {*get_args(ScheduleKind)}
    for kind in SCHEDULES:
        strategy = choose_source_chunks(workload, Strategy(STAGES, 4, kind=kind), times)
        schedule = make_schedule(workload, strategy, times)
        check_schedule(schedule)
        assert decoder_of(schedule) == decoder_of(alone[kind])


def test_another_kind_is_a_function_and_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def one_after_the_other(stages: int, chunks: int, microbatches: int) -> Schedule:
        parts = [interleaved_schedule(stages, chunks, 1)] * microbatches
        rows = [
            tuple(tuple(task._replace(microbatch=i) for task in own) for own in row)
            for i, part in enumerate(parts)
            for row in part.ticks
        ]
        return Schedule.of_backbone(stages, chunks, microbatches, rows)

    monkeypatch.setitem(SCHEDULES, "alone", one_after_the_other)
    workload, times = small.workload(), seconds_on(small.hardware())
    new = Strategy(STAGES, 4, chunks={"vision": 2}, kind="alone")
    schedule = make_schedule(workload, new, times)
    check_schedule(schedule)
    assert decoder_of(schedule) == decoder_of(one_after_the_other(2, 1, 4))


def test_equal_configurations_are_lowered_once() -> None:
    stages: dict[str, Any] = {
        "parallel__decoder": {"stage": 2, "fsdp": 2},
        "model__decoder__layers": 2,
        "train__accumulate": 4,
    }
    lowered = configure_step(config(**stages))
    assert configure_step(config(**stages, train__steps=7)).schedule is lowered.schedule
    assert lowered.pipeline is not None
    assert lowered.pipeline.schedule is lowered.schedule
    other = configure_step(config(**stages, schedule__kind="gpipe"))
    assert other.schedule != lowered.schedule

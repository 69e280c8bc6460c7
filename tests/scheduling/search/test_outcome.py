"""What is compiled for a schedule that a search has found."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduling.costs.strategy import Strategy
from scheduling.lowering.bounds import with_slack
from scheduling.search.outcome import buffer_sizes
from scheduling.search.scheduler import make_schedule, seconds_on
from sharding.plan import ParallelPlan
from tests.scheduling import workloads as small


@pytest.mark.parametrize("follows", [False, True])
@pytest.mark.parametrize("placement", ["bubbles", "prologue"])
def test_only_encoders_that_follow_the_load_have_room_to_spare(
    follows: bool, placement: str
) -> None:
    workload = replace(small.workload(), adaptive=follows)
    plans = dict.fromkeys(workload.modules, ParallelPlan(stage=2))
    own = Strategy(plans, 4, placement=placement)  # type: ignore[arg-type]
    schedule = make_schedule(workload, own, seconds_on(small.hardware()))
    usual = buffer_sizes(replace(workload, adaptive=False), schedule, own)
    found = buffer_sizes(workload, schedule, own)
    assert usual is not None
    assert found is not None
    roomy = follows and placement == "bubbles"
    assert with_slack(usual["vision"]) != usual["vision"]
    assert found["vision"] == (with_slack(usual["vision"]) if roomy else usual["vision"])
    alone = {name: ParallelPlan() for name in workload.modules}
    assert buffer_sizes(workload, schedule, Strategy(alone)) is None

"""What a strategy says of its collectives, its tasks and its buffers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from scheduling.costs.loads import Uneven, loaded
from scheduling.costs.strategy import Strategy, communicates, encoder_pieces
from scheduling.programs.frame import roomier
from scheduling.search.make import make_schedule, seconds_on
from scheduling.search.outcome import buffer_sizes
from sharding.plan import ParallelPlan
from tests.scheduling import workloads as small


@pytest.mark.parametrize(
    ("plan", "step", "layer"),
    [
        ({}, False, False),
        ({"data": 2}, False, False),
        ({"fsdp": 2}, False, True),
        ({"tensor": 2}, True, True),
        ({"context": 2, "fsdp": 2}, True, True),
    ],
)
def test_layers_communicate_over_tensor_and_context_and_gather_over_fsdp(
    plan: dict[str, int], step: bool, layer: bool
) -> None:
    plans = {"decoder": ParallelPlan(data=4), "vision": ParallelPlan(**plan)}
    assert communicates(plans, "step") == step
    assert communicates(plans, "layer") == layer


@pytest.mark.parametrize(
    ("stages", "gather", "kind", "by_layer", "apart"),
    [
        (1, "step", "1f1b", True, False),
        (1, "layer", "zero_bubble", True, False),
        (2, "step", "1f1b", False, False),
        (2, "layer", "1f1b", True, False),
        (2, "step", "zero_bubble", False, True),
    ],
)
def test_what_depends_on_stages(
    stages: int, gather: str, kind: str, by_layer: bool, apart: bool
) -> None:
    own = Strategy({"decoder": ParallelPlan(stage=stages)}, 3, 2, gather=gather, kind=kind)
    assert (own.by_layer, own.weights_apart, own.tasks) == (by_layer, apart, 6 * stages)


@pytest.mark.parametrize(
    ("frozen", "connectors", "backward"), [((), (), 4), ("v", (), 1), ("v", "v", 0)]
)
def test_pieces_of_an_encoder_have_backwards_where_something_trains(
    frozen: Any, connectors: Any, backward: int
) -> None:
    workload = replace(
        small.workload(),
        frozen=frozenset({"vision"} if frozen else ()),
        frozen_connectors=frozenset({"vision"} if connectors else ()),
        units={"vision": 3},
    )
    plans = dict.fromkeys(workload.towers, ParallelPlan(stage=2))
    cut = encoder_pieces(workload, Strategy(plans, pieces={"vision": 4}), "vision")
    assert (cut.pieces, cut.stages, cut.backward, cut.each) == (4, 2, backward, 3)
    assert encoder_pieces(workload, Strategy(plans), "vision").pieces == 2


def test_a_loaded_workload_has_the_microbatches_of_the_decoder() -> None:
    own = replace(small.workload(), units={"vision": 2}, spread={"vision": 2}, follows=True)
    found = loaded(own, {"vision": 96})
    assert (found.units, found.spread, found.follows) == ({}, {}, False)
    assert found.positions == {"decoder": 32, "vision": 96}
    assert found.pairs == {"vision": pytest.approx(64 / 96)}


def test_uneven_rows_are_means_of_the_rows_of_a_replica() -> None:
    own = Uneven({"vision": np.arange(8.0).reshape(1, 8)})
    assert own.steps == 1
    found = own.of(2, 2)["vision"]
    assert found.tolist() == [[[0.5, 2.5]], [[4.5, 6.5]]]


@pytest.mark.parametrize("follows", [False, True])
@pytest.mark.parametrize("placement", ["bubbles", "prologue"])
def test_only_encoders_that_follow_the_load_have_room_to_spare(
    follows: bool, placement: str
) -> None:
    workload = replace(small.workload(), follows=follows)
    plans = dict.fromkeys(workload.towers, ParallelPlan(stage=2))
    own = Strategy(plans, 4, placement=placement)  # type: ignore[arg-type]
    schedule = make_schedule(workload, own, seconds_on(small.hardware()))
    usual = buffer_sizes(replace(workload, follows=False), schedule, own)
    found = buffer_sizes(workload, schedule, own)
    assert usual is not None
    assert found is not None
    roomy = follows and placement == "bubbles"
    assert roomier(usual[1]["vision"]) != usual[1]["vision"]
    assert found[1]["vision"] == (roomier(usual[1]["vision"]) if roomy else usual[1]["vision"])
    alone = {name: ParallelPlan() for name in workload.towers}
    assert buffer_sizes(workload, schedule, Strategy(alone)) is None

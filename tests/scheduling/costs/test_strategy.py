"""What a strategy says of its collectives and its tasks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from scheduling.costs.strategy import Strategy, has_collectives, module_feed, module_stages
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
    assert has_collectives(plans, "step") == step
    assert has_collectives(plans, "layer") == layer


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
    plans, chunks = {"decoder": ParallelPlan(stage=stages)}, {"decoder": 2}
    own = Strategy(plans, 3, chunks, gather=gather, kind=kind)
    assert (own.by_layer, own.split_backward, own.forward_count) == (by_layer, apart, 6 * stages)


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
        microbatch_counts={"vision": 3},
    )
    plans = dict.fromkeys(workload.modules, ParallelPlan(stage=2))
    module = module_stages(workload, Strategy(plans, chunks={"vision": 2}), "vision")
    assert (module.chunks, module.stages, module.first_backward) == (4, 2, 4 - backward)
    assert module_stages(workload, Strategy(plans), "vision").chunks == 2
    assert module_feed(workload, "vision").per_target == 3

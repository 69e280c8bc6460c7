"""Lower bounds that a search has before it knows a strategy, by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from scheduling.search.bounds import least_state
from tests.scheduling import workloads as small


@pytest.mark.parametrize("moments", [0, 2])
@pytest.mark.parametrize("devices", [1, 4])
@pytest.mark.parametrize(
    ("changes", "trains"),
    [
        ({}, {"decoder", "vision"}),
        ({"frozen": {"vision"}, "frozen_connectors": {"vision"}}, {"decoder"}),
    ],
)
def test_the_least_state_is_that_of_all_parameters_distributed_evenly(
    moments: int, devices: int, changes: dict[str, Any], trains: set[str]
) -> None:
    """Four bytes of a parameter, its gradient and each moment; constants have their own bytes."""
    own = replace(small.workload(), moments=moments, constant=2, **changes)
    bytes_of = {True: 4 * (2 + moments), False: 2}
    total = sum(tower.parameters * bytes_of[name in trains] for name, tower in own.modules.items())
    assert least_state(own, devices) == pytest.approx(total / devices)

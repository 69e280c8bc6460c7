"""Rungs of budgets, rows that are exactly full, and the lightest of ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.config import DataConfig
from data.planning.balance import _lightest_ranks
from data.planning.ladder import Ladder
from data.planning.packing import make_capacity
from data.planning.problem import BalanceProblem
from data.planning.row_assignment import RowAssigner
from tests.data.samples import TEXT, UNITS, VISION, WORK, make_lengths

BUDGETS = {"tokens": 100, "segments": 8, "vision": 60}


def config(**changes: Any) -> DataConfig:
    return DataConfig.model_validate({"budgets": BUDGETS, "rows": 2} | changes)


@pytest.mark.parametrize("batch", ["tokens", "samples"])
def test_rungs_are_shares_of_a_budget_in_whole_units(batch: str) -> None:
    """Only steps of a fixed number of samples have others than the budget itself."""
    several = {"samples": 4, "ladder": (0.25, 0.5, 1.0)} if batch == "samples" else {}
    own = config(batch=batch, **several)
    rungs = Ladder.build(own, {"tokens": 16, "vision": 1}).rungs
    assert rungs == {
        "tokens": (32, 64, 112) if batch == "samples" else (112,),
        "vision": (15, 30, 60) if batch == "samples" else (60,),
    }


def test_the_lowest_rung_that_holds_a_row_is_taken() -> None:
    ladder = Ladder({"tokens": (10, 20, 40)})
    used = {0: 10, 10: 10, 11: 20, 20: 20, 21: 40, 40: 40, 41: 40}
    assert {n: ladder.lowest("tokens", n) for n in used} == used


@given(
    loads=st.lists(st.integers(0, 5), min_size=1, max_size=9),
    count=st.integers(1, 10),
)
def test_the_lightest_ranks_are_the_first_of_a_stable_order(loads: list[int], count: int) -> None:
    found = _lightest_ranks(np.array(loads), count)
    assert found == sorted(range(len(loads)), key=loads.__getitem__)[:count]


@pytest.mark.parametrize(("tokens", "fits"), [(50, True), (51, False)])
@pytest.mark.parametrize("balance", ["none", "backbone", "per_phase"])
def test_rows_that_are_exactly_full_have_room(balance: str, tokens: int, fits: bool) -> None:
    capacity = make_capacity(
        BUDGETS,
        (
            TEXT,
            VISION,
        ),
    )
    own = config(balance=balance)
    units = {name: UNITS[name] for name in ("tokens", "vision")}
    assigner = RowAssigner(own, capacity, Ladder.build(own, units), WORK, {})
    samples = [make_lengths(n, {"vision": ()}, {"vision": ()}) for n in (50, 50, 50, tokens)]
    assert (assigner.pack_rows(samples) is not None) == fits
    # As they come, both long ones would lie in the first row.
    samples = [make_lengths(n, {"vision": ()}, {"vision": ()}) for n in (60, 60, 40, 40)]
    assert (assigner.pack_rows(samples) is None) == (balance == "none")


def one_by_one(problem: BalanceProblem) -> list[list[int]]:
    """Assign items in turn, whatever room there is."""
    return [list(range(r, len(problem.lengths), problem.ranks)) for r in range(problem.ranks)]


@pytest.mark.parametrize("phase", ["decoder", "vision"])
def test_an_algorithm_is_asked_for_no_rung_below_what_is_to_be_assigned(
    phase: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An assignment of all items that exceeds the requested rung is an error of its own."""
    asked: list[int] = []

    def noted(problem: BalanceProblem, own: Any = one_by_one) -> Any:
        asked.append(problem.limits[0])
        return own(problem)

    monkeypatch.setattr(f"{__name__}.one_by_one", noted)
    own = config(
        batch="samples",
        samples=2,
        ladder=(0.1, 0.2, 1.0),
        balance="per_phase",
        balancing={phase: {"algorithm": f"{__name__}:one_by_one"}},
    )
    units = {name: UNITS[name] for name in ("tokens", "vision")}
    capacity = make_capacity(
        BUDGETS,
        (
            TEXT,
            VISION,
        ),
    )
    assigner = RowAssigner(own, capacity, Ladder.build(own, units), WORK, {})
    samples = [make_lengths(40, {"vision": (40,)}, {"vision": (0,)}) for _ in range(2)]
    packed = assigner.pack_rows(samples)
    assert packed is not None
    assert sorted(assigner(samples, packed, "sample {}".format).rows) == [0, 1]
    assert [n >= 40 for n in asked] == [True]

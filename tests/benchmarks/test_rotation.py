"""Turns over groups of programs: what is compared runs together, and nobody is always first."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.rotation import TimedGroup, in_turns, median_of, order_of_turn


def _group(name: str, programs: int, every: float = 1.0) -> TimedGroup:
    return TimedGroup(name, {f"{name}{i}": lambda: None for i in range(programs)}, every)


_GROUPS = st.lists(st.integers(1, 4), min_size=1, max_size=4).map(
    lambda sizes: [_group(chr(ord("a") + i), size) for i, size in enumerate(sizes)]
)


@given(_GROUPS, st.integers(0, 50))
def test_a_turn_runs_every_program_once_and_groups_together(
    groups: list[TimedGroup], turn: int
) -> None:
    ran = [(group.name, name) for group, name in order_of_turn(groups, turn)]
    assert Counter(ran) == Counter((group.name, name) for group in groups for name in group.runs)
    entered = [name for i, (name, _) in enumerate(ran) if i == 0 or ran[i - 1][0] != name]
    assert len(entered) == len(groups)


@given(_GROUPS)
def test_every_group_and_every_program_is_first_as_often(groups: list[TimedGroup]) -> None:
    count = len(groups)
    first = Counter(next(order_of_turn(groups, turn))[0].name for turn in range(3 * count))
    assert set(first.values()) == {3}
    for group in groups:
        own = Counter(next(order_of_turn([group], turn))[1] for turn in range(3 * len(group.runs)))
        assert set(own.values()) == {3}


@given(st.floats(1.0, 12.0), st.integers(1, 60))
def test_a_group_takes_part_in_its_share_of_the_turns(every: float, turns: int) -> None:
    group = _group("a", 1, every)
    part = sum(group.takes_part(turn) for turn in range(turns))
    assert group.takes_part(0)
    assert abs(part - turns / every) < 1


def test_a_turn_has_the_seconds_of_what_has_run() -> None:
    ran: list[str] = []
    groups = [
        TimedGroup("short", {"x": lambda: ran.append("x"), "y": lambda: ran.append("y")}),
        TimedGroup("long", {"z": lambda: ran.append("z")}, 2.0),
    ]
    told: list[str] = []
    turns = in_turns(groups, 3, told.append)
    assert ran == ["x", "y", "z", "y", "x", "x", "y", "z"]
    assert [("long", "z") in turn for turn in turns] == [True, False, True]
    assert len(told) == 3
    assert all(seconds >= 0 for turn in turns for seconds in turn.values())


def test_a_ratio_is_taken_within_a_turn() -> None:
    key, other = ("a", "x"), ("a", "y")
    # The third moment was slow for both; the fourth turn was without them.
    turns = [{key: 1.0, other: 2.0}, {key: 1.0, other: 2.2}, {key: 9.0, other: 18.0}, {}]
    assert median_of(turns, lambda turn: turn[other] / turn[key], key) == pytest.approx(2.0)
    assert median_of(turns, lambda turn: turn[key], key) == pytest.approx(1.0)

"""The stream of plans: exact epochs, exact resumption, memoised measurements."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data import DataError, LoaderState, Processor, SampleError
from data.dealing import Balance
from data.packing import make_capacity
from data.plan import Planner, StepPlan
from tests.data.samples import AUDIO, BUDGETS, VISION, WORK, ListSource, MakeConfig, mixed_source


def make_planner(
    source: ListSource,
    processor: Processor,
    make_config: MakeConfig,
    state: LoaderState,
    **changes: object,
) -> Planner:
    config = make_config(**changes)
    return Planner(source, processor, config, make_capacity(BUDGETS, (VISION, AUDIO)), state, WORK)


def epochs(source: ListSource, planner: Planner, steps: int) -> list[int]:
    """How often each sample was placed or is carried, over `steps` steps."""
    plans = [planner.plan() for _ in range(steps)]
    placed = [p.index for plan in plans for p in plan.placements]
    carried = [int(planner._stream[p]) for p in planner.state.carry]
    skipped = [int(name.removeprefix("bad")) for plan in plans for name, _ in plan.skipped]
    everything = placed + carried + skipped
    assert len(everything) == planner.state.position
    return [everything.count(index) for index in range(len(source))]


@settings(max_examples=20)
@given(
    count=st.integers(1, 60),
    lookahead=st.integers(1, 80),
    rows=st.integers(1, 5),
    balance=st.sampled_from(get_args(Balance)),
)
def test_every_sample_comes_once_in_every_epoch(
    count: int,
    lookahead: int,
    rows: int,
    balance: Balance,
    processor: Processor,
    make_config: MakeConfig,
) -> None:
    source = mixed_source(count, seed=count)
    changes = {"lookahead": lookahead, "rows": rows, "balance": balance}
    planner = make_planner(source, processor, make_config, LoaderState(3), **changes)
    counts = epochs(source, planner, steps=12)
    full = planner.state.position // count
    assert set(counts) <= {full, full + 1}


def test_malformed_samples_are_skipped_once_an_epoch(
    processor: Processor, make_config: MakeConfig
) -> None:
    source = mixed_source(20)
    source.samples[4] = "no conversation"
    planner = make_planner(source, processor, make_config, LoaderState(3))
    counts = epochs(source, planner, steps=12)
    assert set(counts) <= {min(counts), min(counts) + 1}


def test_epochs_are_shuffled_differently(processor: Processor, make_config: MakeConfig) -> None:
    planner = make_planner(mixed_source(40), processor, make_config, LoaderState(3))
    orders = [[int(planner._stream[40 * e + i]) for i in range(40)] for e in range(3)]
    assert all(sorted(order) == list(range(40)) for order in orders)
    assert orders[0] != orders[1] != orders[2]


@pytest.mark.parametrize("balance", get_args(Balance))
def test_a_planner_continues_from_the_state_of_every_step(
    balance: Balance, processor: Processor, make_config: MakeConfig
) -> None:
    source = mixed_source(30)
    planner = make_planner(source, processor, make_config, LoaderState(3), balance=balance)
    plans: list[StepPlan] = [planner.plan() for _ in range(8)]
    for step in range(1, 8):
        saved = json.loads(json.dumps(plans[step - 1].state.to_json()))
        state = LoaderState.from_json(saved)
        resumed = make_planner(source, processor, make_config, state, balance=balance)
        for plan in plans[step:]:
            again = resumed.plan()
            assert replace(again, loads={}) == replace(plan, loads={})


def test_the_oldest_samples_are_offered_first_and_none_waits_longer_than_its_rank(
    processor: Processor, make_config: MakeConfig
) -> None:
    planner = make_planner(
        mixed_source(60), processor, make_config, LoaderState(3), rows=1, lookahead=25
    )
    waits: dict[int, int] = {}
    for _ in range(40):
        planner.plan()
        carry = planner.state.carry
        assert list(carry) == sorted(carry)
        waits = {position: waits.get(position, 0) + 1 for position in carry}
        assert max(waits.values()) < 25


def test_a_sample_is_measured_once(processor: Processor, make_config: MakeConfig) -> None:
    source = mixed_source(15)
    planner = make_planner(source, processor, make_config, LoaderState(3))
    for _ in range(10):
        planner.plan()
    assert planner.state.position > 30
    assert len(source.asked) == 15


def test_a_source_without_a_usable_sample_is_an_error(
    processor: Processor, make_config: MakeConfig
) -> None:
    planner = make_planner(ListSource(["broken"] * 5), processor, make_config, LoaderState(0))
    with pytest.raises(DataError, match=r"no sample of 5 is usable; the last: bad\d: broken"):
        planner.plan()


def test_raise_names_the_sample(processor: Processor, make_config: MakeConfig) -> None:
    source = ListSource(["broken"])
    planner = make_planner(source, processor, make_config, LoaderState(0), on_error="raise")
    with pytest.raises(SampleError, match="sample bad0: broken"):
        planner.plan()


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"seed": 1, "step": 2, "position": 3},
        {"seed": 1, "step": "2", "position": 3, "carry": []},
        {"seed": 1, "step": 2, "position": 3, "carry": [], "plan": 4},
    ],
)
def test_a_foreign_state_is_refused(value: dict[str, object]) -> None:
    with pytest.raises(DataError, match="not a loader state"):
        LoaderState.from_json(value)

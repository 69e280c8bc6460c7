"""A run that goes on with another pool, another number of readers or none loses no sample."""

from __future__ import annotations

import json
from collections import Counter

from hypothesis import example, given, settings
from hypothesis import strategies as st

from data.planning.stream import LoaderState
from data.processing.processor import Processor
from tests.data.planning.test_stream import make_planner
from tests.data.samples import MakeConfig, mixed_source


@settings(max_examples=15)
@given(
    pools=st.lists(st.integers(1, 40), min_size=2, max_size=4),
    rows=st.integers(1, 3),
    count=st.integers(5, 40),
)
@example(pools=[40, 2, 1, 30], rows=1, count=40)
def test_no_sample_is_lost_or_repeated_at_a_resume_with_another_pool(
    pools: list[int], rows: int, count: int, processor: Processor, make_config: MakeConfig
) -> None:
    """What the larger pool has read, the smaller one carries until its turn comes."""
    source, state = mixed_source(count), LoaderState(3)
    placed: Counter[int] = Counter()
    for lookahead in pools:
        planner = make_planner(
            source, processor, make_config, state, lookahead=lookahead, rows=rows
        )
        for _ in range(2):
            plan = planner.plan()
            placed.update(p.position for p in plan.placements)
            state = LoaderState.from_json(json.loads(json.dumps(plan.state.to_json())))
            assert sorted([*placed.elements(), *state.carry]) == list(range(state.position))
            assert list(state.carry) == sorted(state.carry)

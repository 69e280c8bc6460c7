"""The place of a sample that is left out becomes padding, to its last token and no further."""

from __future__ import annotations

from typing import Any

import pytest

from data.batch import PackedBatch
from data.loading.assemble import BatchAssembler, check_rows, mask_sample
from data.planning.lengths import measure
from data.planning.stream import NO_DEMAND, BatchPlanner, LoaderState
from data.processing.processor import Processor
from tests.data.samples import (
    CAPACITY,
    MakeConfig,
    all_rows,
    assert_same_arrays,
    mixed_source,
    of_tokens,
)

ROWS = 3


@pytest.fixture(scope="module")
def step(processor: Processor, make_config: MakeConfig) -> tuple[Any, Any, Any]:
    """The plan of a step of three rows, and what assembles it."""
    source, config = mixed_source(24), make_config(rows=ROWS, lookahead=24)
    lengths = measure(source, processor)
    plan = BatchPlanner(source, lengths, config, CAPACITY, LoaderState(0), NO_DEMAND).plan()
    assert len(plan.placements) > 2 * ROWS

    def made(order: list[int]) -> PackedBatch:
        rows = all_rows(ROWS) | {"decoder": order}
        return BatchAssembler(source, processor, config, rows)(plan.placements, plan.capacity)[0]

    return plan, made, config


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 0, 1], [1]])
def test_exactly_the_tokens_of_the_sample_become_padding(step: Any, order: list[int]) -> None:
    plan, result, _ = step
    for placement in plan.placements:
        batch, before = result(order), result(order)
        mask_sample(batch, order, placement)
        begin, end = placement.start, placement.start + placement.lengths.total("decoder")
        if placement.row in order:
            row = order.index(placement.row)
            assert before.text_rows.segment_ids[row, begin:end].all()
            for array in of_tokens(before.text_rows):
                array[row, begin:end] = 0
            for outputs in before.text_rows.merges.values():
                outputs[row, begin:end] = -1
        assert_same_arrays(batch, before)


def test_a_row_without_any_of_its_samples_is_padding(step: Any) -> None:
    plan, result, _ = step
    batch = result([0, 1, 2])
    for placement in plan.placements:
        mask_sample(batch, [0, 1, 2], placement)
    assert not any(array.any() for array in of_tokens(batch.text_rows))


@pytest.mark.parametrize(
    ("rows", "valid"),
    [
        ({"decoder": [0, 2], "a": []}, True),
        ({"decoder": [2, 0], "a": [1]}, True),
        ({"decoder": [0]}, False),
        ({"decoder": [0], "a": [], "b": []}, False),
        ({"decoder": [0, 0], "a": []}, False),
        ({"decoder": [3], "a": []}, False),
        ({"decoder": [0], "a": [-1]}, False),
    ],
)
def test_rows_are_distinct_and_those_of_the_batch(rows: Any, valid: bool) -> None:
    if valid:
        check_rows(rows, ["decoder", "a"], 3)
        return
    with pytest.raises(ValueError, match="valid: "):
        check_rows(rows, ["decoder", "a"], 3)

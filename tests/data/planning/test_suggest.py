"""Budgets of a source without media hold as many samples as were asked for."""

from __future__ import annotations

from typing import Any

import pytest

from data.faults import FaultKind, SampleFault
from data.planning.suggest import needs_of, suggest_budgets
from data.sample import DataError
from tests.data.samples import TEXT, make_lengths


@pytest.mark.parametrize("samples", [8, 20, 60])
def test_one_budget_holds_the_samples_asked_for(samples: int) -> None:
    lengths: Any = [make_lengths(tokens) for tokens in (24, 40, 56) * 20]
    budgets = suggest_budgets(lengths, [TEXT], rows=2, samples_per_step=samples)
    assert budgets["tokens"] == samples // 2 * 40


def test_why_no_sample_is_usable_is_told() -> None:
    bad = [SampleFault(FaultKind.MISSING, f"{number}.png is missing") for number in range(3)]
    lengths: Any = [*bad, *(make_lengths(tokens) for tokens in (41, 50))]
    with pytest.raises(DataError) as told:
        needs_of(lengths, [TEXT], longest=40)
    text = str(told.value)
    assert "no usable sample from which to suggest budgets, of 5; " in text
    assert "missing file, 3: " in text
    assert "longer than the model's positions, 2: has " in text
    assert text.endswith(("of decoder.max_positions", ".png is missing"))

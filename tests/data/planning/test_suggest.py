"""Budgets of a source without media hold as many samples as were asked for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from data.planning.suggest import suggest_budgets


@pytest.mark.parametrize("samples", [8, 20, 60])
def test_one_budget_holds_the_samples_asked_for(samples: int) -> None:
    lengths: Any = [SimpleNamespace(tokens=tokens, media={}) for tokens in (24, 40, 56) * 20]
    budgets = suggest_budgets(lengths, [], rows=2, samples_per_step=samples)
    assert budgets["tokens"] == samples // 2 * 40

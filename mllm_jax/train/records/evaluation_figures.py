"""The figures of an evaluation, by the names that people see."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def figures_of(result: Mapping[str, Any]) -> dict[str, float]:
    """The figures of an evaluation by the names that they have in log and metrics."""
    figures = {name: result[name] for name in ("heldout_loss",) if name in result}
    keys = ("heldout_loss", "heldout_losses"), ("exact_match",) * 2, ("recall_at_1",) * 2
    for prefix, key in keys:
        values = result.get(key, {}).items()
        figures |= {f"{prefix}/{name}": value for name, value in values if value is not None}
    return figures

"""No plan moves unseen: see `tests.data.planning.plans`."""

from __future__ import annotations

import json

import pytest

from tests.data.planning.plans import COUNT, FILE, plans

KEPT = json.loads(FILE.read_text())


@pytest.mark.parametrize("seed", range(COUNT))
def test_the_plans_of_drawn_samples_are_those_that_are_kept(seed: int) -> None:
    found, kept = json.loads(json.dumps(plans(seed))), KEPT[seed]
    assert found.keys() == kept.keys()
    moved = [name for name, own in found.items() if not same(own, kept[name])]
    assert not moved, f"of seed {seed}"


def same(own: object, kept: object) -> bool:
    """Whether both are equal, loads and seconds to nine digits."""
    if isinstance(own, dict) and isinstance(kept, dict):
        return own.keys() == kept.keys() and all(same(own[key], kept[key]) for key in own)
    if isinstance(own, list) and isinstance(kept, list):
        return len(own) == len(kept) and all(map(same, own, kept))
    if isinstance(own, float):
        return own == pytest.approx(kept, rel=1e-9)
    return own == kept

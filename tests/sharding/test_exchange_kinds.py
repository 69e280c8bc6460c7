"""Room for tokens on the ranks that share experts."""

from __future__ import annotations

import pytest

from sharding.exchange_kinds import round_capacity


@pytest.mark.parametrize(
    ("buffer", "copies", "ranks", "expected"),
    [
        (1.25, 64, 4, 1.25),
        (1.25, 2, 4, 2.0),  # a slot for every rank
        (8.0, 64, 4, 4.0),  # all copies of all ranks
        (1.0, 1, 8, 8.0),
    ],
)
def test_a_rank_has_a_slot_for_every_rank_and_no_more_than_can_be_filled(
    buffer: float, copies: float, ranks: int, expected: float
) -> None:
    assert round_capacity(buffer, copies, ranks) == expected

"""Placement against the integer program of the busiest host."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import Bounds, LinearConstraint, milp

from data.planning.groups.placement import place
from data.sample import DataError


def busiest(volumes: np.ndarray, per_host: int) -> float:
    """The least amount that the busiest host sends, by an integer program over placements."""
    batches, hosts = volumes.shape
    chosen = batches * hosts  # 1 where a batch is on a host, and after them the busiest host
    once = np.zeros((batches, chosen + 1))
    full = np.zeros((hosts, chosen + 1))
    sends = np.zeros((hosts, chosen + 1))
    for b in range(batches):
        for h in range(hosts):
            once[b, b * hosts + h] = full[h, b * hosts + h] = 1
            sends[h, b * hosts + h] = -volumes[b, h]
    sends[:, -1] = -1
    result = milp(
        c=np.append(np.zeros(chosen), 1),
        constraints=[
            LinearConstraint(once, 1, 1),
            LinearConstraint(full, per_host, per_host),
            LinearConstraint(sends, -np.inf, -volumes.sum(0)),
        ],
        integrality=np.append(np.ones(chosen), 0),
        bounds=Bounds(0, np.append(np.ones(chosen), np.inf)),
    )
    assert result.success
    return float(result.fun)


def drawn(seed: int, hosts: int, per_host: int) -> np.ndarray:
    """Hosts that read the samples of mini-batches: a few items from random hosts each."""
    rng = np.random.default_rng(seed)
    volumes = np.zeros((hosts * per_host, hosts), np.int64)
    for batch in range(len(volumes)):
        np.add.at(volumes[batch], rng.integers(0, hosts, 6), rng.integers(1, 100, 6))
    return volumes


def traffic(volumes: np.ndarray, hosts: Sequence[int], placed: np.ndarray) -> np.ndarray:
    """Amount that every host sends, `[hosts]`: its parts of mini-batches on other hosts."""
    elsewhere = volumes.copy()
    elsewhere[np.arange(len(placed)), np.asarray(hosts)[placed]] = 0
    sent: np.ndarray = elsewhere.sum(0)
    return sent


@settings(max_examples=30)
@given(seed=st.integers(0, 999), hosts=st.integers(1, 4), per_host=st.integers(1, 3))
def test_every_rank_gets_one_and_no_other_way_keeps_more(
    seed: int, hosts: int, per_host: int
) -> None:
    volumes = drawn(seed, hosts, per_host)
    where = [host for host in range(hosts) for _ in range(per_host)]
    placed = place(volumes, where)
    assert sorted(placed.tolist()) == list(range(len(volumes)))
    sent = traffic(volumes, where, placed)
    rng = np.random.default_rng(seed)
    for _ in range(20):
        other = rng.permutation(len(volumes))
        assert sent.sum() <= traffic(volumes, where, other).sum()
    kept = sum(volumes[b, where[r]] for b, r in enumerate(placed))
    assert sent.sum() == volumes.sum() - kept


def test_the_busiest_host_sends_hardly_more_than_it_must() -> None:
    """The mean over cases is tested: the assignment minimises the sum, not the largest."""
    ratios, blind = [], []
    for seed in range(12):
        volumes, where = drawn(seed, hosts=4, per_host=4), [r // 4 for r in range(16)]
        best = busiest(volumes, 4)
        ratios.append(traffic(volumes, where, place(volumes, where)).max() / best)
        blind.append(traffic(volumes, where, np.arange(16)).max() / best)
    assert np.mean(ratios) < 1.08
    assert np.mean(blind) > 1.3


@pytest.mark.parametrize(
    ("hosts", "message"),
    [([0, 1], "3 mini-batches cannot be put on 2 ranks"), ([0, 1, 2], "rank 2 is on host 2")],
)
def test_impossible_placements_are_refused(hosts: list[int], message: str) -> None:
    with pytest.raises(DataError, match=message):
        place(np.ones((3, 2), np.int64), hosts)

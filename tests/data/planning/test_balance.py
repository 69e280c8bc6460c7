"""Balancing against brute force, proven ratios and bounds."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.config import DataConfig
from data.planning import balance
from data.planning.balance import assign_items, contiguous, fit_limits, lpt, refine
from data.planning.problem import RESOLUTION, BalanceProblem, CostKind, Ints
from data.sample import DataError
from tests.data.samples import Work

LENGTHS = st.lists(st.integers(0, 60), min_size=0, max_size=7)
KINDS = st.sampled_from(get_args(CostKind))
WORKS = st.builds(Work, st.integers(0, 9).map(float), st.sampled_from([0.0, 0.01, 0.3]))


@st.composite
def problems(draw: st.DrawFn, lengths: st.SearchStrategy[list[int]] = LENGTHS) -> BalanceProblem:
    """Balancing problems, every other one of them with limits."""
    chosen, ranks = draw(lengths), draw(st.integers(1, 3))
    kind, work = draw(KINDS), draw(WORKS)
    if draw(st.booleans()):
        return BalanceProblem(np.array(chosen, np.int64), ranks, work, kind)
    needs = np.array([(n, 1) for n in chosen], np.int64).reshape(-1, 2)
    room = draw(st.integers(0, 60)) + max(chosen, default=0), draw(st.integers(1, 8))
    return BalanceProblem(np.array(chosen, np.int64), ranks, work, kind, needs, room)


def list_assignments(problem: BalanceProblem) -> Iterator[Ints]:
    """Every way to assign all items within the limits."""
    for ranks in itertools.product(range(problem.ranks), repeat=len(problem.lengths)):
        rank = np.array(ranks, np.int64)
        if within_limits(problem, rank):
            yield rank


def within_limits(problem: BalanceProblem, rank: Ints) -> bool:
    used = np.zeros((problem.ranks, len(problem.limits)), np.int64)
    for r, need in zip(rank, problem.needs, strict=True):
        if r >= 0:
            used[r] += need
    return bool((used <= np.array(problem.limits, np.int64)).all())


def heaviest(problem: BalanceProblem, rank: Ints) -> int:
    return int(problem.loads(rank).max())


def by_definition(problem: BalanceProblem, rank: Ints) -> list[int]:
    """Loads written out rank by rank."""
    linear, quadratic = problem.cost_parts
    loads = []
    for r in range(problem.ranks):
        a, b = linear[rank == r].tolist(), quadratic[rank == r].tolist()
        loads.append(
            {
                "packed": sum(a) + sum(b),
                "padded": len(a) * (max(a, default=0) + max(b, default=0)),
                "convolution": len(a) * max(a, default=0) + sum(b),
            }[problem.kind]
        )
    return loads


@given(problem=problems(), data=st.data())
def test_loads_are_those_of_the_definition(problem: BalanceProblem, data: st.DataObject) -> None:
    count = len(problem.lengths)
    ranks = st.integers(-1, problem.ranks - 1)
    rank = np.array(data.draw(st.lists(ranks, min_size=count, max_size=count)), np.int64)
    assert problem.loads(rank).tolist() == by_definition(problem, rank)


@given(lengths=LENGTHS, ranks=st.integers(1, 4), work=WORKS)
def test_lpt_keeps_its_proven_ratio(lengths: list[int], ranks: int, work: Work) -> None:
    problem = BalanceProblem(np.array(lengths, np.int64), min(ranks, 3), work)
    best = min(heaviest(problem, rank) for rank in list_assignments(problem))
    ratio = 4 / 3 - 1 / (3 * problem.ranks)
    assert heaviest(problem, lpt(problem)) <= ratio * best * (1 + 1e-12)


@given(lengths=LENGTHS, ranks=st.integers(1, 3), work=WORKS)
def test_padded_costs_are_distributed_as_well_as_can_be(
    lengths: list[int], ranks: int, work: Work
) -> None:
    problem = BalanceProblem(np.array(lengths, np.int64), ranks, work, "padded")
    best = min(heaviest(problem, rank) for rank in list_assignments(problem))
    assert heaviest(problem, contiguous(problem)) == best


@settings(max_examples=100)
@given(problem=problems(st.lists(st.integers(0, 60), max_size=40)))
def test_deals_are_complete_and_within_limits(problem: BalanceProblem) -> None:
    rank = assign_items(problem)
    assert rank.shape == problem.lengths.shape
    assert within_limits(problem, rank)
    assert rank.max(initial=0) < problem.ranks
    if not problem.limits:
        assert rank.min(initial=0) >= 0
        assert heaviest(problem, rank) >= int(problem.bound)


@given(problem=problems(st.lists(st.integers(0, 60), max_size=20)))
def test_only_what_fits_nowhere_waits(problem: BalanceProblem) -> None:
    rank = lpt(problem)
    used = np.zeros((problem.ranks, len(problem.limits)), np.int64)
    np.add.at(used, rank[rank >= 0], problem.needs[rank >= 0])
    for need in problem.needs[rank < 0]:
        assert (used + need > np.array(problem.limits)).any(1).all()


@settings(max_examples=100)
@given(problem=problems(st.lists(st.integers(0, 60), max_size=20)), data=st.data())
def test_refining_gains_until_no_exchange_with_a_light_rank_does(
    problem: BalanceProblem, data: st.DataObject
) -> None:
    count = len(problem.lengths)
    first = st.lists(st.integers(0, problem.ranks - 1), min_size=count, max_size=count)
    rank = np.array(data.draw(first), np.int64)
    if problem.limits:  # no more than what is taken: nearly every exchange breaks one
        needs = np.array(data.draw(st.lists(st.integers(0, 3), min_size=count, max_size=count)))
        taken = np.bincount(rank, needs, minlength=problem.ranks).astype(int).tolist()
        problem = replace(problem, needs=needs.reshape(count, 1), limits=(max(taken),))
    better = refine(problem, rank)
    assert within_limits(problem, better)
    before = sorted(problem.loads(rank).tolist(), reverse=True)
    after = sorted(problem.loads(better).tolist(), reverse=True)
    assert after <= before
    if after[0] > problem.bound:
        assert all(heaviest_two(problem, better, other) for other in exchanges(problem, better))


def exchanges(problem: BalanceProblem, rank: Ints) -> Iterator[Ints]:
    """Assignments after a move or a swap between the heaviest rank and any other."""
    heavy = int(problem.loads(rank).argmax())
    mine = [*np.flatnonzero(rank == heavy).tolist(), None]
    for light in set(range(problem.ranks)) - {heavy}:
        for given_, taken in itertools.product(
            mine, [*np.flatnonzero(rank == light).tolist(), None]
        ):
            other = rank.copy()
            if given_ is not None:
                other[given_] = light
            if taken is not None:
                other[taken] = heavy
            if within_limits(problem, other):
                yield other


def heaviest_two(problem: BalanceProblem, rank: Ints, other: Ints) -> bool:
    """Whether one of the two ranks of an exchange is as heavy as the heaviest was."""
    changed = set(rank[rank != other].tolist()) | set(other[rank != other].tolist())
    loads = problem.loads(other)
    return not changed or max(loads[r] for r in changed) >= heaviest(problem, rank)


@pytest.mark.parametrize(("ranks", "samples", "slack"), [(320, 8, 0.03), (320, 25, 0.01)])
def test_heavy_tails_come_close_to_the_bound(ranks: int, samples: int, slack: float) -> None:
    rng = np.random.default_rng(0)
    lengths = np.minimum(rng.lognormal(6, 0.9, ranks * samples), 32768).astype(np.int64)
    problem = BalanceProblem(lengths, ranks, Work(1.0, 1e-4))
    assert heaviest(problem, assign_items(problem)) <= (1 + slack) * problem.bound


def test_costs_are_whole_numbers_whatever_their_size() -> None:
    lengths = np.array([1, 10**6, 3], np.int64)
    costs = BalanceProblem(lengths, 2, Work(1e12, 1e9)).costs
    assert costs.dtype == np.int64
    assert costs[1] == pytest.approx(RESOLUTION, abs=1)
    assert BalanceProblem(lengths, 2, Work(0.0, 0.0)).costs.tolist() == [0, 0, 0]


# ---- bad input -----------------------------------------------------------------------------------

PROBLEM = BalanceProblem(np.array([5, 3, 2]), 2, Work(1, 0), names=("a.png", "b.png", "c.png"))


@pytest.mark.parametrize(
    ("problem", "result", "message"),
    [
        (PROBLEM, [[0], [1]], "drops item c.png"),
        (PROBLEM, [[0, 1], [1, 2]], "repeats item b.png: ranks 0 and 1"),
        (PROBLEM, [[0, 1], [2], [3]], "assigns item 3; valid: 0 to 2"),
        (PROBLEM, [[0], [1], [2]], "assigns item c.png to rank 2 of 2"),
        (PROBLEM, np.array([0, 1]), r"returned an array of int64 \[2\]; valid: integers \[3\]"),
        (PROBLEM, np.array([0.0, 1.0, 1.0]), r"returned an array of float64 \[3\]"),
        (PROBLEM, [0, 1, 1], r"returned \[0, 1, 1\]; valid: an array"),
        (PROBLEM, None, "returned None; valid: an array"),
        (PROBLEM, [[0.5], [1, 2]], r"returned \[\[0.5\], \[1, 2\]\]; valid"),
        (PROBLEM, np.array([0, -1, 1]), "drops item b.png"),
    ],
)
def test_wrong_deals_are_refused(
    problem: BalanceProblem, result: Any, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(balance, "ALGORITHMS", dict(balance.ALGORITHMS))
    balance.register("mine", lambda problem: result)
    with pytest.raises(DataError, match=f"^mine {message}"):
        assign_items(problem, "mine")


@given(problems(), st.data())
def test_items_above_the_limits_move_where_there_is_room(
    problem: BalanceProblem, data: st.DataObject
) -> None:
    """What keeps the limits stays; an item has no rank only if no rank has room for it."""
    items = len(problem.lengths)
    ranks = st.lists(st.integers(-1, problem.ranks - 1), min_size=items, max_size=items)
    given_rank = np.array(data.draw(ranks), np.int64)
    fitted = fit_limits(problem, given_rank)
    limits = np.array(problem.limits, np.int64)
    before, after = (needs_of_ranks(problem, rank) for rank in (given_rank, fitted))
    assert (after <= limits).all()
    for item in np.flatnonzero(fitted < 0):
        assert ((after + problem.needs[item]) > limits).any(1).all()
    within = set(np.flatnonzero((before <= limits).all(1)).tolist())
    for rank, target in zip(given_rank.tolist(), fitted.tolist(), strict=True):
        assert rank not in within or target == rank


def needs_of_ranks(problem: BalanceProblem, rank: Ints) -> Ints:
    """Sums of the needs of every rank's items, `[ranks, resources]`."""
    used = np.zeros((problem.ranks, len(problem.limits)), np.int64)
    np.add.at(used, rank[rank >= 0], problem.needs[rank >= 0])
    return used


def test_algorithms_are_found_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(balance, "ALGORITHMS", dict(balance.ALGORITHMS))
    balance.register("first", lambda problem: [list(range(len(problem.lengths))), []])
    assert assign_items(PROBLEM, "first").max() == 1, "what an algorithm finds is refined"
    assert assign_items(PROBLEM, "data.planning.balance:contiguous").tolist() == [0, 1, 1]
    with pytest.raises(DataError, match="is there already"):
        balance.register("lpt", lpt)
    for name in ("unknown", "data.balance:unknown", "no.such.module:lpt", ":"):
        with pytest.raises(DataError, match=r"valid: \['contiguous', 'first', 'lpt'\]"):
            balance.find_algorithm(name)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ranks": 0}, "over 0 ranks"),
        ({"lengths": np.array([1, -4])}, "length -4"),
        ({"limits": (3,), "needs": np.zeros((1, 1))}, r"needs \(1, 1\) are not for 2 items"),
    ],
)
def test_impossible_problems_are_refused(options: dict[str, Any], message: str) -> None:
    values: dict[str, Any] = {"lengths": np.array([1, 2]), "ranks": 2, "work": Work(1, 0)}
    with pytest.raises(DataError, match=message):
        BalanceProblem(**values | options)


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(DataError, match="'os:path': os:path is a module, not a function"):
        balance.find_algorithm("os:path")


def test_an_algorithm_cannot_change_its_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    def sorting(problem: BalanceProblem) -> Ints:
        problem.lengths.sort()
        return np.zeros(len(problem.lengths), np.int64)

    monkeypatch.setattr(balance, "ALGORITHMS", dict(balance.ALGORITHMS))
    balance.register("sorting", sorting)
    with pytest.raises(ValueError, match="read-only"):
        assign_items(PROBLEM, "sorting")


def test_the_source_of_an_algorithm_of_ones_own_is_told(tmp_path, monkeypatch):
    module = tmp_path / "own_balancing.py"
    monkeypatch.syspath_prepend(tmp_path)
    names = {"decoder": "own_balancing:assign", "vision": "lpt", "audio": None}
    config = DataConfig(
        budgets={"tokens": 1, "segments": 1},
        balancing={module: {"algorithm": name} for module, name in names.items()},
    )
    found = []
    for body in ("return problem", "return problem", "return [problem]"):
        module.write_text(f"def assign(problem):\n    {body}\n")
        found.append(balance.fingerprints(config))
    (key,) = found[0]
    assert key == "source of data.balancing.decoder.algorithm own_balancing:assign"
    assert found[0] == found[1] != found[2]

"""Balancing: which rank gets which item, so that the heaviest rank is as light as possible.

OrchMLLM (arXiv 2503.23830), section 4: after a global batch has been drawn its items are
distributed anew for every phase, which changes no result, as the gradient is a sum over the same
samples. The cost of a rank is defined in `data.planning.problem`.
"""

from __future__ import annotations

import hashlib
import heapq
import importlib
import inspect
import operator
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from data.config import DataConfig
from data.planning.problem import BalanceProblem, CostKind, Ints
from data.sample import DataError

_UNLIMITED = 2**62
#: Number of the lightest ranks with which the heaviest tries to exchange items.
LIGHTEST_TRIED = 8


#: Assigns the items of a problem to ranks: returns the rank of each, -1 for an item without room;
#: or the list of items of every rank, which must hold all items.
Algorithm = Callable[[BalanceProblem], Ints | Sequence[Sequence[int]]]


def lpt(problem: BalanceProblem) -> Ints:
    """Longest processing time first: each item, most expensive first, to the lightest rank.

    For packed costs at most 4/3 - 1/(3 ranks) of the optimum (Graham, SIAM J. Appl. Math. 1969)
    while no limit binds. It takes O(items log ranks).
    """
    costs = problem.costs
    order = np.argsort(-costs, kind="stable")
    rank = np.full(len(costs), -1, np.int64)
    if not problem.limits:
        rank[order] = _lightest_first(costs[order].tolist(), problem.ranks)
        return rank
    left = [list(problem.limits) for _ in range(problem.ranks)]
    heap = [(0, r) for r in range(problem.ranks)]
    for item in order.tolist():
        need = problem.needs[item].tolist()
        full: list[tuple[int, int]] = []
        while heap and any(n > m for n, m in zip(need, left[heap[0][1]], strict=True)):
            full.append(heapq.heappop(heap))
        if heap:
            load, r = heap[0]
            heapq.heapreplace(heap, (load + int(costs[item]), r))
            left[r] = [m - n for n, m in zip(need, left[r], strict=True)]
            rank[item] = r
        for entry in full:
            heapq.heappush(heap, entry)
    return rank


def _lightest_first(costs: list[int], ranks: int) -> list[int]:
    """Rank of each of `costs` in turn: the lightest so far, the first of equals."""
    # A load and its rank in one number, which a heap compares faster than a pair.
    heap = list(range(ranks))
    chosen = []
    for cost in costs:
        top = heap[0]
        chosen.append(top % ranks)
        heapq.heapreplace(heap, top + cost * ranks)
    return chosen


def contiguous(problem: BalanceProblem) -> Ints:
    """Runs of the items in order of length, the most expensive of which is as cheap as can be.

    The result is optimal for padded costs: an optimal assignment consists of such runs (OrchMLLM,
    section 4.2). The cap on costs is found by binary search; under a cap every rank, from the
    longest item on, takes as many items as fit.
    """
    rank = np.full(len(problem.lengths), -1, np.int64)
    fitting = np.flatnonzero((problem.needs <= problem.limits).all(1))
    order = fitting[np.argsort(-problem.lengths[fitting], kind="stable")]
    starts, end = _Runs(problem, order).cheapest_runs()
    rank[order[:end]] = np.searchsorted(starts, np.arange(end), side="right") - 1
    return rank


class _Runs:
    """Runs of sorted items under a cap of their costs."""

    def __init__(self, problem: BalanceProblem, order: Ints) -> None:
        self._count, self._ranks = len(order), problem.ranks
        linear, attention = (part[order] for part in problem.cost_parts)
        # The first item of a run is its longest.
        padded = linear * (problem.kind != "packed") + attention * (problem.kind == "padded")
        packed = linear + attention - padded
        self._longest, self._sums = padded, np.concatenate([[0], np.cumsum(packed)])
        needs = problem.needs[order]
        self._most = self._ends_by_limits(needs, problem.limits)
        self._bound = 0 if problem.limits else int(np.ceil(problem.bound))

    def _ends_by_limits(self, needs: Ints, limits: tuple[int, ...]) -> Ints:
        """Latest end of a run that starts at each item, by the limits."""
        ends = np.full(self._count, self._count)
        for resource, limit in enumerate(limits):
            sums = np.concatenate([[0], np.cumsum(needs[:, resource])])
            ends = np.minimum(ends, np.searchsorted(sums, sums[:-1] + limit, side="right") - 1)
        return ends

    def _cost_of_runs(self, start: Ints, end: Ints) -> Ints:
        return self._longest[start] * (end - start) + self._sums[end] - self._sums[start]

    def _ends_under(self, cap: int) -> Ints:
        """End of the longest run under `cap` that starts at each item."""
        start = np.arange(self._count)
        low, high = start.copy(), self._most.copy()
        while True:
            middle = (low + high + 1) // 2
            fits = self._cost_of_runs(start, middle) <= cap
            low, high = np.where(fits, middle, low), np.where(fits, high, middle - 1)
            if (low >= high).all():
                return low

    def _starts_under(self, cap: int) -> tuple[list[int], int]:
        """Starts of the runs under `cap`, and the end of the last one."""
        ends, start = self._ends_under(cap).tolist(), 0
        starts: list[int] = []
        while start < self._count and len(starts) < self._ranks and ends[start] > start:
            starts.append(start)
            start = ends[start]
        return starts, start

    def cheapest_runs(self) -> tuple[list[int], int]:
        """Starts of the runs under the smallest cap that covers most items; end of the last run."""
        best, reach = self._starts_under(_UNLIMITED)
        low, high = self._bound, self._most_expensive(best, reach)
        while low < high:
            cap = (low + high) // 2
            starts, end = self._starts_under(cap)
            if end == reach:
                best, high = starts, self._most_expensive(starts, reach)
            else:
                low = max(cap + 1, self._next_cap(starts, cap))
        return best, reach

    def _most_expensive(self, starts: list[int], end: int) -> int:
        begin = np.array(starts, np.int64)
        return int(
            self._cost_of_runs(begin, np.append(begin[1:], end)[: len(begin)]).max(initial=0)
        )

    def _next_cap(self, starts: list[int], cap: int) -> int:
        """The smallest cap under which a run grows: lower caps give the same runs."""
        begin = np.array(starts, np.int64)
        ends = self._ends_under(cap)[begin]
        grows = ends < self._most[begin]
        costs = self._cost_of_runs(begin[grows], ends[grows] + 1)
        return int(costs.min(initial=_UNLIMITED))


# ---- refinement ----------------------------------------------------------------------------------


def refine(problem: BalanceProblem, rank: Ints) -> Ints:
    """Move and swap items between the heaviest rank and the lightest ones while that helps.

    Every exchange leaves both ranks lighter than the heaviest was.

    Args:
        rank: `[items]`: an assignment that keeps the limits; items with -1 stay without a rank.
    """
    loads = problem.loads(rank)
    if loads.max() <= problem.bound:
        return rank
    order = np.argsort(rank, kind="stable")
    order = order[np.searchsorted(rank[order], 0) :]
    counts = np.bincount(rank[order], minlength=problem.ranks)
    members = np.split(order, np.cumsum(counts)[:-1])
    exchange = _Exchange(problem)
    for _ in range(8 * problem.ranks):
        heavy = int(loads.argmax())
        if loads[heavy] <= problem.bound or not _relieve_heaviest(exchange, members, loads, heavy):
            break
    better = np.full_like(rank, -1)
    for r, items in enumerate(members):
        better[items] = r
    return better


def _relieve_heaviest(exchange: _Exchange, members: list[Ints], loads: Ints, heavy: int) -> bool:
    """Make the heaviest rank lighter, if an exchange with one of the lightest does so."""
    for light in _lightest_ranks(loads, LIGHTEST_TRIED + 1):
        best = None
        if light != heavy:
            best = exchange.find_best(members[heavy], members[light], int(loads[heavy]))
        if best is None:
            continue
        from_heavy, from_light, loads[heavy], loads[light] = best
        gives, takes = (
            members[heavy][from_heavy : from_heavy + 1],
            members[light][from_light : from_light + 1],
        )
        members[heavy] = np.concatenate(
            [np.delete(members[heavy], slice(from_heavy, from_heavy + 1)), takes]
        )
        members[light] = np.concatenate(
            [np.delete(members[light], slice(from_light, from_light + 1)), gives]
        )
        return True
    return False


def _lightest_ranks(loads: Ints, count: int) -> list[int]:
    """The `count` lightest ranks, the first of equals first."""
    if count < len(loads):
        limit = np.partition(loads, count - 1)[count - 1]
        ranks = np.flatnonzero(loads <= limit)
    else:
        ranks = np.arange(len(loads))
    return ranks[np.argsort(loads[ranks], kind="stable")][:count].tolist()


class _Exchange:
    """Costs of two ranks after the exchange of at most one item of each."""

    def __init__(self, problem: BalanceProblem) -> None:
        linear, attention = problem.cost_parts
        zero = np.zeros_like(linear)
        self._padded, self._packed = {
            "packed": (zero, linear + attention),
            "padded": (linear + attention, zero),
            "convolution": (linear, attention),
        }[problem.kind]
        self._pads = problem.kind != "packed"
        self._needs, self._limits = problem.needs, np.array(problem.limits, np.int64)

    def find_best(self, heavy: Ints, light: Ints, load: int) -> tuple[int, int, int, int] | None:
        """The exchange after which the heavier of the two is lightest, if it is below `load`.

        Returns:
            Indices of the given and the taken item, or the number of items if there is none; both
            new costs.
        """
        new_heavy, new_light = self._costs_after(heavy, light), self._costs_after(light, heavy).T
        worst = np.maximum(new_heavy, new_light)
        if len(self._limits):
            fits = self._within_limits(heavy, light) & self._within_limits(light, heavy).T
            worst = np.where(fits, worst, np.iinfo(np.int64).max)
        row, column = divmod(int(worst.argmin()), worst.shape[1])
        if worst[row, column] >= load:
            return None
        return row, column, int(new_heavy[row, column]), int(new_light[row, column])

    def _costs_after(self, items: Ints, other: Ints) -> Ints:
        """Cost of a rank by given and taken item; the last entry of each axis is no item."""
        gives, takes = np.append(self._packed[items], 0), np.append(self._packed[other], 0)
        costs: Ints = gives.sum() - gives[:, None] + takes
        if self._pads:
            count = np.full((len(items) + 1, len(other) + 1), len(items))
            count[:-1] -= 1
            count[:, :-1] += 1
            longest = np.maximum(
                self._longest_without(items)[:, None], np.append(self._padded[other], 0)
            )
            costs += count * longest
        return costs

    def _longest_without(self, items: Ints) -> Ints:
        """Padded cost of a rank's longest item, without each of its items and with all."""
        padded = self._padded[items]
        second, first = np.sort(np.concatenate([[0, 0], padded]))[-2:]
        without = np.full(len(items) + 1, first)
        if len(items):
            without[padded.argmax()] = second
        return without

    def _within_limits(self, items: Ints, other: Ints) -> NDArray[np.bool_]:
        """Whether a rank keeps its limits, by given and taken item."""
        none = np.zeros((1, len(self._limits)), np.int64)
        gives = np.concatenate([self._needs[items], none])
        takes = np.concatenate([self._needs[other], none])
        used = gives.sum(0) - gives[:, None] + takes
        return np.asarray((used <= self._limits).all(-1))


# ---- the interface -------------------------------------------------------------------------------

#: Algorithms by name; `register` adds to them.
ALGORITHMS: dict[str, Algorithm] = {"lpt": lpt, "contiguous": contiguous}
#: Names of the built-in algorithms.
SHIPPED = tuple(ALGORITHMS)
#: Default algorithm for each kind of costs.
DEFAULT: Mapping[CostKind, str] = {
    "packed": "lpt",
    "padded": "contiguous",
    "convolution": "contiguous",
}


def register(name: str, algorithm: Algorithm) -> None:
    """Make `algorithm` known by `name`, in this process.

    Raises:
        DataError: the name is taken.
    """
    if name in ALGORITHMS:
        raise DataError(f"a balancing algorithm {name!r} is there already; choose another name")
    ALGORITHMS[name] = algorithm


def find_algorithm(name: str) -> Algorithm:
    """The algorithm registered as `name`, or `module:function`, which worker processes find too.

    Raises:
        DataError: there is no such algorithm.
    """
    if name in ALGORITHMS:
        return ALGORITHMS[name]
    module, _, function = name.partition(":")
    try:
        algorithm: Algorithm = getattr(importlib.import_module(module), function)
        if not callable(algorithm):
            raise TypeError(f"{name} is a {type(algorithm).__name__}, not a function")
    except Exception as error:  # a module may raise anything while it is imported
        raise DataError(
            f"balancing algorithm {name!r}: {error}; valid: {sorted(ALGORITHMS)}, "
            "or module:function"
        ) from error
    return algorithm


def fingerprints(config: DataConfig) -> dict[str, str]:
    """Digest of the source of every `module:function` that balances, by the key that names it.

    Raises:
        DataError: there is no such module.
    """
    named = {
        f"data.balancing.{module}.algorithm": section.algorithm
        for module, section in config.balancing.items()
    }
    return {
        f"source of {key} {name}": _digest_file(name)
        for key, name in named.items()
        if name is not None and name not in ALGORITHMS
    }


def _digest_file(name: str) -> str:
    """Digest of the file that holds `module:function`; a module may have several files."""
    module = inspect.getmodule(find_algorithm(name))
    file = module and module.__file__
    content = Path(file).read_bytes() if file else repr(module).encode()
    return hashlib.sha256(content).hexdigest()[:12]


def assign_items(problem: BalanceProblem, algorithm: str | None = None) -> Ints:
    """Assign a rank to every item, `[items]`; -1 to items that have no room within the limits.

    Args:
        problem: items and ranks.
        algorithm: name, see `find_algorithm`; by default the one for the kind of costs. Items for
            which one of a user finds no room within the limits are placed by `fit_limits`. The
            result is refined.

    Raises:
        DataError: the algorithm is unknown, or drops or repeats an item.
    """
    name = algorithm or DEFAULT[problem.kind]
    rank = _check_ranks(problem, name, find_algorithm(name)(problem))
    if problem.limits and name not in SHIPPED:
        rank = fit_limits(problem, rank)
    return refine(problem, rank)


def fit_limits(problem: BalanceProblem, rank: Ints) -> Ints:
    """Move the items that exceed the limits of their ranks to the lightest ranks with room.

    Each rank keeps its most expensive items that fit. The others, and those without a rank, go one
    by one, the most expensive first, to the lightest rank that has room.

    Args:
        rank: `[items]`: rank of every item, or -1.

    Returns:
        The rank of every item, `[items]`; -1 for items for which none has room.
    """
    order = np.argsort(-problem.costs, kind="stable")
    left = np.tile(np.array(problem.limits, np.int64), (problem.ranks, 1))
    if rank.min(initial=0) >= 0:
        used = np.zeros_like(left)
        np.add.at(used, rank, problem.needs)
        if (used <= left).all():
            return rank
    fitted = np.full_like(rank, -1)

    def place(item: int, target: int) -> None:
        fitted[item] = target
        left[target] -= problem.needs[item]

    for item in order[rank[order] >= 0]:
        if (problem.needs[item] <= left[rank[item]]).all():
            place(item, rank[item])
    for item in order[fitted[order] < 0]:
        with_room = np.flatnonzero((problem.needs[item] <= left).all(1))
        if len(with_room):
            place(item, with_room[problem.loads(fitted)[with_room].argmin()])
    return fitted


def _check_ranks(problem: BalanceProblem, name: str, result: Any) -> Ints:
    """Result of an algorithm as ranks, or an error that names the item."""
    count = len(problem.lengths)
    rank = (
        result
        if isinstance(result, np.ndarray)
        else _ranks_of_groups(problem, name, _check_groups(name, result))
    )
    if rank.shape != (count,) or not np.issubdtype(rank.dtype, np.integer):
        raise DataError(
            f"{name} returned an array of {rank.dtype} {list(rank.shape)}; valid: integers "
            f"[{count}]"
        )
    for item in np.flatnonzero((rank >= problem.ranks) | (rank < -1))[:1]:
        raise DataError(
            f"{name} assigns item {problem.name(item)} to rank {rank[item]} of {problem.ranks}"
        )
    if not problem.limits:
        for item in np.flatnonzero(rank < 0)[:1]:
            raise DataError(f"{name} drops item {problem.name(item)}")
    return rank.astype(np.int64)


def _check_groups(name: str, result: Any) -> list[list[int]]:
    """Result of an algorithm as the list of items of every rank."""
    try:
        return [[operator.index(item) for item in items] for items in result]
    except TypeError as error:
        raise DataError(
            f"{name} returned {str(result)[:80]}; valid: an array with the rank of every item, or "
            "a list of the items of every rank"
        ) from error


def _ranks_of_groups(problem: BalanceProblem, name: str, groups: Sequence[Sequence[int]]) -> Ints:
    """The rank of every item, from the items of every rank."""
    rank = np.full(len(problem.lengths), -1, np.int64)
    for r, items in enumerate(groups):
        for item in items:
            if not 0 <= item < len(rank):
                raise DataError(f"{name} assigns item {item}; valid: 0 to {len(rank) - 1}")
            if rank[item] >= 0:
                raise DataError(
                    f"{name} repeats item {problem.name(item)}: ranks {rank[item]} and {r}"
                )
            rank[item] = r
    for item in np.flatnonzero(rank < 0)[:1]:
        raise DataError(f"{name} drops item {problem.name(item)}")
    return rank


def check_balancing(config: DataConfig, modules: Sequence[str]) -> None:
    """Check that `data.balancing` names known modules that are balanced, and known algorithms.

    Args:
        config: the section `data`.
        modules: names of the backbone and of all buckets.

    Raises:
        DataError: a module or an algorithm is unknown, or a module is not balanced.
    """
    balanced = {"none": [], "backbone": modules[:1]}.get(config.balance, modules)
    for module, how in config.balancing.items():
        if module not in modules:
            raise DataError(f"data.balancing.{module}: no such module; valid: {', '.join(modules)}")
        if module not in balanced:
            raise DataError(
                f"data.balancing.{module}: no effect, as data.balance is {config.balance}; valid: "
                "left out, or data.balance per_phase"
            )
        if how.algorithm is not None:
            try:
                find_algorithm(how.algorithm)
            except DataError as error:
                raise DataError(f"data.balancing.{module}.algorithm: {error}") from error

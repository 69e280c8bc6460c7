"""Largest differencing method (Karmarkar and Karp 1982): a balancer of one's own."""

from __future__ import annotations

import heapq
from itertools import count

from data.planning.problem import BalanceProblem


def assign(problem: BalanceProblem) -> list[list[int]]:
    """Items of every rank, by the largest differencing method.

    Every item begins as an assignment of its own, whose other ranks are empty. The two assignments
    with the largest spread of costs become one, the heaviest rank of the first with the lightest
    rank of the second, until one is left.
    """
    number = count()
    empty: list[tuple[int, list[int]]] = [(0, [])] * (problem.ranks - 1)
    heap = [(-cost, next(number), [*empty, (cost, [i])]) for i, cost in enumerate(problem.costs)]
    heapq.heapify(heap)
    while len(heap) > 1:
        (_, _, first), (_, _, second) = heapq.heappop(heap), heapq.heappop(heap)
        pairs = zip(first, reversed(second), strict=True)
        merged = sorted((a + b, [*items, *others]) for (a, items), (b, others) in pairs)
        heapq.heappush(heap, (merged[0][0] - merged[-1][0], next(number), merged))
    return [items for _, items in heap[0][2]] if heap else [[] for _ in range(problem.ranks)]

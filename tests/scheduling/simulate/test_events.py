"""The event simulation against brute force, and what holds for every graph."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.simulate.events import EventError, Node, NodeTimes, run_cases, run_nodes
from tests.timing import within

#: Whole numbers and halves, so that sums are exact.
seconds = st.sampled_from([0.0, 0.5, 1.0, 2.0, 3.0, 7.0])


@st.composite
def graphs(draw: st.DrawFn, most: int = 9) -> list[Node]:
    """Small graphs on two streams and none; nodes may wait for later ones."""
    count = draw(st.integers(0, most))
    streams = draw(st.lists(st.sampled_from(["compute", 1, None]), min_size=count, max_size=count))
    # Orders of the streams and of waiting agree in some order of all nodes: no cycle.
    ranks = draw(st.permutations(range(count)))
    nodes: list[Node] = []
    for index in range(count):
        earlier = [i for i in range(count) if ranks[i] < ranks[index]]
        after = draw(st.sets(st.sampled_from(earlier), max_size=3)) if earlier else set()
        priority = draw(st.integers(0, 2))
        nodes.append(Node(streams[index], draw(seconds), tuple(after), priority))
    return _in_order_of(nodes, ranks)


def _in_order_of(nodes: list[Node], ranks: Sequence[int]) -> list[Node]:
    """`nodes` with those of each stream swapped into the order of `ranks`, else left in place."""
    where: dict[int, int] = {}
    for stream in {node.stream for node in nodes if node.stream is not None}:
        own = [i for i, node in enumerate(nodes) if node.stream == stream]
        where |= dict(zip(sorted(own, key=lambda i: ranks[i]), own, strict=True))
    moved = list(nodes)
    for index, node in enumerate(nodes):
        after = tuple(where.get(other, other) for other in node.after)
        moved[where.get(index, index)] = node._replace(after=after)
    return moved


def edges(nodes: Sequence[Node]) -> Iterator[tuple[int, int]]:
    """Every `(earlier, later)` that waiting and the order of streams ask for."""
    by_stream = defaultdict(list)
    for index, node in enumerate(nodes):
        yield from ((other, index) for other in node.after)
        if node.stream is not None:
            by_stream[node.stream].append(index)
    for own in by_stream.values():
        yield from pairwise(own)


def paths(nodes: Sequence[Node], before: dict[int, set[int]], index: int) -> Iterator[float]:
    """Seconds of every path that ends with node `index`, counted one by one."""
    yield nodes[index].seconds
    for other in before[index]:
        yield from (length + nodes[index].seconds for length in paths(nodes, before, other))


def longest(nodes: Sequence[Node], pairs: Iterator[tuple[int, int]]) -> list[float]:
    """The longest path up to the end of each node, by brute force."""
    before: dict[int, set[int]] = defaultdict(set)
    for earlier, later in pairs:
        before[later].add(earlier)
    return [max(paths(nodes, before, index)) for index in range(len(nodes))]


def overlaps(nodes: Sequence[Node], times: NodeTimes, stream: object) -> list[tuple[int, int]]:
    """Neighbours on `stream` of which the second starts before the first has ended."""
    own = [i for i, node in enumerate(nodes) if node.stream == stream]
    own.sort(key=lambda i: (times.start[i], times.end[i]))
    return [(i, j) for i, j in pairwise(own) if times.start[j] < times.end[i]]


@given(graphs())
def test_streams_in_order_take_the_longest_path(nodes: list[Node]) -> None:
    times = run_nodes(nodes)
    ends = longest(nodes, edges(nodes))
    assert list(times.end) == ends
    assert times.makespan == max(ends, default=0.0)
    assert all(e - s == n.seconds for s, e, n in zip(times.start, times.end, nodes, strict=True))


@given(graphs())
def test_list_scheduling_is_a_valid_schedule(nodes: list[Node]) -> None:
    times = run_nodes(nodes, listed=("compute", 1))
    waiting = [(other, i) for i, node in enumerate(nodes) for other in node.after]
    assert all(times.end[i] <= times.start[j] for i, j in waiting)
    ends = longest(nodes, iter(waiting))
    assert all(end >= least for end, least in zip(times.end, ends, strict=True))
    for stream in ("compute", 1):
        assert not overlaps(nodes, times, stream)
        assert times.makespan >= sum(node.seconds for node in nodes if node.stream == stream)


@given(graphs())
def test_no_listed_stream_is_idle_with_a_ready_node(nodes: list[Node]) -> None:
    times = run_nodes(nodes, listed=("compute", 1))
    for index, node in enumerate(nodes):
        ready = max((times.end[other] for other in node.after), default=0.0)
        own = [i for i, other in enumerate(nodes) if other.stream == node.stream]
        busy = sum(
            max(0.0, min(times.end[i], times.start[index]) - max(times.start[i], ready))
            for i in own
        )
        waited = times.start[index] - ready
        assert waited == (0.0 if node.stream is None else busy)


def test_the_lowest_priority_number_goes_first() -> None:
    nodes = [Node("c", 1.0), *(Node("c", 1.0, (0,), priority) for priority in (2, 1, 1, 0))]
    assert run_nodes(nodes, listed=["c"]).start == (0.0, 4.0, 2.0, 3.0, 1.0)
    assert run_nodes(nodes).start == (0.0, 1.0, 2.0, 3.0, 4.0)


def test_the_example_of_the_documentation() -> None:
    nodes = [Node("c", 2), Node("l", 3, (0,)), Node("c", 4, priority=1)]
    times = run_nodes(nodes, listed=("c", "l"))
    assert times == NodeTimes((0.0, 2.0, 2.0), (2.0, 5.0, 6.0))


def test_a_stream_is_one_in_order_and_another_listed() -> None:
    nodes = [Node("a", 5.0), Node("b", 1.0, (0,)), Node("b", 1.0), Node("a", 1.0, (2,))]
    assert run_nodes(nodes, listed=["b"]).end == (5.0, 6.0, 1.0, 6.0)
    assert run_nodes(nodes).end == (5.0, 6.0, 7.0, 8.0)


def test_nodes_that_wait_for_each_other_are_named() -> None:
    nodes = [
        Node("a", 1.0),
        Node("a", 1.0, (2,), name="B"),
        Node("b", 1.0, (3,)),
        Node("a", 1.0, (), name="C"),
    ]
    expected = r"node 1 \(B\) <- node 2 <- node 3 \(C\) <- node 1 \(B\)"
    with pytest.raises(EventError, match=expected):
        run_nodes(nodes)
    assert run_nodes(nodes, listed=["a"]).makespan == 4.0


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        (Node("a", -1.0, name="F"), r"node 0 \(F\): -1.0 seconds are refused; valid: 0 or more"),
        (Node("a", float("nan")), "node 0: nan seconds are refused"),
        (Node("a", 1.0, (1,)), "node 0 waits for node 1, which does not exist; valid: 0 to 0"),
        (Node("a", 1.0, (-1,)), "waits for node -1"),
    ],
)
def test_wrong_nodes_are_refused(node: Node, reason: str) -> None:
    with pytest.raises(EventError, match=reason):
        run_nodes([node])


def test_sixty_thousand_nodes_take_less_than_a_second() -> None:
    draw = random.Random(0)
    nodes = [
        Node(draw.randrange(16), draw.random(), tuple(draw.randrange(i) for _ in range(min(i, 2))))
        for i in range(60_000)
    ]
    assert within(1, lambda: run_nodes(nodes))


# ---- several cases of one graph ------------------------------------------------------------------


@given(graphs(), st.data())
def test_every_case_ends_as_if_it_ran_alone(nodes: list[Node], data: st.DataObject) -> None:
    times = st.lists(seconds, min_size=len(nodes), max_size=len(nodes))
    cases = np.array(data.draw(st.lists(times, min_size=1, max_size=3)))
    ends = run_cases(nodes, cases.T)
    for case, own in enumerate(cases):
        alone = [node._replace(seconds=s) for node, s in zip(nodes, own.tolist(), strict=True)]
        assert ends[:, case].tolist() == list(run_nodes(alone).end)


def test_cases_of_a_cycle_are_refused() -> None:
    nodes = [Node(None, 1.0, (1,), name="a"), Node(None, 1.0, (0,), name="b")]
    with pytest.raises(EventError, match="wait for each other"):
        run_cases(nodes, np.ones((2, 1)))

"""Event simulation: nodes on streams, each after the nodes that it waits for.

A stream runs one node at a time, from its start to its end. Its nodes run in the order in which
they are given, or, if the stream is *listed*, by list scheduling: a free stream takes, of its nodes
that are ready, the one with the lowest priority number (Graham, "Bounds on multiprocessing timing
anomalies", 1969). Compute `c` and a collective `l` of two tasks, both streams listed::

    nodes     Node("c", 2), Node("l", 3, (0,)), Node("c", 4, priority=1)
    seconds   0     2           5  6
    c         |  0  |     2        |
    l         |     |     1     |
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np


class EventError(ValueError):
    """A graph of nodes that cannot run."""


class Node(NamedTuple):
    """A node of the graph, which takes time.

    Attributes:
        stream: stream that the node occupies; a node without one starts as soon as it is ready.
        seconds: duration.
        after: indices of the nodes whose ends it waits for.
        priority: in listed streams, the ready node with the lowest priority goes first, then the
            one with the lowest index.
        name: name for error messages.
    """

    stream: Hashable
    seconds: float
    after: tuple[int, ...] = ()
    priority: int = 0
    name: object = ""


@dataclass(frozen=True)
class NodeTimes:
    """The times at which every node runs.

    Attributes:
        start, end: by node, seconds.
    """

    start: tuple[float, ...]
    end: tuple[float, ...]

    @property
    def makespan(self) -> float:
        """Seconds until all is done."""
        return max(self.end, default=0.0)


def run_nodes(nodes: Sequence[Node], listed: Collection[Hashable] = ()) -> NodeTimes:
    """Runs all nodes, each as early as its stream and what it waits for allow.

    Args:
        nodes: all nodes; those of a stream that is not listed are in the order in which they run.
        listed: streams that choose among what is ready.

    Raises:
        EventError: a node takes less than no time or waits for one that does not exist, or nodes
            wait for each other.
    """
    _check_nodes(nodes)
    return _Run(nodes, listed).run_all()


def run_cases(nodes: Sequence[Node], seconds: np.ndarray) -> np.ndarray:
    """Ends of all nodes of one graph, whose nodes take other times in each of several cases.

    Args:
        nodes: as of `run_nodes`, with no listed stream; their seconds are not used.
        seconds: `[nodes, cases]`.

    Returns:
        `[nodes, cases]`.

    Raises:
        EventError: as `run_nodes`.
    """
    _check_nodes(nodes)
    graph, ends = _Run(nodes, ()), np.array(seconds, np.float64)
    ready = [i for i, waits in enumerate(graph.waits) if not waits]
    while ready:
        index = ready.pop()
        if before := graph.before[index]:
            ends[index] += ends[list(before)].max(0)
        ready += graph.finish_node(index)
    graph.check_done()
    return ends


class _Run:
    """One run: `waits[i]` nodes are still to end before node i is ready."""

    def __init__(self, nodes: Sequence[Node], listed: Collection[Hashable]) -> None:
        self.nodes = nodes
        self.queues: dict[Hashable, list[tuple[int, int]]] = {stream: [] for stream in listed}
        self.busy: set[Hashable] = set()
        self.running: list[tuple[float, int]] = []
        self.start, self.end = [0.0] * len(nodes), [0.0] * len(nodes)
        self.before = _find_predecessors(nodes, self.queues)
        self.waits = [len(before) for before in self.before]
        self.followers: list[list[int]] = [[] for _ in nodes]
        for index, before in enumerate(self.before):
            for other in before:
                self.followers[other].append(index)

    def run_all(self) -> NodeTimes:
        """Goes from one end of a node to the next; nodes that end together are handled at once."""
        self._begin_ready([i for i, waits in enumerate(self.waits) if not waits], 0.0)
        running = self.running
        while running:
            now, ready = running[0][0], []
            while running and running[0][0] == now:
                ready += self.finish_node(heappop(running)[1])
            self._begin_ready(ready, now)
        self.check_done()
        return NodeTimes(tuple(self.start), tuple(self.end))

    def check_done(self) -> None:
        """Raise EventError if nodes have never become ready."""
        if any(self.waits):
            raise EventError(self._find_cycle())

    def finish_node(self, index: int) -> list[int]:
        """Nodes that the end of `index` makes ready."""
        self.busy.discard(self.nodes[index].stream)
        waits, ready = self.waits, []
        for follower in self.followers[index]:
            waits[follower] -= 1
            if not waits[follower]:
                ready.append(follower)
        return ready

    def _begin_ready(self, ready: list[int], now: float) -> None:
        """Starts the nodes that can start at `now`; listed streams choose among ready nodes."""
        queues = self.queues
        for index in ready:
            node = self.nodes[index]
            if node.stream in queues:
                heappush(queues[node.stream], (node.priority, index))
            else:
                self._start_node(index, now)
        for stream, queue in queues.items():
            if queue and stream not in self.busy:
                self.busy.add(stream)
                self._start_node(heappop(queue)[1], now)

    def _start_node(self, index: int, now: float) -> None:
        end = now + self.nodes[index].seconds
        self.start[index], self.end[index] = now, end
        heappush(self.running, (end, index))

    def _find_cycle(self) -> str:
        """Names nodes that wait for each other, on from any that never became ready."""
        index = next(i for i, waits in enumerate(self.waits) if waits)
        path: list[int] = []
        while index not in path:
            path.append(index)
            index = next(i for i in self.before[index] if self.waits[i])
        cycle = path[path.index(index) :]
        names = " <- ".join(_node_name(self.nodes, i) for i in [*cycle, index])
        return f"nodes wait for each other: {names}; valid: no cycle, with the order of streams"


def _find_predecessors(
    nodes: Sequence[Node], listed: Collection[Hashable]
) -> list[tuple[int, ...]]:
    """The nodes that each node waits for: `after`, and in unlisted streams the node before it."""
    last: dict[Hashable, int] = {}
    before = []
    for index, node in enumerate(nodes):
        if node.stream is None or node.stream in listed:
            before.append(node.after)
            continue
        previous = last.get(node.stream)
        before.append(node.after if previous is None else (*node.after, previous))
        last[node.stream] = index
    return before


def _check_nodes(nodes: Sequence[Node]) -> None:
    count = len(nodes)
    for index, node in enumerate(nodes):
        if not 0 <= node.seconds < float("inf"):
            raise EventError(
                f"{_node_name(nodes, index)}: {node.seconds} seconds are refused; valid: 0 or more"
            )
        for other in node.after:
            if not 0 <= other < count:
                raise EventError(
                    f"{_node_name(nodes, index)} waits for node {other}, which does not exist; "
                    f"valid: 0 to {count - 1}"
                )


def _node_name(nodes: Sequence[Node], index: int) -> str:
    name = nodes[index].name
    return f"node {index}" if name == "" else f"node {index} ({name})"

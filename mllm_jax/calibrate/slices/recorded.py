"""Calls of a step's programs, recorded in a real step and run again alone.

Arguments whose memory a program takes are copied before each run.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp


class RunTimes(NamedTuple):
    """Seconds of one run.

    Attributes:
        begin, end: `time.perf_counter` when the host began to start it, and at its results.
        host: seconds in which the host started it.
    """

    begin: float
    end: float
    host: float

    @property
    def seconds(self) -> float:
        """Seconds from its start to its results."""
        return self.end - self.begin


@dataclass(frozen=True, eq=False)
class RecordedCall:
    """A call with its arguments.

    Attributes:
        function: what was called.
        arguments: its arguments, trees of arrays.
        donated: for each leaf of the arguments, whether the call takes its memory.
        moved_bytes: bytes of arguments and results, each array once.
        result_bytes: bytes of the first result.
    """

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    donated: tuple[bool, ...]
    moved_bytes: int
    result_bytes: int

    def with_own_memory(self) -> Callable[[], Any]:
        """The call for one run, with copies of what it takes."""
        leaves, tree = jax.tree.flatten(self.arguments)
        copied = [jnp.copy(x) if take else x for x, take in zip(leaves, self.donated, strict=True)]
        jax.block_until_ready(copied)
        return partial(self.function, *jax.tree.unflatten(tree, copied))


class CallRecorder:
    """Records the first call of every method of what it watches.

    Args:
        uncounted: arrays that no call counts among the bytes that it moves.
    """

    def __init__(self, uncounted: Any) -> None:
        self.calls: dict[Hashable, dict[str, RecordedCall]] = defaultdict(dict)
        self._uncounted = {id(leaf) for leaf in jax.tree.leaves(uncounted)}

    def watch(self, target: object, name: Hashable) -> Any:
        """`target`, whose calls are recorded under this name, by method."""
        return _WatchedObject(self, target, name)

    def call(self, name: Hashable, method: str, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function, and keep the call if it is the first one of the method."""
        if method in self.calls[name]:
            return function(*args)
        # Later calls of the step may take the memory of what this one only reads.
        copies = jax.tree.map(_copy_array, args)
        results = function(*args)
        leaves, results_alone = jax.tree.leaves(args), jax.tree.leaves(results)
        donated = tuple(isinstance(x, jax.Array) and x.is_deleted() for x in leaves)
        self.calls[name][method] = RecordedCall(
            function,
            copies,
            donated,
            self._count_bytes([*leaves, *results_alone]),
            results_alone[0].nbytes if results_alone else 0,
        )
        return results

    def _count_bytes(self, leaves: Sequence[Any]) -> int:
        """Bytes of arrays, each once."""
        arrays = {id(x): x for x in leaves if isinstance(x, jax.Array)}
        return sum(x.nbytes for key, x in arrays.items() if key not in self._uncounted)


class _WatchedObject:
    """An object whose methods are called through a recorder."""

    def __init__(self, recorder: CallRecorder, target: object, name: Hashable) -> None:
        self._recorder, self._target, self._name = recorder, target, name

    def __getattr__(self, attribute: str) -> Any:
        value = getattr(self._target, attribute)
        if not callable(value):
            return value
        return partial(self._recorder.call, self._name, attribute, value)


def _copy_array(x: Any) -> Any:
    return jnp.copy(x) if isinstance(x, jax.Array) else x


def time_run(call: Callable[[], Any]) -> RunTimes:
    """Start a call and wait for its results."""
    begin = time.perf_counter()
    results = call()
    started = time.perf_counter()
    jax.block_until_ready(results)
    return RunTimes(begin, time.perf_counter(), started - begin)

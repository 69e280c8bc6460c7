"""Loops of the executor, run alone or side by side, or as often as is known at run time.

A task is a generator of loops: the tasks of a fused task are traced together, so that collectives
of one are hidden by the arithmetic of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from sharding.layerstack.loops import Loop, PyTree

# ---- loops, alone and side by side ---------------------------------------------------------------


#: A task: yields the loops it needs one after the other, takes their results, returns a result.
TaskLoops = Generator[Loop | None, tuple[PyTree, PyTree] | None, PyTree]


def side_by_side(loops: Sequence[Loop]) -> list[tuple[PyTree, PyTree]]:
    """Run independent loops in one scan, iteration by iteration, and then the rest of longer ones.

    Collectives of one are then hidden by the arithmetic of the others. A loop of twice the
    length takes two iterations at a time.
    """
    if len(loops) < 2:
        return [loop.run_scan() for loop in loops]
    count = min(loop.length for loop in loops)
    each = [loop.length // count for loop in loops]
    blocks = [_reshape_blocks(loop.xs, count, n) for loop, n in zip(loops, each, strict=True)]

    def body(carries: PyTree, xs: PyTree) -> tuple[PyTree, PyTree]:
        done = [
            _unroll_body(loop.body, carry, x, n)
            for loop, carry, x, n in zip(loops, carries, xs, each, strict=True)
        ]
        return tuple(c for c, _ in done), tuple(y for _, y in done)

    carries, outputs = lax.scan(body, tuple(loop.carry for loop in loops), tuple(blocks))
    return [
        _finish_alone(loop, carry, ys, count * n)
        for loop, carry, ys, n in zip(loops, carries, outputs, each, strict=True)
    ]


def _reshape_blocks(xs: PyTree, count: int, each: int) -> PyTree:
    """The first `count * each` iterations as `[count, each, ...]`."""
    return jax.tree.map(lambda x: x[: count * each].reshape(count, each, *x.shape[1:]), xs)


def _unroll_body(
    body: Callable[..., Any], carry: PyTree, xs: PyTree, count: int
) -> tuple[PyTree, PyTree]:
    outputs = []
    for i in range(count):
        carry, y = body(carry, jax.tree.map(lambda x: x[i], xs))  # noqa: B023 - used at once
        outputs.append(y)
    return carry, jax.tree.map(lambda *ys: jnp.stack(ys), *outputs)


def _finish_alone(loop: Loop, carry: PyTree, ys: PyTree, done: int) -> tuple[PyTree, PyTree]:
    ys = jax.tree.map(lambda y: y.reshape(done, *y.shape[2:]), ys)
    if done == loop.length:
        return carry, ys
    carry, last_ys = lax.scan(loop.body, carry, jax.tree.map(lambda x: x[done:], loop.xs))
    return carry, jax.tree.map(lambda a, b: jnp.concatenate([a, b]), ys, last_ys)


def run_tasks(tasks: Sequence[TaskLoops], co_issue: bool) -> list[PyTree]:
    """Run the tasks of a fused task to their ends and return their results.

    Args:
        co_issue: trace the loops that the tasks ask for at the same time side by side.
    """
    results: list[PyTree] = [None] * len(tasks)
    answers: dict[int, Any] = dict.fromkeys(range(len(tasks)))
    while answers:
        asked: dict[int, Loop | None] = {}
        for i, answer in answers.items():
            try:
                asked[i] = tasks[i].send(answer)
            except StopIteration as end:
                results[i] = end.value
        loops = {i: loop for i, loop in asked.items() if loop is not None}
        batches = [list(loops)] if co_issue else [[i] for i in loops]
        answers = dict.fromkeys(asked)
        for batch in batches:
            done = side_by_side([loops[i] for i in batch])
            answers.update(zip(batch, done, strict=True))
    return results


def loop_result(result: tuple[PyTree, PyTree] | None) -> tuple[PyTree, PyTree]:
    """The result of a loop that a task has asked for."""
    assert result is not None  # a task that asked for a loop is answered with its result
    return result


# ---- loops whose number of iterations is known at run time ---------------------------------------


def run_if(
    name: str, chosen: jax.Array | bool, function: Callable[[PyTree], PyTree], state: PyTree
) -> PyTree:
    """`function(state)` where `chosen` holds, else `state`.

    A loop of at most one iteration: XLA updates what a loop carries in place, whereas it copies
    what passes through a branch of `lax.cond` or `lax.switch`, and the state is large.

    Args:
        name: name of the loop's scope in profiles and compiled programs.
        chosen: True, if known beforehand, takes no loop.
    """
    if chosen is True:
        return function(state)

    def body(carry: tuple[jax.Array, PyTree]) -> tuple[jax.Array, PyTree]:
        todo, state = carry
        return jnp.zeros_like(todo), function(state)

    with jax.named_scope(name):
        return lax.while_loop(lambda carry: carry[0], body, (jnp.asarray(chosen), state))[1]


def for_range(
    name: str,
    first: jax.Array,
    count: jax.Array,
    function: Callable[[jax.Array, PyTree], PyTree],
    state: PyTree,
) -> PyTree:
    """`function(number, state)` for `count` numbers from `first` on, none if that is below 1.

    Args:
        name: name of the loop's scope in profiles and compiled programs.
    """
    with jax.named_scope(name):
        return lax.while_loop(
            lambda carry: carry[0] < first + count,
            lambda carry: (carry[0] + 1, function(*carry)),
            (first, state),
        )[1]

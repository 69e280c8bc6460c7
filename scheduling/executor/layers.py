"""What the executor is made of: runs of layers, traced alone or side by side, and ring buffers.

A layer's backward is written out as a call of `jax.vjp`, from what the rematerialisation policy has
kept of its forward. `apply_layers` is the same without a pipeline.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from sharding.collectives import vary

Tree = Any
Axes = tuple[str, ...]


# ---- layer loops, alone and side by side ---------------------------------------------------------


class Loop(NamedTuple):
    """`lax.scan(body, carry, xs)`, not yet run."""

    body: Callable[[Tree, Tree], tuple[Tree, Tree]]
    carry: Tree
    xs: Tree

    @property
    def length(self) -> int:
        """Iterations."""
        return jax.tree.leaves(self.xs)[0].shape[0]

    def run(self) -> tuple[Tree, Tree]:
        """Last carry and stacked outputs."""
        return lax.scan(self.body, self.carry, self.xs)


#: A task: yields the loops it needs one after the other, takes their results, returns its own.
Steps = Generator[Loop | None, tuple[Tree, Tree] | None, Tree]


def side_by_side(loops: Sequence[Loop]) -> list[tuple[Tree, Tree]]:
    """Run independent loops in one scan, iteration by iteration, and what is left over alone.

    Collectives of one then have the arithmetic of the others to hide behind. A loop of twice the
    length takes two iterations at a time.
    """
    if len(loops) < 2:
        return [loop.run() for loop in loops]
    count = min(loop.length for loop in loops)
    each = [loop.length // count for loop in loops]
    blocks = [_blocks(loop.xs, count, n) for loop, n in zip(loops, each, strict=True)]

    def body(carries: Tree, xs: Tree) -> tuple[Tree, Tree]:
        done = [
            _unrolled(loop.body, carry, x, n)
            for loop, carry, x, n in zip(loops, carries, xs, each, strict=True)
        ]
        return tuple(c for c, _ in done), tuple(y for _, y in done)

    carries, outputs = lax.scan(body, tuple(loop.carry for loop in loops), tuple(blocks))
    return [
        _finish_alone(loop, carry, ys, count * n)
        for loop, carry, ys, n in zip(loops, carries, outputs, each, strict=True)
    ]


def _blocks(xs: Tree, count: int, each: int) -> Tree:
    """The first `count * each` iterations as `[count, each, ...]`."""
    return jax.tree.map(lambda x: x[: count * each].reshape(count, each, *x.shape[1:]), xs)


def _unrolled(body: Callable[..., Any], carry: Tree, xs: Tree, count: int) -> tuple[Tree, Tree]:
    outputs = []
    for i in range(count):
        carry, y = body(carry, jax.tree.map(lambda x: x[i], xs))  # noqa: B023 - used at once
        outputs.append(y)
    return carry, jax.tree.map(lambda *ys: jnp.stack(ys), *outputs)


def _finish_alone(loop: Loop, carry: Tree, ys: Tree, done: int) -> tuple[Tree, Tree]:
    ys = jax.tree.map(lambda y: y.reshape(done, *y.shape[2:]), ys)
    if done == loop.length:
        return carry, ys
    carry, rest = lax.scan(loop.body, carry, jax.tree.map(lambda x: x[done:], loop.xs))
    return carry, jax.tree.map(lambda a, b: jnp.concatenate([a, b]), ys, rest)


def run_tasks(tasks: Sequence[Steps], co_issue: bool) -> list[Tree]:
    """Run the tasks of a bundle to their ends and return their results.

    Args:
        co_issue: trace the loops that the tasks ask for at the same time side by side.
    """
    results: list[Tree] = [None] * len(tasks)
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


# ---- a run of layers under a rematerialisation policy --------------------------------------------


@dataclass(frozen=True)
class LayerRun:
    """`count` successive layers of a stack, as loops of their forward and their backward.

    Attributes:
        layer: `(params, x, context) -> x`.
        stack: parameters with a leading dimension of layers.
        count: layers of the run.
        remat: `full`, `layer` or `none`.
        axes: all axes of the grid. All that a layer sees varies over all of them, because the
            residuals of its backward depend on the types of its inputs.
        exists: whether the layer with this index is one of the model and not padding.
    """

    layer: Callable[[Tree, jax.Array, Tree], jax.Array]
    stack: Tree
    count: int
    remat: str
    axes: Axes
    exists: Callable[[jax.Array], jax.Array] | None = None

    def forward(self, start: jax.Array, x: jax.Array, context: Tree) -> Loop:
        """Carry: the activation. Outputs: what the backward needs, `()` if it recomputes."""

        def body(x: jax.Array, i: jax.Array) -> tuple[jax.Array, Tree]:
            if self.remat == "none":
                return self._with_residuals(i, x, context)
            return self._apply(i, self._params(i), x, context), x if self.remat == "layer" else ()

        return Loop(body, x, self._indices(start))

    def _indices(self, start: jax.Array) -> jax.Array:
        return vary(start + jnp.arange(self.count), self.axes)

    def recompute(self, start: jax.Array, x: jax.Array, context: Tree) -> Loop:
        """The forward again, keeping what the backward needs."""
        return replace(self, remat="none").forward(start, x, context)

    def backward(
        self, start: jax.Array, kept: Tree, gradient: jax.Array, context: Tree, sums: Tree
    ) -> Loop:
        """Carry: gradient of the activation, and `sums` with the parameters' gradients added.

        Args:
            kept: outputs of `forward`, or of `recompute` where the policy is `full`.
            sums: tree like `stack`.
        """

        def body(carry: Tree, place: jax.Array) -> tuple[Tree, tuple[()]]:
            g, sums = carry
            i = start + place
            d_params, g = self._pull(i, read(kept, place), g, context)(g)
            return (g, jax.tree.map(partial(_add_at, i), sums, d_params)), ()

        # What was kept is read where it lies: turned around, it would be copied as a whole.
        return Loop(body, (gradient, sums), self._indices(jnp.int32(0))[::-1])

    def gradients(self, kept: Tree, gradient: jax.Array, context: Tree) -> tuple[Tree, jax.Array]:
        """Gradients of the parameters and of the run's input, the run being the whole stack.

        Args:
            kept: as for `backward`.
        """

        def body(g: jax.Array, own: tuple[jax.Array, Tree]) -> tuple[jax.Array, Tree]:
            i, kept = own
            d_params, g = self._pull(i, kept, g, context)(g)
            return g, d_params

        places = self._indices(jnp.int32(0))
        d_x, d_params = lax.scan(body, gradient, (places, kept), reverse=True)
        return d_params, d_x

    def _params(self, i: jax.Array) -> Tree:
        return read(self.stack, i)

    def _apply(self, i: jax.Array, params: Tree, x: jax.Array, context: Tree) -> jax.Array:
        y = self.layer(params, x, context)
        return y if self.exists is None else jnp.where(self.exists(i), y, x)

    def _vjp(self, i: jax.Array, x: jax.Array, context: Tree) -> tuple[jax.Array, Any]:
        return jax.vjp(lambda p, x: self._apply(i, p, x, context), self._params(i), x)

    def _with_residuals(self, i: jax.Array, x: jax.Array, context: Tree) -> tuple[jax.Array, Tree]:
        """Output, and those residuals of the backward that depend on `x`."""
        y, pull = self._vjp(i, x, context)
        leaves, depends = jax.tree.leaves(pull), self._depends(i, x, context)
        return y, [leaf for leaf, yes in zip(leaves, depends, strict=True) if yes]

    def _pull(self, i: jax.Array, kept: Tree, g: jax.Array, context: Tree) -> Callable[..., Any]:
        """The backward of layer `i`: gradient of its output to those of parameters and input."""
        if self.remat == "layer":
            return self._vjp(i, kept, context)[1]
        # What does not depend on the input (parameters, masks) is made again rather than kept;
        # the forward of a dummy input goes away as nothing reads it.
        _, pull = self._vjp(i, jnp.zeros_like(g), context)
        leaves, structure = jax.tree.flatten(pull)
        stored = iter(kept)
        depends = self._depends(i, g, context)
        return jax.tree.unflatten(
            structure,
            [next(stored) if yes else leaf for leaf, yes in zip(leaves, depends, strict=True)],
        )

    def _depends(self, i: jax.Array, x: jax.Array, context: Tree) -> list[bool]:
        """Which residuals of `_vjp` depend on its input `x`."""

        def residuals(x: jax.Array, rest: Tree) -> list[jax.Array]:
            i, context = rest
            return jax.tree.leaves(self._vjp(i, x, context)[1])

        return depends_on_first(residuals, x, (i, context))


def apply_layers(run: LayerRun, x: jax.Array, context: Tree) -> jax.Array:
    """All layers of `run` in order, outside a pipeline.

    Derivatives are those of `run`: of the forward is kept what `run.remat` says, and in no case
    what depends on parameters alone. There are none with respect to `context`.
    """
    start = jnp.int32(0)

    @jax.custom_vjp
    def apply(stack: Tree, x: jax.Array, context: Tree) -> jax.Array:
        return replace(run, stack=stack, remat="full").forward(start, x, context).run()[0]

    def forward(stack: Tree, x: jax.Array, context: Tree) -> tuple[jax.Array, Tree]:
        own = replace(run, stack=stack)
        y, kept = own.forward(start, x, context).run()
        return y, (stack, x if run.remat == "full" else kept, context)

    def backward(residuals: Tree, gradient: jax.Array) -> tuple[Tree, jax.Array, None]:
        stack, kept, context = residuals
        own = replace(run, stack=stack)
        if run.remat == "full":
            _, kept = own.recompute(start, kept, context).run()
        return (*own.gradients(kept, gradient, context), None)

    apply.defvjp(forward, backward)
    return apply(run.stack, x, context)


def depends_on_first(function: Callable[..., Any], first: jax.Array, rest: Tree) -> list[bool]:
    """Which of the outputs of `function(first, rest)` are computed from `first`."""
    jaxpr = jax.make_jaxpr(function)(first, rest).jaxpr
    tainted = {jaxpr.invars[0]}
    for equation in jaxpr.eqns:
        if any(isinstance(v, type(jaxpr.invars[0])) and v in tainted for v in equation.invars):
            tainted.update(equation.outvars)
    return [isinstance(v, type(jaxpr.invars[0])) and v in tainted for v in jaxpr.outvars]


def _add_at(i: jax.Array, total: jax.Array, value: jax.Array) -> jax.Array:
    new = lax.dynamic_index_in_dim(total, i) + value[None].astype(total.dtype)
    return lax.dynamic_update_index_in_dim(total, new, i, 0)


def add(total: jax.Array, value: jax.Array) -> jax.Array:
    """Their sum in the type of `total`."""
    return total + value.astype(total.dtype)


def once_if(
    name: str, chosen: jax.Array | bool, function: Callable[[Tree], Tree], state: Tree
) -> Tree:
    """`function(state)` where `chosen` holds, else `state`.

    A loop of at most one iteration: XLA updates what a loop carries in place, whereas it copies
    what passes through a branch of `lax.cond` or `lax.switch`, and the state is large.

    Args:
        name: of the loop's scope in profiles and compiled programs.
        chosen: True, if known beforehand, takes no loop.
    """
    if chosen is True:
        return function(state)

    def body(carry: tuple[jax.Array, Tree]) -> tuple[jax.Array, Tree]:
        todo, state = carry
        return jnp.zeros_like(todo), function(state)

    with jax.named_scope(name):
        return lax.while_loop(lambda carry: carry[0], body, (jnp.asarray(chosen), state))[1]


# ---- slots of ring buffers -----------------------------------------------------------------------


def read(buffer: Tree, slot: jax.Array) -> Tree:
    """Slot `slot` of every leaf `[slots, ...]`."""
    return jax.tree.map(
        lambda b: lax.dynamic_index_in_dim(b, jnp.maximum(slot, 0), keepdims=False), buffer
    )


def write(buffer: Tree, slot: jax.Array, value: Tree) -> Tree:
    """`buffer` with `value` in slot `slot`; unchanged if that is negative."""

    def leaf(b: jax.Array, v: jax.Array) -> jax.Array:
        old = lax.dynamic_index_in_dim(b, jnp.maximum(slot, 0), keepdims=False)
        new = jnp.where(slot >= 0, v.astype(b.dtype), old)
        return lax.dynamic_update_index_in_dim(b, new, jnp.maximum(slot, 0), 0)

    return buffer if jax.tree.leaves(buffer)[:1] == [] else jax.tree.map(leaf, buffer, value)


def given(result: tuple[Tree, Tree] | None) -> tuple[Tree, Tree]:
    """The result of a loop that a task has asked for."""
    assert result is not None  # a task that asked for a loop is answered with its result
    return result

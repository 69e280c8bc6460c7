"""One order of collectives on every device, which XLA's runtime for CPUs does not keep by itself.

That runtime starts collectives in the program's order, and takes a loop for started as soon as its
first iteration waits for something. A collective after the loop then runs along with those inside
it, on some devices before them and on others after them: devices wait for one another for ever, or
collectives of one kind and group swap their values. Compilers for GPUs and TPUs fix one order.

`shard_map` here makes the order part of the program, where it runs on CPUs: a token, a number that
no compiler knows, is passed on from each loop and its collectives to the next ones. ::

    token --> collectives --> token --> loop (its carry holds the token) --> token --> collectives
                                        token --> collectives --> token

The program is traced as it is everywhere, types of varying values included; what is rewritten is
the traced program (`sharding.traced`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from itertools import chain
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn
from jax.sharding import Mesh

from sharding.traced import Evaluate, Values, contains_primitive, evaluate_program, programs_in

#: Primitives that make devices meet.
COLLECTIVES = frozenset(
    {
        "all_gather",
        "all_gather_invariant",
        "all_to_all",
        "pmax",
        "pmin",
        "ppermute",
        "psum",
        "psum_invariant",
        "ragged_all_to_all",
        "reduce_scatter",
    }
)
#: What typed values need, by primitive, and programs without types do not know.
_UNTYPED: dict[str, Callable[..., Any]] = {
    "all_gather_invariant": lambda x, **params: lax.all_gather(
        x, params["axis_name"], axis=params["all_gather_dimension"], tiled=params["tiled"]
    ),
    "psum_invariant": lambda *xs, **params: lax.psum(list(xs), params["axes"]),
    "pvary": lambda *xs, **_: list(xs),
}


def shard_map(
    body: Callable[..., Any], *, mesh: Mesh, in_specs: Any, out_specs: Any
) -> Callable[..., Any]:
    """`jax.shard_map` over all axes of `mesh`, typed, whose collectives run in one order.

    Args:
        body, mesh, in_specs, out_specs: as of `jax.shard_map`.
    """
    mapped = jax.shard_map(body, mesh=mesh, in_specs=in_specs, out_specs=out_specs)
    in_place = mesh.size == 1 or mesh.devices.flat[0].platform != "cpu"
    return mapped if in_place else _order_collectives(mapped)


def _order_collectives(mapped: Callable[..., Any]) -> Callable[..., Any]:
    """`mapped` with the bodies of its `shard_map`s in order."""

    def run(*args: Any) -> Any:
        traced, shapes = jax.make_jaxpr(mapped, return_shape=True)(*args)
        special = {"shard_map": _shard_map}
        results = evaluate_program(
            traced, jax.tree.leaves(args), lambda eqn: special.get(_primitive_name(eqn))
        )
        return jax.tree.unflatten(jax.tree.structure(shapes), results)

    return run


def _shard_map(eqn: JaxprEqn, values: Values) -> Values:
    """A `shard_map` whose body is the traced one in order; types have been checked before."""
    inner: Jaxpr = eqn.params["jaxpr"]

    def body(*values: Any) -> tuple[Any, ...]:
        return tuple(_CollectiveOrder(jnp.int32(1)).run_program(ClosedJaxpr(inner, ()), values))

    return jax.shard_map(
        body,
        mesh=eqn.params["mesh"],
        in_specs=eqn.params["in_specs"],
        out_specs=eqn.params["out_specs"],
        check_vma=False,
    )(*values)


class _CollectiveOrder:
    """The collectives of one body, in order.

    Args:
        token: what the first ones wait for.
    """

    def __init__(self, token: jax.Array) -> None:
        self._token = token
        self._since: list[Any] = []

    def current_token(self) -> jax.Array:
        """What waits for all collectives so far."""
        self._token = reduce(_join_token, self._since, self._token)
        self._since = []
        return self._token

    def run_program(self, program: ClosedJaxpr, values: Values) -> Values:
        """The results of `program`; what it calls belongs to the same body."""
        return evaluate_program(program, values, self._choose_evaluation)

    def _choose_evaluation(self, eqn: JaxprEqn) -> Evaluate | None:
        """What evaluates an equation that has types, or collectives in it; None for others."""
        name = _primitive_name(eqn)
        if name in COLLECTIVES:
            return self._run_collective
        if name in _UNTYPED:
            return _bind_untyped
        if not any(_is_typed(inner) for inner in programs_in(eqn)):
            return None
        return {"scan": self._run_scan, "while": self._run_while, "cond": self._run_cond}.get(
            name, self._run_call
        )

    def _run_collective(self, eqn: JaxprEqn, values: Values) -> Values:
        waiting = [_wait_for(x, self._token) for x in values]
        results = _bind_untyped(eqn, waiting)
        self._since += results
        return results

    def _enter_equation(self, eqn: JaxprEqn) -> jax.Array:
        """The token for what is inside an equation."""
        return self.current_token() if _has_collectives(eqn) else jnp.int32(1)

    def _leave_equation(self, eqn: JaxprEqn, token: jax.Array) -> None:
        """What follows the equation waits for the `token` that leaves it."""
        if _has_collectives(eqn):
            self._token = token

    def _run_scan(self, eqn: JaxprEqn, values: Values) -> Values:
        params, (inner,) = eqn.params, programs_in(eqn)
        sliced = _count_stacked(eqn.invars, inner.jaxpr.invars)
        carried = len(eqn.outvars) - _count_stacked(eqn.outvars, inner.jaxpr.outvars)
        consts, carry, xs = _split_values(values, len(values) - sliced - carried, carried)

        def body(state: tuple[jax.Array, Values], x: Values) -> tuple[Any, Values]:
            order = _CollectiveOrder(state[0])
            results = order.run_program(inner, [*consts, *state[1], *x])
            return (order.current_token(), list(results[:carried])), list(results[carried:])

        state, ys = lax.scan(
            body,
            (self._enter_equation(eqn), list(carry)),
            list(xs),
            length=params["length"],
            reverse=params["reverse"],
            unroll=params["unroll"],
        )
        self._leave_equation(eqn, state[0])
        return [*state[1], *ys]

    def _run_while(self, eqn: JaxprEqn, values: Values) -> Values:
        params, inner = eqn.params, eqn.params["body_jaxpr"]
        if contains_primitive(params["cond_jaxpr"], COLLECTIVES):
            raise TypeError(
                "collectives in a loop's condition are not supported on CPUs; valid: in its body"
            )
        of_cond, of_body, carry = _split_values(
            values, params["cond_nconsts"], params["body_nconsts"]
        )

        def condition(state: tuple[jax.Array, list[Any]]) -> Any:
            return self.run_program(params["cond_jaxpr"], [*of_cond, *state[1]])[0]

        def body(state: tuple[jax.Array, list[Any]]) -> tuple[jax.Array, list[Any]]:
            order = _CollectiveOrder(state[0])
            results = order.run_program(inner, [*of_body, *state[1]])
            return order.current_token(), list(results)

        start = self._enter_equation(eqn), list(carry)
        state = lax.while_loop(condition, body, start)
        self._leave_equation(eqn, state[0])
        return list(state[1])

    def _run_cond(self, eqn: JaxprEqn, values: Values) -> Values:
        index, *operands = values

        def branch(inner: ClosedJaxpr, token: jax.Array, *operands: Any) -> tuple[Any, Values]:
            order = _CollectiveOrder(token)
            results = order.run_program(inner, operands)
            return order.current_token(), list(results)

        branches = [partial(branch, program) for program in eqn.params["branches"]]
        token, outputs = lax.switch(index, branches, self._enter_equation(eqn), *operands)
        self._leave_equation(eqn, token)
        return outputs

    def _run_call(self, eqn: JaxprEqn, values: Values) -> Values:
        """A function that is called as it is, such as one with derivatives of its own."""
        inner = [
            program for program in programs_in(eqn) if len(program.jaxpr.invars) == len(values)
        ]
        if len(inner) != 1 or len(inner[0].jaxpr.outvars) != len(eqn.outvars):
            raise TypeError(
                f"collectives inside {eqn.primitive.name} are not supported on CPUs; valid: inside "
                "loops, branches and functions"
            )
        return self.run_program(inner[0], values)


def _wait_for(x: Any, token: jax.Array) -> jax.Array:
    """`x`, once `token` is known: its first number is written again, in place."""
    x = jnp.asarray(x)
    if not x.size:
        return x
    first = lax.slice(x, (0,) * x.ndim, (1,) * x.ndim)
    again = jnp.where(token >= 0, first, jnp.zeros_like(first))
    return lax.dynamic_update_slice(x, again, (0,) * x.ndim) if x.ndim else again


def _join_token(token: jax.Array, x: jax.Array) -> jax.Array:
    """`token`, once `x` is known: 1 for all that a compiler can see."""
    if not x.size:
        return token
    first = lax.slice(x, (0,) * x.ndim, (1,) * x.ndim).reshape(())
    return token & ((first != 0).astype(jnp.int32) | 1)


def _bind_untyped(eqn: JaxprEqn, values: Values) -> Values:
    """The results of an equation of a typed program, in one without types."""
    bind = _UNTYPED.get(_primitive_name(eqn), eqn.primitive.bind)
    results = bind(*values, **eqn.params)
    return list(results) if isinstance(results, (list, tuple)) else [results]


def _primitive_name(eqn: JaxprEqn) -> str:
    name: str = eqn.primitive.name
    return name


def _split_values(values: Values, *counts: int) -> list[Values]:
    """`values` in runs of `counts`, and the rest."""
    parts, start = [], 0
    for count in counts:
        parts.append(values[start : start + count])
        start += count
    return [*parts, values[start:]]


def _count_stacked(outside: Sequence[Any], inside: Sequence[Any]) -> int:
    """How many values of a scan have one more dimension outside its body: its slices."""
    pairs = zip(outside, inside, strict=True)
    return sum(out.aval.ndim > inner.aval.ndim for out, inner in pairs)


def _has_collectives(eqn: JaxprEqn) -> bool:
    """Whether there are collectives inside an equation."""
    return any(contains_primitive(inner, COLLECTIVES) for inner in programs_in(eqn))


def _is_typed(program: ClosedJaxpr) -> bool:
    """Whether a program knows of axes: values that vary over them, or collectives."""

    def varies(variable: Any) -> bool:
        kind = getattr(variable.aval, "mat", None)
        return kind is not None and bool(kind.varying)

    jaxpr = program.jaxpr
    outputs = chain.from_iterable(eqn.outvars for eqn in jaxpr.eqns)
    return any(map(varies, [*jaxpr.invars, *outputs])) or contains_primitive(program, COLLECTIVES)

"""Collectives in one order: the same values, and no loop beside a collective or another loop."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal
from jax.sharding import Mesh, PartitionSpec

from mllm_jax.compile.target import training_batch
from mllm_jax.train.step import step as train_step
from mllm_jax.train.step.build import build_gradient_step
from sharding.collectives import all_gather, all_gather_as, all_to_all, psum, vary
from sharding.in_order import COLLECTIVES, shard_map
from tests.configs import config

AXES = ("outer", "inner")
Body = Callable[[jax.Array], Any]


def layer(x: jax.Array, axis: str) -> jax.Array:
    """`[n, m]` from `[n, m]`, with collectives."""
    complete = all_gather(x, (axis,), 1)
    return jnp.tanh(x + complete.mean(1, keepdims=True) + vary(psum(x, (axis,)), AXES))


def scanned(x: jax.Array, axis: str) -> jax.Array:
    return lax.scan(lambda x, _: (layer(x, axis), None), x, length=3)[0]


def repeated(x: jax.Array, axis: str) -> jax.Array:
    """As many iterations as no compiler knows."""

    def body(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        return state[0] + 1, layer(state[1], axis)

    times = 1 + (psum(x[0, 0], AXES) > 0)
    return lax.while_loop(lambda state: state[0] < times, body, (jnp.int32(0), x))[1]


def chosen(x: jax.Array, axis: str) -> jax.Array:
    """A branch that ranks of `axis` take together."""
    take = lax.axis_index(next(other for other in AXES if other != axis))
    return lax.switch(take, [partial(layer, axis=axis), lambda x: 2 * x], x)


def derived(x: jax.Array, axis: str) -> jax.Array:
    """Functions with derivatives of their own, calls, and what is computed again backwards."""

    @partial(jax.checkpoint, prevent_cse=False)
    def loss(x: jax.Array) -> jax.Array:
        complete = all_gather_as(x, (axis,), 0, jnp.dtype("bfloat16")).astype(jnp.float32)
        return jnp.sum(jax.jit(partial(layer, axis=axis))(x)) + jnp.sum(complete**2)

    return jax.grad(loss)(x)


def forward_only(x: jax.Array, axis: str) -> jax.Array:
    return all_gather_as(x, (axis,), 1, jnp.dtype("bfloat16")).astype(jnp.float32)[:, : x.shape[1]]


LOOPS = {own.__name__: own for own in (scanned, repeated, chosen, derived, forward_only)}


def beside(x: jax.Array, one: str = "scanned", other: str = "repeated") -> Any:
    """Two loops that need nothing of each other, and collectives that need neither."""
    total = psum(jnp.sum(x), AXES)
    complete = psum(jnp.max(x, initial=0.0), AXES)
    swapped = all_to_all(x, ("inner",))
    return (
        LOOPS[one](x, "outer"),
        LOOPS[other](2 * x, "inner"),
        swapped,
        vary(total / complete, AXES),
    )


def mesh(devices: int = 4) -> Mesh:
    return Mesh(np.array(jax.devices()[:devices]).reshape(-1, min(devices, 2)), AXES)


def both(body: Body) -> list[Callable[[jax.Array], Any]]:
    """`body` under `jax.shard_map`, and in order."""
    spec = PartitionSpec("outer", "inner")
    specs = spec, spec, spec, PartitionSpec()

    def run(x: jax.Array) -> Any:
        *others, total = body(x)
        return *others, lax.pmax(total, AXES)

    plain = jax.shard_map(run, mesh=mesh(), in_specs=spec, out_specs=specs)
    return [plain, shard_map(run, mesh=mesh(), in_specs=spec, out_specs=specs)]


X = jnp.linspace(-1.0, 1.0, 8 * 4, dtype=jnp.float32).reshape(8, 4)


@pytest.mark.parametrize(("one", "other"), [(one, "scanned") for one in LOOPS] + [("scanned",) * 2])
def test_values_are_those_of_the_program_without_order(one: str, other: str) -> None:
    plain, ordered = (jax.jit(run)(X) for run in both(partial(beside, one=one, other=other)))
    for a, b in zip(plain, ordered, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


@pytest.mark.parametrize("one", LOOPS)
def test_loops_wait_for_what_comes_before_them_and_collectives_for_loops(one: str) -> None:
    plain, ordered = both(partial(beside, one=one))
    assert side_by_side(jax.make_jaxpr(plain)(X))
    assert not side_by_side(jax.make_jaxpr(ordered)(X))


STAGES = {
    "parallel__decoder": {"data": 2, "stage": 2, "tensor": 1},
    "parallel__encoders": {"vision": {"data": 4}, "audio": {"data": 4}},
    "data__rows": 2,
    "train__accumulate": 2,
    "model__decoder__layers": 2,
}


@pytest.mark.parametrize("changes", [{}, STAGES], ids=["plain", "stages"])
def test_a_step_is_in_order(changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def traced() -> ClosedJaxpr:
        step = build_gradient_step(experiment, jax.devices()[:4])
        return jax.make_jaxpr(step.gradients)(
            step.abstract_state["params"], training_batch(experiment, step)
        )

    experiment = config(**changes)
    assert not side_by_side(traced())
    monkeypatch.setattr(train_step, "shard_map", jax.shard_map)
    assert side_by_side(traced())


def test_a_single_device_runs_the_program_as_it_is() -> None:
    def body(x: jax.Array) -> jax.Array:
        return psum(x, AXES)

    specs: dict[str, Any] = {"in_specs": PartitionSpec(*AXES), "out_specs": PartitionSpec()}
    specs["mesh"] = mesh(1)
    mapped = [make(body, **specs) for make in (shard_map, jax.shard_map)]
    assert len({str(jax.make_jaxpr(function)(X)) for function in mapped}) == 1


def test_collectives_in_a_condition_are_refused() -> None:
    def body(x: jax.Array) -> jax.Array:
        return lax.while_loop(lambda x: psum(jnp.sum(x), AXES) < 1, lambda x: x + 1, x)

    spec = PartitionSpec("outer", "inner")
    with pytest.raises(TypeError, match="a loop's condition are not supported on CPUs; valid"):
        jax.eval_shape(shard_map(body, mesh=mesh(), in_specs=spec, out_specs=spec), X)


@pytest.mark.parametrize("known", [True, False])
def test_collectives_of_a_function_of_several_programs_are_refused(known: bool) -> None:
    """None of them is all that the function computes, whatever they are given."""

    def body(x: jax.Array, y: jax.Array) -> jax.Array:
        def times(z: jax.Array) -> jax.Array:
            return z * psum(jnp.float32(1) if known else jnp.sum(y), AXES)

        def solve(_: Any, z: jax.Array) -> jax.Array:
            return z / psum(jnp.float32(1) if known else jnp.sum(y), AXES)

        return lax.custom_linear_solve(times, x, solve)

    spec = PartitionSpec("outer", "inner")
    mapped = shard_map(body, mesh=mesh(), in_specs=(spec, spec), out_specs=spec)
    with pytest.raises(TypeError, match="inside custom_linear_solve are not supported on CPUs"):
        jax.eval_shape(mapped, X, X)


# ---- what waits for what -------------------------------------------------------------------------


def side_by_side(program: ClosedJaxpr) -> list[tuple[str, str]]:
    """Pairs that run beside each other: a loop with collectives, and another one or a collective.

    They are told by their primitives, of all bodies of loops and `shard_map`s in `program`.
    """
    return _side_by_side(program.jaxpr)


def _side_by_side(jaxpr: Jaxpr) -> list[tuple[str, str]]:
    results: list[tuple[str, str]] = []
    waits: dict[Any, frozenset[int]] = {}
    meeting: list[tuple[str, bool]] = []  # what has met so far, and whether it is more than one
    for eqn in jaxpr.eqns:
        inner = [program for program in _programs(eqn) if _meets(program)]
        for program in inner:
            results += _side_by_side(program)
        read = [program for program in eqn.invars if not isinstance(program, Literal)]
        after = frozenset[int]().union(*(waits.get(program, frozenset()) for program in read))
        name = eqn.primitive.name
        if inner or name in COLLECTIVES:
            results += [
                (other, name)
                for number, (other, loop) in enumerate(meeting)
                if (loop or inner) and number not in after
            ]
            after |= {len(meeting)}
            meeting.append((name, bool(inner)))
        waits |= dict.fromkeys(eqn.outvars, after)
    return results


def _programs(eqn: JaxprEqn) -> list[Jaxpr]:
    results = []
    for param in eqn.params.values():
        for value in param if isinstance(param, (list, tuple)) else (param,):
            if isinstance(value, (Jaxpr, ClosedJaxpr)):
                results.append(value.jaxpr if isinstance(value, ClosedJaxpr) else value)
    return results


def _meets(jaxpr: Jaxpr) -> bool:
    return any(
        eqn.primitive.name in COLLECTIVES or any(map(_meets, _programs(eqn))) for eqn in jaxpr.eqns
    )

"""Layers that are cut at their products: gradients are those of the whole, whatever the layer."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sharding.layerstack.split_backward import SplitLayer

WIDTH, TOKENS = 3, 4
Step = Callable[[jax.Array, jax.Array, jax.Array], jax.Array]


@jax.custom_vjp
def doubled(x: jax.Array, kernel: jax.Array) -> jax.Array:
    """A product with a gradient of its own, twice the true one."""
    return x @ kernel


doubled.defvjp(
    lambda x, kernel: (x @ kernel, (x, kernel)),
    lambda kept, g: (2 * g @ kept[1].T, 2 * kept[0].T @ g),
)

#: What a layer may do with its activation, a parameter `[width, width]` and other data.
STEPS: dict[str, Step] = {
    "product": lambda x, p, rest: x @ p,
    "transposed": lambda x, p, rest: x @ p.astype(jnp.float32).T,
    "checkpointed": lambda x, p, rest: jax.checkpoint(jnp.matmul)(x, p),
    "jitted": lambda x, p, rest: jax.jit(jnp.matmul)(x, p),
    "custom": lambda x, p, rest: doubled(x, p),
    "of other data": lambda x, p, rest: x + rest @ p,
    "fixed": lambda x, p, rest: x @ jax.lax.stop_gradient(p),
    "scaled": lambda x, p, rest: x * p[:1],
    "shifted": lambda x, p, rest: x + p[1:2],
    "both": lambda x, p, rest: x @ p + p[:1],
    "of parameters": lambda x, p, rest: x @ (p @ p),
    "bent": lambda x, p, rest: jnp.sin(x),
    "residual": lambda x, p, rest: x + jnp.tanh(x @ p),
    "forgotten": lambda x, p, rest: x[:, ::-1],
}
#: Those whose parameter nothing else reads than a product.
MULTIPLY = {
    "product",
    "transposed",
    "checkpointed",
    "jitted",
    "custom",
    "of other data",
    "of parameters",
    "residual",
}
#: Steps of a layer, each with the number of its parameter.
Steps = list[tuple[str, int]]


def layer(steps: Steps, params: list[jax.Array], x: jax.Array, rest: jax.Array) -> jax.Array:
    for name, number in steps:
        x = STEPS[name](x, params[number], rest)
    return x


def inputs() -> tuple[list[jax.Array], jax.Array, jax.Array, jax.Array]:
    keys = jax.random.split(jax.random.key(0), 6)
    params = [jax.random.normal(key, (WIDTH, WIDTH)) for key in keys[:3]]
    x, rest, g = (jax.random.normal(key, (TOKENS, WIDTH)) for key in keys[3:])
    return params, x, rest, g


@settings(max_examples=40, deadline=None)
@given(
    steps=st.lists(st.tuples(st.sampled_from([*STEPS]), st.integers(0, 2)), min_size=1, max_size=5)
)
def test_gradients_are_those_of_the_whole_layer(steps: Steps) -> None:
    params, x, rest, g = inputs()
    cut = SplitLayer.trace_layer(partial(layer, steps), params, x, rest, None)
    y, linearized = cut.linearize(params, x, rest)
    early, dx, pairs = SplitLayer.backward(linearized, g)
    late = cut.weight_gradients(params, pairs)
    expected, pull = jax.vjp(lambda params, x: layer(steps, params, x, rest), params, x)
    d_params, d_x = pull(g)
    whole = iter(early), iter(late)
    found = [next(whole[number in cut.deferred]) for number in range(len(params))]
    for got, want in zip([y, dx, *found], [expected, d_x, *d_params], strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
    assert cut.deferred == {
        n
        for n in range(len(params))
        if (names := {name for name, own in steps if own == n} - {"bent", "forgotten", "fixed"})
        and names <= MULTIPLY
    }


def test_pairs_are_inputs_once_and_gradients_of_outputs() -> None:
    """Two products of one input keep it once."""

    def gated(params: list[jax.Array], x: jax.Array, rest: Any) -> jax.Array:
        return (jnp.tanh(x @ params[0]) * (x @ params[1])) @ params[2]

    params, x, rest, g = inputs()
    cut = SplitLayer.trace_layer(gated, params, x, rest, None)
    _, _, (data, gradients) = SplitLayer.backward(cut.linearize(params, x, rest)[1], g)
    assert [len(data), len(gradients)] == [2, 3]
    np.testing.assert_array_equal(data[0], x)
    np.testing.assert_array_equal(gradients[-1], g)


def test_parameters_that_shall_not_wait_do_not() -> None:
    params, x, rest, g = inputs()
    cut = SplitLayer.trace_layer(
        partial(layer, [("product", 0), ("product", 1)]), params, x, rest, frozenset({1})
    )
    early, _, (data, _) = SplitLayer.backward(cut.linearize(params, x, rest)[1], g)
    assert len(data) == 1
    np.testing.assert_allclose(early[0], x.T @ (g @ params[1].T), rtol=1e-5, atol=1e-5)

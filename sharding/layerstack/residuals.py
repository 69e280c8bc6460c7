"""Values that a layer saves for its backward: the residuals that depend on its input.

`jax.vjp` gives a backward that is a tree of arrays, the residuals. Some are computed from the input
of the layer; others from parameters and masks alone, and these are computed again instead of being
saved for every microbatch. Which is which can be read off the jaxpr that maps the input to the
residuals: an output depends on the input if an equation on the way to it takes something that does.

::

    forward       x, rest ---- layer ----> y, backward(a, b, c)
                                                       |  |  |
    jaxpr         x    -> dot -> a   depends on x      |  |  |
                  rest -> cos -> b   does not          |  |  |
                  x    -> exp -> c   depends on x      |  |  |
                                                       |  |  |
    saved                                              a     c
                                                       |     |
    backward      0, rest --- layer ----> backward(a', b, c')
                                                   |      |
                                                   a      c    put in the places of a' and c'

The layer that the backward traces with an input of zeros costs nothing: only `b` is read of its
results, and compilers remove unused computations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import jaxpr_as_fun

from sharding.traced import results_from

PyTree = Any

#: `(x, others)` to an output and its backward, as `jax.vjp` gives them.
Linearized = Callable[[jax.Array, PyTree], tuple[PyTree, Any]]


def with_residuals(
    linearized: Linearized, x: jax.Array, others: PyTree
) -> tuple[PyTree, list[Any]]:
    """The output, and those residuals of its backward that depend on `x`.

    Args:
        linearized: linearization of the layer.
        others: all other inputs of the residuals, such as masks.
    """
    y, pull, depends = _trace_linearized(linearized, x, others)
    return y, [leaf for leaf, yes in zip(jax.tree.leaves(pull), depends, strict=True) if yes]


def from_residuals(
    linearized: Linearized, residuals: list[Any], like: jax.Array, others: PyTree
) -> Callable[..., Any]:
    """The backward of a layer.

    Args:
        linearized, others: as for `with_residuals`.
        residuals: values that it returned.
        like: an array of the shape and type of the layer's input.
    """
    _, pull, depends = _trace_linearized(linearized, jnp.zeros_like(like), others)
    leaves, structure = jax.tree.flatten(pull)
    stored = iter(residuals)
    residual_leaves = [
        next(stored) if yes else leaf for leaf, yes in zip(leaves, depends, strict=True)
    ]
    return jax.tree.unflatten(structure, residual_leaves)


def _trace_linearized(
    linearized: Linearized, x: jax.Array, others: PyTree
) -> tuple[PyTree, Any, list[bool]]:
    """The output, its backward, and which residuals of that depend on `x`.

    The layer is traced once: both are results of its jaxpr.
    """
    program, shapes = jax.make_jaxpr(linearized, return_shape=True)(x, others)
    outputs = jaxpr_as_fun(program)(*jax.tree.leaves((x, others)))
    y, pull = jax.tree.unflatten(jax.tree.structure(shapes), outputs)
    depends = results_from(program.jaxpr, program.jaxpr.invars[:1])
    return y, pull, depends[len(jax.tree.leaves(y)) :]

"""States of random numbers, for programs that are timed: nothing is compiled to make them."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

#: Largest number of a state.
LARGEST = 0.02


def synthetic_state(abstract_state: Any, seed: int) -> Any:
    """A state of small positive numbers, as second moments are; zeros where integers are asked for.

    Args:
        abstract_state: tree of shapes with shardings, as of a step.
        seed: every state of one seed is the same.
    """
    return jax.tree.map(partial(_fill_array, np.random.default_rng(seed)), abstract_state)


def _fill_array(rng: np.random.Generator, like: jax.ShapeDtypeStruct) -> jax.Array:
    values = np.zeros(like.shape, like.dtype)
    if jnp.issubdtype(like.dtype, jnp.floating):
        values = (LARGEST * rng.random(like.shape, np.float32)).astype(like.dtype)
    return jax.device_put(values, like.sharding)

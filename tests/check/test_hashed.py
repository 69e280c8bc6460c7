"""Hashed random numbers are distributed as Threefry's are, and their keys are independent."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mllm_jax.check.hashed import HASHED


def drawn(key: jax.Array) -> np.ndarray:
    return np.asarray(jax.random.normal(key, (200, 250)))


def test_values_are_normal_and_those_of_different_keys_independent() -> None:
    key = jax.random.key(0, impl=HASHED)
    keys = [key, jax.random.key(1, impl=HASHED), jax.random.fold_in(key, 1), *jax.random.split(key)]
    values = np.stack([drawn(own) for own in keys]).reshape(len(keys), -1)
    near = 5 / np.sqrt(values.shape[1])
    np.testing.assert_allclose(values.mean(1), 0, atol=near)
    np.testing.assert_allclose(values.std(1), 1, atol=near)
    np.testing.assert_allclose(np.corrcoef(values), np.eye(len(keys)), atol=near)
    for lag in (1, 2, 250):
        beside = [np.corrcoef(own[lag:], own[:-lag])[0, 1] for own in values]
        np.testing.assert_allclose(beside, 0, atol=near)


def test_a_key_always_gives_the_same_values_and_stacks_of_keys_those_of_each() -> None:
    keys = jax.random.split(jax.random.key(7, impl=HASHED), 3)
    stacked = np.asarray(jax.vmap(lambda key: jax.random.normal(key, (200, 250)))(keys))
    np.testing.assert_array_equal(stacked, np.stack([drawn(key) for key in keys]))


def test_other_widths_are_refused() -> None:
    with pytest.raises(TypeError, match="hashes have no 16 bits; valid: 32"):
        jax.random.bits(jax.random.key(0, impl=HASHED), (2,), jnp.uint16)

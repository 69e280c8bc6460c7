"""Random numbers for checks, whose programs compile fast: hashes of a key and of places.

JAX's generator, Threefry, is one loop for each array and for each key. Compiling all
of them takes longer than the rest of a small check. Hashes are arithmetic that the compiler fuses
with what reads them.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.random import define_prng_impl
from jax.typing import ArrayLike

#: Parts neighbours: 2^32 over the golden ratio, which is odd, so that no two of them meet.
_SPREAD = np.uint32(0x9E3779B9)


def _hash_bits(x: jax.Array) -> jax.Array:
    """The finaliser of MurmurHash3 for 32 bits (Appleby, https://github.com/aappleby/smhasher)."""
    x = (x ^ (x >> 16)) * jnp.uint32(0x85EBCA6B)
    x = (x ^ (x >> 13)) * jnp.uint32(0xC2B2AE35)
    return x ^ (x >> 16)


def _make_key(seed: jax.Array) -> jax.Array:
    return _hash_bits(seed.astype(jnp.uint32) + _SPREAD).reshape(1)


def _fold_in(key: jax.Array, data: ArrayLike) -> jax.Array:
    # `data` may be a scalar of numpy, whose product would warn of its overflow.
    return _hash_bits(_hash_bits(key) ^ jnp.multiply(data, _SPREAD))


def _split_key(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    return _random_bits(_fold_in(key, _SPREAD), 32, shape)[..., None]


def _random_bits(key: jax.Array, width: int, shape: tuple[int, ...]) -> jax.Array:
    if width != 32:
        raise TypeError(f"hashes have no {width} bits; valid: 32, as of uint32 and float32")
    places = jnp.arange(math.prod(shape), dtype=jnp.uint32).reshape(shape)
    return _hash_bits(_hash_bits(places * _SPREAD + key[0]) ^ key[0])


#: Generator for `jax.random.key(seed, impl=HASHED)`.
HASHED = define_prng_impl(
    key_shape=(1,),
    seed=_make_key,
    split=_split_key,
    random_bits=_random_bits,
    fold_in=_fold_in,
    name="hashed",
    tag="hash",
)

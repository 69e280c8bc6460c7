"""Stand-ins on CPUs for features that CPUs lack."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from sharding import collectives


@contextmanager
def ragged_on_cpus(parts: int = 1) -> Iterator[list[Any]]:
    """Emulate the ragged all-to-all in programs that are traced here; lists its results' types.

    Args:
        parts: parts into which every slice is cut, as between the GPUs of a host.
    """
    traced = []

    def record(*arguments: Any, axis_name: Any) -> Any:
        result = ragged_all_to_all(*arguments, axis_name=axis_name)
        traced.append(jax.typeof(result))
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jax.lax, "ragged_all_to_all", record)
        patch.setattr(collectives, "parts_of_a_slice", lambda axes: parts)
        yield traced


def ragged_all_to_all(
    operand: Any, output: Any, begins: Any, sizes: Any, there: Any, arriving: Any, *, axis_name: Any
) -> Any:
    """`jax.lax.ragged_all_to_all` as it is documented; not a number where it is undefined."""
    # The result has the type of `output`, rightly so only if that varies as much as what arrives.
    varying = jax.typeof(operand).mat.varying
    assert {*axis_name} <= varying <= jax.typeof(output).mat.varying
    rank = jax.lax.axis_index(axis_name)
    operands = jax.lax.all_gather(operand, axis_name)
    # Of every rank's slices for this one:
    parts = len(sizes) // len(operands)
    begins, sizes, there = (
        jax.lax.all_gather(x.reshape(-1, parts), axis_name)[:, rank].reshape(-1)
        for x in (begins, sizes, there)
    )
    wrong = jnp.any(sizes != arriving)
    wrong |= jnp.any(begins + sizes > len(operand)) | jnp.any(there + sizes > len(output))
    for number in range(len(sizes)):
        inside = jnp.arange(len(output)) - there[number]
        own = (inside >= 0) & (inside < sizes[number])
        slice_of = operands[number // parts, jnp.where(own, begins[number] + inside, 0)]
        output = jnp.where(own[:, None], slice_of, output)
    return jnp.where(wrong, jnp.nan, output)

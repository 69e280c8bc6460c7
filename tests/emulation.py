"""Stand-ins on CPUs for features that CPUs lack."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import pytest


@contextmanager
def ragged_on_cpus() -> Iterator[list[Any]]:
    """Emulate the ragged all-to-all in programs that are traced here; lists its results' types."""
    traced = []

    def record(*arguments: Any, axis_name: Any) -> Any:
        result = ragged_all_to_all(*arguments, axis_name=axis_name)
        traced.append(jax.typeof(result))
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jax.lax, "ragged_all_to_all", record)
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
    # Of every rank's slice for this one:
    begins, sizes, there = (
        jax.lax.all_gather(x, axis_name)[:, rank] for x in (begins, sizes, there)
    )
    wrong = jnp.any(sizes != arriving)
    wrong |= jnp.any(begins + sizes > len(operand)) | jnp.any(there + sizes > len(output))
    for source in range(len(sizes)):
        inside = jnp.arange(len(output)) - there[source]
        own = (inside >= 0) & (inside < sizes[source])
        slice_of = operands[source, jnp.where(own, begins[source] + inside, 0)]
        output = jnp.where(own[:, None], slice_of, output)
    return jnp.where(wrong, jnp.nan, output)

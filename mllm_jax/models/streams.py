"""Functions of one program on streams of a GPU of their own, so that they may run side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, ParamSpec, TypeVar

import jax
from jax.experimental import compute_on

#: No function is marked.
NO_STREAMS: Mapping[str, int] = MappingProxyType({})
P = ParamSpec("P")
T = TypeVar("T")

#: JAX 0.10 names the function that marks a call `compute_on2`, later versions `compute_on`.
_mark_call: Any = getattr(compute_on, "compute_on2", compute_on.compute_on)


def run_on_stream(function: Callable[P, T], stream: int | None) -> Callable[P, T]:
    """`function` as a call that is marked for a stream, and so are its derivatives.

    XLA starts a marked call on that stream and goes on; other devices than GPUs ignore the mark.

    Args:
        function: takes and returns trees of arrays; arguments go by position.
        stream: number of the stream; None: the call is not marked.
    """
    if stream is None:
        return function
    where = jax.memory.Space.Device
    marked: Callable[P, T] = _mark_call(
        function, compute_type=f"gpu_stream:{stream}", out_memory_spaces=where
    )
    return marked

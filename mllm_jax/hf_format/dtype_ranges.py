"""Conversions of weights between types, which check the ranges of the types.

A number that is too large for a type becomes infinite in it, and one that is too small becomes
zero. The first is refused, with the name of the tensor and the types that can hold the number; the
second is counted, for a report by the caller.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from mllm_jax.hf_format.files import PretrainedError

#: Types of weights that are written, the smallest range first.
WRITTEN: Mapping[str, np.dtype[Any]] = MappingProxyType(
    {
        "float16": np.dtype(np.float16),
        "bfloat16": np.dtype(ml_dtypes.bfloat16),
        "float32": np.dtype(np.float32),
    }
)
#: Bits of a number of two bytes without its sign.
_WITHOUT_SIGN = 0x7FFF


class RangeError(PretrainedError):
    """A number that a type cannot hold, or that is not finite."""


def convert_values(name: str, values: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Convert `values` to another type.

    Raises:
        RangeError: one of them is infinite, no number, or too large; the message has `name`.
    """
    overflow = find_overflow(values, dtype)
    if overflow is not None:
        raise RangeError(f"{name} holds {describe_overflow(overflow, dtype)}")
    return values.astype(dtype)


def find_overflow(values: NDArray[Any], dtype: np.dtype[Any]) -> float | None:
    """Find the number of the largest magnitude, NaN above all, if `dtype` cannot hold it."""
    if not values.size:
        return None
    numbers = values if values.dtype in (np.float32, np.float64) else values.astype(np.float32)
    ends = float(numbers.max()), float(numbers.min())  # not a number where any is none
    worst = max(ends, key=lambda end: (np.isnan(end), abs(end)))
    return None if can_hold(dtype, worst) else worst


def find_overflow_in_chunks(chunks: Iterable[NDArray[Any]], dtype: np.dtype[Any]) -> float | None:
    """`find_overflow` of the first of several chunks of a tensor that has such a number."""
    overflows = (find_overflow(chunk, dtype) for chunk in chunks)
    return next((overflow for overflow in overflows if overflow is not None), None)


def can_hold(dtype: np.dtype[Any], value: float) -> bool:
    """Whether `value` is finite in a type."""
    with np.errstate(over="ignore"):
        return bool(np.isfinite(np.asarray(value, np.float64).astype(dtype).astype(np.float64)))


def describe_overflow(value: float, dtype: np.dtype[Any]) -> str:
    """Say why a type cannot hold a number: `1e+05, which float16 (at most 65504) cannot hold`."""
    if not np.isfinite(value):
        return f"{value}, which is no finite number"
    most = float(ml_dtypes.finfo(dtype).max)
    wider = [name for name, other in WRITTEN.items() if can_hold(other, value)]
    valid = f"; valid: {' or '.join(wider)}" if wider else ""
    return f"{value:.6g}, which {dtype.name} (at most {most:.6g}) cannot hold{valid}"


def count_underflows(values: NDArray[Any], converted: NDArray[Any]) -> int:
    """Count the values that have become zero in `converted`."""
    if values.dtype == converted.dtype:
        return 0
    return int(np.count_nonzero(values)) - _count_nonzero(converted)


def _count_nonzero(values: NDArray[Any]) -> int:
    """Count numbers of two bytes by their bits, which is faster than by their values."""
    if values.dtype.itemsize == 2:
        return int(np.count_nonzero(values.view(np.uint16) & _WITHOUT_SIGN))
    return int(np.count_nonzero(values))


def report_underflows(counts: Mapping[str, int], dtype: str) -> Iterator[str]:
    """Yield a line about weights that have become zero, if there are any, from counts by tensor."""
    some = {name: count for name, count in counts.items() if count}
    if some:
        most = max(some, key=lambda name: some[name])
        yield (
            f"{sum(some.values())} weights of {len(some)} tensors are too small for {dtype} and "
            f"become zero, most of them in {most} ({some[most]})"
        )

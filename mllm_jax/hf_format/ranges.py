"""Conversions of weights between types, with a look at what the types hold.

A number that is too large for a type becomes infinite in it, and one that is too small becomes
zero. The first is refused, by the name of the tensor and with the types that hold it; the second is
counted, and told by whoever converts.
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
    """A number that a type cannot hold, or that is none."""


def narrowed(name: str, values: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """`values` in another type.

    Raises:
        RangeError: one of them is infinite, no number, or too large; the message has `name`.
    """
    wrong = beyond(values, dtype)
    if wrong is not None:
        raise RangeError(f"{name} holds {reason(wrong, dtype)}")
    return values.astype(dtype)


def beyond(values: NDArray[Any], dtype: np.dtype[Any]) -> float | None:
    """The number of the largest magnitude if `dtype` cannot hold it, or one that is none."""
    if not values.size:
        return None
    own = values if values.dtype in (np.float32, np.float64) else values.astype(np.float32)
    ends = float(own.max()), float(own.min())  # not a number where any is none
    worst = max(ends, key=lambda end: (np.isnan(end), abs(end)))
    return None if holds(dtype, worst) else worst


def beyond_all(parts: Iterable[NDArray[Any]], dtype: np.dtype[Any]) -> float | None:
    """`beyond` of the first of several parts of a tensor that has such a number."""
    return next((own for part in parts if (own := beyond(part, dtype)) is not None), None)


def holds(dtype: np.dtype[Any], value: float) -> bool:
    """Whether `value` is finite in a type."""
    with np.errstate(over="ignore"):
        return bool(np.isfinite(np.asarray(value, np.float64).astype(dtype).astype(np.float64)))


def reason(value: float, dtype: np.dtype[Any]) -> str:
    """What is wrong with a number in a type: `1e+05, which float16 (at most 65504) cannot hold`."""
    if not np.isfinite(value):
        return f"{value}, which is no finite number"
    most = float(ml_dtypes.finfo(dtype).max)
    able = [name for name, own in WRITTEN.items() if holds(own, value)]
    valid = f"; valid: {' or '.join(able)}" if able else ""
    return f"{value:.6g}, which {dtype.name} (at most {most:.6g}) cannot hold{valid}"


def vanished(values: NDArray[Any], made: NDArray[Any]) -> int:
    """Number of values that have become zero in `made`."""
    if values.dtype == made.dtype:
        return 0
    return int(np.count_nonzero(values)) - _nonzero(made)


def _nonzero(values: NDArray[Any]) -> int:
    """Of numbers of two bytes by their bits, which is faster than by their values."""
    if values.dtype.itemsize == 2:
        return int(np.count_nonzero(values.view(np.uint16) & _WITHOUT_SIGN))
    return int(np.count_nonzero(values))


def told_vanished(counts: Mapping[str, int], dtype: str) -> Iterator[str]:
    """A line about weights that have become zero, by tensor; none if there are none."""
    some = {name: count for name, count in counts.items() if count}
    if some:
        most = max(some, key=lambda name: some[name])
        yield (
            f"{sum(some.values())} weights of {len(some)} tensors are too small for {dtype} and "
            f"become zero, most of them in {most} ({some[most]})"
        )

"""The parts that a sharding cuts an array into, and arrays assembled from parts of another.

::

    saved by 2 processes      [0:4] [4:8]          a part each
    read by 4 devices         [0:2] [2:4] [4:6] [6:8]    each from one of them
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np


@dataclass(frozen=True, order=True)
class ArrayBox:
    """A part of an array, from `start` to `stop` in every dimension."""

    start: tuple[int, ...]
    stop: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the sides."""
        return tuple(b - a for a, b in zip(self.start, self.stop, strict=True))

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    def overlap(self, other: ArrayBox) -> ArrayBox | None:
        """What both have in common; None if nothing."""
        start = tuple(map(max, self.start, other.start))
        stop = tuple(map(min, self.stop, other.stop))
        return ArrayBox(start, stop) if all(map(int.__lt__, start, stop)) else None

    def slices_within(self, outer: ArrayBox) -> tuple[slice, ...]:
        """The place of this part in an array that holds `outer`."""
        edges = zip(self.start, self.stop, outer.start, strict=True)
        return tuple(slice(a - c, b - c) for a, b, c in edges)

    def __str__(self) -> str:
        return f"[{', '.join(f'{a}:{b}' for a, b in zip(self.start, self.stop, strict=True))}]"


def box_of(index: tuple[slice, ...], shape: tuple[int, ...]) -> ArrayBox:
    """The part that a sharding gives to a device, whose slices may be open."""
    edges = [dim_slice.indices(length)[:2] for dim_slice, length in zip(index, shape, strict=True)]
    return ArrayBox(tuple(a for a, _ in edges), tuple(b for _, b in edges))


def processes_by_part(leaf: Any) -> dict[ArrayBox, set[int]]:
    """The parts of a leaf, each with the processes whose devices hold it.

    Args:
        leaf: an array, or a `jax.ShapeDtypeStruct` with a sharding.
    """
    by_box: dict[ArrayBox, set[int]] = {}
    for device, index in leaf.sharding.devices_indices_map(leaf.shape).items():
        by_box.setdefault(box_of(index, leaf.shape), set()).add(device.process_index)
    return by_box


def local_parts(leaf: jax.Array) -> dict[ArrayBox, jax.Array]:
    """The parts that devices of this process hold, each once."""
    return {box_of(part.index, leaf.shape): part.data for part in leaf.addressable_shards}


def assemble_part(
    box: ArrayBox, dtype: Any, boxes: Iterable[ArrayBox], read: Callable[[ArrayBox], np.ndarray]
) -> np.ndarray:
    """The values of `box`, assembled from parts that do not overlap each other.

    Args:
        boxes: the available parts.
        read: values of one of them.

    Raises:
        KeyError: the parts do not cover `box`.
    """
    overlaps = {part: common for part in boxes if (common := part.overlap(box)) is not None}
    if sum(common.size for common in overlaps.values()) != box.size:
        raise KeyError(str(box))
    if box in overlaps:
        return read(box)
    result = np.empty(box.shape, dtype)
    for part, common in overlaps.items():
        result[common.slices_within(box)] = read(part)[common.slices_within(part)]
    return result


def assemble_array(leaf: jax.ShapeDtypeStruct, values: Mapping[ArrayBox, np.ndarray]) -> jax.Array:
    """The array of a leaf, from the values of the parts of this process."""
    sharding = leaf.sharding
    assert sharding is not None, "a leaf of a state has a sharding"

    def of(index: tuple[slice, ...] | None) -> np.ndarray:
        return values[box_of(index or (), leaf.shape)]

    return jax.make_array_from_callback(leaf.shape, sharding, of)

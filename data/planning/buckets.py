"""Lanes: which media of an encoder are packed, dealt and encoded by themselves.

Samples are read and measured by encoder. Where a step is planned, each medium goes to the lane that
takes media of its length; packing and dealing then treat a lane like an encoder::

    by encoder    vision  64 900 32
    by lane       short   64 32     numbers 0 2
                  long    900       numbers 1
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from data.rows.spec import Modality
from data.sample import Lengths

T = TypeVar("T")


def by_lane(lengths: Lengths, modalities: Sequence[Modality]) -> Lengths:
    """Lengths of a sample by lane, from those by encoder.

    Args:
        lengths: measured lengths of a sample.
        modalities: modalities of all lanes; each medium goes through one of them.
    """
    if all(modality.lane is None for modality in modalities):
        return lengths
    numbers = {modality.name: _numbers(lengths, modality) for modality in modalities}
    taken = [modality for modality in modalities if numbers[modality.name]]

    def pick(values: Mapping[str, tuple[T, ...]]) -> dict[str, tuple[T, ...]]:
        return {
            m.name: tuple(values[m.encoder][number] for number in numbers[m.name])
            for m in taken
            if m.encoder in values
        }

    found = pick(lengths.media), pick(lengths.starts), pick(lengths.grids)
    return Lengths(lengths.tokens, *found, {m.name: numbers[m.name] for m in taken})


def by_encoder(lengths: Lengths, modalities: Iterable[Modality]) -> Lengths:
    """The inverse of `by_lane`."""
    if not lengths.numbers:
        return lengths
    lanes: dict[str, list[str]] = {}
    for modality in modalities:
        if modality.name in lengths.numbers:
            lanes.setdefault(modality.encoder, []).append(modality.name)

    def join(values: Mapping[str, tuple[Any, ...]]) -> dict[str, tuple[Any, ...]]:
        return {
            encoder: _in_order(names, values, lengths.numbers)
            for encoder, names in lanes.items()
            if names[0] in values
        }

    return Lengths(lengths.tokens, join(lengths.media), join(lengths.starts), join(lengths.grids))


def number_of(lengths: Lengths, lane: str, number: int) -> int:
    """The number of a medium of a lane among all those of its encoder."""
    return lengths.numbers[lane][number] if lengths.numbers else number


def _numbers(lengths: Lengths, modality: Modality) -> tuple[int, ...]:
    """Which media of its encoder a lane takes."""
    own, lane = lengths.media.get(modality.encoder, ()), modality.lane
    if lane is None:
        return tuple(range(len(own)))
    return tuple(np.flatnonzero(lane.takes(own)).tolist())


def _in_order(
    names: Sequence[str],
    values: Mapping[str, tuple[Any, ...]],
    numbers: Mapping[str, tuple[int, ...]],
) -> tuple[Any, ...]:
    """Values of the media of one encoder, in the order of their numbers."""
    pairs = (pair for name in names for pair in zip(numbers[name], values[name], strict=True))
    return tuple(value for _, value in sorted(pairs, key=lambda pair: pair[0]))

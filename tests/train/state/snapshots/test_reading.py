"""A part that several hosts have is read from any of them that has it undamaged."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import SingleDeviceSharding

from mllm_jax.train.state.snapshots.reading import ShardReader
from mllm_jax.train.state.snapshots.shard import (
    ShardError,
    ShardIndex,
    ShardLeaf,
    ShardOrigin,
    ShardPart,
)

WHOLE = np.arange(8, dtype=np.float32)


class Held:
    """A shard with some of the parts of one leaf, which may be damaged."""

    def __init__(self, *edges: tuple[int, int], damaged: bool = False, process: int = 0) -> None:
        parts = tuple(ShardPart(start=(a,), stop=(b,), offset=0) for a, b in edges)
        leaf = ShardLeaf(shape=(8,), dtype="float32", parts=parts)
        origin = ShardOrigin(run="r", folder="f", series="s", step=3, process=process)
        self.index = ShardIndex(origin=origin, progress={}, config={}, leaves={"x": leaf})
        self.damaged = damaged

    def read(self, leaf: ShardLeaf, part: ShardPart) -> np.ndarray:
        if self.damaged:
            raise ShardError(f"damaged on process {self.index.origin.process}")
        return WHOLE[part.start[0] : part.stop[0]]


def target() -> Any:
    layout = SingleDeviceSharding(jax.devices()[0])
    return {"x": jax.ShapeDtypeStruct((8,), np.float32, sharding=layout)}


def read(here: Sequence[Held], away: Sequence[Held] = ()) -> np.ndarray:
    return np.asarray(ShardReader(here, lambda: away).read_state(target())["x"])


@pytest.mark.parametrize(
    "held",
    [
        *permutations(
            (
                Held((0, 8), damaged=True),
                Held((0, 8), damaged=True, process=1),
                Held((0, 8), process=2),
            )
        )
    ],
)
@pytest.mark.parametrize("here", [0, 1, 3])
def test_the_source_that_is_not_damaged_is_found_wherever_it_stands(
    held: tuple[Held, ...], here: int
) -> None:
    np.testing.assert_array_equal(read(held[:here], held[here:]), WHOLE)


def test_others_are_asked_only_for_what_is_not_here() -> None:
    def nobody() -> Sequence[Held]:
        raise AssertionError("other hosts are asked for what is here")

    reader = ShardReader([Held((0, 4)), Held((4, 8))], nobody)
    np.testing.assert_array_equal(reader.read_state(target())["x"], WHOLE)
    np.testing.assert_array_equal(read([Held((0, 4))], [Held((4, 8), process=1)]), WHOLE)
    np.testing.assert_array_equal(read([], [Held((0, 8), process=1)]), WHOLE)


def test_the_first_share_says_what_the_run_was() -> None:
    assert ShardReader([Held((0, 4), process=5), Held((4, 8))], list).index.origin.process == 5
    assert ShardReader([], lambda: [Held((0, 8), process=7)]).index.origin.process == 7
    with pytest.raises(ShardError, match="no host has a shard of it any more"):
        _ = ShardReader([], list).index


@pytest.mark.parametrize(
    ("here", "away", "why"),
    [
        ([Held((0, 4))], [], r"leaf x, \[0:8\], is in the memory of no host$"),
        ([Held((0, 8), damaged=True)], [], "of no host; damaged on process 0$"),
        (
            [Held((0, 8), damaged=True)],
            [Held((0, 8), damaged=True, process=1)],
            "of no host; damaged on process 0; damaged on process 1$",
        ),
    ],
)
def test_what_is_nowhere_whole_is_named(here: list[Held], away: list[Held], why: str) -> None:
    with pytest.raises(ShardError, match=why):
        read(here, away)

"""Arrays put together from the parts of another sharding."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mllm_jax.train.state.snapshots.array_box import ArrayBox, assemble_part

SHAPE = (6, 5)


def cuts(length: int) -> st.SearchStrategy[list[int]]:
    inner = st.sets(st.integers(1, length - 1), max_size=3)
    return inner.map(lambda own: [0, *sorted(own), length])


def boxes(edges: list[list[int]]) -> list[ArrayBox]:
    rows, columns = (list(pairwise(own)) for own in edges)
    return [ArrayBox((a, c), (b, d)) for a, b in rows for c, d in columns]


grids = st.tuples(*map(cuts, SHAPE)).map(lambda own: boxes(list(own)))


@given(grids, grids, st.data())
def test_a_piece_of_one_sharding_is_made_of_those_of_another(held, wanted, data):
    whole = np.arange(30).reshape(SHAPE)

    def read(box: ArrayBox) -> np.ndarray:
        return whole[box.slices_within(ArrayBox((0, 0), SHAPE))]

    for own in wanted:
        found = assemble_part(own, whole.dtype, held, read)
        np.testing.assert_array_equal(found, read(own))
    lost = data.draw(st.sampled_from(held))
    left = [own for own in held if own != lost]
    for own in wanted:
        if lost.overlap(own) is None:
            np.testing.assert_array_equal(assemble_part(own, whole.dtype, left, read), read(own))
        else:
            with pytest.raises(KeyError):
                assemble_part(own, whole.dtype, left, read)


def test_a_number_is_a_piece():
    one = ArrayBox((), ())
    assert one.size == 1
    assert assemble_part(one, np.int32, [one], lambda _: np.int32(7)) == 7

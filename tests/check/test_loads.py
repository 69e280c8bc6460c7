"""Loads for `verify`: media go together with their places and outputs, in rows of every kind."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from numpy.typing import NDArray

from data.batch import PackedBatch
from mllm_jax.check.loads import LOADS, make_loads
from mllm_jax.check.synthetic import synthetic_batch
from tests.train.models import small_model

ROWS, MICROBATCHES = 2, 4
BUDGETS = {"vision": 16, "audio": 32}


def held(name: str) -> list[PackedBatch]:
    batches = [synthetic_batch(small_model(), ROWS, 24, BUDGETS, m) for m in range(MICROBATCHES)]
    return dict(make_loads(batches, small_model()))[name]


def places_of(batch: PackedBatch) -> Mapping[str, NDArray[np.int64]]:
    assert batch.places is not None
    return batch.places


@pytest.mark.parametrize("name", LOADS)
def test_media_go_with_their_places_and_outputs(name: str) -> None:
    for m, batch in enumerate(held(name)):
        for bucket, (encoder, index) in enumerate(batch.text_rows.merges.items()):
            own = batch.rows[encoder]
            rows = {row for row in range(ROWS) if LOADS[name](bucket, m, row)}
            assert set(np.flatnonzero(own.segment_ids.any(1)).tolist()) == rows
            assert set(places_of(batch)[encoder][:, 0].tolist()) == rows
            outputs = own.segment_ids.shape[1] // small_model().reduction(encoder)
            assert set((index[index >= 0] // outputs).tolist()) <= rows


def test_loads_are_partial_uneven_and_empty() -> None:
    media = {name: [[len(places_of(b)[n]) for n in BUDGETS] for b in held(name)] for name in LOADS}
    assert not np.any(media["empty"])
    assert not np.any(np.array(media["late"])[:, 0])
    assert np.any(media["late"])
    uneven = {row for b in held("uneven") for row in places_of(b)["vision"][:, 0].tolist()}
    assert uneven == {0, 1}
    assert np.all(media["uneven"])

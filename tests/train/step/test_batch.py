"""What is placed for a step, under a schedule that follows its load or under a given one."""

from __future__ import annotations

import pytest

from mllm_jax.train.step.batch import counted
from tests.train.step.test_units import MEDIA, scattered_load, step


def test_given_tables_are_taken_whatever_the_load() -> None:
    """Encoders then have the microbatches of the decoder, for which nobody asks where media lie."""
    own, batches = step(), scattered_load(1)[1]
    without = [
        {name: part for name, part in batch.items() if name != "places"} for batch in batches
    ]
    with pytest.raises(ValueError, match="the runs and the places"):
        counted(without, own)
    _, units, _ = counted(without, own, tables=own.program.tables)
    assert units == {}
    _, units, _ = counted(batches, own)
    assert {*units} == {*MEDIA}

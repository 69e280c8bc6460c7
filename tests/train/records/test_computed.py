"""Positions that a step computes: buckets without samples count nothing."""

from __future__ import annotations

from collections import Counter

from mllm_jax.train.listeners.figures import computed_positions
from mllm_jax.train.records.metrics import FigureSums

CAPACITY = {"tokens": 64, "short": 32, "long": 128}


def test_a_bucket_without_samples_computes_nothing() -> None:
    assert computed_positions({"tokens": 0, "short": 5, "long": 0}, CAPACITY) == CAPACITY | {
        "long": 0
    }
    assert computed_positions({}, CAPACITY) == {"tokens": 64, "short": 0, "long": 0}


def test_padding_is_that_of_the_microbatches_with_samples() -> None:
    """One of two microbatches has media in the short bucket, and none has any in the long one."""
    used = [{"tokens": 48, "short": 24, "long": 0}, {"tokens": 16, "short": 0, "long": 0}]
    rooms, every = Counter[str](), Counter[str]()
    for own in used:
        rooms.update(computed_positions(own, CAPACITY))
        every.update(own)
    assert FigureSums(used=every, capacity=rooms).padding == {"tokens": 0.5, "short": 0.25}

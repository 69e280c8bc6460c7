"""What processes without an address tell each other."""

from __future__ import annotations

import numpy as np
import pytest
from jax.experimental import multihost_utils

from mllm_jax.runtime.collective import Collective


def test_values_of_different_lengths_arrive_as_they_were_sent(monkeypatch: pytest.MonkeyPatch):
    values = [{"train.seed": 7}, ["longer than the other", None], 0]
    texts = [len(repr(value)) for value in values]
    assert len(set(texts)) == len(texts)
    sent: list[list[np.ndarray]] = []

    def alone(own):
        sent[-1].append(own)
        return own[None]

    def together(own):
        # Every process has sent as many of its own bytes as the longest, behind its own length.
        step = next(counter)
        rows = [np.resize(each[step], own.shape) for each in sent]
        for row, each in zip(rows, sent, strict=True):
            row[len(each[step]) :] = 0
        return np.stack(rows)

    monkeypatch.setattr(multihost_utils, "process_allgather", alone)
    for value in values:
        sent.append([])
        assert Collective().gather("facts", value) == [value]
    counter = iter(range(2))
    monkeypatch.setattr(multihost_utils, "process_allgather", together)
    assert Collective().gather("facts", values[1]) == values

"""Messages between processes without an address."""

from __future__ import annotations

import threading

import jax
import numpy as np
import pytest
from jax.experimental import multihost_utils

from mllm_jax.config.sections import ParallelConfig
from mllm_jax.runtime import collective, devices, part
from mllm_jax.runtime.collective import Collective, everywhere
from mllm_jax.runtime.exits import Exit
from mllm_jax.runtime.part import Peers
from mllm_jax.runtime.watch import Limits


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


def test_who_waits_longer_than_anything_may_ends(monkeypatch: pytest.MonkeyPatch):
    ended = threading.Event()
    told: list[tuple[int, str]] = []

    def end(code: int, why: str) -> None:
        told.append((code, why))
        ended.set()

    def never(own):
        assert ended.wait(10)
        return own[None]

    monkeypatch.setattr(part, "end_process", end)
    monkeypatch.setattr(multihost_utils, "process_allgather", never)
    assert Collective(Limits(longest=0.01)).gather("facts", 7) == [7]
    ((code, why),) = told
    assert code == Exit.LOST_PEER
    assert "process 0 of 1 has waited 0.01 s (run.phase_seconds) for the others (facts)" in why


def test_who_waits_no_longer_than_that_goes_on(monkeypatch: pytest.MonkeyPatch):
    ended = threading.Event()
    monkeypatch.setattr(part, "end_process", lambda code, why: ended.set())
    monkeypatch.setattr(multihost_utils, "process_allgather", lambda own: own[None])
    assert Collective(Limits(longest=0.2)).gather("facts", 7) == [7]
    assert not ended.wait(0.5)


def test_processes_that_jax_has_found_have_the_limits_of_the_run(monkeypatch: pytest.MonkeyPatch):
    taken: list[Limits] = []
    for name in ("_choose_platform", "_join", "_found", "take_part"):
        monkeypatch.setattr(devices, name, lambda *_: None)
    monkeypatch.setattr(devices, "Collective", taken.append)
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    devices.start(ParallelConfig(distributed=True), limits=Limits(longest=7))
    assert taken == [Limits(longest=7)]


def test_what_one_process_denies_holds_nowhere(monkeypatch: pytest.MonkeyPatch):
    class Two(Peers):
        def gather(self, name, value):
            return [value, name == "agreed"]

    monkeypatch.setattr(collective, "peers", Two)
    assert everywhere("agreed", True)
    assert not everywhere("denied", True)
    assert not everywhere("agreed", False)

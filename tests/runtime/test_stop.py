"""Processes agree on stopping within seconds, whatever a step takes, and not at every step."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from mllm_jax.runtime import run_peers
from mllm_jax.runtime.stop import AGREE, StopSignal


class Two(run_peers.RunPeers):
    """Two processes, of which the other one hears of a signal; both take equally long."""

    count = 2

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.gathered, self.other = False, 0, 1.0

    def gather_values(self, name: str, value: Any) -> list[Any]:
        self.gathered += 1
        asked, passed = value
        return [[asked, passed], [self.asked, self.other * passed]]


@pytest.fixture
def two() -> Iterator[Two]:
    before, found = run_peers.current_peers(), Two()
    run_peers.set_peers(found)
    yield found
    run_peers.set_peers(before)


def run(signal: StopSignal, clock: list[float], steps: range, seconds: float) -> int | None:
    """The step after which it is agreed to stop."""
    for step in steps:
        clock[0] += seconds
        if signal.agree_on_stop(step):
            return step
    return None


@pytest.mark.parametrize("seconds", [0.01, 0.3, 4.0, 40.0])
def test_a_signal_of_another_process_is_heeded_soon(
    two: Two, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    signal = StopSignal()
    clock[0] += 60  # compiling
    count = max(4, int(200 / seconds))
    assert run(signal, clock, range(1, count), seconds) is None
    assert two.gathered <= 4 + count * seconds / (AGREE - seconds) or two.gathered == count - 1
    two.asked, begun = True, clock[0]
    assert run(signal, clock, range(count, 2 * count), seconds) is not None
    assert clock[0] - begun <= max(AGREE, seconds) * 1.01


def test_all_agree_by_the_slowest(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    """One whose own clock says less takes the other's seconds."""
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    two.other = 10.0
    signal = StopSignal()
    assert run(signal, clock, range(1, 101), 1.0) is None
    assert two.gathered == 100


def test_a_process_alone_knows_after_every_step() -> None:
    signal = StopSignal()
    assert not signal.agree_on_stop(1)
    signal._requested.set()
    assert signal.agree_on_stop(2)

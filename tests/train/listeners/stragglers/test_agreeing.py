"""A slow process is named also where processes wait for each other between all steps."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from mllm_jax.runtime.run_peers import RunPeers, current_peers, set_peers
from mllm_jax.runtime.stop import AGREE, StopSignal
from mllm_jax.train.events import Event, Phase, StepEnded, StepStopwatch
from mllm_jax.train.listeners.stragglers.judge import StragglerJudge
from mllm_jax.train.listeners.stragglers.timing import NAME, StepTimer
from mllm_jax.train.listeners.stragglers.window import StepWindow, compare_windows
from mllm_jax.train.trainer import Trainer
from tests.configs import config

STEPS, EVERY = 60, 5
#: Seconds of reading and placing, and of what a process does between two steps.
READ, PLACE, WORK = 0.2, 0.1, 0.5


class Clock(threading.local):
    """The time of a thread, which is a process here."""

    index, now = 0, 0.0


class Both(RunPeers):
    """Two processes; who comes first to a meeting waits for the other one."""

    count = 2

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock, self._met = clock, threading.Barrier(2)
        self._told: list[Any] = [None, None]

    @property
    def index(self) -> int:  # type: ignore[override]
        return self._clock.index

    def gather_values(self, name: str, value: Any) -> list[Any]:
        self._told[self.index] = value, self._clock.now
        self._met.wait()
        values, times = zip(*self._told, strict=True)
        self._met.wait()
        self._clock.now = max(times)
        return list(values)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    before, own = current_peers(), Clock()
    set_peers(Both(own))
    monkeypatch.setattr(time, "perf_counter", lambda: own.now)
    monkeypatch.setattr(time, "monotonic", lambda: own.now)
    yield own
    set_peers(before)


def run(index: int, clock: Clock, device: float, factor: float) -> None:
    """All steps of a process, of which the loop's own parts do what lies between two."""
    clock.index, clock.now = index, 0.0
    timing = StepTimer(EVERY, None)

    def tell(event: Event) -> None:
        timing(event)
        if isinstance(event, StepEnded):
            clock.now += WORK * factor

    own = config(train__steps=1000, checkpoint__enabled=False, evaluate__enabled=False)
    guard: Any = SimpleNamespace(watch_step=lambda ended: None, check_all=lambda: None)
    trainer: Any = Trainer.__new__(Trainer)
    trainer.config, trainer.state, trainer.notify = own, None, tell
    stop, since = StopSignal(), StepStopwatch()
    figures = SimpleNamespace(record=None)
    trainer.components = SimpleNamespace(guard=guard, stop=stop, listeners=figures)
    for step in range(1, STEPS + 1):
        clock.now += READ
        tell(Phase("read", step, READ, ()))
        clock.now += PLACE
        tell(Phase("place", step, PLACE))
        waited = StepStopwatch()
        current_peers().gather_values("the devices", None)
        clock.now += device
        tell(Phase("wait", step, waited.seconds))
        seconds, since = since.seconds, StepStopwatch()
        trainer.progress = SimpleNamespace(step=step)
        trainer.after_step(StepEnded(step, seconds, (), {}, 0.0))


@pytest.mark.parametrize("device", [0.1, AGREE / 2])
def test_a_slow_process_is_named_however_often_processes_agree(clock: Clock, device: float) -> None:
    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(run, index, clock, device, 1 + index / 5) for index in (0, 1)]
        for process in both:
            process.result(60)
    windows: dict[int, dict[int, StepWindow]] = {}
    for index, value in current_peers().take_posts(NAME):
        window = StepWindow.from_json(value)
        windows.setdefault(window.step, {})[index] = window
    judge, named = StragglerJudge(), set()
    for step in sorted(windows):
        slow = judge(compare_windows([windows[step][index] for index in (0, 1)]))
        named |= {(own.phase, own.place.split(" (")[0]) for own in slow}
    assert named == {("between", "process 1")}

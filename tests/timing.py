"""How long something takes, on machines that run other programs beside tests."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
ATTEMPTS = 3
#: Seconds after which whatever is waited for counts as lost: far more than a busy machine needs.
PATIENCE = 240.0
#: Seconds between two looks.
LOOK = 0.01


def within(seconds: float, function: Callable[[], T]) -> T:
    """The result of `function`, which takes less than so many seconds of the processor.

    It may try again: a crowded machine makes steps longer, and never shorter.
    """
    taken = []
    for _ in range(ATTEMPTS):
        gc.collect()
        begin = time.process_time()
        result = function()
        taken.append(time.process_time() - begin)
        if taken[-1] < seconds:
            return result
    raise AssertionError(f"{taken} s, not {seconds}")


class Clock:
    """In place of the module `time`: time that passes only while something sleeps.

    Attributes:
        pauses: seconds of all sleeps.
    """

    def __init__(self) -> None:
        self.pauses: list[float] = []

    def monotonic(self) -> float:
        return sum(self.pauses)

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)


def soon(holds: Callable[[], object]) -> None:
    """Wait until something holds."""
    until = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < until, f"it does not hold within {PATIENCE:g} s"
        time.sleep(LOOK)

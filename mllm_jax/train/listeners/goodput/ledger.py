"""The seconds of this process by kind, and the programs that it has compiled."""

from __future__ import annotations

import os
import time
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path

import jax

#: JAX's names of what it does to programs.
COMPILED = "/jax/core/compile/backend_compile_duration"
HIT, MISS = "/jax/compilation_cache/cache_hits", "/jax/compilation_cache/cache_misses"


class TimeLedger:
    """The seconds of this process by kind, see `attempts.KINDS`.

    Args:
        age: seconds since the process was started, which went into its start.
        shared: whether others do something between the steps.

    Attributes:
        began: time at which the process was started, seconds since 1970.
        seconds: seconds by what they went into.
        now: what the time since the last note goes into, as far as that is known.
    """

    def __init__(self, age: float, *, shared: bool = False) -> None:
        self.shared = shared
        self.began = time.time() - age
        self.seconds = defaultdict[str, float](float, {"start": age})
        self.now = "data"
        self._at = time.perf_counter()

    def note_time(self, kind: str, now: str) -> None:
        """Note that the time since the last note went into `kind`, and that from now on into `now`.

        Of a process that ends, `now` says what the time after its last record went into.
        """
        at = time.perf_counter()
        self.seconds[kind] += at - self._at
        self._at, self.now = at, now


def process_age() -> float:
    """Seconds since this process was started; 0 where the system does not say."""
    stat = Path("/proc/self/stat")
    if not stat.exists():
        return 0.0
    ticks = int(stat.read_text().rpartition(")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")


@cache
def count_programs() -> Counter[str]:
    """Counts JAX's events of programs, from the first call on."""
    counts: Counter[str] = Counter()

    def count_timed(event: str, duration_secs: float, **_: str | int) -> None:
        del duration_secs
        counts[event] += 1

    def count_event(event: str, **_: str | int) -> None:
        counts[event] += 1

    jax.monitoring.register_event_duration_secs_listener(count_timed)
    jax.monitoring.register_event_listener(count_event)
    return counts

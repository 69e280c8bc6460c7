"""Times of programs, run in turns so that a slow moment of the machine hits all alike."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax


def median_seconds(programs: Mapping[Any, Callable[[], Any]], repetitions: int) -> dict[Any, float]:
    """Median seconds of every program, run in turns after one run that does not count."""
    return {
        name: statistics.median(seconds)
        for name, seconds in time_samples(programs, repetitions).items()
    }


def median_between(values: Sequence[float]) -> tuple[float, float]:
    """Two of the values, between which the median of their distribution lies.

    As many values are below that median as heads come up when as many coins are thrown, whatever
    the values' distribution: in 95 of 100 cases within 1.96 standard deviations of one half. With
    fewer than six values the bounds are the least and the largest value, which say less.
    """
    ordered, count = sorted(values), len(values)
    outside = max(0, math.floor((count - 1.96 * math.sqrt(count)) / 2))
    return ordered[outside], ordered[count - 1 - outside]


def lower_quartiles(
    programs: Mapping[Any, Callable[[], Any]], repetitions: int
) -> dict[Any, float]:
    """The lower quartile of every program's seconds; programs are run as by `median_seconds`.

    Beside other work on the machine, which only slows, it moves less than the median, and one lucky
    run does not decide as it does for the minimum.
    """
    samples_of = time_samples(programs, repetitions)
    return {name: lower_quartile(seconds) for name, seconds in samples_of.items()}


def lower_quartile(seconds: Sequence[float]) -> float:
    """The value of which a quarter are less."""
    return sorted(seconds)[len(seconds) // 4]


def time_samples(
    programs: Mapping[Any, Callable[[], Any]], repetitions: int
) -> dict[Any, list[float]]:
    """Seconds of every run, as of `median_seconds`."""
    seconds: dict[Any, list[float]] = {name: [] for name in programs}
    for repetition in range(repetitions + 1):
        for name, run in programs.items():
            begin = time.perf_counter()
            jax.block_until_ready(run())
            if repetition:
                seconds[name].append(time.perf_counter() - begin)
    return seconds

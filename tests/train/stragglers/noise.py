"""Times of healthy and slow processes, generated."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from mllm_jax.train.stragglers.window import Times, Window, compared

#: Seconds of a healthy step, and of what its process does by itself.
PACE = 1.0
USUAL = {"read": 0.2, "place": 0.2, "between": 0.3, "host": 0.002}
DEVICE = 0.005


def windows(
    processes: int,
    count: int,
    sigma: float,
    seed: int,
    slow: Callable[[int], float] = lambda number: 1.0,
    phases: tuple[str, ...] = ("between",),
    devices: int = 2,
) -> Iterator[list[Times]]:
    """Windows of all processes whose times vary log-normally, each by itself.

    Args:
        sigma: spread of the logarithm of a time.
        slow: factor of process 1 in a window, in `phases`; process 0 is always healthy.
    """
    random = np.random.default_rng(seed)
    for number in range(count):
        yield compared(
            [
                _window(
                    process, random, sigma, slow(number) if process == 1 else 1.0, phases, devices
                )
                for process in range(processes)
            ]
        )


def _window(
    process: int,
    random: np.random.Generator,
    sigma: float,
    factor: float,
    phases: tuple[str, ...],
    devices: int,
) -> Window:
    """One window; of the devices of a process the last is slow with it."""

    def varied(seconds: float, slow: bool) -> float:
        return float(seconds * random.lognormal(0.0, sigma) * (factor if slow else 1.0))

    return Window(
        process,
        "ab"[process % 2],
        10,
        PACE,
        {name: varied(seconds, name in phases) for name, seconds in USUAL.items()},
        [varied(DEVICE, "device" in phases and own == devices - 1) for own in range(devices)],
        [f"device {process * devices + own}" for own in range(devices)],
    )

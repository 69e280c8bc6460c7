"""PhaseTimes of healthy and slow processes, generated."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from mllm_jax.train.listeners.stragglers.window import PhaseTimes, StepWindow, compare_windows

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
    correlation: float = 0.0,
) -> Iterator[list[PhaseTimes]]:
    """Windows of all processes whose times vary log-normally, each by itself.

    Args:
        sigma: spread of the logarithm of a time.
        slow: factor of process 1 in a window, in `phases`; process 0 is always healthy.
        correlation: correlation of a logarithm with that of the window before.
    """
    random = np.random.default_rng(seed)
    shape = processes, len(USUAL) + devices
    noise = random.normal(0.0, sigma, shape)
    for number in range(count):
        yield compare_windows(
            [
                _window(process, noise[process], slow(number) if process == 1 else 1.0, phases)
                for process in range(processes)
            ]
        )
        new = random.normal(0.0, sigma, shape)
        noise = correlation * noise + np.sqrt(1 - correlation**2) * new


def _window(
    process: int, noise: NDArray[np.float64], factor: float, phases: tuple[str, ...]
) -> StepWindow:
    """One window; of the devices of a process the last is slow with it."""
    factors = np.exp(noise)
    seconds = {
        name: float(usual * own * (factor if name in phases else 1.0))
        for (name, usual), own in zip(USUAL.items(), factors, strict=False)
    }
    probed = [float(DEVICE * own) for own in factors[len(USUAL) :]]
    if "device" in phases:
        probed[-1] *= factor
    names = [f"device {process * len(probed) + own}" for own in range(len(probed))]
    return StepWindow(process, "ab"[process % 2], 10, PACE, seconds, probed, names)

"""The times of one process over a window of steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

#: What a process does by itself in a step: `between` is what it does between two steps.
LOCAL = ("read", "place", "between")
#: The probes of a fixed amount of work, of the host and of each of its devices.
HOST, DEVICE = "host", "device"
#: What each phase is, for messages.
WORDS = {
    "read": "waiting for its data",
    "place": "placing the batch on its devices",
    "between": "what it does between two steps",
    HOST: "a fixed amount of work on its host",
    DEVICE: "a fixed amount of work on the device",
}


@dataclass(frozen=True)
class StepWindow:
    """The times of one process over a window of steps.

    Attributes:
        process: number of the process.
        machine: name of its machine.
        step: last step of the window.
        pace: median of the seconds of a step.
        seconds: by name of `LOCAL` and `HOST`, the median of the seconds of the window.
        devices: seconds of the probe of each device of the process.
        names: name of each of these devices.
    """

    process: int
    machine: str
    step: int
    pace: float
    seconds: Mapping[str, float]
    devices: Sequence[float] = ()
    names: Sequence[str] = ()

    def to_json(self) -> dict[str, Any]:
        """The window as JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Inverse of `to_json`."""
        return cls(**value)

    @property
    def place(self) -> str:
        """`process 1 (host a)`, for messages."""
        return f"process {self.process} (host {self.machine})"


@dataclass(frozen=True)
class PhaseTimes:
    """The values of one phase that are compared within a window.

    Attributes:
        phase: name of the phase.
        places: name of every process or device.
        seconds: seconds of each.
        pace: seconds of a step; None for a probe, which is no part of a step.
    """

    phase: str
    places: tuple[str, ...]
    seconds: tuple[float, ...]
    pace: float | None = None


def compare_windows(windows: Sequence[StepWindow]) -> list[PhaseTimes]:
    """The values that windows of all processes for the same steps have in common."""
    places = tuple(window.place for window in windows)
    pace = max(window.pace for window in windows)
    times = []
    for phase in (*LOCAL, HOST):
        seconds = tuple(window.seconds.get(phase, 0.0) for window in windows)
        times.append(PhaseTimes(phase, places, seconds, None if phase == HOST else pace))
    devices = [
        (f"{name} of {window.place}", seconds)
        for window in windows
        for name, seconds in zip(window.names, window.devices, strict=True)
    ]
    if devices:
        names, values = zip(*devices, strict=True)
        times.append(PhaseTimes(DEVICE, names, values))
    return times

"""The listener that times this process, and sends its windows to process 0."""

from __future__ import annotations

import socket
from collections import defaultdict
from statistics import median
from typing import TYPE_CHECKING

from mllm_jax.runtime.run_peers import current_peers
from mllm_jax.train.events import Event, Phase, PhaseName, StepEnded
from mllm_jax.train.listeners.stragglers.window import HOST, LOCAL, StepWindow

if TYPE_CHECKING:  # which compares times without devices, too
    from mllm_jax.train.listeners.stragglers.probe import DeviceProbes

#: Name under which windows are sent.
NAME = "times of a window"
#: What a step's seconds are known to have gone into; those of an evaluation are no part of them.
KNOWN: tuple[PhaseName, ...] = (
    *("read", "place", "check", "dispatch", "wait"),
    *("agree", "copy", "save"),
)


class StepTimer:
    """Times the steps of this process; a window of them ends with every report.

    Args:
        every: steps of a window.
        probes: probes of this process; None: its hosts and devices are not probed.
    """

    def __init__(self, every: int, probes: DeviceProbes | None) -> None:
        self._every, self._probes = every, probes
        self._phases: defaultdict[str, float] = defaultdict(float)
        self._steps: defaultdict[str, list[float]] = defaultdict(list)
        self._first = True

    def __call__(self, event: Event) -> None:
        """Note the seconds of a phase, or those of a step at its end."""
        if isinstance(event, StepEnded):
            self._note_step(event)
            if event.step % self._every == 0:
                self._send_window(event.step)
        elif isinstance(event, Phase) and event.seconds is not None:
            self._phases[event.name] += event.seconds

    def _note_step(self, ended: StepEnded) -> None:
        """Note the phases of a step, except the first one, which compiles."""
        phases, self._phases = self._phases, defaultdict(float)
        if self._first:
            self._first = False
            return
        # Dispatching may wait for the devices, as `wait` does, and these for other processes; where
        # processes agree, all wait for the slowest.
        between = ended.seconds - sum(phases[name] for name in KNOWN)
        local = phases["read"], phases["place"], max(0.0, between)
        for name, seconds in zip(LOCAL, local, strict=True):
            self._steps[name].append(seconds)
        self._steps["pace"].append(ended.seconds)

    def _send_window(self, step: int) -> None:
        """Send the window that ends with `step`."""
        if not self._steps:
            return
        seconds = {name: median(values) for name, values in self._steps.items()}
        self._steps.clear()
        pace = seconds.pop("pace")
        probes, devices, names = self._probes, list[float](), list[str]()
        if probes is not None:
            seconds[HOST] = probes.time_host()
            devices, names = probes.time_devices(), probes.names
        index, host = current_peers().index, socket.gethostname()
        window = StepWindow(index, host, step, pace, seconds, devices, names)
        current_peers().post_value(NAME, window.to_json())

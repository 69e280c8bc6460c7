"""The listener that times this process, and sends its windows to process 0."""

from __future__ import annotations

import socket
from collections import defaultdict
from statistics import median
from typing import TYPE_CHECKING

from mllm_jax.runtime.part import peers
from mllm_jax.train.events import (
    Agreed,
    Checked,
    Copied,
    Dispatched,
    Done,
    Event,
    Placed,
    Read,
    Saved,
    Taken,
    Timed,
)
from mllm_jax.train.listeners.stragglers.window import HOST, OWN, Window

if TYPE_CHECKING:  # which compares times without devices, too
    from mllm_jax.train.listeners.stragglers.probe import Probes

#: Name under which windows are sent.
NAME = "times of a window"
#: What a step's seconds are known to have gone into; those of an evaluation are no part of them.
KNOWN = (Read, Placed, Checked, Dispatched, Done, Agreed, Copied, Saved)


class Timing:
    """Listens to all events of this process; a window ends with every report.

    Args:
        every: steps of a window.
        probes: probes of this process; None: its hosts and devices are not probed.
    """

    def __init__(self, every: int, probes: Probes | None) -> None:
        self._every, self._probes = every, probes
        self._parts: defaultdict[type[Event], float] = defaultdict(float)
        self._steps: defaultdict[str, list[float]] = defaultdict(list)
        self._first = True

    def __call__(self, event: Event) -> None:
        """Take an event in."""
        if isinstance(event, Taken):
            self._step(event)
            if event.step % self._every == 0:
                self._send(event.step)
        elif isinstance(event, Timed):
            self._parts[type(event)] += event.seconds

    def _step(self, taken: Taken) -> None:
        """Note the parts of a step; not of the first one, which compiles."""
        parts, self._parts = self._parts, defaultdict(float)
        if self._first:
            self._first = False
            return
        # Dispatching may wait for the devices, as Done does, and these for other processes; where
        # processes agree, all wait for the slowest.
        between = taken.seconds - sum(parts[kind] for kind in KNOWN)
        own = parts[Read], parts[Placed], max(0.0, between)
        for name, seconds in zip(OWN, own, strict=True):
            self._steps[name].append(seconds)
        self._steps["pace"].append(taken.seconds)

    def _send(self, step: int) -> None:
        """Send the window that ends with `step`."""
        if not self._steps:
            return
        seconds = {name: median(own) for name, own in self._steps.items()}
        self._steps.clear()
        pace = seconds.pop("pace")
        probes, devices, names = self._probes, list[float](), list[str]()
        if probes is not None:
            seconds[HOST] = probes.host()
            devices, names = probes.devices(), probes.names
        own = peers()
        window = Window(own.index, socket.gethostname(), step, pace, seconds, devices, names)
        own.post(NAME, window.to_json())

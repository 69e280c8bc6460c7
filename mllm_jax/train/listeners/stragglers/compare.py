"""The listener of process 0 that compares the windows of all processes."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mllm_jax.runtime.part import peers
from mllm_jax.train.events import Event
from mllm_jax.train.listeners.stragglers.heat import FORM, RANKS
from mllm_jax.train.listeners.stragglers.judge import Judge, Straggler
from mllm_jax.train.listeners.stragglers.timing import NAME
from mllm_jax.train.listeners.stragglers.window import Times, Window, compared
from mllm_jax.train.records.sinks import JsonlSink

logger = logging.getLogger(__name__)

#: Windows behind which one that is not complete is given up.
LATEST = 10
#: Windows after which one that is still slow is told again.
AGAIN = 20


class Comparing:
    """Compares the times of all processes, tells who is slow, and keeps the times.

    Args:
        folder: folder of the run.
        resumed_step: step after which the run goes on; later times are dropped.
    """

    def __init__(self, folder: Path, resumed_step: int) -> None:
        self._sink, self._failed = JsonlSink(folder / RANKS, resumed_step, FORM), False
        self._judge, self._waiting = Judge(), dict[int, dict[int, Window]]()
        self._places: dict[str, tuple[str, ...]] = {}
        self._told: dict[tuple[str, str], int] = {}

    def __call__(self, event: Event) -> None:
        """Take an event in, and look for times that have come since."""
        del event
        self.look()

    def look(self) -> None:
        """Compare the windows that have come from all processes."""
        for process, value in peers().posted(NAME):
            window = Window.from_json(value)
            self._waiting.setdefault(window.step, {})[process] = window
        whole = sorted(step for step, own in self._waiting.items() if len(own) == peers().count)
        for step in whole:
            own = self._waiting.pop(step)
            self._compare(step, compared([own[process] for process in sorted(own)]))
        for step in sorted(self._waiting)[:-LATEST]:
            del self._waiting[step]

    def _compare(self, step: int, times: list[Times]) -> None:
        slow = self._judge(times)
        self._tell(slow)
        line: dict[str, Any] = {
            own.phase: [float(f"{second:.3g}") for second in own.seconds] for own in times
        }
        places = {own.phase: own.places for own in times}
        if places != self._places:
            line, self._places = {"places": places, **line}, places
        if slow:
            line["slow"] = [str(own) for own in slow]
        self._keep(step, line)

    def _tell(self, slow: list[Straggler]) -> None:
        """Say who is slow, once and again at times, and who is so no longer."""
        names = {(own.phase, own.place): own for own in slow}
        for name in [name for name in self._told if name not in names]:
            del self._told[name]
            logger.info("%s is no longer slow (%s)", name[1], name[0])
        for name, own in names.items():
            if self._told.get(name, 0) % AGAIN == 0:
                logger.warning("%s", own)
            self._told[name] = self._told.get(name, 0) + 1

    def _keep(self, step: int, line: Mapping[str, Any]) -> None:
        """Write a line; a disk that takes none ends no run."""
        try:
            self._sink.log(step, line)
            self._failed = False
        except OSError as error:
            if not self._failed:
                logger.warning("%s cannot be written: %s; the run goes on", RANKS, error)
            self._failed = True

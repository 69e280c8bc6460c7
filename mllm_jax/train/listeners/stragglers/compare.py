"""The listener of process 0 that compares the windows of all processes."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mllm_jax.runtime.run_peers import current_peers
from mllm_jax.train.events import Event
from mllm_jax.train.listeners.stragglers.heat import FORM, RANKS
from mllm_jax.train.listeners.stragglers.judge import SlowPlace, StragglerJudge
from mllm_jax.train.listeners.stragglers.timing import NAME
from mllm_jax.train.listeners.stragglers.window import PhaseTimes, StepWindow, compare_windows
from mllm_jax.train.records.sinks import JsonlSink

logger = logging.getLogger(__name__)

#: Windows after which one that is not complete is given up.
LATEST = 10
#: Windows after which one that is still slow is warned of again.
AGAIN = 20


class TimeComparison:
    """Compares the times of all processes, warns of slow ones, and writes the times.

    Args:
        folder: folder of the run.
        resumed_step: step after which the run goes on; later times are dropped.
    """

    def __init__(self, folder: Path, resumed_step: int) -> None:
        self._sink, self._failed = JsonlSink(folder / RANKS, resumed_step, FORM), False
        self._judge, self._waiting = StragglerJudge(), dict[int, dict[int, StepWindow]]()
        self._places: dict[str, tuple[str, ...]] = {}
        self._warned: dict[tuple[str, str], int] = {}

    def __call__(self, event: Event) -> None:
        """Compare the times received since the last event."""
        del event
        self.compare_new()

    def compare_new(self) -> None:
        """Compare the windows received from all processes."""
        for process, value in current_peers().take_posts(NAME):
            window = StepWindow.from_json(value)
            self._waiting.setdefault(window.step, {})[process] = window
        count = current_peers().count
        complete = sorted(step for step, arrived in self._waiting.items() if len(arrived) == count)
        for step in complete:
            windows = self._waiting.pop(step)
            ordered = [windows[process] for process in sorted(windows)]
            self._compare_times(step, compare_windows(ordered))
        for step in sorted(self._waiting)[:-LATEST]:
            del self._waiting[step]

    def _compare_times(self, step: int, times: list[PhaseTimes]) -> None:
        slow = self._judge(times)
        self._warn_of(slow)
        line: dict[str, Any] = {
            each.phase: [float(f"{second:.3g}") for second in each.seconds] for each in times
        }
        places = {each.phase: each.places for each in times}
        if places != self._places:
            line, self._places = {"places": places, **line}, places
        if slow:
            line["slow"] = [str(straggler) for straggler in slow]
        self._write_line(step, line)

    def _warn_of(self, slow: list[SlowPlace]) -> None:
        """Warn of slow places, and repeat that at times; log places that are slow no longer."""
        stragglers = {(straggler.phase, straggler.place): straggler for straggler in slow}
        for name in [name for name in self._warned if name not in stragglers]:
            del self._warned[name]
            logger.info("%s is no longer slow (%s)", name[1], name[0])
        for name, straggler in stragglers.items():
            if self._warned.get(name, 0) % AGAIN == 0:
                logger.warning("%s", straggler)
            self._warned[name] = self._warned.get(name, 0) + 1

    def _write_line(self, step: int, line: Mapping[str, Any]) -> None:
        """Write a line; a failed write does not end the run."""
        try:
            self._sink.log_values(step, line)
            self._failed = False
        except OSError as error:
            if not self._failed:
                logger.warning("%s cannot be written: %s; the run goes on", RANKS, error)
            self._failed = True

"""A service as a sink that training never waits for.

::

    Metrics -> Dashboard: a queue -> its thread -> Board (`on_wandb.py`, `on_mlflow.py`) -> service

A service that is away loses figures, of which the log tells once; `metrics.jsonl` has all of them.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from data.credentials import hidden
from mllm_jax.train.records.metrics import StepsReport
from mllm_jax.train.records.scalars import report_scalars

logger = logging.getLogger(__name__)

#: Reports that wait for a service at most; later ones are lost.
ROOM = 10_000
#: Seconds that the end of a run waits for a service to take what is left.
CLOSING = 60.0


@dataclass(frozen=True)
class RunDescription:
    """The description of a run that a dashboard receives.

    Attributes:
        name: name of the run.
        identity: what tells the run from others of that name; a resumed run has the same.
        folder: folder of the run.
        config: configuration, as JSON.
        resolved: configuration in YAML, with every default.
    """

    name: str
    identity: str
    folder: Path
    config: Mapping[str, Any]
    resolved: str

    @property
    def report(self) -> str:
        """Where `launch.py report` puts the page of the run."""
        return str((self.folder / "report.html").resolve())

    @property
    def note(self) -> str:
        """A sentence that says where there is more."""
        return f"Report: {self.report} (launch.py report --run {self.folder})"


class DashboardRun(Protocol):
    """A run in a service."""

    def log_values(self, step: int, values: Mapping[str, float]) -> None:
        """Store the values of a step. Raises what the service's package raises."""

    def close(self, *, done: bool) -> None:
        """Send the remaining values; `done` says whether the run has taken all of its steps."""


class DashboardSink:
    """A `MetricSink` for a service.

    Args:
        name: name of the service in `run.loggers`.
        connect: finds or begins the run in the service; called in a separate thread.
    """

    def __init__(self, name: str, connect: Callable[[], DashboardRun]) -> None:
        self.name, self._connect = f"run.loggers: {name}", connect
        self._waiting = queue.Queue[tuple[int, Mapping[str, float]] | None](ROOM)
        self._done, self._failing, self._lost = False, False, 0
        self._thread = threading.Thread(
            target=self._send_repeatedly, name=f"{name}-figures", daemon=True
        )
        self._put_values(0, {})  # the run is there before its first report
        self._thread.start()

    def write_report(self, report: StepsReport) -> None:
        """Keep the figures of a report."""
        self._done = report.step == report.steps
        self._put_values(report.step, report_scalars(report))

    def log_values(self, step: int, values: Mapping[str, Any]) -> None:
        """Keep the values that are numbers."""
        self._put_values(
            step, {k: float(v) for k, v in values.items() if isinstance(v, int | float)}
        )

    def close(self) -> None:
        """Wait until the service has taken all, but no longer than `CLOSING` seconds."""
        while True:
            try:
                self._waiting.put_nowait(None)
                break
            except queue.Full:
                self._lost += self._waiting.get_nowait() is not None
        self._thread.join(CLOSING)
        if self._thread.is_alive():
            logger.warning(
                "%s has not taken all figures in %g s; the run ends without it; metrics.jsonl has "
                "all",
                self.name,
                CLOSING,
            )
        elif self._lost:
            logger.warning("%s lacks %d reports; metrics.jsonl has all", self.name, self._lost)

    def _put_values(self, step: int, values: Mapping[str, float]) -> None:
        try:
            self._waiting.put_nowait((step, values))
        except queue.Full:
            self._lost += 1

    def _send_repeatedly(self) -> None:
        """Give the service all that comes, until the run ends."""
        board: DashboardRun | None = None
        while True:
            item = self._waiting.get()
            try:
                board = board or self._connect()
                if item is None:
                    board.close(done=self._done)
                elif item[1]:
                    board.log_values(*item)
            except Exception as error:  # whatever the service's package raises
                self._lost += item is not None and bool(item[1])
                self._report_failure(error)
            else:
                self._failing = False
            if item is None:
                return

    def _report_failure(self, error: Exception) -> None:
        """Warn when a service begins to fail."""
        if not self._failing:
            problem = hidden(f"{type(error).__name__}: {error}")
            logger.warning("%s cannot be written: %s; the run goes on", self.name, problem)
        self._failing = True

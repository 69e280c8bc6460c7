"""The destinations of a run's figures: console, `metrics.jsonl`, TensorBoard, `summary.json`.

Only process 0 opens sinks. A disk that is full, or a folder that is gone, ends no run: what a sink
cannot take is logged once, and `metrics.jsonl` gets it later.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict
from io import FileIO
from pathlib import Path
from typing import Any, Protocol, Self

from rich.console import Console
from rich.text import Text
from tensorboardX.proto.event_pb2 import Event, SessionLog
from tensorboardX.record_writer import RecordWriter
from tensorboardX.summary import scalar

from mllm_jax.console import replace_non_finite
from mllm_jax.runtime.records import (
    RecordSchema,
    Values,
    read_record_lines,
    record_document,
    record_line,
    records_text,
    write_atomically,
)
from mllm_jax.train.records.forms import metrics_schema
from mllm_jax.train.records.metrics import StepsReport
from mllm_jax.train.records.scalars import report_scalars

logger = logging.getLogger(__name__)

#: Lines that wait for a disk that takes no more.
_LATE_LINES = 10_000


class MetricSink(Protocol):
    """A receiver of reports; `name` is its name in messages."""

    name: str

    def write_report(self, report: StepsReport) -> None:
        """Show or keep a report."""

    def log_values(self, step: int, values: Mapping[str, float]) -> None:
        """Show or keep named values, e.g. those of an evaluation."""

    def close(self) -> None:
        """Finish writing."""


class ConsoleSink:
    """A sink that prints a line for each report."""

    name = "console"

    def __init__(self, console: Console) -> None:
        self._console = console

    def write_report(self, report: StepsReport) -> None:
        """Print the log line; labels are dim on a terminal."""
        line = Text()
        for label, value in report.log_fields():
            line.append(f"{label} " if label else "", style="dim").append(f"{value}  ")
        line.rstrip()
        self._console.print(line, soft_wrap=True)

    def log_values(self, step: int, values: Mapping[str, float]) -> None:
        """Print the values after the step."""
        text = "  ".join(f"{name} {value:.4g}" for name, value in values.items())
        self._console.print(f"step {step}  {text}", soft_wrap=True, markup=False)

    def close(self) -> None:
        """Does nothing."""


class JsonlSink:
    """`metrics.jsonl`, or such a file: a record a line, on disk as soon as it is written."""

    def __init__(
        self,
        path: Path,
        resumed_step: int = 0,
        form: Callable[[Values], RecordSchema] = metrics_schema,
    ) -> None:
        """Append to `path`; lines of an interrupted run after `resumed_step` are dropped.

        Lines that are damaged are left out, with a warning.

        Args:
            form: as of `read_record_lines`.
        """
        earlier = read_record_lines(path, form).log_problems().values
        write_atomically(
            path, records_text(record for record in earlier if record["step"] <= resumed_step)
        )
        self.name, self._path, self._late = path.name, path, list[str]()

    def write_report(self, report: StepsReport) -> None:
        """Append all figures of the report."""
        self._append_values(asdict(report))

    def log_values(self, step: int, values: Mapping[str, Any]) -> None:
        """Append the values."""
        self._append_values({"step": step, **values})

    def close(self) -> None:
        """Write lines that could not be written before."""
        if self._late:
            self._write_waiting()

    def _append_values(self, values: Mapping[str, object]) -> None:
        self._late.append(record_line(_drop_infinite(values)))
        del self._late[:-_LATE_LINES]
        self._write_waiting()

    def _write_waiting(self) -> None:
        """Write all waiting lines or none. If it raises OSError they keep waiting."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("ab", buffering=0) as file:
            size = file.tell()
            try:
                _write_all(file, "".join(self._late).encode())
            except OSError:
                with suppress(OSError):  # the reason is logged already
                    file.truncate(size)
                raise
        self._late.clear()


class TensorBoardSink:
    """TensorBoard event files in a separate folder."""

    name = "tensorboard"

    def __init__(self, folder: Path, resumed_step: int = 0) -> None:
        """Write to `folder`; steps after `resumed_step` that are there already are hidden."""
        self._folder, self._files = folder, 0
        self._file: RecordWriter | None = None
        if resumed_step:
            start = SessionLog(status=SessionLog.START)
            self._add_event(Event(step=resumed_step + 1, session_log=start))

    def write_report(self, report: StepsReport) -> None:
        """Add a scalar for every figure that is known."""
        self.log_values(report.step, report_scalars(report))

    def log_values(self, step: int, values: Mapping[str, float]) -> None:
        """Add a scalar for each value."""
        for name, value in values.items():
            self._add_event(Event(step=step, summary=scalar(name, value)))

    def close(self) -> None:
        """Close the event file."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def _add_event(self, event: Event) -> None:
        event.wall_time = time.time()
        try:
            file = self._open_writer()
            file.write(event.SerializeToString())
            file.flush()
        except OSError:
            with suppress(OSError):  # it may end in half an event: the next begins another file
                self.close()
            raise

    def _open_writer(self) -> RecordWriter:
        if self._file is None or not self._folder.is_dir():
            self.close()
            self._folder.mkdir(parents=True, exist_ok=True)
            self._files += 1
            host, process_part = socket.gethostname(), f"{os.getpid()}.{self._files}"
            name = f"events.out.tfevents.{int(time.time()):010}.{host}.{process_part}"
            self._file = RecordWriter(str(self._folder / name))
            header = Event(wall_time=time.time(), file_version="brain.Event:2")
            self._file.write(header.SerializeToString())
        return self._file


class MetricSinks:
    """All sinks of a run as one; a context manager that closes them."""

    def __init__(self, sinks: Iterable[MetricSink]) -> None:
        self._sinks = tuple(sinks)
        self._failing: set[MetricSink] = set()

    @classmethod
    def open(
        cls,
        folder: Path,
        console: Console,
        *,
        tensorboard: bool,
        primary: bool,
        resumed_step: int,
        others: Callable[[], Iterable[MetricSink]] = tuple,
    ) -> Self:
        """Sinks of the run in `folder`; none unless `primary`.

        Args:
            folder: the run's folder; created if missing.
            console: console for log lines.
            tensorboard: write event files too.
            primary: whether this is process 0.
            resumed_step: step at which the run resumes, 0 for a new one.
            others: opens further sinks.

        Raises:
            OSError: the folder cannot be written.
        """
        if not primary:
            return cls(())
        folder.mkdir(parents=True, exist_ok=True)
        sinks: list[MetricSink] = [
            ConsoleSink(console),
            JsonlSink(folder / "metrics.jsonl", resumed_step),
        ]
        if tensorboard:
            sinks.append(TensorBoardSink(folder / "tensorboard", resumed_step))
        return cls([*sinks, *others()])

    def write_report(self, report: StepsReport) -> None:
        """Pass a report to every sink."""
        self._with_each(lambda sink: sink.write_report(report))

    def log_values(self, step: int, values: Mapping[str, Any]) -> None:
        """Pass named values to every sink."""
        self._with_each(lambda sink: sink.log_values(step, values))

    def _with_each(self, action: Callable[[MetricSink], None]) -> None:
        """Do something with every sink; the first failure of each is logged."""
        for sink in self._sinks:
            try:
                action(sink)
            except OSError as error:
                if sink not in self._failing:
                    logger.warning("%s cannot be written: %s; the run goes on", sink.name, error)
                self._failing.add(sink)
            else:
                self._failing.discard(sink)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self._with_each(lambda sink: sink.close())


def write_summary(path: Path, summary: Mapping[str, object]) -> None:
    """Write `summary.json` atomically.

    Raises:
        OSError: the folder cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, record_document(_drop_infinite(summary)))


def _drop_infinite(values: Mapping[str, object]) -> dict[str, Any]:
    return {key: replace_non_finite(value) for key, value in values.items()}


def _write_all(file: FileIO, data: bytes) -> None:
    """Raises OSError if not all of it can be written."""
    while data:
        data = data[file.write(data) :]

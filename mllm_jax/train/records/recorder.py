"""Measured timelines of a pipeline: collected on the host, written as trace and picture."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import jax
import numpy as np

from scheduling.schedules.costs import TaskCosts
from scheduling.schedules.schedule import Schedule
from scheduling.schedules.tasks import Task
from scheduling.simulate.timeline import Timeline, measured_timeline, predict_timeline
from sharding.grid import JointGrid

#: FLOP/s that a prediction assumes for devices whose peak is not known.
UNKNOWN_RATE = 1e12


def name_by_process(name: str) -> str:
    """`name` of a file that every process writes for its devices."""
    return f"{name}-process-{jax.process_index()}" if jax.process_count() > 1 else name


class TaskRecorder:
    """An `Observer` that records the times of starts and ends; devices call it from their threads.

    Args:
        grid: grid of the step, which gives the stages of the devices.
    """

    def __init__(self, grid: JointGrid) -> None:
        self._stage, self._rank = _device_places(grid)
        self._lock = threading.Lock()
        self._seconds: dict[tuple[int, int, bool], float] = {}

    def __call__(self, end: bool, device: int, tick: int, tasks: tuple[Task, ...]) -> None:
        """Note the time; a later step overwrites an earlier one."""
        del tasks
        now = time.perf_counter()
        with self._lock:
            self._seconds[device, tick, end] = now

    def task_records(self) -> np.ndarray:
        """`[devices * ticks, 5]`: stage, rank within the stage, tick, start and end in seconds."""
        with self._lock:
            seconds = dict(self._seconds)
        return np.array(
            [
                (self._stage[device], self._rank[device], tick, start, seconds[device, tick, True])
                for (device, tick, end), start in sorted(seconds.items())
                if not end
            ]
        )


def _device_places(grid: JointGrid) -> tuple[np.ndarray, np.ndarray]:
    """Stage of every device, and its number among the devices of its stage."""
    sizes = [size for _, size in grid.axes]
    stages = [i for i, (name, _) in enumerate(grid.axes) if name in grid.backbone.stage]
    others = [i for i in range(len(sizes)) if i not in stages]
    numbers = np.unravel_index(np.arange(grid.devices), sizes)
    return _number_along(numbers, sizes, stages), _number_along(numbers, sizes, others)


def _number_along(numbers: tuple[np.ndarray, ...], sizes: list[int], axes: list[int]) -> np.ndarray:
    total = np.zeros_like(numbers[0])
    for axis in axes:
        total = total * sizes[axis] + numbers[axis]
    return total


@dataclass(frozen=True)
class WrittenTimelines:
    """Files that `write_timelines` wrote.

    Attributes:
        timelines: by name, `predicted` and perhaps `measured_timeline`.
        files: trace and picture.
    """

    timelines: Mapping[str, Timeline]
    files: tuple[Path, ...]


def write_timelines(
    folder: Path,
    name: str,
    schedule: Schedule,
    costs: TaskCosts,
    rate: float,
    records: np.ndarray | None = None,
) -> WrittenTimelines:
    """Write `<name>.json` for Perfetto and the picture `<name>.png`.

    Args:
        costs: FLOPs of the tasks.
        rate: FLOP/s of a device, for the prediction; with `records` it is replaced by the rate at
            which the devices' busy time did the work.
        records: records of an observed step.
    """
    # The drawing library is loaded only where something is drawn.
    from scheduling.simulate.trace import write_chrome_trace, write_picture

    timelines = {}
    if records is not None:
        real = measured_timeline(records, schedule)
        rate = predict_timeline(schedule, costs).work / _busy_rate(real, schedule)
        timelines["measured"] = real
    timelines = {"predicted": predict_timeline(schedule, costs.divided_by(rate)), **timelines}
    folder.mkdir(parents=True, exist_ok=True)
    files = folder / f"{name}.json", folder / f"{name}.png"
    write_chrome_trace(files[0], timelines)
    write_picture(timelines, files[1])
    return WrittenTimelines(timelines, files)


def _busy_rate(real: Timeline, schedule: Schedule) -> float:
    """Seconds of work in one row per stage, the mean over the devices of a stage."""
    return real.work * schedule.stages / len(real.rows)

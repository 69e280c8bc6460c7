"""Fits the costs of modules that share a device to measured times, and checks those left out.

=========  ======================================================================================
fitted to  a task alone, all rows, on every quota measured: its speeds; fewer rows on the largest
           slice: its fixed seconds; the same phase of two modules side by side: interference
left out   fewer rows on smaller slices; different phases of two modules side by side
=========  ======================================================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import geometric_mean, mean
from typing import Any

from scheduling.costs.hardware import HardwareError, HardwareLink
from scheduling.costs.slices import (
    ModuleTasks,
    PairInterference,
    Phase,
    QuotaSpeeds,
    RunningTask,
    SliceCosts,
    TaskWork,
)

#: The most of a task's least time that is taken for fixed; noise of short tasks would take more.
MOST_FIXED = 0.9


@dataclass(frozen=True)
class CountedTask:
    """What is known of a task without a quota.

    Attributes:
        flops, traffic: as of `TaskWork`.
        host_seconds: measured seconds in which the host starts it.
    """

    flops: float
    traffic: float
    host_seconds: float = 0.0


@dataclass(frozen=True)
class TimedTask:
    """A task's measured seconds on the device.

    Attributes:
        task: the task.
        seconds: from its start to its results, without the host's seconds.
        beside: what ran at the same time on another slice, again and again; None: nothing.
    """

    task: RunningTask
    seconds: float
    beside: RunningTask | None = None

    def __post_init__(self) -> None:
        """Refuse a time that cannot be.

        Raises:
            HardwareError: the time is not above 0, or not finite.
        """
        if not 0 < self.seconds < float("inf"):
            raise HardwareError(
                f"{self}: {self.seconds} seconds were measured; valid: finite and above 0"
            )

    def __str__(self) -> str:
        """`image forward, quota 0.5, rows 0.5, beside decoder backward`."""
        name = f"{self.task.module} {self.task.phase}, quota {self.task.quota:g}"
        name += f", rows {self.task.rows:g}" if self.task.rows < 1 else ""
        return name + (f", beside {self.beside.module} {self.beside.phase}" if self.beside else "")


@dataclass(frozen=True)
class MeasuredSlices:
    """All that was measured.

    Attributes:
        counts: tasks by module and phase.
        output_bytes: by module, as of `ModuleTasks`.
        times: times of tasks, alone and beside others.
        bandwidth: bytes per second between the device and its memory.
        slice_link, device_link: as of `SliceCosts`.
    """

    counts: Mapping[tuple[str, Phase], CountedTask]
    output_bytes: Mapping[str, float]
    times: Sequence[TimedTask]
    bandwidth: float
    slice_link: HardwareLink
    device_link: HardwareLink


@dataclass(frozen=True)
class CheckedTime:
    """A measured time that nothing was fitted to, and its prediction.

    Attributes:
        timed: the time.
        predicted: seconds.
    """

    timed: TimedTask
    predicted: float

    @property
    def error(self) -> float:
        """Relative error of the prediction."""
        return self.predicted / self.timed.seconds - 1


@dataclass(frozen=True)
class FittedSlices:
    """Costs that were fitted, and what they say of times that were left out.

    Attributes:
        costs: the costs.
        checks: the times left out.
    """

    costs: SliceCosts
    checks: tuple[CheckedTime, ...]


def fit_slices(measured: MeasuredSlices) -> FittedSlices:
    """Fit costs to the times that the head of this file names, and check the others.

    Raises:
        HardwareError: a task was measured on no quota with all rows.
    """
    modules: dict[str, dict[Phase, TaskWork]] = {}
    for module, phase in measured.counts:
        modules.setdefault(module, {})[phase] = _TaskFit(measured, module, phase).work
    costs = SliceCosts(
        modules={
            name: ModuleTasks(tasks=tasks, output_bytes=measured.output_bytes.get(name, 0.0))
            for name, tasks in modules.items()
        },
        bandwidth=measured.bandwidth,
        slice_link=measured.slice_link,
        device_link=measured.device_link,
    )
    costs = costs.model_copy(update={"pairs": tuple(_fit_pairs(costs, measured.times))})
    left_out = (timed for timed in measured.times if not _is_fitted(measured, timed))
    return FittedSlices(costs, tuple(check_time(costs, timed) for timed in left_out))


def check_time(costs: SliceCosts, timed: TimedTask) -> CheckedTime:
    """The prediction of a time."""
    beside = () if timed.beside is None else (timed.beside,)
    return CheckedTime(timed, costs.seconds(timed.task, beside))


def _is_fitted(measured: MeasuredSlices, timed: TimedTask) -> bool:
    if timed.beside is not None:
        return timed.beside.phase == timed.task.phase
    largest = _TaskFit(measured, timed.task.module, timed.task.phase).largest_quota
    return timed.task.rows == 1 or timed.task.quota == largest


@dataclass(frozen=True)
class _TaskFit:
    """The fit of one task to its times alone."""

    measured: MeasuredSlices
    module: str
    phase: Phase

    @property
    def work(self) -> TaskWork:
        counted, fixed = self.measured.counts[self.module, self.phase], self._fixed_seconds
        speeds = {
            quota: counted.flops / (seconds - fixed) for quota, seconds in self._by_quota.items()
        }
        return TaskWork(
            flops=counted.flops,
            traffic=counted.traffic,
            speeds=QuotaSpeeds(points=speeds),
            fixed_seconds=fixed,
            host_seconds=counted.host_seconds,
        )

    @property
    def largest_quota(self) -> float:
        """The largest slice on which the task was measured with all rows."""
        return max(self._by_quota)

    @property
    def _fixed_seconds(self) -> float:
        """Seconds that would be left without rows, by the times on the largest slice."""
        largest = self.largest_quota
        whole = self._by_quota[largest]
        ends = [
            (timed.seconds - timed.task.rows * whole) / (1 - timed.task.rows)
            for timed in self._alone
            if timed.task.rows < 1 and timed.task.quota == largest
        ]
        most = MOST_FIXED * min(self._by_quota.values())
        return min(max(0.0, mean(ends)), most) if ends else 0.0

    @property
    def _by_quota(self) -> dict[float, float]:
        """Seconds with all rows."""
        found = {t.task.quota: t.seconds for t in self._alone if t.task.rows == 1}
        if not found:
            name = f"{self.module} {self.phase}"
            raise HardwareError(f"{name} was not measured with all rows; valid: on a quota or more")
        return found

    @property
    def _alone(self) -> list[TimedTask]:
        task = self.module, self.phase
        return [t for t in self.measured.times if t.beside is None and t.task[:2] == task]


def _fit_pairs(costs: SliceCosts, times: Iterable[TimedTask]) -> Iterator[PairInterference]:
    """Of every pair the geometric mean of what was measured over what costs say without it."""

    def names(timed: TimedTask) -> tuple[str, str]:
        assert timed.beside is not None
        return timed.task.module, timed.beside.module

    fitted = [t for t in times if t.beside is not None and t.beside.phase == t.task.phase]
    for (module, beside), group in groupby(sorted(fitted, key=names), names):
        factor = geometric_mean(t.seconds / check_time(costs, t).predicted for t in group)
        yield PairInterference(module=module, beside=beside, factor=factor)


def check_rows(checks: Iterable[CheckedTime]) -> list[dict[str, Any]]:
    """`{"what", "measured", "predicted", "error"}` of every time, in seconds and as a fraction."""
    return [
        {
            "what": str(check.timed),
            "measured": check.timed.seconds,
            "predicted": check.predicted,
            "error": check.error,
        }
        for check in checks
    ]

"""Fits the costs of modules that share a device to measured times, and checks those left out.

A measured time is that from the host's start of a task to its results; without the host's seconds,
it is that of the device.

=========  ======================================================================================
fitted to  a task alone, all rows, on every quota measured: its speeds; fewer rows on the largest
           slice: its fixed seconds; the same phase of two modules side by side: interference
left out   fewer rows on smaller slices; different phases of two modules side by side
=========  ======================================================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
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
from scheduling.costs.work import TRAINING_FACTOR

#: The most of a task's least time that is taken for fixed; noise of short tasks would take more.
MOST_FIXED = 0.9
#: The least part of a time that is the device's, where the host takes longer to go on than it.
LEAST_DEVICE = 0.05
#: The least interference, below which it is noise.
LEAST_FACTOR = 0.5


@dataclass(frozen=True)
class CountedTask:
    """What is known of a task without a quota.

    Attributes:
        flops, traffic: as of `TaskWork`.
        host_seconds: measured seconds in which the host starts it.
        is_fused: whether it is a backward that is one program with its forward.
    """

    flops: float
    traffic: float
    host_seconds: float = 0.0
    is_fused: bool = False


@dataclass(frozen=True)
class TimedTask:
    """A task's measured seconds.

    Attributes:
        task: the task.
        seconds: from the moment in which the host begins to start it to its results.
        concurrent: what ran at the same time on another slice, again and again; None: nothing.
    """

    task: RunningTask
    seconds: float
    concurrent: RunningTask | None = None

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
        return name + (
            f", beside {self.concurrent.module} {self.concurrent.phase}" if self.concurrent else ""
        )


@dataclass(frozen=True)
class MeasuredSlices:
    """All that was measured.

    Attributes:
        counts: tasks by module and phase.
        output_bytes: by module, as of `ModuleTasks`.
        times: times of tasks, alone and beside others.
        bandwidth: bytes per second between the device and its memory.
        slice_link, device_link, host_on_slices: as of `SliceCosts`.
    """

    counts: Mapping[tuple[str, Phase], CountedTask]
    output_bytes: Mapping[str, float]
    times: Sequence[TimedTask]
    bandwidth: float
    slice_link: HardwareLink
    device_link: HardwareLink
    host_on_slices: bool = False

    def device_seconds(self, timed: TimedTask) -> float:
        """The part of a time that is the device's."""
        host = self.counts[timed.task.module, timed.task.phase].host_seconds
        return max(timed.seconds - host, LEAST_DEVICE * timed.seconds)


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
        host_on_slices=measured.host_on_slices,
    )
    costs = costs.model_copy(update={"pairs": tuple(_fit_pairs(costs, measured))})
    left_out = (timed for timed in measured.times if not _is_fitted(measured, timed))
    checks = tuple(check_time(costs, timed) for timed in left_out)
    return FittedSlices(_split_fused(costs, measured), checks)


def _split_fused(costs: SliceCosts, measured: MeasuredSlices) -> SliceCosts:
    """Costs in which a backward that is one program with its forward is a task for each.

    A third is the forward's, as of the FLOPs.
    """
    modules = dict(costs.modules)
    for (name, phase), counted in measured.counts.items():
        if counted.is_fused:
            both, of_module = costs.work(name, phase), costs.modules[name]
            forward = 1 / TRAINING_FACTOR
            parts = {"forward": _take_part(both, forward), phase: _take_part(both, 1 - forward)}
            tasks = {**of_module.tasks, **parts}
            modules[name] = of_module.model_copy(update={"tasks": tasks})
    return costs.model_copy(update={"modules": modules})


def _take_part(work: TaskWork, part: float) -> TaskWork:
    names = "flops", "traffic", "fixed_seconds"
    return work.model_copy(update={name: part * getattr(work, name) for name in names})


def check_time(costs: SliceCosts, timed: TimedTask) -> CheckedTime:
    """The prediction of a time."""
    concurrent = () if timed.concurrent is None else (timed.concurrent,)
    seconds = costs.host_seconds(timed.task) + costs.seconds(timed.task, concurrent)
    return CheckedTime(timed, seconds)


def _is_fitted(measured: MeasuredSlices, timed: TimedTask) -> bool:
    if timed.concurrent is not None:
        return timed.concurrent.phase == timed.task.phase
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
        full = self._by_quota[largest]
        ends = [
            (self._seconds(timed) - timed.task.rows * full) / (1 - timed.task.rows)
            for timed in self._alone
            if timed.task.rows < 1 and timed.task.quota == largest
        ]
        most = MOST_FIXED * min(self._by_quota.values())
        return min(max(0.0, mean(ends)), most) if ends else 0.0

    @property
    def _by_quota(self) -> dict[float, float]:
        """Seconds with all rows."""
        by_quota = {t.task.quota: self._seconds(t) for t in self._alone if t.task.rows == 1}
        if not by_quota:
            name = f"{self.module} {self.phase}"
            raise HardwareError(f"{name} was not measured with all rows; valid: on a quota or more")
        return by_quota

    def _seconds(self, timed: TimedTask) -> float:
        return self.measured.device_seconds(timed)

    @property
    def _alone(self) -> list[TimedTask]:
        task = self.module, self.phase
        return [t for t in self.measured.times if t.concurrent is None and t.task[:2] == task]


def _fit_pairs(costs: SliceCosts, measured: MeasuredSlices) -> Iterator[PairInterference]:
    """Of every pair the measured seconds of the device over those that costs say without it.

    Seconds of forwards and backwards are added, so that short tasks, whose times are noisy, count
    for little.
    """
    sums: dict[tuple[str, str], list[float]] = {}
    for timed in measured.times:
        if timed.concurrent is not None and timed.concurrent.phase == timed.task.phase:
            total = sums.setdefault((timed.task.module, timed.concurrent.module), [0.0, 0.0])
            total[0] += measured.device_seconds(timed)
            total[1] += costs.seconds(timed.task, [timed.concurrent])
    for (module, concurrent), (seconds, predicted) in sums.items():
        factor = max(seconds / predicted, LEAST_FACTOR)
        yield PairInterference(module=module, concurrent=concurrent, factor=factor)


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

"""Seconds of modules that share a device: each on a slice of it, beside others.

Alone on a slice, a task of `flops` and `traffic` bytes takes the larger of its two times::

    compute = fixed_seconds + flops / speed(quota)
    alone   = max(compute, traffic / bandwidth)

Slices divide the cores of a device, not its memory (Mosaic, arXiv 2605.18710, says that a module's
time under a quota is to be modelled; the formula is ours). A task asks for `traffic / alone` bytes
a second, and where all that run at once ask for more than there is, each gets in proportion to what
it asks for::

    concurrent = interference * max(compute, traffic / its part of the bandwidth)
            = interference * alone * max(1, asked for by all / bandwidth)

`interference` is measured for pairs of modules: caches, clocks and whatever else neighbours share.
All figures are measured, by `launch.py calibrate --slices`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, field_validator

from scheduling.costs.hardware import HardwareError, HardwareLink, Positive

#: Tasks of a module: on a microbatch, or once a step.
Phase = Literal["forward", "losses", "backward", "update"]
#: Tasks of a microbatch; of the others there is one a step.
MICROBATCH_PHASES: tuple[Phase, ...] = ("forward", "backward")

NotNegative = Annotated[float, Field(ge=0)]
Quota = Annotated[float, Field(gt=0, le=1)]


class _Data(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class RunningTask(NamedTuple):
    """A task on a slice.

    Attributes:
        module: name of the module, or of a bucket of an encoder.
        phase: what it does.
        quota: share of the device that the slice is, above 0 and at most 1.
        rows: share of the rows of a microbatch that are on this device.
    """

    module: str
    phase: Phase
    quota: float
    rows: float = 1.0


class QuotaSpeeds(_Data):
    """FLOP/s of a task by its quota, as measured.

    Between two quotas the seconds of a FLOP are interpolated over the inverse of the quota: a part
    of the work is spread over the slice, and a part is not (Amdahl's law). Below the least quota
    the speed is in proportion to the quota; above the largest it is as measured there, so that a
    small module gains nothing from a larger slice.

    Attributes:
        points: quotas and FLOP/s.
    """

    points: Mapping[Quota, Positive]

    @field_validator("points")
    @classmethod
    def _check_points(cls, points: Mapping[float, float]) -> Mapping[float, float]:
        if not points:
            raise ValueError("names no quota; valid: at least one, such as 1.0")
        return dict(sorted(points.items()))

    def at(self, quota: float) -> float:
        """FLOP/s on a slice.

        Raises:
            HardwareError: the quota is not above 0, or above 1.
        """
        if not 0 < quota <= 1:
            raise HardwareError(
                f"quota: {quota} is no share of a device; valid: above 0, at most 1"
            )
        least = min(self.points)
        if quota < least:
            return self.points[least] * quota / least
        points = sorted(self.points.items(), reverse=True)
        inverses, seconds = zip(*((1 / each, 1 / speed) for each, speed in points), strict=True)
        return float(1 / np.interp(1 / quota, inverses, seconds))


class TaskWork(_Data):
    """What a task does.

    Attributes:
        flops: FLOPs of all rows of a microbatch, or of an update.
        traffic: bytes that it reads and writes at least once: its arguments and its results.
        speeds: FLOP/s by quota.
        fixed_seconds: seconds on the device that fewer rows do not make fewer.
        host_seconds: seconds in which the host starts its programs and can start no others.
    """

    flops: Positive
    traffic: NotNegative
    speeds: QuotaSpeeds
    fixed_seconds: NotNegative = 0.0
    host_seconds: NotNegative = 0.0

    def compute_seconds(self, quota: float, rows: float = 1.0) -> float:
        """Seconds of compute with this share of the rows."""
        return self.fixed_seconds + rows * self.flops / self.speeds.at(quota)


class ModuleTasks(_Data):
    """The tasks of a module.

    Attributes:
        tasks: by phase; a module without gradients has no backward and no update.
        output_bytes: bytes of the outputs of a microbatch, and of their gradients.
    """

    tasks: Mapping[Phase, TaskWork]
    output_bytes: NotNegative = 0.0


class PairInterference(_Data):
    """How much longer a module takes beside another than its quota and the bandwidth say.

    Attributes:
        module, concurrent: names of the modules.
        factor: seconds measured over seconds predicted.
    """

    module: str
    concurrent: str
    factor: Positive


class SliceCosts(_Data):
    """Costs of modules that share devices.

    Attributes:
        modules: by name, the tasks of the modules and buckets that were measured.
        bandwidth: bytes per second between a device and its memory, which its slices share.
        pairs: interference of pairs; pairs that were not measured have none.
        slice_link: between slices of a device.
        device_link: between devices.
        host_on_slices: whether the host starts programs on cores of the slices, as that of emulated
            devices of a CPU does: a program takes so much longer.
    """

    modules: Mapping[str, ModuleTasks]
    bandwidth: Positive
    pairs: tuple[PairInterference, ...] = ()
    slice_link: HardwareLink
    device_link: HardwareLink
    host_on_slices: bool = False

    def work(self, module: str, phase: Phase) -> TaskWork:
        """What a task of a module does.

        Raises:
            HardwareError: it was not measured.
        """
        try:
            return self.modules[module].tasks[phase]
        except KeyError:
            valid = [f"{name} {each}" for name, m in self.modules.items() for each in m.tasks]
            raise HardwareError(
                f"{module} {phase} was not measured; valid: {', '.join(valid)}"
            ) from None

    def seconds(self, task: RunningTask, concurrent: Sequence[RunningTask] = ()) -> float:
        """Seconds of a task on the device, beside others on other slices of it all the time.

        Raises:
            HardwareError: a task was not measured, or a quota is none.
        """
        asked = sum(self._asked_bandwidth(each) for each in (task, *concurrent))
        interference = math.prod(self.interference(task.module, each.module) for each in concurrent)
        return interference * self._alone(task) * max(1.0, asked / self.bandwidth)

    def host_seconds(self, task: RunningTask) -> float:
        """Seconds in which the host starts a task."""
        return self.work(task.module, task.phase).host_seconds

    def copy_seconds(self, module: str, *, same_device: bool, rows: float = 1.0) -> float:
        """Seconds in which outputs of a microbatch, or their gradients, get to another group.

        Args:
            module: the module whose outputs they are.
            same_device: whether both groups are slices of one device.
            rows: share of the rows that this device sends.
        """
        link = self.slice_link if same_device else self.device_link
        return link.send_seconds(rows * self.modules[module].output_bytes)

    def interference(self, module: str, concurrent: str) -> float:
        """Factor of a module's seconds beside another module; 1 if the pair was not measured."""
        factors = (p.factor for p in self.pairs if (p.module, p.concurrent) == (module, concurrent))
        return next(factors, 1.0)

    def _alone(self, task: RunningTask) -> float:
        work = self.work(task.module, task.phase)
        traffic = task.rows * work.traffic / self.bandwidth
        return max(work.compute_seconds(task.quota, task.rows), traffic)

    def _asked_bandwidth(self, task: RunningTask) -> float:
        """Bytes per second that a task moves if it is alone."""
        return task.rows * self.work(task.module, task.phase).traffic / self._alone(task)

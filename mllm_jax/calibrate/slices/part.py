"""Times of tasks in a process of their own, whose devices are slices or have all threads.

Threads are settings of a process, so that a process measures slices, and another one the whole
device. A CPU of two slices is two cores, however many the machine has.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from multiprocessing.synchronize import Barrier
from typing import Any

import jax
import jax.numpy as jnp

from mllm_jax.calibrate.probes import make_copy
from mllm_jax.calibrate.slices.programs import (
    SliceProgram,
    TaskName,
    apart,
    build_programs,
    in_two,
)
from mllm_jax.calibrate.slices.recorded import RunTimes, time_run
from mllm_jax.calibrate.timing import lower_quartile, lower_quartiles
from mllm_jax.config.load import ExperimentConfig
from mllm_jax.config.run import ParallelConfig
from mllm_jax.runtime.devices import start_devices
from scheduling.costs.hardware import HardwareLink
from scheduling.costs.slice_fit import CountedTask, TimedTask
from scheduling.costs.slices import MICROBATCH_PHASES, RunningTask
from sharding.plan import DeviceNumbers

#: Runs of a task alone; runs of the longer one of two side by side, and the most of the other.
REPETITIONS, PAIR_REPETITIONS, MOST_PAIR_RUNS = 15, 8, 100
#: Bytes of arrays that are copied between slices.
COPIED_BYTES = (2**12, 2**22)
#: Seconds that a copy of the larger array takes longer at least: less is noise of the clock.
SHORTEST = 1e-6


#: Where the processes of a calibration meet, see `join_meeting`.
_meeting: Barrier | None = None


def join_meeting(barrier: Barrier) -> None:
    """Compile beside other processes, and measure in turn with them."""
    global _meeting
    _meeting = barrier


@contextmanager
def _turn(number: int) -> Iterator[None]:
    """Wait for the turn of this process; all processes have compiled before the first turn."""
    _wait_for_others(1 + number)
    yield
    _wait_for_others(1 - number)


def _wait_for_others(times: int) -> None:
    for _ in range(times):
        if _meeting is not None:
            _meeting.wait()


@dataclass(frozen=True)
class TimedPart:
    """What a process has measured.

    Attributes:
        counts: tasks with all rows.
        output_bytes: by module, bytes of its outputs.
        times: times of tasks.
    """

    counts: Mapping[TaskName, CountedTask]
    output_bytes: Mapping[str, float]
    times: tuple[TimedTask, ...]

    def with_times(self, times: Iterable[TimedTask]) -> TimedPart:
        """The part with further times."""
        return replace(self, times=(*self.times, *times))


@dataclass(frozen=True)
class TimedMemory:
    """Speeds of a device's memory, with all slices at work.

    Attributes:
        bandwidth: bytes per second that are read and written.
        link: copies between slices.
    """

    bandwidth: float
    link: HardwareLink


def measure_slices(config: ExperimentConfig, slices: int) -> tuple[TimedPart, TimedMemory]:
    """Tasks alone on a slice, pairs side by side on two, and memory.

    Args:
        config: the configuration.
        slices: slices of the device.
    """
    numbers = apart(config.model)
    devices = _start_cpu(max(2, len({*numbers.values()})), slices, one_thread=True)
    compiled = _CompiledTasks.build(config, numbers, 1 / slices)
    with _turn(0):
        memory = TimedMemory(_measure_bandwidth(devices[:slices]), _measure_link(devices))
        alone = compiled.time_alone()
        return alone.with_times(compiled.time_pairs(alone)), memory


def measure_whole(config: ExperimentConfig, slices: int) -> TimedPart:
    """Tasks alone on the whole device; arguments as of `measure_slices`."""
    numbers = in_two(config.model)
    _start_cpu(2, slices, one_thread=False)
    compiled = _CompiledTasks.build(config, numbers, 1.0)
    with _turn(1):
        return compiled.time_alone()


def _start_cpu(devices: int, cores: int, *, one_thread: bool) -> list[jax.Device]:
    """Emulated devices on so many cores."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    return start_devices(ParallelConfig(devices=devices), one_thread=one_thread)


@dataclass(frozen=True)
class _CompiledTasks:
    """Programs of all tasks on devices of one quota.

    Attributes:
        quota: the quota.
        programs: by share of the rows, the programs of the tasks.
    """

    quota: float
    programs: Mapping[float, Mapping[TaskName, SliceProgram]]

    @classmethod
    def build(
        cls, config: ExperimentConfig, numbers: Mapping[str, DeviceNumbers], quota: float
    ) -> _CompiledTasks:
        """Compile tasks with all rows, and with half of them on the next device.

        So a module, too, can run beside itself, as replicas do. A single row cannot be halved.
        """
        rows, count = config.data.rows, max(2, len({*numbers.values()}))
        programs = {1.0: build_programs(config, numbers, rows)}
        if half := rows // 2:
            following = {name: ((number + 1) % count,) for name, (number,) in numbers.items()}
            programs[half / rows] = build_programs(config, following, half)
        return cls(quota, programs)

    def time_alone(self) -> TimedPart:
        """Times of all tasks, one at a time."""
        times, counts = list[TimedTask](), dict[TaskName, CountedTask]()
        for rows, programs in self.programs.items():
            for name, (seconds, host) in _time_alone(programs).items():
                times.append(TimedTask(RunningTask(*name, self.quota, rows), seconds))
                work, moved = programs[name], programs[name].call.moved_bytes
                # The first are of all rows.
                counts.setdefault(name, CountedTask(work.flops, moved, host, work.is_fused))
        return TimedPart(counts, self._output_bytes, tuple(times))

    def time_pairs(self, part: TimedPart) -> list[TimedTask]:
        """Forwards and backwards side by side, of every two modules and of a module with itself.

        Args:
            part: times of the tasks alone.
        """
        alone = {t.task: t.seconds for t in part.times if t.task.phase in MICROBATCH_PHASES}
        times = list[TimedTask]()
        for pair in combinations(alone, 2):
            if _makes_pair(*pair):
                programs = [self.programs[each.rows][each[:2]] for each in pair]
                seconds = _time_together(programs, [alone[task] for task in pair])
                times += map(TimedTask, pair, seconds, pair[::-1])
        return times

    @property
    def _output_bytes(self) -> dict[str, float]:
        return {
            module: program.call.result_bytes
            for (module, phase), program in self.programs[1.0].items()
            if phase == "forward"
        }


def _makes_pair(first: RunningTask, second: RunningTask) -> bool:
    """Whether two tasks are timed side by side: two modules', or one's with all rows and fewer."""
    rows = {first.rows, second.rows}
    return rows == {1.0} if first.module != second.module else len(rows) == 2


def _time_alone(
    programs: Mapping[TaskName, SliceProgram],
) -> dict[TaskName, tuple[float, float]]:
    """Seconds of the device and of the host of every task, in turns."""
    runs: dict[TaskName, list[RunTimes]] = {name: [] for name in programs}
    for repetition in range(REPETITIONS + 1):
        for name, program in programs.items():
            run = time_run(program.call.with_own_memory())
            if repetition:
                runs[name].append(run)
    return {
        name: (
            lower_quartile([run.seconds for run in of_task]),
            lower_quartile([r.host for r in of_task]),
        )
        for name, of_task in runs.items()
    }


def _time_together(programs: Sequence[SliceProgram], alone: Sequence[float]) -> list[float]:
    """Seconds of tasks while all of them run, each again and again by a thread of its own.

    Args:
        programs: the tasks, on different devices.
        alone: seconds of each alone.
    """
    counts = [math.ceil(PAIR_REPETITIONS * max(alone) / seconds) + 1 for seconds in alone]
    calls = [
        [program.call.with_own_memory() for _ in range(min(count, MOST_PAIR_RUNS))]
        for program, count in zip(programs, counts, strict=True)
    ]
    barrier = threading.Barrier(len(calls))

    def run_often(of_task: Sequence[Callable[[], Any]]) -> list[RunTimes]:
        barrier.wait()
        return [time_run(each) for each in of_task]

    with ThreadPoolExecutor(len(calls)) as threads:
        runs = [*threads.map(run_often, calls)]
    begin, end = max(of_task[0].begin for of_task in runs), min(of_task[-1].end for of_task in runs)
    together = [[run for run in each if begin <= run.begin and run.end <= end] for each in runs]
    return [
        lower_quartile([run.seconds for run in some or each])
        for some, each in zip(together, runs, strict=True)
    ]


def _measure_bandwidth(devices: list[jax.Device]) -> float:
    """Bytes per second of all slices together."""
    copy, moved_bytes = make_copy(devices)
    return len(devices) * moved_bytes / lower_quartiles({"copy": copy}, REPETITIONS)["copy"]


def _measure_link(devices: Sequence[jax.Device]) -> HardwareLink:
    """Copies from one slice to another."""
    arrays = [jax.device_put(jnp.ones(size // 4), devices[0]) for size in COPIED_BYTES]
    copies = {x.nbytes: partial(jax.device_put, x, devices[1]) for x in arrays}
    (small, short), (large, long) = lower_quartiles(copies, REPETITIONS).items()
    bandwidth = (large - small) / max(long - short, SHORTEST)
    return HardwareLink(bandwidth=bandwidth, latency=max(0.0, short - small / bandwidth))

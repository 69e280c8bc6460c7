"""Times of tasks in a process of their own, whose devices are slices or have all threads.

Threads are settings of a process, so that a process measures slices, and another one the whole
device: round by round, in turns, as the speed of a machine changes from minute to minute. A CPU of
two slices is two cores, however many the machine has.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from multiprocessing.synchronize import Barrier
from statistics import median
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
from mllm_jax.runtime.compiled.cache import enable_compilation_cache
from mllm_jax.runtime.devices import start_devices
from scheduling.costs.hardware import HardwareLink
from scheduling.costs.slice_fit import CountedTask, TimedTask
from scheduling.costs.slices import MICROBATCH_PHASES, RunningTask
from sharding.plan import DeviceNumbers

#: Rounds in which tasks are timed alone, runs of a task in a round, of which the first counts only
#: if there is no other, and seconds after which a round ends early.
ROUNDS, REPETITIONS, ROUND_SECONDS = 4, 6, 3.0
#: Rounds in which pairs are timed, of whose factors the median counts; one if a task is this long.
PAIR_ROUNDS, LONG_SECONDS = 3, 0.1
#: Runs of a task just before a pair; runs of the longer one of two side by side, and the most of
#: the other; seconds after which there are fewer runs.
BEFORE_REPETITIONS, PAIR_REPETITIONS, MOST_PAIR_RUNS, RUN_SECONDS = 5, 8, 100, 0.5
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


def least_of(rounds: Sequence[TimedPart]) -> TimedPart:
    """The least of every time: what else a machine does only slows."""
    first = rounds[0]
    times = zip(*(each.times for each in rounds), strict=True)
    hosts = {name: min(r.counts[name].host_seconds for r in rounds) for name in first.counts}
    return replace(
        first,
        counts={name: replace(c, host_seconds=hosts[name]) for name, c in first.counts.items()},
        times=tuple(min(of_task, key=lambda timed: timed.seconds) for of_task in times),
    )


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
    devices = _start_cpu(config, max(2, len({*numbers.values()})), slices, one_thread=True)
    compiled = _CompiledTasks.build(config, numbers, 1 / slices)
    alone = compiled.time_rounds(turn=0)
    with _turn(0):
        memory = TimedMemory(_measure_bandwidth(devices[:slices]), _measure_link(devices))
        return alone.with_times(compiled.time_pairs(alone)), memory


def measure_whole(config: ExperimentConfig, slices: int) -> TimedPart:
    """Tasks alone on the whole device; arguments as of `measure_slices`."""
    numbers = in_two(config.model)
    _start_cpu(config, 2, slices, one_thread=False)
    compiled = _CompiledTasks.build(config, numbers, 1.0)
    alone = compiled.time_rounds(turn=1)
    with _turn(1):
        return alone


def _start_cpu(
    config: ExperimentConfig, devices: int, cores: int, *, one_thread: bool
) -> list[jax.Device]:
    """Emulated devices on so many cores."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    enable_compilation_cache(config.run.compilation_cache)
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

    def time_rounds(self, turn: int) -> TimedPart:
        """The least times of all tasks alone, over rounds.

        Args:
            turn: number of this process, whose rounds are in turn with the others'.
        """
        rounds = []
        for _ in range(ROUNDS):
            with _turn(turn):
                rounds.append(self.time_alone())
        return least_of(rounds)

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

        The least seconds of a task are multiplied by how much longer it takes than just before.

        Args:
            part: the least times of the tasks alone.
        """
        alone = {t.task: t.seconds for t in part.times if t.task.phase in MICROBATCH_PHASES}
        pairs = [pair for pair in combinations(alone, 2) if _makes_pair(*pair)]
        longest = max(alone.values(), default=0.0)
        rounds = PAIR_ROUNDS if longest < LONG_SECONDS else 1
        factors: dict[tuple[RunningTask, ...], list[list[float]]] = {pair: [] for pair in pairs}
        for _ in range(rounds):
            for pair, of_pair in factors.items():
                programs = [self.programs[each.rows][each[:2]] for each in pair]
                of_pair.append(_slow_down(programs, [alone[task] for task in pair]))
        times = list[TimedTask]()
        for pair, of_pair in factors.items():
            middle = map(median, zip(*of_pair, strict=True))
            seconds = [alone[task] * each for task, each in zip(pair, middle, strict=True)]
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
    if first.module != second.module:
        return rows == {1.0}
    return len(rows) == 2 and first.phase == second.phase


def _time_alone(
    programs: Mapping[TaskName, SliceProgram],
) -> dict[TaskName, tuple[float, float]]:
    """Seconds of the device and of the host of every task, in turns."""
    runs: dict[TaskName, list[RunTimes]] = {name: [] for name in programs}
    end = time.perf_counter() + ROUND_SECONDS
    for _ in range(REPETITIONS):
        for name, program in programs.items():
            runs[name].append(time_run(program.call.with_own_memory()))
        if time.perf_counter() > end:
            break
    counted = {name: of_task[1:] or of_task for name, of_task in runs.items()}
    return {
        name: (
            lower_quartile([run.seconds for run in of_task]),
            lower_quartile([run.host for run in of_task]),
        )
        for name, of_task in counted.items()
    }


def _slow_down(programs: Sequence[SliceProgram], alone: Sequence[float]) -> list[float]:
    """How much longer tasks take while all of them run, than each just before.

    Args:
        programs: the tasks, on different devices, each of which a thread runs again and again.
        alone: about the seconds of each alone.
    """
    before = [_time_again(*each) for each in zip(programs, alone, strict=True)]
    runs = _run_together(programs, alone)
    begin, end = max(of_task[0].begin for of_task in runs), min(of_task[-1].end for of_task in runs)
    together = [[run for run in each if begin <= run.begin and run.end <= end] for each in runs]
    return [
        lower_quartile([run.seconds for run in some or each]) / just_before
        for just_before, some, each in zip(before, together, runs, strict=True)
    ]


def _time_again(program: SliceProgram, seconds: float) -> float:
    """Seconds of a task alone, that takes about so long."""
    count = _repetitions(BEFORE_REPETITIONS, seconds)
    runs = [time_run(program.call.with_own_memory()) for _ in range(count)]
    return lower_quartile([run.seconds for run in runs])


def _repetitions(most: int, seconds: float) -> int:
    """Runs of a task of so many seconds, at least two."""
    return max(2, min(most, math.ceil(RUN_SECONDS / seconds)))


def _run_together(programs: Sequence[SliceProgram], alone: Sequence[float]) -> list[list[RunTimes]]:
    """Runs of tasks side by side, of the shorter ones about as long as of the longest."""
    longest = max(alone)
    repetitions = _repetitions(PAIR_REPETITIONS, longest)
    counts = [math.ceil(repetitions * longest / seconds) + 1 for seconds in alone]
    calls = [
        [program.call.with_own_memory() for _ in range(min(count, MOST_PAIR_RUNS))]
        for program, count in zip(programs, counts, strict=True)
    ]
    barrier = threading.Barrier(len(calls))

    def run_often(of_task: Sequence[Callable[[], Any]]) -> list[RunTimes]:
        barrier.wait()
        return [time_run(each) for each in of_task]

    with ThreadPoolExecutor(len(calls)) as threads:
        return [*threads.map(run_often, calls)]


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

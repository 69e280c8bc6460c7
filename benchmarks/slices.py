"""Benchmark of modules that share a device: the graphs of `configs/slices`, step by step.

Every graph in every size runs in four ways on two cores: one module at a time with all threads,
data parallel over two devices of a core each, modules in two halves, and as the planner says. Steps
are timed in turns by two processes, in which a device has all cores or one.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.rotation import rotate_values
from benchmarks.slice_models import (
    MODELS,
    SEQUENCES,
    WIDTHS,
    ModelSize,
    describe_groups,
    on_both_devices,
    pair_halves,
)
from benchmarks.slice_worker import DEVICES
from benchmarks.turns import TurnWorker
from mllm_jax.calibrate.slices.measure import calibrate_slices
from mllm_jax.config.hardware import load_hardware, read_slice_costs
from mllm_jax.config.load import ConfigError, ExperimentConfig, load_config
from mllm_jax.plan.groups.planner import GroupPlanner
from mllm_jax.plan.groups.report import plan_groups
from mllm_jax.plan.groups.simulate import configured_plan
from mllm_jax.runtime.devices import use_cpu_only
from mllm_jax.runtime.folder import prepare_folder
from scheduling.simulate.groups.step import simulate_groups

PrintLine = Callable[[str], None]

#: Turns of a size whose first turn takes less than so many seconds, and turns of others.
TURNS, SHORT_SECONDS, FEW_TURNS = 7, 5.0, 3
#: Share by which pairings are predicted to be slower than the fastest that are left out, and
#: number of pairings that have more turns than the first.
SLOWER, KEPT = 0.1, 2
#: Seconds of a variant's turn, and of the whole benchmark.
TURN_SECONDS, LIMIT_SECONDS = 0.3, 20 * 60
#: Folder of compiled programs, in that of the run.
COMPILED = "compiled"
SERIAL, DATA_PARALLEL, PLANNED = "serial", "data_parallel", "planned"
#: Cores that are used: a device of two slices.
CORES = 2


def bench_slices(
    config: ExperimentConfig,
    print_line: PrintLine,
    models: Sequence[str] = MODELS,
    widths: Sequence[str] = tuple(map(str, WIDTHS)),
    sequences: Sequence[str] = tuple(map(str, SEQUENCES)),
    calibrations: str | None = None,
) -> list[dict[str, Any]]:
    """Seconds of a step of every size, by how the modules use two cores.

    Args:
        config: says the folder, in which planned configurations are written, and the platform.
        models, widths, sequences: some of `MODELS`, `WIDTHS` and `SEQUENCES`.
        calibrations: folder with a file `MODEL-WIDTH-TOKENS.json` of `calibrate --slices` for each
            size; those that are missing are measured before the size is timed, which counts for no
            time. None: there are no plans.

    Returns:
        A row a size, least first: `model`, `width`, `tokens`; minima over turns as
        `serial_seconds`, `data_parallel_seconds`, `halves_seconds` (of the fastest pairing) and
        `planned_seconds`, and medians as `serial_median` and so on; `predicted_seconds`, which
        the planner has said before; and as `halves` and `planned` which modules share devices.
        Sizes that `LIMIT_SECONDS` leave no time for have no row.

    Raises:
        ConfigError: the platform is no CPU, or a size is none of the benchmark's.
    """
    _check_platform(config)
    sizes = [
        ModelSize(model, int(width), int(tokens))
        for width, tokens, model in product(
            _chosen("widths", widths, WIDTHS),
            _chosen("sequences", sequences, SEQUENCES),
            _chosen("models", models, MODELS),
        )
    ]
    use_cpu_only()
    folder, rows = config.run.path, list[dict[str, Any]]()
    prepare_folder(folder)
    left = float(LIMIT_SECONDS)
    with SliceBench(folder, print_line) as bench:
        for number, size in enumerate(sizes):
            if left < 0:
                names = ", ".join(map(str, sizes[number:]))
                print_line(f"{LIMIT_SECONDS // 60} minutes are over; left out: {names}")
                break
            timed = TimedSize.from_size(size)
            # A size is measured and predicted just before it is timed: the speed of a machine that
            # others share changes from minute to minute.
            if calibrations is not None:
                timed = add_plan(timed, Path(calibrations), config, print_line)
            begin = time.monotonic()
            rows.append(bench.time_size(timed))
            left -= time.monotonic() - begin
    return rows


def _check_platform(config: ExperimentConfig) -> None:
    platform = config.parallel.platform
    if platform != "cpu":
        reason = (
            f"parallel.platform: {platform} is refused, as slices of a {platform} are processes"
        )
        raise ConfigError(
            "bench slices", [f"{reason} under MPS, which it does not start; valid: cpu"]
        )


def _chosen(option: str, given: Sequence[str], known: Sequence[Any]) -> Sequence[str]:
    valid = [str(value) for value in known]
    if unknown := [name for name in given if name not in valid]:
        reason = f"--{option}: {', '.join(unknown)} is refused; valid: {', '.join(valid)}"
        raise ConfigError("bench slices", [reason])
    return given


@dataclass
class TimedSize:
    """A size, its variants, and the seconds of their turns.

    Attributes:
        size: the size.
        variants: configurations by name.
        planned: name of the planner's variant; None without a plan.
        predicted: seconds that the planner has predicted of its variant.
        seconds: seconds of a step, by variant and turn.
    """

    size: ModelSize
    variants: dict[str, ExperimentConfig]
    planned: str | None = None
    predicted: float | None = None
    seconds: dict[str, list[float]] = field(default_factory=dict)

    @classmethod
    def from_size(cls, size: ModelSize) -> TimedSize:
        """A size without a plan."""
        serial = size.load()
        halves = {f"halves {describe_groups(half)}": half for half in pair_halves(serial)}
        return cls(size, {SERIAL: serial, DATA_PARALLEL: on_both_devices(serial), **halves})

    def with_plan(self, config: ExperimentConfig, predicted: float) -> TimedSize:
        """The size with the planner's variant, which may be one of those that are there."""
        same = (n for n, variant in self.variants.items() if is_alike(variant, config))
        name = next(same, PLANNED)
        variants = self.variants | {name: self.variants.get(name, config)}
        return replace(self, variants=variants, planned=name, predicted=predicted)

    def without_slow(self, predicted: Callable[[ExperimentConfig], float]) -> TimedSize:
        """The size without pairings that are predicted to take `SLOWER` or more than the fastest.

        Args:
            predicted: seconds that are predicted of a variant.
        """
        seconds = {name: predicted(self.variants[name]) for name in self._pairings}
        most = (1 + SLOWER) * min(seconds.values())
        slow = {name for name, each in seconds.items() if each > most}
        variants = {name: config for name, config in self.variants.items() if name not in slow}
        return replace(self, variants=variants)

    @property
    def _pairings(self) -> list[str]:
        return [name for name in self.variants if name.startswith("halves ")]

    def halves(self) -> list[str]:
        """Names of the pairings, the fastest first."""
        return sorted(self._pairings, key=lambda name: min(self.seconds[name]))

    def kept(self) -> list[str]:
        """Names of the variants that have turns after the first: not of slow pairings."""
        slow = [name for name in self.halves()[KEPT:] if name != self.planned]
        return [name for name in self.variants if name not in slow]

    def row(self) -> dict[str, Any]:
        """See `bench_slices`."""
        fastest = self.halves()[0]
        least = self._summarise(min)
        medians = self._summarise(statistics.median)
        described = {name: describe_groups(config) for name, config in self.variants.items()}
        return {
            "model": self.size.model,
            "width": self.size.width,
            "tokens": self.size.tokens,
            "serial_seconds": least[SERIAL],
            "data_parallel_seconds": least[DATA_PARALLEL],
            "halves_seconds": least[fastest],
            "planned_seconds": self.planned and least[self.planned],
            "predicted_seconds": self.predicted,
            "serial_median": medians[SERIAL],
            "data_parallel_median": medians[DATA_PARALLEL],
            "halves_median": medians[fastest],
            "planned_median": self.planned and medians[self.planned],
            "halves": described[fastest],
            "planned": self.planned and described[self.planned],
        }

    def _summarise(self, figure: Callable[[Sequence[float]], float]) -> dict[str, float]:
        return {name: figure(seconds) for name, seconds in self.seconds.items()}


class SliceBench(AbstractContextManager["SliceBench"]):
    """Two processes that run the sizes one after the other, on `CORES` cores.

    Args:
        folder: folder of planned configurations and of compiled programs, which are kept.
        print_line: prints a line of progress.
    """

    def __init__(self, folder: Path, print_line: PrintLine) -> None:
        self._print_line, self._stack = print_line, ExitStack()
        environment = {
            "JAX_COMPILATION_CACHE_DIR": str(folder / COMPILED),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        }
        self._stack.enter_context(on_cores(CORES))
        self._workers = {
            kind: self._stack.enter_context(
                TurnWorker("benchmarks.slice_worker", kind, environment=environment)
            )
            for kind in DEVICES
        }

    def __exit__(self, *raised: object) -> None:
        """End the processes."""
        self._stack.close()

    def time_size(self, timed: TimedSize) -> dict[str, Any]:
        """Compile all variants of a size and time them in turns; its row."""
        self._print_line(f"{timed.size}: compiling {len(timed.variants)} variants")
        kinds = {name: kind_of(config) for name, config in timed.variants.items()}
        with ThreadPoolExecutor(len(self._workers)) as threads:
            list(threads.map(lambda kind: self._compile(timed, kinds, kind), self._workers))
        begin = time.perf_counter()
        self._take_turn(timed, [*kinds], kinds)
        is_short = time.perf_counter() - begin < SHORT_SECONDS
        for turn in range(1, TURNS if is_short else FEW_TURNS):
            self._take_turn(timed, rotate_values(timed.kept(), turn), kinds)
        return timed.row()

    def _take_turn(self, timed: TimedSize, names: Sequence[str], kinds: Mapping[str, str]) -> None:
        for name in names:
            seconds = self._workers[kinds[name]].ask("time", name=name, seconds=TURN_SECONDS)
            timed.seconds.setdefault(name, []).append(seconds)

    def _compile(self, timed: TimedSize, kinds: Mapping[str, str], kind: str) -> None:
        values = {
            name: config.model_dump(mode="json")
            for name, config in timed.variants.items()
            if kinds[name] == kind
        }
        self._workers[kind].ask("compile", configs=values)


def kind_of(config: ExperimentConfig) -> str:
    """The kind of process in which a configuration runs."""
    count = config.parallel.jax_devices
    return next(kind for kind, devices in DEVICES.items() if devices == count)


def is_alike(one: ExperimentConfig, other: ExperimentConfig) -> bool:
    """Whether two configurations share devices alike, whatever their groups are called."""
    sharing = [
        (c.parallel.devices, {frozenset(group.modules) for group in c.parallel.groups.values()})
        for c in (one, other)
    ]
    return sharing[0] == sharing[1]


@contextmanager
def on_cores(count: int) -> Iterator[None]:
    """Run processes that are started here on so many cores, where that can be said."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[:count])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


# ---- plans ---------------------------------------------------------------------------------------


def add_plan(
    timed: TimedSize, calibrations: Path, config: ExperimentConfig, print_line: PrintLine
) -> TimedSize:
    """The size with the plan of its calibration, which is measured if there is none.

    Args:
        calibrations, config, print_line: as of `bench_slices`.
    """
    size, serial = timed.size, timed.variants[SERIAL]
    name = f"{size.model}-{size.width}-{size.tokens}"
    costs, folder = calibrations / f"{name}.json", config.run.path
    if not costs.exists():
        print_line(f"{size}: measuring modules and pairs")
        run = serial.run.model_copy(update={"compilation_cache": str(folder / COMPILED)})
        calibrate_slices(serial.model_copy(update={"run": run}), costs, print_line)
    hardware = load_hardware(config.schedule.hardware or "h100")
    planner = GroupPlanner(serial, hardware, read_slice_costs(costs))
    planned = plan_groups(planner, str(costs), folder / f"{name}.yaml", time.perf_counter)
    return timed.without_slow(partial(_predict_seconds, planner)).with_plan(
        load_config(planned.file), planned.chosen.seconds
    )


def _predict_seconds(planner: GroupPlanner, config: ExperimentConfig) -> float:
    """Seconds of a configuration with groups of data parallel devices."""
    plan = configured_plan(config)
    assert plan is not None
    return simulate_groups(planner.costs, plan).seconds

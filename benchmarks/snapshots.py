"""Cost of snapshots in memory: how long training waits for one, compared with its steps.

An interval are `checkpoint.local_every` steps. A turn has an interval after a snapshot and one
after none, every other turn the other way round: what slows the machine for longer than a turn
favours neither. The cost has two parts: what the loop waits for, and what the work during training
takes from the steps after the snapshot: its checksums, and its copy on the next machine. Several
processes of one machine stand for as many machines.

After the turns come snapshots without steps, each with all of its work. The time of processors
that one takes, over that of an interval, is its cost where steps leave no processor idle; other
programs disturb it less than any time on a clock.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import jax

from benchmarks.pipeline import PrintLine
from data.planning.stream import LoaderState
from mllm_jax.calibrate.timing import median_between
from mllm_jax.config.load import ExperimentConfig
from mllm_jax.config.sections import ConfigError
from mllm_jax.runtime.run_peers import current_peers
from mllm_jax.train.experiment import Experiment
from mllm_jax.train.state.progress import Progress
from mllm_jax.train.state.snapshots.memory import SnapshotMemory, open_snapshots
from mllm_jax.train.trainer import StepRunner

#: Turns, and snapshots without steps, after one that warms up.
TURNS = 16
#: Most seconds for the work of a snapshot.
LONGEST = 60.0


@dataclass(frozen=True)
class SnapshotInterval:
    """Seconds of an interval.

    Attributes:
        blocking: of the snapshot before it, in which no step runs; 0 without one.
        stepping: of its steps.
        computing: of its steps, in all threads of this process.
    """

    blocking: float
    stepping: float
    computing: float


@dataclass(frozen=True)
class SnapshotSeconds:
    """Seconds of a snapshot with all of its work, while no step runs.

    Attributes:
        lasting: until its copy is complete.
        computing: in all threads of this process.
    """

    lasting: float
    computing: float


def bench_snapshots(
    config: ExperimentConfig, print_line: PrintLine = lambda text: None, turns: int = TURNS
) -> dict[str, float]:
    """Steps with and without snapshots in memory, in turns.

    Args:
        turns: number of turns, after one that warms up.

    Returns:
        `bytes` of the state; `copied`, those that another machine keeps of what this process has;
        `local_every`; medians of seconds: `step` without snapshots, `blocking`, for which the loop
        waits at a snapshot, and `lasting`, until one is complete with its copy while no step runs.
        Medians of the ratios within a turn, of an interval with a snapshot to one without:
        `blocking_share`, what the loop waits for, and `share`, with what the work during the steps
        costs. `computing_share`: the time of processors of a snapshot with all of its work over
        that of an interval without. `low` and `high` are the ends of the interval in which each of
        these medians lies, see `median_between`.

    Raises:
        ConfigError: the configuration takes no snapshots.
    """
    every = config.checkpoint.local_every
    if every is None or not config.checkpoint.enabled:
        raise ConfigError(
            "bench snapshots",
            ["checkpoint.local_every null: there is nothing to measure; valid: at least 1"],
        )
    with tempfile.TemporaryDirectory() as folder:
        train = config.train.model_copy(update={"steps": (2 * turns + 2) * every})
        run = config.run.model_copy(update={"directory": folder})
        config = config.model_copy(update={"train": train, "run": run})
        config.run.path.mkdir(parents=True)
        experiment = Experiment.build(config)
        with open_snapshots(config, final_errors=()) as memory:
            assert memory is not None, "the configuration takes snapshots"
            state = experiment.step.init(jax.random.key(config.train.seed))
            progress = Progress(0, LoaderState(config.train.seed))
            intervals, state = _measure_intervals(experiment, state, progress, memory, print_line)
            alone = [_measure_alone(memory, state, progress) for _ in range(TURNS + 1)][1:]
            copied = memory.copied
        size = experiment.state_bytes()
    return {
        "bytes": float(size),
        "copied": float(copied),
        "local_every": float(every),
        **_median_figures(intervals, alone, every),
    }


def _median_figures(
    intervals: Sequence[SnapshotInterval], alone: Sequence[SnapshotSeconds], every: int
) -> dict[str, float]:
    """What `bench_snapshots` returns of seconds and of ratios.

    Args:
        intervals: with and without a snapshot, in turns.
        alone: snapshots while no step runs.
        every: steps of an interval.
    """
    pairs = [
        sorted(turn, key=lambda interval: interval.blocking)
        for turn in zip(intervals[::2], intervals[1::2], strict=True)
    ]
    computing = median(without.computing for without, _ in pairs)
    return {
        "step": median(without.stepping for without, _ in pairs) / every,
        "blocking": median(copied.blocking for _, copied in pairs),
        "lasting": median(snapshot.lasting for snapshot in alone),
        **_share_figures(
            "blocking_share", [copied.blocking / without.stepping for without, copied in pairs]
        ),
        **_share_figures(
            "share",
            [
                (copied.blocking + copied.stepping) / without.stepping - 1
                for without, copied in pairs
            ],
        ),
        **_share_figures("computing_share", [snapshot.computing / computing for snapshot in alone]),
    }


def _measure_intervals(
    experiment: Experiment,
    state: Any,
    progress: Progress,
    memory: SnapshotMemory,
    print_line: PrintLine,
) -> tuple[list[SnapshotInterval], Any]:
    """All intervals but the first two, which warm up, and the last state."""
    config, intervals = experiment.config, list[SnapshotInterval]()
    every = config.checkpoint.local_every
    assert every is not None, "the configuration takes snapshots"
    count = config.train.steps // every
    began, computed, blocking = time.perf_counter(), time.process_time(), 0.0
    trainer = StepRunner(experiment, state, progress)
    with trainer.opened_run():
        while not trainer.is_done:
            step = trainer.train_step().step
            if step % every:
                continue
            trainer.wait_for_steps()
            now, number = time.perf_counter(), step // every
            intervals.append(
                SnapshotInterval(blocking, now - began, time.process_time() - computed)
            )
            print_line(f"interval {number} of {count}")
            blocking = 0.0
            if _with_one(number) and number < count:
                blocking = _take_snapshot(memory, trainer.state, progress)
            began, computed = time.perf_counter(), time.process_time()
    return intervals[2:], trainer.state


def _measure_alone(memory: SnapshotMemory, state: Any, progress: Progress) -> SnapshotSeconds:
    """A snapshot while no step runs."""
    memory.wait_for_copies(LONGEST)
    current_peers().gather_values("a snapshot begins", None)
    began, computed = time.perf_counter(), time.process_time()
    memory.take_snapshot(progress.step, state, progress.to_json())
    memory.wait_for_copies(LONGEST)
    lasting = time.perf_counter() - began
    # The other machine may still be sending its copy.
    current_peers().gather_values("a snapshot is complete", None)
    return SnapshotSeconds(lasting, time.process_time() - computed)


def _with_one(number: int) -> bool:
    """Whether a snapshot follows an interval; the one after it is measured."""
    turn, second = divmod(number, 2)
    return (turn + second) % 2 == 0


def _take_snapshot(memory: SnapshotMemory, state: object, progress: Progress) -> float:
    """Seconds of a snapshot."""
    began = time.perf_counter()
    memory.take_snapshot(progress.step, state, progress.to_json())
    return time.perf_counter() - began


def _share_figures(name: str, values: list[float]) -> dict[str, float]:
    low, high = median_between(values)
    return {name: median(values), f"{name}_low": low, f"{name}_high": high}

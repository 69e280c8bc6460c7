"""Cost of snapshots in memory: how long training stands still for one, beside its steps.

An interval are `checkpoint.local_every` steps. A turn has an interval behind a snapshot and one
behind none, every other turn the other way round: what slows the machine for longer than a turn
favours neither. The cost has two parts: what the loop waits for, and what the work beside training
takes from the steps behind the snapshot.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

import jax

from data.planning.stream import LoaderState
from mllm_jax.bench.pipeline import Tell
from mllm_jax.calibrate.timing import median_between
from mllm_jax.config.load import ExperimentConfig
from mllm_jax.config.sections import ConfigError
from mllm_jax.train.experiment import Experiment
from mllm_jax.train.loop import steps
from mllm_jax.train.state.progress import Progress
from mllm_jax.train.state.snapshots.memory import Memory, opened

#: Turns, after one that warms up.
TURNS = 16


@dataclass(frozen=True)
class Interval:
    """Seconds of an interval.

    Attributes:
        blocking: of the snapshot before it, in which no step runs; 0 without one.
        stepping: of its steps.
    """

    blocking: float
    stepping: float


def bench_snapshots(config: ExperimentConfig, tell: Tell = lambda text: None) -> dict[str, float]:
    """Steps with and without snapshots in memory, in turns.

    Returns:
        `bytes` of the state; `local_every`; medians of seconds: `step` without snapshots, and
        `blocking`, for which the loop waits at a snapshot. Medians of the ratios within a turn, of
        an interval with a snapshot to one without: `blocking_share`, what the loop waits for, and
        `share`, with what the work beside the steps costs. `low` and `high` are the ends of the
        interval in which each of these medians lies, see `median_between`.

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
        train = config.train.model_copy(update={"steps": (2 * TURNS + 2) * every})
        run = config.run.model_copy(update={"directory": folder})
        config = config.model_copy(update={"train": train, "run": run})
        config.run.path.mkdir(parents=True)
        experiment = Experiment.build(config)
        intervals = list(_intervals(experiment, every, tell))[1:]
    turns = list(zip(intervals[::2], intervals[1::2], strict=True))
    pairs = [sorted(turn, key=lambda own: own.blocking) for turn in turns]
    return {
        "bytes": float(experiment.state_bytes()),
        "local_every": float(every),
        "step": median(without.stepping for without, _ in pairs) / every,
        "blocking": median(own.blocking for _, own in pairs),
        **_share("blocking_share", [own.blocking / without.stepping for without, own in pairs]),
        **_share(
            "share",
            [(own.blocking + own.stepping) / without.stepping - 1 for without, own in pairs],
        ),
    }


def _intervals(experiment: Experiment, every: int, tell: Tell) -> Iterator[Interval]:
    """All intervals but the first, in which programs are compiled."""
    seed = experiment.config.train.seed
    state = experiment.step.init(jax.random.key(seed))
    progress = Progress(0, LoaderState(seed))
    with opened(experiment.config, over=()) as memory:
        assert memory is not None, "the configuration takes snapshots"
        began, blocking = time.perf_counter(), 0.0
        for new, taken in steps(
            experiment, state, progress, awaited=lambda step: step % every == 0
        ):
            if taken.step % every:
                continue
            now, number = time.perf_counter(), taken.step // every
            if number > 1:
                yield Interval(blocking, now - began)
            tell(f"interval {number} of {2 * TURNS + 2}")
            blocking = _take(memory, new, progress) if _with_one(number) else 0.0
            began = time.perf_counter()


def _with_one(number: int) -> bool:
    """Whether a snapshot follows an interval; the one behind it is measured."""
    turn, second = divmod(number, 2)
    return (turn + second) % 2 == 0


def _take(memory: Memory, state: object, progress: Progress) -> float:
    """Seconds of a snapshot."""
    began = time.perf_counter()
    memory.take(progress.step, state, progress.to_json())
    return time.perf_counter() - began


def _share(name: str, values: list[float]) -> dict[str, float]:
    low, high = median_between(values)
    return {name: median(values), f"{name}_low": low, f"{name}_high": high}

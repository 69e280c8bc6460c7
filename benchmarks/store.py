"""Cost of copies of checkpoints in an object store (`checkpoint.copy_to`), compared with the steps.

A copy is made by a thread while training goes on, which waits for it at its end alone: what a copy
costs is what it takes from the steps meanwhile. An interval are `checkpoint.every` steps. A turn
has an interval with a copy and one without, every other turn the other way round, so that
what slows the machine for longer than a turn favours neither. The copy is of a complete checkpoint
of the configured state, and of the records of a run that has made some ten thousand reports.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import jax

from benchmarks.pipeline import PrintLine
from data.planning.stream import LoaderState
from mllm_jax.calibrate.timing import median_between
from mllm_jax.config.load import ExperimentConfig
from mllm_jax.config.sections import ConfigError
from mllm_jax.runtime.folder import ensure_identity
from mllm_jax.train.experiment import Experiment
from mllm_jax.train.state.checkpoint import CheckpointManager
from mllm_jax.train.state.mirrors.store import MirrorStore
from mllm_jax.train.state.progress import Progress
from mllm_jax.train.trainer import StepRunner

#: Turns, after one that warms up.
TURNS = 8
#: Bytes of the records.
RECORDED = 4 << 20


@dataclass(frozen=True)
class CopyInterval:
    """Seconds of an interval.

    Attributes:
        stepping: of its steps.
        copying: of the copy meanwhile; 0 without one.
    """

    stepping: float
    copying: float


def bench_store(
    config: ExperimentConfig, print_line: PrintLine = lambda text: None
) -> dict[str, float]:
    """Steps with and without a copy of a checkpoint meanwhile, in turns.

    Returns:
        `bytes` of the checkpoint; `every`; medians of seconds: `step` without copies, and
        `copying`. `share`, the median of the ratios within a turn, by how much a copy makes its
        interval longer; `low` and `high` are the ends of the interval in which this median lies,
        see `median_between`.

    Raises:
        ConfigError: the configuration names no store, or copies take longer than an interval.
        DataError: the store cannot be reached.
    """
    if config.checkpoint.copy_to is None:
        problem = "checkpoint.copy_to null: there is no store; valid: a URL, e.g. s3://bucket/runs"
        raise ConfigError("bench store", [problem])
    with tempfile.TemporaryDirectory() as folder:
        every = config.checkpoint.every
        train = config.train.model_copy(update={"steps": (2 * TURNS + 2) * every})
        name = f"bench-store-{Path(folder).name}"
        run = config.run.model_copy(update={"directory": folder, "name": name})
        config = config.model_copy(update={"train": train, "run": run})
        config.run.path.mkdir(parents=True)
        (config.run.path / "metrics.jsonl").write_bytes(bytes(RECORDED))
        store, experiment = MirrorStore(config), Experiment.build(config)
        state = experiment.step.init(jax.random.key(config.train.seed))
        checkpoint = _save_state(experiment, state)
        try:
            with ThreadPoolExecutor(1) as executor:
                measured = _measure_intervals(
                    experiment, state, store, checkpoint, executor, print_line
                )
                intervals = list(measured)[1:]
        finally:
            store.remove_all()
        size = sum(path.stat().st_size for path in checkpoint.rglob("*") if path.is_file())
    return {"bytes": float(size), "every": float(every)} | _median_figures(intervals, every)


def _median_figures(intervals: list[CopyInterval], every: int) -> dict[str, float]:
    turns = zip(intervals[::2], intervals[1::2], strict=True)
    pairs = [sorted(turn, key=lambda interval: interval.copying) for turn in turns]
    shares = [copied.stepping / without.stepping - 1 for without, copied in pairs]
    low, high = median_between(shares)
    return {
        "step": median(without.stepping for without, _ in pairs) / every,
        "copying": median(copied.copying for _, copied in pairs),
        "share": median(shares),
        "share_low": low,
        "share_high": high,
    }


def _save_state(experiment: Experiment, state: Any) -> Path:
    """The folder of a checkpoint of a state."""
    config = experiment.config
    folder = (config.run.path / "checkpoints").absolute()
    checkpoints = CheckpointManager(folder, config.checkpoint, experiment.step.form.regrouping)
    progress = Progress(1, LoaderState(config.train.seed)).to_json()
    checkpoints.save_state(1, state, progress, config.model_dump(mode="json"))
    checkpoints.wait_for_saves()
    checkpoints.close()
    return folder / "1"


def _measure_intervals(
    experiment: Experiment,
    state: Any,
    store: MirrorStore,
    checkpoint: Path,
    executor: ThreadPoolExecutor,
    print_line: PrintLine,
) -> Iterator[CopyInterval]:
    """All intervals but the first, in which programs are compiled."""
    config, copy = experiment.config, None
    every, run = config.checkpoint.every, ensure_identity(config.run.path)
    progress, began = Progress(0, LoaderState(config.train.seed)), time.perf_counter()
    trainer = StepRunner(experiment, state, progress)
    with trainer.opened_run():
        while not trainer.is_done:
            step = trainer.train_step().step
            if step % every:
                continue
            trainer.wait_for_steps()
            now, number = time.perf_counter(), step // every
            if number > 1:
                yield CopyInterval(now - began, _finish_copy(copy, config))
            print_line(f"interval {number} of {2 * TURNS + 2}")
            copy = (
                executor.submit(_copy_checkpoint, store, checkpoint, run)
                if _with_one(number)
                else None
            )
            began = time.perf_counter()


def _with_one(number: int) -> bool:
    """Whether a copy is made during the interval after this one."""
    turn, second = divmod(number, 2)
    return (turn + second) % 2 == 0


def _copy_checkpoint(store: MirrorStore, checkpoint: Path, run: str) -> float:
    """Seconds of a copy of a checkpoint, and of the records of its run."""
    began = time.perf_counter()
    store.copy_part(checkpoint, run, (0, 1))
    store.put_records(checkpoint.parents[1])
    return time.perf_counter() - began


def _finish_copy(copy: Future[float] | None, config: ExperimentConfig) -> float:
    """Seconds of the copy that was made during an interval.

    Raises:
        ConfigError: it is still being made.
    """
    if copy is None:
        return 0.0
    if not copy.done():
        every = config.checkpoint.every
        problem = f"checkpoint.every {every}: a copy takes longer than so many steps; valid: more"
        raise ConfigError("bench store", [problem])
    return copy.result()

"""The loader: plans -> samples -> batches as one Grain pipeline.

    StepPlans (custom IterDataset) -> map(assemble) -> thread prefetch     data.workers: 0
                                                    -> mp_prefetch         data.workers: N

Worker k of N makes every plan (from measurements, cheap) and assembles steps k, k + N, ...; Grain
hands the steps out in turn, so the batches are the same for any number of workers. Each step
carries the state after it: that, and not Grain's own state, is what a checkpoint saves.
"""

from __future__ import annotations

import multiprocessing
import signal
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import grain
import numpy as np
from absl import flags

from data.assemble import Assembler, Batch, Rows
from data.config import DataConfig
from data.dealing import Loads
from data.lengths import LengthTable, open_lengths
from data.packing import Capacity, make_capacity
from data.plan import (
    NO_CONSUMER,
    Consumer,
    LoaderState,
    Planner,
    Skip,
    StepPlan,
    runs_of_plan,
    used_lengths,
)
from data.processor import Processor
from data.sample import DataError
from data.sources import Source


@dataclass(frozen=True)
class StepStats:
    """The global step, the same on all hosts.

    samples: placed; used, capacity: positions per modality ("tokens" and each encoder);
    lengths: segment lengths per tower ("decoder" and each encoder), int64 arrays; loads: forward
    FLOPs of every row per tower, as packed and as balanced; dearest: per tower, the work of the
    dearest item, the name of its sample and its row; crossing: per encoder, outputs that go to
    another host; seconds: that planning took.
    """

    samples: int
    used: dict[str, int]
    capacity: dict[str, int]
    lengths: dict[str, np.ndarray]
    loads: Mapping[str, Loads]
    dearest: Mapping[str, tuple[float, str, int]]
    crossing: Mapping[str, int]
    seconds: float

    @property
    def padding(self) -> dict[str, float]:
        """Share of unused positions per modality."""
        return {name: 1 - self.used[name] / self.capacity[name] for name in self.capacity}


@dataclass(frozen=True)
class Step:
    """What the training loop takes: see `data.assemble` for the batch.

    skipped: samples found unusable in making this step (at planning: reported by every host; at
    reading: by the hosts that read them); state: continues after this step.
    """

    batch: Batch
    stats: StepStats
    skipped: tuple[Skip, ...]
    state: LoaderState


class _PlanIterator(grain.DatasetIterator):
    """Steps `offset`, `offset + stride`, ... of a planner."""

    def __init__(self, planner: Planner, offset: int, stride: int) -> None:
        super().__init__()
        self._planner, self._ahead, self._stride = planner, offset, stride

    def __next__(self) -> StepPlan:
        for _ in range(self._ahead):
            self._planner.plan()
        self._ahead = self._stride - 1
        return self._planner.plan()

    def get_state(self) -> dict[str, Any]:
        """Only Grain's own prefetching asks; resuming goes through `LoaderState`."""
        return {"step": self._planner.state.step}

    def set_state(self, state: dict[str, Any]) -> None:
        """Refused: a new `Loader(state=...)` is how to go elsewhere."""
        if state != self.get_state():
            raise ValueError("a loader does not seek; make a new one with `state`")


class _StepPlans(grain.IterDataset):
    """The stream of plans; Grain's workers slice it by `set_slice`."""

    def __init__(
        self,
        source: Source,
        lengths: LengthTable,
        config: DataConfig,
        capacity: Capacity,
        state: LoaderState,
        consumer: Consumer,
    ) -> None:
        super().__init__()
        self._arguments = (source, lengths, config, capacity, state, consumer)
        self._offset, self._stride = 0, 1

    def set_slice(self, sl: slice, sequential_slice: bool = False) -> None:
        """Keep only steps start, start + step, ... (called by Grain inside a worker)."""
        if sequential_slice or sl.stop is not None:
            raise ValueError(f"an endless stream cannot be cut into {sl}")
        self._offset, self._stride = sl.start, sl.step

    def __iter__(self) -> _PlanIterator:
        _leave_interrupts_to_the_parent()
        return _PlanIterator(Planner(*self._arguments), self._offset, self._stride)


def _leave_interrupts_to_the_parent() -> None:
    """Ignore SIGINT in a worker process; nothing else, in any other.

    Ctrl-C reaches the parent and its workers at once. The parent may want to finish its step and
    to save, for which it needs batches; when it closes the loader, its workers end.
    """
    worker = multiprocessing.parent_process() is not None
    if worker and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)


class _Assemble:
    """The map of the pipeline: a plan to a step."""

    def __init__(self, assembler: Assembler, config: DataConfig) -> None:
        self._assembler, self._config = assembler, config

    def __call__(self, plan: StepPlan) -> dict[str, Any]:
        # A dict and not a Step: Grain moves arrays through shared memory only if it sees them.
        batch, bad = self._assembler(plan.placements, plan.capacity)
        if self._config.balance == "per_phase":
            batch["runs"] = runs_of_plan(plan.placements, plan.capacity.modalities)
        stats = step_stats(plan, self._config.rows)
        return {"batch": batch, "rest": _Rest(stats, plan.skipped + bad, plan.state)}


@dataclass(frozen=True)
class _Rest:
    stats: StepStats
    skipped: tuple[Skip, ...]
    state: LoaderState


def step_stats(plan: StepPlan, rows: int) -> StepStats:
    """Statistics of the global step of `rows` rows from its plan."""
    lengths = used_lengths(plan.placements, plan.capacity.modalities)
    used = {("tokens" if k == "decoder" else k): int(v.sum()) for k, v in lengths.items()}
    total = {name: rows * plan.capacity.limit(name) for name in used}
    return StepStats(
        len(plan.placements),
        used,
        total,
        lengths,
        plan.loads,
        plan.dearest,
        plan.crossing,
        plan.seconds,
    )


class Loader(Iterator[Step]):
    """Endless, resumable iterator over training steps; close it (or use `with`).

    rows: the global rows that this process needs of each tower, e.g. {"decoder": [0, 1],
    "vision": [0, 1]}; arrays hold just these, in this order. state: continue from there. consumer:
    what the batches are for. lengths: of the samples; by default those kept beside the data.

    With `data.balance: per_phase` batches list `runs`: by encoder, which outputs land where, of all
    rows of the step (`data.plan.runs_of_plan`).

    Raises:
        DataError: budgets that do not fit the encoders, an unusable source, a state of another
            seed. ValueError: impossible `rows`. SampleError (from `next`): a bad sample, with
            `data.on_error: raise`.
    """

    def __init__(
        self,
        source: Source,
        processor: Processor,
        config: DataConfig,
        seed: int,
        rows: Rows,
        state: LoaderState | None = None,
        consumer: Consumer = NO_CONSUMER,
        lengths: LengthTable | None = None,
    ) -> None:
        state = state or LoaderState(seed)
        if state.seed != seed:
            raise DataError(f"the saved loader state has seed {state.seed}, the run {seed}")
        if not len(source):
            raise DataError("the data source is empty")
        capacity = make_capacity(config.budgets, tuple(processor.modalities.values()))
        assembler = Assembler(source, processor, config, rows, config.balance == "per_phase")
        lengths = lengths or open_lengths(source, processor, config)
        plans = _StepPlans(source, lengths, config, capacity, state, consumer)
        steps = plans.map(_Assemble(assembler, config))
        self._workers = config.workers
        prefetched = _prefetched(steps, config.workers, config.prefetch)
        self._iterator: Any = prefetched.__iter__()

    def __next__(self) -> Step:
        element = next(self._iterator)
        batch, rest = element["batch"], element["rest"]
        if self._workers:
            # Grain unmaps shared memory with its array; what JAX may alias must not live there.
            batch = _copied(batch)
        return Step(batch, rest.stats, rest.skipped, rest.state)

    def close(self) -> None:
        """Stop workers and threads; idempotent. After it, `next` raises StopIteration."""
        close = getattr(self._iterator, "close", None)
        if close is not None:
            close()
        # Grain's iterators close again in __del__, which must not wait for the interpreter's end.
        self._iterator = iter(())

    def __enter__(self) -> Loader:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _prefetched(steps: grain.IterDataset, workers: int, ahead: int) -> grain.IterDataset:
    if workers:
        # Grain's worker processes read absl flags, which nobody parses in this program.
        if not flags.FLAGS.is_parsed():
            flags.FLAGS.mark_as_parsed()
        options = grain.MultiprocessingOptions(num_workers=workers, per_worker_buffer_size=ahead)
        return steps.mp_prefetch(options)
    return grain.experimental.ThreadPrefetchIterDataset(steps, prefetch_buffer_size=ahead)


def _copied(batch: Batch) -> Batch:
    return {k: _copied(v) if isinstance(v, dict) else np.array(v) for k, v in batch.items()}

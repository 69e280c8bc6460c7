"""Benchmark of placing a step's encoder work, as hosts do in every step that follows its load."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from statistics import median

import numpy as np

from data.planning.independent_microbatches import Ints, plan_independent_microbatches
from mllm_jax.config.configured_step import lower
from mllm_jax.config.load import ExperimentConfig
from scheduling.costs.strategy import Strategy
from scheduling.lowering.bounds import ScheduleBounds
from scheduling.lowering.lower import lower_schedule
from scheduling.schedules.tasks import Consumers
from scheduling.search.scheduler import StepScheduler, cut_encoders, make_schedule
from sharding.plan import ParallelPlan

#: Stages and microbatches.
CASES = ((8, 64), (16, 512))
#: Shares of the full load of the encoders.
LOADS = (0.1, 0.5, 0.9)
#: Steps of each load, of unlike lengths.
STEPS = 5
#: Shortest and longest medium, as parts of a row of the encoder.
SPANS = (1 / 64, 1 / 8)


def bench_placing(
    config: ExperimentConfig, tell: Callable[[str], None] = lambda text: None
) -> list[dict[str, float]]:
    """Place the encoders' work of steps of unlike loads, on the host alone.

    The model is that of `config`, its decoder in other numbers of stages and microbatches.

    Returns:
        For every size and load medians of `STEPS` steps, in CPU seconds of one core:
        `units_seconds` for the encoders' own microbatches, from lengths, `place_seconds` for
        schedules, `tables_seconds` for slots and rows, and `seconds` for all three, with
        `worst_seconds` of all steps. `media` is the number of media of a step. A schedule that does
        not fit the slots of the full load is followed by another one, which needs fewer: `attempts`
        is their number in the mean, and `fits` the share of the steps of which one fits.
    """
    rows = []
    for stages, microbatches in CASES:
        follow, bounds = _follower(config, stages, microbatches)
        for load in LOADS:
            tell(f"{stages} stages, {microbatches} microbatches, {load:.0%} of the full load")
            found = [_placed(follow, bounds, load, seed) for seed in range(STEPS)]
            whole = [own.units + own.place + own.tables for own in found]
            rows.append(
                {
                    "stages": stages,
                    "microbatches": microbatches,
                    "encoders": len(follow.workload.encoders),
                    "load": load,
                    "media": median(own.media for own in found),
                    "units_seconds": median(own.units for own in found),
                    "place_seconds": median(own.place for own in found),
                    "tables_seconds": median(own.tables for own in found),
                    "seconds": median(whole),
                    "worst_seconds": max(whole),
                    "attempts": float(np.mean([own.attempts for own in found])),
                    "fits": float(np.mean([own.fits for own in found])),
                }
            )
    return rows


def _follower(
    config: ExperimentConfig, stages: int, microbatches: int
) -> tuple[StepScheduler, ScheduleBounds]:
    """What places steps of these sizes, and the bounds of the full load."""
    own = lower(config)
    plans = dict.fromkeys(own.strategy.plans, ParallelPlan(data=stages))
    plans["decoder"] = ParallelPlan(stage=stages)
    whole = replace(own.strategy, plans=plans, microbatches=microbatches, chunks=1, pieces={})
    whole = replace(whole, placement="bubbles", work_ahead=False)
    workload = replace(own.workload, rows=microbatches * stages)
    strategy: Strategy = cut_encoders(workload, whole, own.times)
    standing = lower_schedule(
        make_schedule(workload, strategy, own.times, thorough=False),
        strategy.remat,
        strategy.remats,
    )
    return StepScheduler(
        workload, strategy, own.times
    ), ScheduleBounds.for_independent_microbatches(standing, single_tasks=True)


@dataclass
class _Step:
    """A step that is placed.

    Attributes:
        media: number of its media.
        units, place, tables: CPU seconds of its units, of its schedules, and of their tables.
        attempts: number of schedules.
        fits: whether the last one fits what is compiled.
    """

    media: int
    units: float = 0.0
    place: float = 0.0
    tables: float = 0.0
    attempts: int = 0
    fits: bool = False


def _placed(follow: StepScheduler, bounds: ScheduleBounds, load: float, seed: int) -> _Step:
    """Place a step, as `in_units` and `PipelineProgram` do beside the devices."""
    rng, count = np.random.default_rng(seed), follow.strategy.microbatches
    rows = follow.workload.rows // count
    media = {
        name: [media_of(rng, rows, follow.positions[name], load) for _ in range(count)]
        for name in bounds.encoders
    }
    step = _Step(sum(len(own) for batches in media.values() for own in batches))
    for together in (False, True):
        began = time.process_time()
        feeds = {
            name: plan_independent_microbatches(
                own, rows, follow.positions[name], together=together
            ).feeds
            for name, own in media.items()
        }
        step.units += time.process_time() - began
        if _fits(follow, bounds, feeds, step):
            break
    return step


def _fits(
    follow: StepScheduler, bounds: ScheduleBounds, feeds: Mapping[str, Consumers], step: _Step
) -> bool:
    """Try the follower's ways until one fits, and add what that takes to `step`."""
    remats = {name: own.remat for name, own in bounds.encoders.items()}
    if any(len(own) > follow.strategy.microbatches for own in feeds.values()):
        return False
    for way in follow.placement_limits():
        began = time.process_time()
        schedule = follow(feeds, way)
        placed = time.process_time()
        program = lower_schedule(schedule, bounds.remat, remats)
        step.fits = bounds.find_excess(program) is None
        if step.fits:
            bounds.instructions(program)
        step.place += placed - began
        step.tables += time.process_time() - placed
        step.attempts += 1
        if step.fits:
            return True
    return False


def media_of(rng: np.random.Generator, rows: int, positions: int, load: float) -> Ints:
    """Media of a microbatch, `[media, 5]` as of `data.planning.independent_microbatches`.

    Each row is filled to `load` of its positions, half more or half less, at most whole.
    """
    low, high = (max(1, int(part * positions)) for part in SPANS)
    found = []
    for row, share in enumerate(load * rng.uniform(0.5, 1.5, rows)):
        spans = rng.integers(low, high, positions // low, endpoint=True)
        ends = spans.cumsum()
        count = int(np.searchsorted(ends, min(share, 1.0) * positions, "right"))
        number = np.arange(1, count + 1)
        where = np.full(count, row), ends[:count] - spans[:count], spans[:count]
        found.append(np.column_stack([*where, number, np.ones_like(number)]))
    return np.concatenate(found).astype(np.int64)

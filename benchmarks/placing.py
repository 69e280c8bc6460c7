"""Benchmark of placing a step's encoder work, as hosts do in every step that follows its load."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from statistics import median

import numpy as np

from data.planning.independent_microbatches import Ints, plan_independent_microbatches
from mllm_jax.config.configured_step import configure_step
from mllm_jax.config.load import ExperimentConfig
from scheduling.costs.strategy import Strategy
from scheduling.lowering.bounds import ScheduleBounds
from scheduling.lowering.lower import lower_schedule
from scheduling.schedules.tasks import Consumers
from scheduling.search.scheduler import StepScheduler, choose_source_chunks, make_schedule
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
    config: ExperimentConfig, print_line: Callable[[str], None] = lambda text: None
) -> list[dict[str, float]]:
    """Place the encoders' work of steps of unlike loads, on the host alone.

    The model is that of `config`, its decoder in other numbers of stages and microbatches.

    Returns:
        For every size and load medians of `STEPS` steps, in CPU seconds of one core:
        `microbatches_seconds` for the independent microbatches, from lengths, `place_seconds` for
        schedules, `tables_seconds` for slots and rows, and `seconds` for all three, with
        `worst_seconds` of all steps. `media` is the number of media of a step. A schedule that does
        not fit the slots of the full load is followed by another one, which needs fewer: `attempts`
        is their number in the mean, and `fits` the share of the steps of which one fits.
    """
    rows = []
    for stages, microbatches in CASES:
        follow, bounds = _make_scheduler(config, stages, microbatches)
        for load in LOADS:
            print_line(f"{stages} stages, {microbatches} microbatches, {load:.0%} of the full load")
            steps = [_place_step(follow, bounds, load, seed) for seed in range(STEPS)]
            totals = [step.microbatches + step.place + step.tables for step in steps]
            rows.append(
                {
                    "stages": stages,
                    "microbatches": microbatches,
                    "encoders": len(follow.workload.sources),
                    "load": load,
                    "media": median(step.media for step in steps),
                    "microbatches_seconds": median(step.microbatches for step in steps),
                    "place_seconds": median(step.place for step in steps),
                    "tables_seconds": median(step.tables for step in steps),
                    "seconds": median(totals),
                    "worst_seconds": max(totals),
                    "attempts": float(np.mean([step.attempts for step in steps])),
                    "fits": float(np.mean([step.fits for step in steps])),
                }
            )
    return rows


def _make_scheduler(
    config: ExperimentConfig, stages: int, microbatches: int
) -> tuple[StepScheduler, ScheduleBounds]:
    """What places steps of these sizes, and the bounds of the full load."""
    configured = configure_step(config)
    plans = dict.fromkeys(configured.strategy.plans, ParallelPlan(data=stages))
    plans[config.model.backbone] = ParallelPlan(stage=stages)
    uncut = replace(configured.strategy, plans=plans, microbatches=microbatches, chunks={})
    uncut = replace(uncut, placement="bubbles", prefetch=False)
    workload = replace(configured.workload, rows=microbatches * stages)
    strategy: Strategy = choose_source_chunks(workload, uncut, configured.times)
    full_load = lower_schedule(
        make_schedule(workload, strategy, configured.times, thorough=False),
        strategy.remat,
        strategy.remats,
    )
    return StepScheduler(
        workload, strategy, configured.times
    ), ScheduleBounds.for_independent_microbatches(full_load, single_tasks=True)


@dataclass
class _Step:
    """A step that is placed.

    Attributes:
        media: number of its media.
        microbatches, place, tables: CPU seconds of its independent microbatches, of its
            schedules, and of their tables.
        attempts: number of schedules.
        fits: whether the last one fits what is compiled.
    """

    media: int
    microbatches: float = 0.0
    place: float = 0.0
    tables: float = 0.0
    attempts: int = 0
    fits: bool = False


def _place_step(follow: StepScheduler, bounds: ScheduleBounds, load: float, seed: int) -> _Step:
    """Place a step, as `place_independent_microbatches` does while the devices run."""
    rng, count = np.random.default_rng(seed), follow.strategy.microbatches
    rows = follow.workload.rows // count
    media = {
        name: [media_of(rng, rows, follow.positions[name], load) for _ in range(count)]
        for name in bounds.sources
    }
    step = _Step(
        sum(len(media_of_module) for batches in media.values() for media_of_module in batches)
    )
    for together in (False, True):
        began = time.process_time()
        feeds = {
            name: plan_independent_microbatches(
                media_of_module, rows, follow.positions[name], together=together
            ).feeds
            for name, media_of_module in media.items()
        }
        step.microbatches += time.process_time() - began
        if _try_limits(follow, bounds, feeds, step):
            break
    return step


def _try_limits(
    follow: StepScheduler, bounds: ScheduleBounds, feeds: Mapping[str, Consumers], step: _Step
) -> bool:
    """Try the follower's ways until one fits, and add what that takes to `step`."""
    remats = {name: module.remat for name, module in bounds.sources.items()}
    if any(len(consumers) > follow.strategy.microbatches for consumers in feeds.values()):
        return False
    for way in follow.placement_limits():
        began = time.process_time()
        schedule = follow(feeds, way)
        placed = time.process_time()
        program = lower_schedule(schedule, bounds.backbone.remat, remats)
        step.fits = bounds.find_excess(program) is None
        if step.fits:
            bounds.make_instructions(program)
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
    media = []
    for row, share in enumerate(load * rng.uniform(0.5, 1.5, rows)):
        spans = rng.integers(low, high, positions // low, endpoint=True)
        ends = spans.cumsum()
        count = int(np.searchsorted(ends, min(share, 1.0) * positions, "right"))
        number = np.arange(1, count + 1)
        where = np.full(count, row), ends[:count] - spans[:count], spans[:count]
        media.append(np.column_stack([*where, number, np.ones_like(number)]))
    return np.concatenate(media).astype(np.int64)

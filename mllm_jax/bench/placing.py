"""Benchmark of placing a step's encoder work, as hosts do in every step that follows its load."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from statistics import median

import numpy as np

from mllm_jax.config.load import ExperimentConfig
from mllm_jax.config.lower import lower
from scheduling.costs.strategy import Strategy
from scheduling.programs.compile import compile_program
from scheduling.programs.frame import Frame
from scheduling.schedules.tasks import Feeds
from scheduling.search.make import Follower, cut_encoders, make_schedule
from sharding.plan import ParallelPlan

#: Stages and microbatches.
CASES = ((8, 64), (16, 512))
#: Shares of the full load of the encoders.
LOADS = (0.1, 0.5, 0.9)
#: Steps of each load, of unlike lengths.
STEPS = 5


def bench_placing(
    config: ExperimentConfig, tell: Callable[[str], None] = lambda text: None
) -> list[dict[str, float]]:
    """Place the encoders' work of steps of unlike loads, on the host alone.

    The model is that of `config`, its decoder in other numbers of stages and microbatches.

    Returns:
        For every size and load medians of `STEPS` steps, in CPU seconds of one core:
        `place_seconds` for schedules, `tables_seconds` for slots and rows, and `seconds` for both,
        with `worst_seconds` of all steps. A schedule that does not fit the slots of the full load
        is followed by another one, which needs fewer: `attempts` is their number in the mean, and
        `fits` the share of the steps of which one fits.
    """
    rows = []
    for stages, microbatches in CASES:
        follow, frame = _follower(config, stages, microbatches)
        for load in LOADS:
            tell(f"{stages} stages, {microbatches} microbatches, {load:.0%} of the full load")
            found = [_placed(follow, frame, load, seed) for seed in range(STEPS)]
            place, tables, attempts, fits = (list(part) for part in zip(*found, strict=True))
            whole = [a + b for a, b in zip(place, tables, strict=True)]
            rows.append(
                {
                    "stages": stages,
                    "microbatches": microbatches,
                    "encoders": len(follow.workload.encoders),
                    "load": load,
                    "place_seconds": median(place),
                    "tables_seconds": median(tables),
                    "seconds": median(whole),
                    "worst_seconds": max(whole),
                    "attempts": float(np.mean(attempts)),
                    "fits": float(np.mean(fits)),
                }
            )
    return rows


def _follower(config: ExperimentConfig, stages: int, microbatches: int) -> tuple[Follower, Frame]:
    """What places steps of these sizes, and the frame of the full load."""
    own = lower(config)
    plans = dict.fromkeys(own.strategy.plans, ParallelPlan(data=stages))
    plans["decoder"] = ParallelPlan(stage=stages)
    whole = replace(own.strategy, plans=plans, microbatches=microbatches, chunks=1, pieces={})
    whole = replace(whole, placement="bubbles", work_ahead=False)
    workload = replace(own.workload, rows=microbatches * stages)
    strategy: Strategy = cut_encoders(workload, whole, own.times)
    standing = compile_program(
        make_schedule(workload, strategy, own.times, thorough=False),
        strategy.remat,
        strategy.remats,
    )
    return Follower(workload, strategy, own.times), Frame.following(standing, apart=True)


def _placed(
    follow: Follower, frame: Frame, load: float, seed: int
) -> tuple[float, float, int, bool]:
    """Seconds of placing a step, and of its tables; its schedules, and whether the last one fits.

    See `PipelineProgram`, which does the same beside the devices.
    """
    rng = np.random.default_rng(seed)
    count = follow.strategy.microbatches
    feeds = {name: feeds_of(load * rng.uniform(0.5, 1.5, count)) for name in frame.encoders}
    remats = {name: own.remat for name, own in frame.encoders.items()}
    place, tables, fits = [], [], False
    for way in follow.ways():
        began = time.process_time()
        schedule = follow(feeds, way)
        placed = time.process_time()
        program = compile_program(schedule, frame.remat, remats)
        if fits := frame.excess(program) is None:
            frame.rows(program)
        place.append(placed - began)
        tables.append(time.process_time() - placed)
        if fits:
            break
    return sum(place), sum(tables), len(place), fits


def feeds_of(loads: np.ndarray) -> Feeds:
    """What an encoder's microbatches feed if each decoder microbatch brings media for `loads`.

    Args:
        loads: `[microbatches]`, in microbatches of the encoder; at most 1 counts of each.
    """
    filled = np.cumsum(np.minimum(loads, 1.0))
    begins, units = np.concatenate([[0.0], filled[:-1]]), int(np.ceil(filled[-1] - 1e-9))
    return tuple(
        (
            int(np.flatnonzero(filled > unit + 1e-9)[0]),
            int(np.flatnonzero(begins < unit + 1 - 1e-9)[-1]),
        )
        for unit in range(units)
    )

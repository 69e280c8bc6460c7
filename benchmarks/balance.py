"""Benchmark of balancing: how even every phase is over the ranks, how long planning takes."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence

import numpy as np

from benchmarks.pipeline import PrintLine, Row
from data.planning.balance import assign_items
from data.planning.problem import BalanceProblem, Ints
from data.sources.distributions import SampleShape, draw_lengths
from mllm_jax.config.load import ExperimentConfig
from mllm_jax.models.work.flops import module_works

#: Ranks and samples of each, unless others are asked for.
SETTINGS: tuple[tuple[int, int], ...] = ((320, 8), (320, 25), (2560, 8))
REPETITIONS = 5


def bench_balance(
    config: ExperimentConfig,
    print_line: PrintLine,
    ranks: int | None = None,
    samples: int | None = None,
    distribution: str = "web",
) -> list[Row]:
    """The heaviest rank over the mean, by phase, before and after balancing.

    `before` has the samples as they come, as many on every rank. `bound` is what no assignment can
    be below: the mean, or the most expensive item. `seconds` is the median time of assigning the
    items of one phase; a whole plan, which also packs and lays out, takes longer (`docs/log`).

    Args:
        config: configuration whose model gives the cost of a sample in every phase.
        print_line: prints a line of progress.
        ranks, samples: ranks, and samples on each.
        distribution: distribution of the lengths, see `data.sources.distributions.draw_lengths`.
    """
    chosen = SETTINGS
    if ranks or samples:
        chosen = ((ranks or SETTINGS[0][0], samples or SETTINGS[0][1]),)
    rows: list[Row] = []
    for count, each in chosen:
        print_line(f"{count} ranks with {each} samples each")
        drawn = draw_lengths(distribution, count * each, seed=0)
        owners = np.arange(count * each) // each
        rows += [
            {"phase": phase, "ranks": count, "samples": each, **_measure_phase(problem, first)}
            for phase, problem, first in _list_phases(config, drawn, owners, count)
        ]
    return rows


def _list_phases(
    config: ExperimentConfig, drawn: Sequence[SampleShape], owners: Ints, ranks: int
) -> list[tuple[str, BalanceProblem, Ints]]:
    """The problem of every phase, and the ranks of its items as they come."""
    phases = []
    backbone = config.model.backbone
    for name, work in module_works(config.model).items():
        items = [
            (n, owner)
            for lengths, owner in zip(drawn, owners.tolist(), strict=True)
            for n in ([lengths.tokens] if name == backbone else lengths.media.get(name, ()))
        ]
        lengths, first = np.array(items, np.int64).reshape(-1, 2).T
        phases.append((name, BalanceProblem(lengths, ranks, work), first))
    return phases


def _measure_phase(problem: BalanceProblem, first: Ints) -> Row:
    seconds = []
    for _ in range(REPETITIONS):
        begin = time.perf_counter()
        rank = assign_items(BalanceProblem(problem.lengths, problem.ranks, problem.work))
        seconds.append(time.perf_counter() - begin)
    mean = max(problem.costs.sum() / problem.ranks, 1)
    return {
        "before": float(problem.loads(first).max() / mean),
        "after": float(problem.loads(rank).max() / mean),
        "bound": problem.bound / mean,
        "seconds": statistics.median(seconds),
    }

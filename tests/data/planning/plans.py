"""Plans of drawn samples, which `plans.json` keeps: which row of which phase every item lies in.

Hosts plan by themselves, and a resumed run plans again what another version may have planned: the
same samples must be assigned alike, to the last item. After a change of an algorithm that is
meant::

    python -m tests.data.planning.plans

writes them anew, and the change of the file shows which have moved.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np

from data.config import Balance
from data.planning.balance import contiguous, lpt, refine
from data.planning.bucket_thresholds import bucket_seconds, choose_thresholds
from data.planning.independent_microbatches import count_independent_microbatches
from data.planning.packing import Capacity, in_few_rows, make_capacity
from data.planning.problem import BalanceProblem
from data.planning.steps import StepPacker
from data.rows.spec import BucketCost, LengthBucket
from data.sample import Lengths
from tests.data.samples import AUDIO, CAPACITY, TEXT, VISION, WORK, assign_samples, make_lengths

FILE = Path(__file__).with_name("plans.json")
COUNT = 30


def samples(draw: np.random.Generator) -> list[Lengths]:
    """Samples with up to two images and clips, whose outputs begin the text."""
    made = []
    for _ in range(int(draw.integers(5, 30))):
        vision = draw.integers(1, 40, draw.integers(0, 3)).tolist()
        audio = (8 * draw.integers(1, 20, draw.integers(0, 3))).tolist()
        media = {"vision": tuple(vision), "audio": tuple(audio)}
        starts = {name: tuple(range(1, 1 + len(own))) for name, own in media.items()}
        made.append(make_lengths(int(draw.integers(20, 150)), media, starts))
    return made


def plans(seed: int) -> dict[str, Any]:
    """The plans of the samples of a seed, by what makes them."""
    draw = np.random.default_rng(seed)
    every, rows = samples(draw), int(draw.integers(2, 6))
    found: dict[str, Any] = {}
    for balance in get_args(Balance):
        hosts = {name: [row % 2 for row in range(rows)] for name in WORK}
        here, assigned = assign_samples(every, balance, rows, hosts=hosts)
        found[f"assigned {balance}"] = [
            here,
            list(assigned.rows),
            [[list(own.get(name, ())) for name in ("vision", "audio")] for own in assigned.media],
            {
                name: [own.after.tolist(), list(own.most_expensive)]
                for name, own in assigned.loads.items()
            },
            dict(assigned.crossing),
            dict(assigned.limits),
        ]
    return found | _balanced(draw) | _steps(every, rows) | _cuts(draw, every) | _units(draw)


def _balanced(draw: np.random.Generator) -> dict[str, Any]:
    """Items over ranks, with and without limits."""
    found: dict[str, list[Any]] = {}
    lengths, ranks = draw.integers(1, 200, draw.integers(3, 40)), int(draw.integers(2, 7))
    needs = np.stack([lengths, np.ones_like(lengths)], 1)
    limits = (int(1.5 * lengths.sum() / ranks) + 200, len(lengths) // ranks + 3)
    for kind in ("packed", "padded"):
        for given, at_most in ((needs[:, :0], ()), (needs, limits)):
            problem = BalanceProblem(lengths, ranks, WORK["vision"], kind, given, at_most)
            assigned = [lpt(problem), contiguous(problem)]
            if assigned[1].min() >= 0:
                assigned.append(refine(problem, assigned[1]))
            name = f"{kind}, {len(at_most)} limits"
            found[name] = [[own.tolist(), problem.loads(own).tolist()] for own in assigned]
            found[name].append(problem.bound)
    return found


def _steps(every: list[Lengths], rows: int) -> dict[str, Any]:
    """Steps of two microbatches, by rows and by numbers of samples."""
    found = {}
    for apart, evenly in ((False, False), (True, False), (False, True), (True, True)):
        packer = StepPacker(CAPACITY, rows, 2, apart, evenly)
        packed = packer(every)
        here = packed.select_samples(packed.placed_samples)
        parts = packer.split_step([every[i] for i in packed.placed_samples], here, WORK)
        found[f"step {apart} {evenly}"] = [packed.placed_samples, [list(own) for own, _ in parts]]
    return found


def _cuts(draw: np.random.Generator, every: list[Lengths]) -> dict[str, Any]:
    """Where the buckets of an encoder are cut."""
    found = {}
    for row, by_segment in ((0, False), (40, False), (40, True)):
        costs = [
            BucketCost(
                groups=int(draw.integers(1, 5)),
                fixed=float(draw.integers(0, 4)),
                linear=float(draw.integers(1, 4)) / 2,
                quadratic=float(draw.integers(0, 9)) / 100,
                row=row,
                by_segment=by_segment,
            )
            for _ in range(2)
        ]
        capacity = _with_buckets(*costs)
        cut = choose_thresholds([capacity.by_bucket(own) for own in every], capacity, 4)
        lengths = np.sort([n for own in every for n in own.counts("vision")]).astype(np.int64)
        found[f"cut {row} {by_segment}"] = [
            [[m.bucket.above, m.bucket.up_to] for m in cut.specs if m.bucket],
            [bucket_seconds(lengths, cost) for cost in costs],
        ]
    return found


def _with_buckets(short: BucketCost, long: BucketCost) -> Capacity:
    buckets = (
        replace(VISION, name="short", bucket=LengthBucket("vision", 0, 24, short)),
        replace(VISION, name="long", bucket=LengthBucket("vision", 24, None, long)),
        AUDIO,
    )
    budgets = {"tokens": 400, "segments": 90, "short": 600, "long": 600, "audio": 640}
    return make_capacity(budgets, (TEXT, *buckets))


def _units(draw: np.random.Generator) -> dict[str, Any]:
    spans = 2 * draw.integers(1, 20, draw.integers(1, 20))
    return {
        "few rows": in_few_rows(spans.astype(np.int64), 48, 5).tolist(),
        "units": [
            count_independent_microbatches(480, positions, 36, 4, spread)
            for positions, spread in UNITS
        ],
    }


#: Positions of an encoder's own microbatch, and its rows for one of the decoder's.
UNITS = [(40, 1), (48, 1), (96, 2), (480, 1)]


def main() -> None:
    """Write the plans of all seeds."""
    lines = ",\n".join(json.dumps(plans(seed)) for seed in range(COUNT))
    FILE.write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()

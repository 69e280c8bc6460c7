"""Loads of encoders that move from step to step, while the decoder's rows stay full.

A load is a number of input positions for each encoder: what one row of a decoder's microbatch
brings, of uneven rows in the mean. Every position costs what it costs in the rows of the workload.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil

import numpy as np

from scheduling.costs.workload import Workload
from scheduling.schedules.tasks import Consumers

#: Input positions that a row of a decoder's microbatch brings, by encoder.
Load = Mapping[str, int]


@dataclass(frozen=True, eq=False)
class UnevenLoads:
    """Rows of the decoder that bring unequal work to the encoders, in one or several steps.

    Attributes:
        shares: by encoder, `[steps, rows]`: the work of every row over that of a row of the
            workload. Rows are in the order of microbatches, and in a microbatch in that of the
            decoder's replicas.
    """

    shares: Mapping[str, np.ndarray]

    @property
    def steps(self) -> int:
        """Number of steps."""
        return len(next(iter(self.shares.values())))

    def work_of(self, microbatches: int, replicas: int) -> dict[str, np.ndarray]:
        """By encoder, `[microbatches, steps, replicas]`: work of a microbatch of each replica.

        Args:
            microbatches: number of microbatches of a step.
            replicas: replicas of the decoder, which have equally many of the rows.
        """
        return {
            name: factors.reshape(len(factors), microbatches, replicas, -1).mean(-1).swapaxes(0, 1)
            for name, factors in self.shares.items()
        }


def workload_of_load(workload: Workload, load: Load) -> Workload:
    """The workload whose encoders have the decoder's microbatches, with rows of a load.

    Attention costs as much for a position as in the rows of `workload`, and so do all other parts.

    Raises:
        ValueError: an encoder has no load, or none at all.
    """
    short = [name for name in workload.sources if load.get(name, 0) < 1]
    if short:
        raise ValueError(f"no load for {', '.join(short)}; valid: 1 position of a row or more")
    ratio = {name: load[name] / workload.positions[name] for name in workload.sources}
    pairs = {name: workload.pairs.get(name, 1.0) / factor for name, factor in ratio.items()}
    near = {
        name: tuple(share / ratio.get(name, 1.0) for share in shares)
        for name, shares in workload.near_pairs.items()
    }
    residuals = {
        split: size * ratio.get(split.module, 1.0)
        for split, size in workload.residual_bytes.items()
    }
    positions = {name: load.get(name, factor) for name, factor in workload.positions.items()}
    return replace(
        workload,
        positions=positions,
        pairs={**workload.pairs, **pairs},
        near_pairs=near,
        residual_bytes=residuals,
        microbatch_counts={},
        spread={},
        adaptive=False,
    )


def even_feeds(load: int, positions: int, microbatches: int) -> Consumers:
    """What independent microbatches of an encoder feed if all of the decoder's bring the same.

    >>> even_feeds(load=3, positions=4, microbatches=4)
    ((0, 1), (1, 2), (2, 3))

    Args:
        load: positions that a row of each of the decoder's brings.
        positions: positions of the encoder, in all its rows for a row of the decoder's.
        microbatches: number of the decoder's.
    """
    count = ceil(microbatches * load / positions)
    ends = [min(n * positions, microbatches * load) for n in range(count + 1)]
    return tuple((start // load, (end - 1) // load) for start, end in pairwise(ends))

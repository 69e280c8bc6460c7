"""Which microbatch of a step every sample goes to, where a step has so many samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from data.problem import RESOLUTION, Ints, Work
from data.sample import Lengths


def spread_over_time(
    samples: Sequence[Lengths], microbatches: int, work: Mapping[str, Work]
) -> Ints:
    """Microbatch of every sample, so that no phase of any of them is longer than need be.

    Dearest first, each sample goes where the phase that is then the heaviest is lightest. Phases
    are counted in shares of their work in the whole step, as how long they take is not known here.

    Args:
        samples: of a step.
        microbatches: over which to deal them.
        work: by phase; of none, the samples are dealt as they come.

    Returns:
        `[samples]`.
    """
    if microbatches == 1 or not work:
        return np.array(in_turn(len(samples), microbatches), np.int64)
    costs = np.array([[_work_of(s, name, own) for name, own in work.items()] for s in samples])
    # Whole numbers, of which every host finds the same sums.
    whole = np.rint(costs / np.maximum(costs.max(0), 1) * RESOLUTION).astype(np.int64)
    shares = whole * RESOLUTION // np.maximum(whole.sum(0), 1)
    loads = np.zeros((microbatches, len(work)), np.int64)
    chosen = np.zeros(len(samples), np.int64)
    for i in np.argsort(-shares.max(1), kind="stable"):
        chosen[i] = (loads + shares[i]).max(1).argmin()
        loads[chosen[i]] += shares[i]
    return chosen


def _work_of(sample: Lengths, phase: str, work: Work) -> float:
    """Forward FLOPs of a sample in one phase."""
    own = [sample.tokens] if phase == "decoder" else sample.media.get(phase, ())
    return sum(work.linear * n + work.quadratic * n * n for n in own)


def in_turn(count: int, rows: int) -> list[int]:
    """Rows, or microbatches, of `count` samples, as many in each, in their order."""
    return [i * rows // count for i in range(count)]

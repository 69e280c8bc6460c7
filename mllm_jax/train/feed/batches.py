"""The batches of the steps: read from the loader, placed on the devices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax

from data.batch import DECODER
from data.loading.assemble import leave_out
from data.loading.loader import Microbatch, MicrobatchLoader
from mllm_jax.runtime.part import peers
from mllm_jax.train.experiment import Experiment
from mllm_jax.train.feed.groups import among_groups
from mllm_jax.train.step.batch import PlacedBatch, local_rows, place, place_batch


def microbatches(
    experiment: Experiment, loader: MicrobatchLoader, steps: int
) -> Iterator[tuple[list[Microbatch], list[Microbatch] | None]]:
    """The microbatches of `steps` steps, with those of the next step if this one works ahead."""

    def read() -> list[Microbatch]:
        return [next(loader) for _ in range(experiment.config.train.accumulate)]

    following: list[Microbatch] | None = None
    for left in range(steps - 1, -1, -1):
        own = following or read()
        following = read() if experiment.step.program.ahead and left else None
        yield own, following


def batch_of(
    experiment: Experiment,
    state: Any,
    microbatches: list[Microbatch],
    following: list[Microbatch] | None,
    carried: Mapping[str, jax.Array] | None,
) -> PlacedBatch:
    """The batch of a step on the devices.

    Args:
        carried: outputs of the step before for this one.
    """
    own = [m.batch for m in microbatches]
    step = experiment.step
    # After the last step there is none: its work ahead is thrown away.
    among = among_groups(microbatches[0].stats.group)
    ahead = None if following is None else [m.batch for m in following]
    placed = place_batch(own, step, ahead, among=among)
    if carried is None and step.program.ahead:
        carried = step.primed(state["params"], place(own, step, among=among)).carried
    return placed._replace(batch=placed.batch.with_carried(carried or {}))


def leave_out_everywhere(experiment: Experiment, microbatches: Sequence[Microbatch]) -> None:
    """Leave out the texts of samples of which another process could not read a medium.

    With media in rows of their own, the process that reads a medium may hold another one's text.
    """
    data = experiment.config.data
    apart = (
        data.balance == "per_phase" and data.lengths == "cached" and experiment.config.model.lanes
    )
    if peers().count == 1 or not apart:
        return
    told = peers().gather("samples that cannot be read", [list(m.holes) for m in microbatches])
    rows = local_rows(experiment.step, data.rows)[DECODER]
    for number, own in enumerate(microbatches):
        bad = {position for process in told for position in process[number]}
        for placement in own.stats.placements:
            if placement.position in bad:
                leave_out(own.batch, rows, placement)

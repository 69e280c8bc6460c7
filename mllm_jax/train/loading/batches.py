"""The batches of the steps: read from the loader, placed on the devices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax

from data.loading.assemble import mask_sample
from data.loading.loader import Microbatch, MicrobatchLoader
from mllm_jax.runtime.run_peers import current_peers
from mllm_jax.train.experiment import Experiment
from mllm_jax.train.loading.groups import exchange_with_groups
from mllm_jax.train.step.batch_placement import (
    PlacedBatch,
    local_rows,
    place_batch,
    place_microbatches,
)


@dataclass(frozen=True)
class StepMicrobatches:
    """The microbatches that are read for a step.

    Attributes:
        microbatches: microbatches of the step, with the rows of this process.
        next_step: those of the step after it, for a step that prefetches outputs; None for the last
            step and for other steps.
    """

    microbatches: list[Microbatch]
    next_step: list[Microbatch] | None


def read_steps(
    experiment: Experiment, loader: MicrobatchLoader, steps: int
) -> Iterator[StepMicrobatches]:
    """Read the microbatches of so many steps."""

    def read() -> list[Microbatch]:
        return [next(loader) for _ in range(experiment.config.train.accumulate)]

    next_step: list[Microbatch] | None = None
    for left in range(steps - 1, -1, -1):
        microbatches = next_step or read()
        next_step = read() if experiment.step.program.prefetched_microbatches and left else None
        yield StepMicrobatches(microbatches, next_step)


def place_step(
    experiment: Experiment,
    state: Any,
    read: StepMicrobatches,
    carried: Mapping[str, jax.Array] | None,
) -> PlacedBatch:
    """Place the batch of a step on the devices.

    Args:
        carried: outputs of the step before for this one; None for the first step of a process.
    """
    step, batches = experiment.step, [m.batch for m in read.microbatches]
    exchange = exchange_with_groups(read.microbatches[0].stats.group)
    # After the last step there is none: its prefetched outputs are thrown away.
    next_batches = None if read.next_step is None else [m.batch for m in read.next_step]
    placed = place_batch(batches, step, next_batches, groups=exchange)
    if carried is None and step.program.prefetched_microbatches:
        carried = experiment.joint_step.prime_batch(
            state["params"], place_microbatches(batches, step, groups=exchange)
        ).carried
    return placed._replace(batch=placed.batch.with_carried(carried or {}))


def mask_missing_samples(experiment: Experiment, microbatches: Sequence[Microbatch]) -> None:
    """Mask the texts of samples of which another process could not read a medium.

    With media in separate rows, the process that reads a medium may hold another one's text.
    """
    config = experiment.config
    has_media_rows = config.data.balance == "per_phase" and config.model.buckets
    if current_peers().count == 1 or config.data.lengths != "cached" or not has_media_rows:
        return
    holes = current_peers().gather_values(
        "samples that cannot be read", [list(m.missing) for m in microbatches]
    )
    rows = local_rows(experiment.step, config.data.rows)[config.model.backbone]
    for number, microbatch in enumerate(microbatches):
        unreadable = {position for process in holes for position in process[number]}
        for placement in microbatch.stats.placements:
            if placement.position in unreadable:
                mask_sample(microbatch.batch, rows, placement)

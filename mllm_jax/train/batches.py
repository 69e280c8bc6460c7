"""The batches of the steps: read from the loader, placed on the devices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax

from data.loading.loader import Microbatch, MicrobatchLoader
from mllm_jax.train.experiment import Experiment
from mllm_jax.train.groups import among_groups
from mllm_jax.train.step.batch import counted, place


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
    carried: dict[str, jax.Array] | None,
) -> tuple[Any, dict[str, int]]:
    """The batch of a step on the devices, and by encoder how many own microbatches it runs.

    Args:
        carried: outputs of the step before for this one.
    """
    own = [m.batch for m in microbatches]
    step = experiment.step
    # After the last step there is none: its work ahead is thrown away.
    among = among_groups(microbatches[0].stats.group)
    batch, units = counted(own, step, following and [m.batch for m in following], among=among)
    if carried is None and step.program.ahead:
        carried = step.primed(state["params"], place(own, step, among=among))["carried"]
    return batch | {"carried": carried or {}}, units

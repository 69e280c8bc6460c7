"""The look for silent corruption as the training loop takes it."""

from __future__ import annotations

from typing import Any

from mllm_jax.runtime.folder import RunError
from mllm_jax.train.components.replicas.check import ReplicaCheck
from mllm_jax.train.events import Checked
from mllm_jax.train.phases import phase
from mllm_jax.train.step.gradient_program import Batch


class CorruptionError(RunError):
    """Replicas that have made other bits of the same rows."""


def checked(compare: ReplicaCheck, step: int, params: Any, batch: Batch) -> Checked:
    """Compare replicas before a step.

    Args:
        compare: compares the replicas of the step.
        params, batch: those of the step, before it is taken.

    Raises:
        CorruptionError: they differ.
    """
    with phase("check") as checking:
        found = compare(params, batch)
    if found:
        raise CorruptionError(
            f"step {step}: {found}. Take its machine out. What was trained since the look before "
            "(train.check_every) may be wrong: --from-step goes on from an earlier checkpoint"
        )
    return Checked(step, checking.seconds)

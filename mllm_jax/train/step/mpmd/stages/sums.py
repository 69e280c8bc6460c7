"""Sums of the gradients of one stage, over microbatches and then over its replicas."""

from __future__ import annotations

from typing import Any

from mllm_jax.train.step.mpmd.sums import GradientSums, OtherSums, Total


class StageSums(GradientSums):
    """Sums on the mesh of a stage; norms are of all stages, and follow on the mesh of the group."""

    @property
    def specs(self) -> Any:
        """Layouts of the gradients."""
        return self.gradient_specs

    @property
    def other_specs(self) -> Any:
        """Nothing is added to the gradients of a stage."""
        return OtherSums({})

    def sum_total(self, total: Total, others: OtherSums) -> Any:
        """The gradients of a step, inside a program of the stage."""
        del others
        return self.sum_replicas(total)

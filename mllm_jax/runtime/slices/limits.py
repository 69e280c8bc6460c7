"""The part of every GPU that each slice has: of its multiprocessors, and of its memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isclose

from mllm_jax.config.run import ParallelConfig
from mllm_jax.runtime.hardware.gpu_memory import VARIABLES
from scheduling.costs.hardware import GPU_SHARE

#: Settings of NCCL for several ranks on one GPU, unless the user has others: its multicast needs a
#: GPU for each rank, and the blocks of a rank that waits must leave room for the others.
NCCL_SETTINGS = {
    "NCCL_MULTI_RANK_GPU_ENABLE": "1",
    "NCCL_NVLS_ENABLE": "0",
    "NCCL_MAX_CTAS": "2",
}


@dataclass(frozen=True)
class SliceLimits:
    """Limits of the slices of every GPU.

    Attributes:
        names: names of the groups, a slice each.
        quotas: parts of the multiprocessors, which sum to one.
        memory: parts of the memory.
    """

    names: tuple[str, ...]
    quotas: tuple[float, ...]
    memory: tuple[float, ...]

    @classmethod
    def from_config(cls, parallel: ParallelConfig) -> SliceLimits | None:
        """The limits of a configuration; None for one without slices of GPUs."""
        groups = {name: group for name, group in parallel.groups.items() if group.share}
        if parallel.platform != "gpu" or not groups:
            return None
        quotas = tuple(group.share or 0.0 for group in groups.values())
        memory = tuple(group.memory or group.share or 0.0 for group in groups.values())
        return cls(tuple(groups), quotas, memory)

    @property
    def percentages(self) -> tuple[int, ...]:
        """Percentages of the threads of a GPU."""
        return tuple(round(100 * quota) for quota in self.quotas)

    def chunks_of(self, total: int) -> tuple[int, ...] | None:
        """Chunks of static partitions out of `total`; None if a quota is no number of chunks."""
        chunks = tuple(round(quota * total) for quota in self.quotas)
        pairs = zip(chunks, self.quotas, strict=True)
        fits = all(n and isclose(n, quota * total, abs_tol=1e-6) for n, quota in pairs)
        return chunks if fits else None

    def process_environment(self, number: int, environment: Mapping[str, str]) -> dict[str, str]:
        """Variables of the process of a slice for JAX and NCCL.

        Args:
            number: number of the slice.
            environment: variables of the user, which stay as they are.
        """
        settings = {name: environment.get(name, value) for name, value in NCCL_SETTINGS.items()}
        return settings | {VARIABLES[1]: f"{GPU_SHARE * self.memory[number]:.4g}"}

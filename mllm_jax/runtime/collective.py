"""What processes tell each other by collectives of JAX.

`Collective` is for processes that JAX has found by itself. They have no address at which process 0
could listen, so nobody watches them but JAX: a process that is lost ends the others by JAX's own
means (`heartbeat_timeout_seconds`, 100 s).
"""

from __future__ import annotations

import json
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

from mllm_jax.runtime.part import Peers


class Collective(Peers):
    """One of several processes of a TPU pod, of SLURM or of Open MPI."""

    def __init__(self) -> None:
        self.index, self.count = jax.process_index(), jax.process_count()

    def gather(self, name: str, value: Any) -> list[Any]:
        """As `Peers.gather`. The programs depend on nothing that processes may differ in."""
        del name
        text = np.frombuffer(json.dumps(value).encode(), np.uint8)
        sizes = _all(np.array([len(text)], np.int32))[:, 0]
        padded = np.zeros(sizes.max(), np.uint8)
        padded[: len(text)] = text
        told = _all(padded)
        return [json.loads(own[:size].tobytes()) for own, size in zip(told, sizes, strict=True)]


def everywhere(yes: bool) -> bool:
    """Whether `yes` holds on every process; all must ask at the same point of the program."""
    if jax.process_count() == 1:
        return yes
    return bool(np.all(multihost_utils.process_allgather(np.array(yes))))


def _all(own: np.ndarray) -> np.ndarray:
    """`[processes, n]` of every process's `[n]`."""
    return np.asarray(multihost_utils.process_allgather(own)).reshape(-1, len(own))

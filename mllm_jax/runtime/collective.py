"""Messages between processes by collectives of JAX.

`Collective` is for processes that JAX has found by itself. They have no address at which process 0
could listen, so nobody watches them but JAX: a process that is lost ends the others by JAX's own
means (`heartbeat_timeout_seconds`, 100 s), and one that is stuck by a deadline of whoever waits.
"""

from __future__ import annotations

import json
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

from mllm_jax.runtime.part import Peers, deadline, peers
from mllm_jax.runtime.watch import LIMITS, Limits


class Collective(Peers):
    """A process among several of a TPU pod, of SLURM or of Open MPI.

    Args:
        limits: `longest` is how long one waits for the others.
    """

    def __init__(self, limits: Limits = LIMITS) -> None:
        self.index, self.count = jax.process_index(), jax.process_count()
        self._limits = limits

    def gather(self, name: str, value: Any) -> list[Any]:
        """See `Peers.gather`; its programs are the same even on processes that differ."""
        with deadline(self._limits.longest, self._too_long(name)):
            text = np.frombuffer(json.dumps(value).encode(), np.uint8)
            sizes = _all(np.array([len(text)], np.int32))[:, 0]
            padded = np.zeros(sizes.max(), np.uint8)
            padded[: len(text)] = text
            told = _all(padded)
        return [json.loads(own[:size].tobytes()) for own, size in zip(told, sizes, strict=True)]

    def _too_long(self, name: str) -> str:
        """The message of a process that has waited for the others too long."""
        return (
            f"process {self.index} of {self.count} has waited {self._limits.longest} s "
            f"(run.phase_seconds) for the others ({name}): one of them is gone or stuck. JAX does "
            "not say which: see the last lines of each"
        )


def everywhere(what: str, yes: bool) -> bool:
    """Whether `yes` holds on every process; all must ask at the same point of the program.

    Args:
        what: is asked, for messages.
    """
    return all(peers().gather(what, yes))


def _all(own: np.ndarray) -> np.ndarray:
    """`[processes, n]` of every process's `[n]`."""
    return np.asarray(multihost_utils.process_allgather(own)).reshape(-1, len(own))

"""Messages between processes by collectives of JAX, for processes that JAX has discovered.

They have no address at which process 0 could listen. `join_discovered` lets process 0 choose one on
its machine, which a collective tells the others, and from then on they watch each other as others
do (`mllm_jax.runtime.peers`). Where the machines cannot reach that address, collectives are all
that they have (`CollectivePeers`), and nobody watches them but JAX: a process that is lost ends the
others by JAX (`heartbeat_timeout_seconds`, 100 s), and one that is stuck by a deadline
of whoever waits (`CollectivePeers.waiting`), which cannot name it.
"""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

from mllm_jax.runtime.backends.listening import outward_address
from mllm_jax.runtime.peers import join_peers
from mllm_jax.runtime.run_peers import (
    JoinError,
    PeerError,
    RunPeers,
    current_peers,
    exit_after,
    set_peers,
)
from mllm_jax.runtime.watch import LIMITS, WatchLimits
from mllm_jax.runtime.wire import HostAddress, hold_port

logger = logging.getLogger(__name__)


class CollectivePeers(RunPeers):
    """A process among several of a TPU pod, of SLURM or of Open MPI.

    Args:
        limits: `stalled` is how long one waits for others that should not be at anything long, and
            `longest` how long for others that may be.
    """

    def __init__(self, limits: WatchLimits = LIMITS) -> None:
        super().__init__()
        self.index, self.count = jax.process_index(), jax.process_count()
        self._limits = limits

    def gather_values(self, name: str, value: Any) -> list[Any]:
        """See `RunPeers.gather_values`; its programs are the same even on processes that differ."""
        with self.watching_wait(name, limited=False):
            text = np.frombuffer(json.dumps(value).encode(), np.uint8)
            sizes = _allgather_arrays(np.array([len(text)], np.int32))[:, 0]
            padded = np.zeros(sizes.max(), np.uint8)
            padded[: len(text)] = text
            texts = _allgather_arrays(padded)
        return [json.loads(text[:size].tobytes()) for text, size in zip(texts, sizes, strict=True)]

    @contextmanager
    def watching_collective(self, what: str) -> Iterator[None]:
        """See `RunPeers.watching_collective`."""
        with self.watching_wait(what, limited=False):
            yield

    @contextmanager
    def watching_wait(
        self, what: str, *, limited: bool = True, by_all: bool = True
    ) -> Iterator[None]:
        """See `RunPeers.watching_wait`; the message cannot name the process that is missing."""
        del by_all  # processes that do not hear each other count no waits
        key, seconds = "run.phase_seconds", self._limits.longest
        if limited:
            key, seconds = "run.stall_seconds", self._limits.stalled

        def why() -> str:
            return (
                f"process {self.index} of {self.count} has waited {seconds:g} s ({key}) for the "
                f"others ({what}), after: {self.activity.event}. One of them is gone or stuck; "
                "JAX does not say which: see the last lines of each"
            )

        with exit_after(seconds, why):
            yield


def join_discovered(limits: WatchLimits, seconds: float) -> None:
    """Let the processes that JAX has discovered take part in this run.

    Args:
        limits: limits beyond which another process counts as stuck.
        seconds: the longest time in which all must have reached process 0.
    """
    collective = CollectivePeers(limits)
    set_peers(collective)
    with collective.watching_wait("their machines"):
        hosts = collective.gather_values("their machines", socket.gethostname())
    listen_address = (
        choose_listen_address(alone=len({*hosts}) == 1) if collective.index == 0 else None
    )
    with collective.watching_wait("where process 0 listens"):
        address = HostAddress(
            *collective.gather_values("where process 0 listens", listen_address)[0]
        )
    why = ""
    try:
        together = join_peers(collective.index, collective.count, address, limits, seconds)
    except (JoinError, PeerError) as error:
        why = str(error)
    set_peers(collective)
    failed = [text for text in collective.gather_values("who has reached process 0", why) if text]
    if not failed:
        set_peers(together)
        return
    logger.warning(
        "processes cannot connect to each other at %s, so a process that is missing or slow later "
        "on can not be named: %s",
        address,
        failed[0],
    )


def choose_listen_address(*, alone: bool) -> tuple[str, int]:
    """A free port, at an address of this machine that others can reach; `alone`: at loopback."""
    name = "127.0.0.1" if alone else socket.gethostname()
    if not alone and HostAddress(name, 1).is_loopback_name:
        name = outward_address()
    with hold_port(name) as reserved:
        return name, reserved.getsockname()[1]


def true_on_all_processes(what: str, yes: bool) -> bool:
    """Whether `yes` is true on every process; all must ask at the same point of the program.

    Args:
        what: the question, for messages.
    """
    return all(current_peers().gather_values(what, yes))


def _allgather_arrays(array: np.ndarray) -> np.ndarray:
    """`[processes, n]` of every process's `[n]`."""
    return np.asarray(multihost_utils.process_allgather(array)).reshape(-1, len(array))

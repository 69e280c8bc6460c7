"""The supervisor of one host: `launch.py train --supervise`, in a process that never loads jax.

The supervisor of process 0 leads: it has the conductor, and listens at the address of
`--coordinator` as long as the run goes on. The others follow. If it does not come back and the run
may go on with fewer hosts, the next one takes the lead. The training processes of an attempt meet
at another port of the host that leads, in every attempt at a new one.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import getpid
from pathlib import Path

from mllm_jax.runtime.asked import PROFILE
from mllm_jax.runtime.interrupt import SIGNALS
from mllm_jax.runtime.watch import LIMITS, Limits
from mllm_jax.runtime.wire import Address
from mllm_jax.supervise.agent import Agent, Work
from mllm_jax.supervise.conductor import Ended, Finish, Joined
from mllm_jax.supervise.policy import POLICY, Policy

logger = logging.getLogger(__name__)

#: Seconds between two looks at the training process.
TICK = 0.25


@dataclass(frozen=True)
class Settings:
    """Settings of a supervisor.

    Attributes:
        folder: folder of the run.
        limits: limits beyond which a process is at fault.
        policy: bounds on attempts.
        wait: seconds to wait for the supervisors of other hosts.
        process: number of the training process of this host.
        count: number of training processes, one a host.
        address: where the supervisor that leads listens; None for one process.
        fallbacks: overrides of the configuration by the number of hosts below `count` that the run
            may go on with.
        overrides: overrides of every attempt.
    """

    folder: Path
    limits: Limits = LIMITS
    policy: Policy = POLICY
    wait: float = 600.0
    process: int = 0
    count: int = 1
    address: Address | None = None
    fallbacks: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    overrides: tuple[str, ...] = ()

    @property
    def joined(self) -> Joined:
        """This process as a supervisor."""
        return Joined(self.process, socket.gethostname(), getpid())


@dataclass(frozen=True)
class Lead:
    """What a supervisor that leads knows of the run at first.

    Attributes:
        address: where it listens; None for one process.
        attempt: number of the newest attempt.
        step: newest step that is known.
        behind: numbers of the hosts without which the run goes on.
    """

    address: Address | None
    attempt: int = 0
    step: int = 0
    behind: frozenset[int] = frozenset()


class Supervisor(ABC):
    """What supervisors have in common; see `leader.py` and `follower.py`.

    Args:
        own: words of its command.
    """

    _agent: Agent
    _finish: Finish | None = None

    def __init__(self, own: Sequence[str], settings: Settings) -> None:
        self._settings = settings
        self._work = Work(tuple(own), settings.process, settings.folder)
        self._slept = Slept(settings.limits.silent / 2)

    async def run(self) -> Finish:
        """Run to the end of the run.

        Raises:
            JoinError: the address cannot be listened at.
        """
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self._interrupt, number)
        async with asyncio.TaskGroup() as tasks:
            self._agent = Agent(self._work, tasks, self._ended)
            loop.add_signal_handler(PROFILE, self._agent.ask, PROFILE)
            await self._go_on()
        assert self._finish is not None
        return self._finish

    @abstractmethod
    async def _go_on(self) -> None:
        """Work until `_finish` is there."""

    @abstractmethod
    def _ended(self, ended: Ended) -> None:
        """The training process of this host has ended."""

    def _interrupt(self, number: int) -> None:
        logger.warning("%s is passed on to the training process", signal.Signals(number).name)
        self._agent.signal(number)
        self._interrupted()

    @abstractmethod
    def _interrupted(self) -> None:
        """This supervisor was asked to stop; its process, if there is one, was, too."""


@dataclass
class Slept:
    """Tells whether this process was stopped itself, so that the silence of others means nothing.

    Attributes:
        longest: seconds between two looks that are none.
        looked: time of the last look.
    """

    longest: float
    looked: float = field(default_factory=time.monotonic)

    def __call__(self, now: float) -> bool:
        """Whether this look comes too late."""
        before, self.looked = self.looked, now
        return now - before > self.longest

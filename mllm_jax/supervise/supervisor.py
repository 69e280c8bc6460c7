"""The supervisor of one host: `launch.py train --supervise`, in a process that never loads jax.

The supervisor of process 0 leads: it has the coordinator, and listens at the address of
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

from mllm_jax.runtime.interrupt import SIGNALS
from mllm_jax.runtime.profile_request import PROFILE
from mllm_jax.runtime.watch import LIMITS, WatchLimits
from mllm_jax.runtime.wire import HostAddress
from mllm_jax.supervise.agent import ProcessAgent, SupervisedRun
from mllm_jax.supervise.coordinator_events import FinishRun, ProcessEnded, SupervisorJoined
from mllm_jax.supervise.policy import POLICY, RestartPolicy

logger = logging.getLogger(__name__)

#: Seconds between two looks at the training process.
TICK = 0.25


@dataclass(frozen=True)
class SupervisorConfig:
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
    limits: WatchLimits = LIMITS
    policy: RestartPolicy = POLICY
    wait: float = 600.0
    process: int = 0
    count: int = 1
    address: HostAddress | None = None
    fallbacks: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    overrides: tuple[str, ...] = ()

    @property
    def joined(self) -> SupervisorJoined:
        """This process as a supervisor."""
        return SupervisorJoined(self.process, socket.gethostname(), getpid())


@dataclass(frozen=True)
class LeadState:
    """What a supervisor that leads knows of the run at first.

    Attributes:
        address: where it listens; None for one process.
        attempt: number of the newest attempt.
        step: newest step that is known.
        left_behind: numbers of the hosts without which the run goes on.
    """

    address: HostAddress | None
    attempt: int = 0
    step: int = 0
    left_behind: frozenset[int] = frozenset()


class HostSupervisor(ABC):
    """What supervisors have in common; see `leader.py` and `follower.py`.

    Args:
        command: words of its command.
        settings: settings of the supervisor.
    """

    _agent: ProcessAgent
    _finish: FinishRun | None = None

    def __init__(self, command: Sequence[str], settings: SupervisorConfig) -> None:
        self._settings = settings
        self._work = SupervisedRun(tuple(command), settings.process, settings.folder)
        self._slept = SleepDetector(settings.limits.silent / 2)

    async def run(self) -> FinishRun:
        """Run to the end of the run.

        Raises:
            JoinError: the address cannot be listened at.
        """
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self._on_signal, number)
        async with asyncio.TaskGroup() as tasks:
            self._agent = ProcessAgent(self._work, tasks, self._on_ended)
            loop.add_signal_handler(PROFILE, self._agent.forward_request, PROFILE)
            await self._run_until_finished()
        assert self._finish is not None
        return self._finish

    @abstractmethod
    async def _run_until_finished(self) -> None:
        """Work until `_finish` is there."""

    @abstractmethod
    def _on_ended(self, ended: ProcessEnded) -> None:
        """The training process of this host has ended."""

    def _on_signal(self, number: int) -> None:
        logger.warning("%s is passed on to the training process", signal.Signals(number).name)
        self._agent.pass_signal(number)
        self._on_interrupted()

    @abstractmethod
    def _on_interrupted(self) -> None:
        """This supervisor was asked to stop; its process, if there is one, was, too."""


@dataclass
class SleepDetector:
    """Detects that this process was stopped itself, so that the silence of others means nothing.

    Attributes:
        longest: seconds between two looks that are none.
        last_look: time of the last look.
    """

    longest: float
    last_look: float = field(default_factory=time.monotonic)

    def __call__(self, now: float) -> bool:
        """Whether this look comes too late."""
        before, self.last_look = self.last_look, now
        return now - before > self.longest

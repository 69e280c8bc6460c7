"""The supervisor of one host: `launch.py train --supervise`, in a process that never loads jax."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from os import getpid
from pathlib import Path

from mllm_jax.runtime.exits import Exit
from mllm_jax.runtime.folder import prepare_folder
from mllm_jax.runtime.interrupt import SIGNALS
from mllm_jax.runtime.lock import locked
from mllm_jax.runtime.watch import LIMITS, Limits
from mllm_jax.supervise.agent import Agent, Work
from mllm_jax.supervise.conductor import (
    Action,
    Begin,
    Conductor,
    Ended,
    Event,
    Finish,
    Halt,
    Interrupted,
    Joined,
    Say,
    Sign,
)
from mllm_jax.supervise.policy import POLICY, Policy

logger = logging.getLogger(__name__)

#: Seconds between two looks at the training process.
TICK = 0.25
#: Name of the lock of a supervisor in the folder of its run.
LOCK = ".supervisor"


@dataclass(frozen=True)
class Settings:
    """Settings of a supervisor.

    Attributes:
        folder: folder of the run.
        limits: limits beyond which a process is at fault.
        policy: bounds on attempts.
        wait: seconds to wait for the supervisors of other hosts.
    """

    folder: Path
    limits: Limits = LIMITS
    policy: Policy = POLICY
    wait: float = 600.0


def supervise(own: Sequence[str], settings: Settings) -> int:
    """Keep a training process going until it is done, or cannot go on.

    Args:
        own: words of the supervisor's command.

    Returns:
        The exit code of the process that has ended last.

    Raises:
        RunError: the folder cannot be written.
        LockedError: another supervisor has the folder.
    """
    prepare_folder(settings.folder)
    with locked(settings.folder, LOCK):
        return asyncio.run(Supervisor(own, settings).run())


class Supervisor:
    """The supervisor of a run of one process.

    Args:
        own: words of its command.
    """

    def __init__(self, own: Sequence[str], settings: Settings) -> None:
        self._work = Work(tuple(own), 0, settings.folder)
        self._limits = settings.limits
        self._conductor = Conductor(1, settings.policy, settings.limits, settings.wait)
        self._finish: Finish | None = None
        self._ticked = time.monotonic()

    async def run(self) -> int:
        """Run to the end; its exit code."""
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self._interrupt, number)
        async with asyncio.TaskGroup() as tasks:
            self._agent = Agent(self._work, tasks, self._hear)
            self._hear(Joined(0, socket.gethostname(), getpid()))
            while self._finish is None:
                self._look()
                await asyncio.sleep(TICK)
        return self._finish.code

    def _look(self) -> None:
        """Look at the training process, and at the time."""
        now = time.monotonic()
        if now - self._ticked > self._limits.silent / 2:
            self._conductor.slept(now)
        self._ticked = now
        beat = self._agent.beat
        if beat is not None:
            self._hear(Sign(0, beat))
        self._act(self._conductor.tick(now))

    def _hear(self, event: Event | Ended) -> None:
        self._act(self._conductor.hear(event, time.monotonic()))

    def _interrupt(self, number: int) -> None:
        logger.warning("%s is passed on to the training process", signal.Signals(number).name)
        self._agent.signal(number)
        self._hear(Interrupted())

    def _act(self, actions: Sequence[Action]) -> None:
        for action in actions:
            match action:
                case Begin():
                    self._agent.begin(action)
                case Halt():
                    self._agent.halt()
                case Say():
                    logger.warning("%s", action.text)
                case Finish():
                    self._finish = action
                    if action.code != Exit.OK:
                        logger.error("%s", action.why)

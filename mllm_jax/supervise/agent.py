"""The supervisor's hands on its own host: it starts, watches and ends one training process."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from mllm_jax.runtime.exits import Exit
from mllm_jax.runtime.standing import FROM_STEP, without
from mllm_jax.runtime.supervised.beats import Beat
from mllm_jax.supervise.child import Child
from mllm_jax.supervise.conductor import Begin, Ended
from mllm_jax.supervise.ends import End

logger = logging.getLogger(__name__)

#: Option that makes a command supervise itself.
SUPERVISE = "--supervise"
#: Option that says where processes meet: the supervisors, or the training processes of an attempt.
COORDINATOR = "--coordinator"
#: Options that say how many processes there are, and which one of them a process is.
PROCESSES, PROCESS = "--processes", "--process"
#: Seconds from a second signal to the end of a process that heeds none.
LAST = 5.0


@dataclass(frozen=True)
class Work:
    """What a supervisor is to keep going.

    Attributes:
        own: words of the supervisor's command; the training process has the same without
            `--supervise`.
        process: number of the training process.
        folder: folder of the run.
    """

    own: tuple[str, ...]
    process: int
    folder: Path

    @property
    def words(self) -> list[str]:
        """Words of the command that are the same on all hosts."""
        words = [word for word in self.own if word != SUPERVISE]
        for option in (COORDINATOR, PROCESSES, PROCESS):
            words = without(option, words)
        return words

    def command(self, begin: Begin) -> list[str]:
        """Words of the command of an attempt's training process.

        A run goes back to the checkpoint of `--from-step` once; later attempts go on from there.
        """
        words = self.words if begin.anew else without(FROM_STEP, self.words)
        if begin.coordinator:
            number, count = begin.hosts.index(self.process), len(begin.hosts)
            place = {COORDINATOR: begin.coordinator, PROCESSES: count, PROCESS: number}
            words += [word for own in place.items() for word in map(str, own)]
        return words


class Agent:
    """Has at most one training process.

    Args:
        work: what to keep going.
        tasks: group in which the process is waited for.
        tell: hears of the end of a process.
    """

    def __init__(self, work: Work, tasks: asyncio.TaskGroup, tell: Callable[[Ended], None]) -> None:
        self._work, self._tasks, self._tell = work, tasks, tell
        self._child: Child | None = None
        self._idle = asyncio.Event()
        self._idle.set()
        self._signals: list[int] = []

    @property
    def beat(self) -> Beat | None:
        """The newest sign of life; None without one."""
        return self._child.beat if self._child else None

    def begin(self, begin: Begin) -> None:
        """Start the process of an attempt."""
        self._child = Child(begin.attempt, self._work.process, self._work.folder / "stacks")
        self._idle.clear()
        self._tasks.create_task(self._run(self._child, begin))

    @property
    def busy(self) -> bool:
        """Whether there is a process."""
        return self._child is not None

    async def idle(self) -> None:
        """Wait until there is no process."""
        await self._idle.wait()

    def halt(self) -> None:
        """End the process, if there is one."""
        if self._child is not None:
            self._tasks.create_task(self._child.halt())

    def signal(self, number: int) -> None:
        """Pass a signal on; a process that heeds no second one is ended a little later."""
        self._signals.append(number)
        if self._child is not None:
            self._child.signal(number)
        if len(self._signals) == 2:
            asyncio.get_running_loop().call_later(LAST, self.halt)

    def ask(self, number: int) -> None:
        """Pass on a signal that asks for something, to a process that is far enough to heed it."""
        if self._child is not None and self._child.beat is not None:
            self._child.signal(number)

    async def _run(self, child: Child, begin: Begin) -> None:
        try:
            command, own = self._work.command(begin), self._work.own
            await child.start(command, own, begin.overrides, trained=not begin.anew)
            end = await child.wait()
        except OSError as error:
            logger.error("process %d cannot be started: %s", self._work.process, error)
            end = End(self._work.process, socket.gethostname(), 0, Exit.FAILED)
        self._child = None
        self._idle.set()
        if self._signals and end.code != Exit.OK:
            end = replace(end, code=int(Exit.INTERRUPTED), halted=False)
        self._tell(Ended(begin.attempt, end))

"""The supervisor's agent on its host: it starts, watches and ends one training process."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from mllm_jax.runtime.exits import ExitCode
from mllm_jax.runtime.run_status import FROM_STEP, remove_option
from mllm_jax.runtime.supervised.heartbeats import Heartbeat
from mllm_jax.supervise.child import ChildProcess
from mllm_jax.supervise.coordinator_events import BeginAttempt, ProcessEnded
from mllm_jax.supervise.ends import ProcessEnd

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
class SupervisedRun:
    """A run that a supervisor restarts after faults.

    Attributes:
        supervisor_command: words of the supervisor's command; the training process has the same
            without `--supervise`.
        process: number of the training process.
        folder: folder of the run.
    """

    supervisor_command: tuple[str, ...]
    process: int
    folder: Path

    @property
    def common_words(self) -> list[str]:
        """Words of the command that are the same on all hosts."""
        words = [word for word in self.supervisor_command if word != SUPERVISE]
        for option in (COORDINATOR, PROCESSES, PROCESS):
            words = remove_option(option, words)
        return words

    def attempt_command(self, begin: BeginAttempt) -> list[str]:
        """Words of the command of an attempt's training process.

        A run goes back to the checkpoint of `--from-step` once; later attempts go on from there.
        """
        words = self.common_words if begin.anew else remove_option(FROM_STEP, self.common_words)
        if begin.coordinator:
            number, count = begin.hosts.index(self.process), len(begin.hosts)
            place = {COORDINATOR: begin.coordinator, PROCESSES: count, PROCESS: number}
            words += [word for pair in place.items() for word in map(str, pair)]
        return words


class ProcessAgent:
    """Has at most one training process.

    Args:
        work: what to keep going.
        tasks: group in which the process is waited for.
        notify: receives the end of a process.
    """

    def __init__(
        self, work: SupervisedRun, tasks: asyncio.TaskGroup, notify: Callable[[ProcessEnded], None]
    ) -> None:
        self._work, self._tasks, self._notify = work, tasks, notify
        self._child: ChildProcess | None = None
        self._idle = asyncio.Event()
        self._idle.set()
        self._signals: list[int] = []

    @property
    def newest_heartbeat(self) -> Heartbeat | None:
        """The newest heartbeat; None without one."""
        return self._child.newest_heartbeat if self._child else None

    def begin_attempt(self, begin: BeginAttempt) -> None:
        """Start the process of an attempt."""
        self._child = ChildProcess(begin.attempt, self._work.process, self._work.folder / "stacks")
        self._idle.clear()
        self._tasks.create_task(self._run_child(self._child, begin))

    @property
    def is_busy(self) -> bool:
        """Whether there is a process."""
        return self._child is not None

    async def wait_idle(self) -> None:
        """Wait until there is no process."""
        await self._idle.wait()

    def end_process(self) -> None:
        """End the process, if there is one."""
        if self._child is not None:
            self._tasks.create_task(self._child.end_process())

    def pass_signal(self, number: int) -> None:
        """Pass a signal on; a process that ignores a second one is ended a little later."""
        self._signals.append(number)
        if self._child is not None:
            self._child.send_signal(number)
        if len(self._signals) == 2:
            asyncio.get_running_loop().call_later(LAST, self.end_process)

    def forward_request(self, number: int) -> None:
        """Pass on a signal with a request to a process that already handles such signals."""
        if self._child is not None and self._child.newest_heartbeat is not None:
            self._child.send_signal(number)

    async def _run_child(self, child: ChildProcess, begin: BeginAttempt) -> None:
        try:
            command, supervisor_command = (
                self._work.attempt_command(begin),
                self._work.supervisor_command,
            )
            await child.start(command, supervisor_command, begin.overrides, trained=not begin.anew)
            end = await child.wait()
        except OSError as error:
            logger.error("process %d cannot be started: %s", self._work.process, error)
            end = ProcessEnd(self._work.process, socket.gethostname(), 0, ExitCode.FAILED)
        self._child = None
        self._idle.set()
        if self._signals and end.code != ExitCode.OK:
            end = replace(end, code=int(ExitCode.INTERRUPTED), halted=False)
        self._notify(ProcessEnded(begin.attempt, end))

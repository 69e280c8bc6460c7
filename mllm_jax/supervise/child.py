"""One training process, started by its supervisor."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from mllm_jax.runtime.supervised import heartbeats
from mllm_jax.runtime.supervised.heartbeats import Heartbeat
from mllm_jax.runtime.supervised.process import STACKS, SupervisorSettings
from mllm_jax.supervise.ends import ProcessEnd
from mllm_jax.supervise.session import ProcessSession

logger = logging.getLogger(__name__)

#: Seconds in which a process must have written its stacks.
WRITTEN = 5.0
#: Seconds in which the folder of the run must have taken them.
WRITE_SECONDS = 5.0
#: Seconds for Python's trackers to remove the shared memory of processes that were killed.
TIDIED = 3.0


class ChildProcess:
    """A training process in a separate session, which gets a terminal's signals from us alone.

    Args:
        attempt: number of the attempt that it belongs to.
        process: number of the process in its run.
        folder: folder for stacks.
    """

    def __init__(self, attempt: int, process: int, folder: Path) -> None:
        self.attempt, self._process, self._folder = attempt, process, folder
        self._beats, self._stacks = heartbeats.create_heartbeat_file(), os.memfd_create("stacks")
        self._running: asyncio.subprocess.Process | None = None
        self._session: ProcessSession | None = None
        self._early: list[int] = []
        self._halted, self._written = False, ""
        self._halting = asyncio.Lock()

    async def start(
        self,
        command: Sequence[str],
        supervisor_command: Sequence[str],
        overrides: Sequence[str] = (),
        *,
        trained: bool = False,
    ) -> None:
        """Start the process.

        Args:
            command: words of its command.
            supervisor_command: words of the supervisor's command.
            overrides: what changes its configuration.
            trained: whether an earlier attempt has taken a step.

        Raises:
            OSError: there is no such program, or no room for another process.
        """
        files, words = (self._beats, self._stacks), (tuple(supervisor_command), tuple(overrides))
        settings = SupervisorSettings(self.attempt, os.getpid(), *files, *words, trained)
        try:
            self._running = await asyncio.create_subprocess_exec(
                *command,
                env={**os.environ, **settings.environment()},
                pass_fds=(self._beats, self._stacks),
                start_new_session=True,
            )
        except OSError:
            self._close_files()
            raise
        for number in self._early:
            self.send_signal(number)
        self._session = ProcessSession(self._running.pid)
        if self._halted:
            self._session.kill_processes()

    @property
    def newest_heartbeat(self) -> Heartbeat | None:
        """The newest heartbeat."""
        return heartbeats.read_heartbeat(self._beats)

    def send_signal(self, number: int) -> None:
        """Send a signal to the process itself, as soon as it is there."""
        if self._running is None:
            self._early.append(number)
            return
        with suppress(ProcessLookupError):
            self._running.send_signal(number)

    async def end_process(self) -> None:
        """End the process and all that it has started, once its stacks are written.

        A process that is just being started ends as soon as it is there.
        """
        self._halted = True
        async with self._halting:
            if self._running is not None and self._running.returncode is None:
                await self._write_stacks()
                assert self._session is not None, "the process is not started"
                self._session.kill_processes()

    async def wait(self) -> ProcessEnd:
        """Wait for the process to end, and return its end."""
        assert self._running is not None, "the process is not started"
        code, pid = await self._running.wait(), self._running.pid
        await self._end_leftovers()
        async with self._halting:
            beat, host = self.newest_heartbeat, socket.gethostname()
            self._close_files()
        end = ProcessEnd(self._process, host, pid, code, halted=self._halted, stacks=self._written)
        if beat is None:
            return end
        ago = time.monotonic() - beat.since
        return ProcessEnd(**vars(end) | {"step": beat.step, "event": beat.event, "ago": ago})

    def _close_files(self) -> None:
        os.close(self._beats)
        os.close(self._stacks)

    async def _end_leftovers(self) -> None:
        """End processes and remove files that the process may have left."""
        assert self._session is not None, "the process is not started"
        until = time.monotonic() + TIDIED
        self._session.kill_processes()
        while self._session.living_processes() and time.monotonic() < until:
            await asyncio.sleep(0.02)
        self._session.end_session()

    async def _write_stacks(self) -> None:
        """Have the process' signal handler write the stacks, and store them."""
        if self.newest_heartbeat is None:
            return  # it has not said yet that it would, and the signal would kill it
        self.send_signal(STACKS)
        text = await self._stacks_written()
        if text:
            path = self._folder / f"attempt-{self.attempt}-process-{self._process}.txt"
            self._written = str(path)
            try:
                await asyncio.wait_for(asyncio.to_thread(_write_file, path, text), WRITE_SECONDS)
            except (OSError, TimeoutError) as error:
                logger.warning("%s cannot be written: %r; it would hold\n%s", path, error, text)
                self._written = ""

    async def _stacks_written(self) -> bytes:
        """The stacks, once the process has handled the signal for them."""
        assert self._running is not None, "the process is not started"
        until = time.monotonic() + WRITTEN
        while time.monotonic() < until and _is_handling(self._running.pid, STACKS):
            self.send_signal(signal.SIGCONT)  # one that is stopped, perhaps in the handler, goes on
            await asyncio.sleep(0.05)
        return os.pread(self._stacks, os.fstat(self._stacks).st_size, 0)


def _is_handling(pid: int, number: int) -> bool:
    """Whether a signal waits for a process, or a thread is in its handler, where it is blocked.

    The size of what a handler writes does not say that it is through: on a busy machine a process
    may rest for long in the middle.
    """
    bit = 1 << (number - 1)
    sets = ("SigPnd:", "ShdPnd:", "SigBlk:")
    for status in Path(f"/proc/{pid}/task").glob("*/status"):
        with suppress(FileNotFoundError, ProcessLookupError):  # the thread has ended
            lines = [line.split() for line in status.read_text().splitlines()]
            if any(int(words[1], 16) & bit for words in lines if words[0] in sets):
                return True
    return False


def _write_file(path: Path, text: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text)

"""A process that exchanges values and heartbeats with the others of its run."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import threading
import time
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

from mllm_jax.runtime.exits import ExitCode, exit_code_of_others
from mllm_jax.runtime.messages import peer_messages
from mllm_jax.runtime.messages.typed import MessageError, parse_message
from mllm_jax.runtime.run_peers import (
    ProcessActivity,
    RunPeers,
    end_process,
)
from mllm_jax.runtime.watch import PeerProcess, WatchLimits
from mllm_jax.runtime.wire import (
    Connection,
    HostAddress,
    Message,
)

logger = logging.getLogger(__name__)


T = TypeVar("T")


#: Seconds between two heartbeats.
HEARTBEAT_SECONDS = 0.5


class PeerGroup(RunPeers):
    """A process among several.

    Attributes:
        coordinator: address at which this process finds JAX's coordinator.
        bind: address at which JAX's coordinator listens on process 0; None on the others.
    """

    coordinator: HostAddress
    bind: HostAddress | None = None

    def __init__(self, index: int, count: int, address: HostAddress, limits: WatchLimits) -> None:
        super().__init__()
        self.index, self.count = index, count
        self._address, self._limits = address, limits
        now = time.monotonic()
        self._self = PeerProcess(index, socket.gethostname(), os.getpid(), now)
        self.activity = ProcessActivity(since=now)
        self._peers: dict[int, PeerProcess] = {}
        self._gathering: dict[str, asyncio.Future[list[Any]]] = {}
        self._leaving = self._ending = False
        self._tasks: set[asyncio.Task[Any]] = set()
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="peers", daemon=True).start()

    def wait_for_all(self, seconds: float) -> None:
        """Wait until all processes are there.

        Raises:
            JoinError: the processes were not started alike, or the address cannot be used.
            PeerError: somebody did not come within `seconds`.
        """
        self._run_on_loop(self._wait_for_all(seconds))
        self._run_on_loop(self._start_beating())

    def gather_values(self, name: str, value: Any) -> list[Any]:
        """See `RunPeers.gather_values`; the watch ends this process if another one never comes."""
        # The wait has begun once the value is sent: others may go on then.
        with self.watching_wait(name, by_all=False):
            values = self._run_on_loop(self._gather_values(name, value))
            self.waits += 1
        return values

    @contextmanager
    def watching_collective(self, what: str) -> Iterator[None]:
        """See `RunPeers.watching_collective`; the watch names the process that is missing."""
        self.gather_values(what, None)
        with self.noting_activity(what, limited=True):
            yield

    @contextmanager
    def watching_wait(
        self, what: str, *, limited: bool = True, by_all: bool = True
    ) -> Iterator[None]:
        """See `RunPeers.watching_wait`; the watch names the process that is missing."""
        event = f"waiting for the others ({what}), after: {self.activity.event}"
        with self.noting_activity(event, limited=limited):
            self.waits += by_all
            self._set_activity(replace(self.activity, waiting=True))
            yield
            self.waits += by_all

    def describe_all(self) -> str:
        """All processes that this one is connected to, with the last event of each."""
        now = time.monotonic()
        heard = self._peers.values()
        return "; ".join(
            f"{peer}: {peer.describe_last_event(now)}" for peer in sorted(heard, key=_number_of)
        )

    def leave_run(self, code: int, reason: str = "") -> None:
        """See `RunPeers.leave_run`."""
        self._leaving = True
        self._run_on_loop(self._send_last_words(exit_code_of_others(code), reason))
        self._run_on_loop(self._cancel_tasks())

    def _run_on_loop(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _start_task(self, work: Coroutine[Any, Any, Any]) -> None:
        """Run `work` in the background; a task without a reference may vanish."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _cancel_tasks(self) -> None:
        """Cancel all tasks: the interpreter complains of tasks that are left."""
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _wait_for_all(self, seconds: float) -> None:
        raise NotImplementedError

    async def _gather_values(self, name: str, value: Any) -> list[Any]:
        raise NotImplementedError

    async def _send_last_words(self, code: int, reason: str) -> None:
        raise NotImplementedError

    def _send_message(self, kind: str, **content: Any) -> None:
        """Send to whoever this process is connected to."""
        raise NotImplementedError

    async def _start_beating(self) -> None:
        for peer in self._peers.values():
            peer.heard = time.monotonic()
        self._self.heard = time.monotonic()
        self._start_task(self._send_beats())

    async def _send_beats(self) -> None:
        while not self._leaving:
            now = time.monotonic()
            if now - self._self.heard > self._limits.silent / 2:
                # This process was stopped itself; the silence of others means nothing.
                for peer in self._peers.values():
                    peer.heard = now
            self._self.heard = now
            activity = self.present_activity
            flags = {
                "limited": activity.limited,
                "waiting": activity.waiting,
                "allowed": activity.allowed,
            }
            flags["waits"] = self.waits
            self._send_message("beat", event=activity.event, ago=now - activity.since, **flags)
            if why := self._find_fault(now):
                await self._end_process(ExitCode.LOST_PEER, why)
            await asyncio.sleep(HEARTBEAT_SECONDS)

    def _find_fault(self, now: float) -> str | None:
        """The process at fault, as far as this process can know, and why; None without a fault."""
        raise NotImplementedError

    async def _hear_peer(
        self, peer: PeerProcess, connection: Connection, kinds: Mapping[str, type[Any]]
    ) -> None:
        """Hear another process until its connection ends.

        Args:
            kinds: messages that it may send.
        """
        while (message := await connection.receive()) is not None:
            try:
                self._handle_message(peer, connection, parse_message(kinds, message), message)
            except MessageError as error:
                logger.warning("%s: %s; its connection is closed", peer, error)
                connection.close()
                return

    def _handle_message(
        self, peer: PeerProcess, connection: Connection, content: Any, message: Message
    ) -> None:
        """Handle a message.

        Args:
            content: typed fields of the message.
        """
        raise NotImplementedError

    def _note_beat(self, peer: PeerProcess, beat: peer_messages.BeatMessage) -> None:
        """Note a heartbeat."""
        peer.heard = time.monotonic()
        peer.event, peer.limited, peer.waiting = beat.event, beat.limited, beat.waiting
        peer.allowed, peer.waits = beat.allowed, beat.waits
        peer.since = peer.heard - beat.ago

    def _note_leave(self, peer: PeerProcess, connection: Connection) -> None:
        """Note last words; their sender waits until the connection is closed."""
        peer.ended = True
        connection.close()

    async def _on_closed(self, peer: PeerProcess) -> None:
        """A connection has ended, as it does after last words."""
        if not peer.ended:
            peer.ended = True
            last = peer.describe_last_event(time.monotonic())
            await self._end_process(
                ExitCode.LOST_PEER, f"{peer} is gone: its connection closed; {last}"
            )

    async def _end_process(self, code: int, why: str, grace: float = 0.0) -> None:
        """End this process, unless it ends by itself within `grace` seconds."""
        if self._ending or self._leaving:
            return
        self._ending = True
        await self._pass_on(code, why, grace)
        await asyncio.sleep(grace)
        if not self._leaving:
            end_process(code, why)

    async def _pass_on(self, code: int, why: str, grace: float) -> None:
        """Tell others why this process ends, if they hear it from nobody else."""


def _number_of(peer: PeerProcess) -> int:
    return peer.index

"""The supervisor of any process but 0: it does what that of process 0 says.

Without a connection to process 0 there is no attempt: the training process is ended, and the
supervisor looks for process 0 again, which may be started anew on another machine.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import asdict, replace

from mllm_jax.runtime.exits import Exit
from mllm_jax.runtime.wire import Line
from mllm_jax.supervise import messages
from mllm_jax.supervise.conductor import Begin, Ended, Finish, Halt
from mllm_jax.supervise.messages import LONGEST, Hello, MessageError, aged
from mllm_jax.supervise.supervisor import Supervisor

logger = logging.getLogger(__name__)

#: Seconds between two messages.
BEAT = 0.5
#: Seconds between two looks for process 0.
AGAIN = 0.2


class Follower(Supervisor):
    """See above."""

    _line: Line | None = None
    _attempt = 0

    async def _go_on(self) -> None:
        while self._finish is None:
            self._line = await self._connect()
            if self._line is None:
                break
            beating = asyncio.create_task(self._beat(self._line))
            await self._serve(self._line)
            beating.cancel()
            self._line.close()
            self._line = None
            self._agent.halt()
            await self._agent.idle()

    async def _connect(self) -> Line | None:
        """A connection to the supervisor of process 0; None if there is none, and why is told."""
        own, address = self._settings, self._settings.address
        assert address is not None, "a supervisor of several has an address"
        until = time.monotonic() + own.wait
        while self._finish is None:
            try:
                async with asyncio.timeout(max(0.1, until - time.monotonic())):
                    found = await asyncio.open_connection(address.host, address.port, limit=LONGEST)
            except OSError:  # TimeoutError is one, too
                if time.monotonic() + AGAIN > until:
                    self._finish = Finish(
                        int(Exit.LOST_PEER),
                        f"process {own.process} of {own.count} found no supervisor of process 0 at "
                        f"{address} within {own.wait:g} s (run.wait_for_hosts)",
                    )
                await asyncio.sleep(AGAIN)
                continue
            line = Line(*found)
            joined = replace(own.joined, attempt=self._attempt)
            hello = Hello(str(own.folder), own.count, joined)
            line.send("hello", **asdict(hello))
            return line
        return None

    async def _serve(self, line: Line) -> None:
        """Do what process 0 says until the connection ends, or nothing comes for too long."""
        silent = self._settings.limits.silent
        while self._finish is None:
            try:
                async with asyncio.timeout(silent):
                    message = await line.receive()
            except TimeoutError:
                logger.warning("no sign of life of the supervisor of process 0 for %g s", silent)
                return
            if message is None:
                if self._finish is None:
                    logger.warning("the connection to the supervisor of process 0 is gone")
                return
            if message.get("kind") == "refused":
                self._finish = Finish(int(Exit.BAD_INPUT), str(message.get("why")))
                return
            try:
                self._do(messages.action(message))
            except MessageError as error:
                logger.warning("%s; its connection is closed", error)
                return

    def _do(self, action: Begin | Halt | Finish | None) -> None:
        match action:
            case Begin() if action.attempt <= self._attempt:
                self._finish = Finish(
                    int(Exit.BAD_INPUT),
                    f"the supervisor of process 0 is stale: it begins attempt {action.attempt}, "
                    f"but attempt {self._attempt} of {self._settings.folder} has begun",
                )
            case Begin():
                self._attempt = action.attempt
                if self._settings.process in action.hosts:
                    self._agent.begin(action)
            case Halt() if action.attempt == self._attempt:
                self._agent.halt()
            case Finish():
                self._finish = action

    async def _beat(self, line: Line) -> None:
        while True:
            beat = self._agent.beat
            if beat is None:
                line.send("alive")
            else:
                line.send("sign", beat=asdict(aged(beat, time.monotonic())))
            await asyncio.sleep(BEAT)

    def _ended(self, ended: Ended) -> None:
        if self._line is not None:
            self._line.send(messages.kind(ended), **messages.content(ended))

    def _interrupted(self) -> None:
        if not self._agent.busy:
            self._finish = Finish(int(Exit.INTERRUPTED), "interrupted between two attempts")
            if self._line is not None:
                self._line.close()

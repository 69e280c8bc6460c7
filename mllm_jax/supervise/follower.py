"""The supervisor of any process but 0: it does what the one that leads says, at first that of 0.

Without a connection to that there is no attempt: the training process is ended, and the supervisor
looks for it again, as it may be started anew on another machine. If it does not come back, and the
run may go on with fewer hosts, the others take the lead in the order of their numbers: each looks
for those before it, and leads if it finds none.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import asdict, replace

from mllm_jax.runtime.exits import Exit
from mllm_jax.runtime.messages.secret import RefusedError, show
from mllm_jax.runtime.messages.typed import MessageError
from mllm_jax.runtime.wire import Address, Line
from mllm_jax.supervise import messages
from mllm_jax.supervise.conductor import Begin, Ended, Finish, Halt, Leave
from mllm_jax.supervise.messages import LONGEST, Alive, Hello, Order, Refused, aged
from mllm_jax.supervise.supervisor import Lead, Settings, Supervisor

logger = logging.getLogger(__name__)

#: Seconds between two messages.
BEAT = 0.5
#: Seconds between two looks for the supervisor that leads.
AGAIN = 0.2
#: Seconds of one look.
TRY = 5.0
#: Seconds for the next one to lead to listen, beside those by which another may have noticed later.
TURN = 5.0


class Follower(Supervisor):
    """See above."""

    #: Of the run, once this supervisor is to lead it.
    lead: Lead | None = None
    #: Whether the supervisor that led has left its host; it may be on its way out.
    left = False
    _line: Line | None = None
    _leader = 0
    _attempt = _step = 0
    _successors: tuple[tuple[int, str], ...] = ()

    def __init__(self, own: Sequence[str], settings: Settings) -> None:
        super().__init__(own, settings)
        assert settings.address is not None, "a supervisor of several has an address"
        self._address = settings.address

    @property
    def _who(self) -> str:
        return f"supervisor of process {self._leader}"

    async def _go_on(self) -> None:
        while self._finish is None:
            self._line = await self._found()
            if self._line is None:
                break
            beating = asyncio.create_task(self._beat(self._line))
            await self._serve(self._line)
            beating.cancel()
            self._line.close()
            self._line = None
            self._agent.halt()
            await self._agent.idle()

    async def _found(self) -> Line | None:
        """A connection to the supervisor that leads; None if none does, and why is told."""
        own, wait = self._settings, 0.0 if self.left else self._settings.wait
        found = await self._connect(self._address, wait)
        told = (
            f"process {own.process} of {own.count} found no {self._who} at "
            f"{self._address} within {wait:g} s (run.wait_for_hosts)"
        )
        for number, (process, text) in enumerate(self._successors):
            if found is not None or self._finish is not None:
                break
            if process == own.process:
                self.lead = self._lead(text, self._successors[number + 1 :])
                break
            self._address = Address.parse(text)
            found = await self._connect(self._address, own.limits.silent + TURN)
        if found is None and self._finish is None:
            self._finish = Finish(int(Exit.LOST_PEER), told)
        return found

    def _lead(self, address: str, rest: Sequence[tuple[int, str]]) -> Lead | None:
        """The lead of the run; None if it cannot go on with this host and the rest of them."""
        own, hosts = self._settings, {self._settings.process, *(process for process, _ in rest)}
        if min(own.fallbacks, default=own.count) > len(hosts):
            return None
        behind = frozenset(range(own.count)) - hosts
        return Lead(Address.parse(address), self._attempt, self._step, behind)

    async def _connect(self, address: Address, seconds: float) -> Line | None:
        """A connection to a supervisor; None if there is none in time."""
        until, strange = time.monotonic() + seconds, ""
        while self._finish is None:
            try:
                # No longer at a time: a signal to stop would wait for it.
                async with asyncio.timeout(max(0.1, min(TRY, until - time.monotonic()))):
                    return await self._introduced(address)
            except RefusedError as error:
                why = f"{address} refuses process {self._settings.process}: {error}"
                self._finish = Finish(int(Exit.BAD_INPUT), why)
            except (OSError, MessageError) as error:  # TimeoutError is an OSError, too
                if isinstance(error, MessageError) and str(error) != strange:
                    strange = str(error)
                    logger.warning("%s is no %s: %s", address, self._who, strange)
                if time.monotonic() + AGAIN > until:
                    return None
                await asyncio.sleep(AGAIN)
        return None

    async def _introduced(self, address: Address) -> Line:
        """A connection to a supervisor that has shown the secret of the run, if it has one.

        Raises:
            OSError: there is none.
            MessageError: what is there is none of this run.
            RefusedError: it refuses this one.
        """
        own = self._settings
        line = Line(*await asyncio.open_connection(address.host, address.port))
        try:
            await show(line)
        except BaseException:
            line.close()
            raise
        line.trust(LONGEST)
        joined = replace(own.joined, attempt=self._attempt)
        line.send("hello", **asdict(Hello(str(own.folder), own.count, joined)))
        return line

    async def _serve(self, line: Line) -> None:
        """Do what is said until the connection ends, or nothing comes for too long."""
        silent = self._settings.limits.silent
        while self._finish is None:
            try:
                async with asyncio.timeout(silent):
                    message = await line.receive()
            except TimeoutError:
                logger.warning("no sign of life of the %s for %g s", self._who, silent)
                return
            if message is None:
                if self._finish is None:
                    logger.warning("the connection to the %s is gone", self._who)
                return
            try:
                self._do(messages.action(message))
            except MessageError as error:
                logger.warning("the %s: %s; its connection is closed", self._who, error)
                return

    def _do(self, action: Order) -> None:
        match action:
            case Refused():
                self._finish = Finish(int(Exit.BAD_INPUT), action.why)
            case Alive():
                if action.process != self._leader:
                    logger.warning("process %d leads in place of %d", action.process, self._leader)
                self._leader, self._successors = action.process, action.successors
                self.left = False
            case Begin() if action.attempt <= self._attempt:
                self._finish = Finish(
                    int(Exit.BAD_INPUT),
                    f"the {self._who} is stale: it begins attempt {action.attempt}, "
                    f"but attempt {self._attempt} of {self._settings.folder} has begun",
                )
            case Begin():
                self._attempt = action.attempt
                if not action.anew:
                    self._step = max(self._step, 1)  # some step
                if self._settings.process in action.hosts:
                    self._agent.begin(action)
            case Halt() if action.attempt == self._attempt:
                self._agent.halt()
            case Finish():
                self._finish = action
            case Leave():
                logger.warning("the %s has left: %s", self._who, action.why)
                self.left = True

    async def _beat(self, line: Line) -> None:
        while True:
            beat = self._agent.beat
            if beat is None:
                line.send("alive")
            else:
                line.send("sign", beat=asdict(aged(beat, time.monotonic())))
            await asyncio.sleep(BEAT)

    def _ended(self, ended: Ended) -> None:
        self._step = max(self._step, ended.end.step)
        if self._line is not None:
            self._line.send(messages.kind(ended), **messages.content(ended))

    def _interrupted(self) -> None:
        if not self._agent.busy:
            self._finish = Finish(int(Exit.INTERRUPTED), "interrupted between two attempts")
            if self._line is not None:
                self._line.close()

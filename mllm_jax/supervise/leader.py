"""The supervisor that leads: it has the conductor, and tells the other supervisors what to do."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from mllm_jax.runtime.messages.strangers import Strangers, refuse
from mllm_jax.runtime.messages.typed import MessageError
from mllm_jax.runtime.part import JoinError
from mllm_jax.runtime.supervised.beats import Beat
from mllm_jax.runtime.wire import STRANGE, Address, Line, hold_port, reason
from mllm_jax.supervise import messages
from mllm_jax.supervise.attempts import Watched, newest, write
from mllm_jax.supervise.back import Back
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
    Leave,
    Left,
    Over,
    Say,
    Sign,
)
from mllm_jax.supervise.messages import LONGEST, Alive, Hello, Order
from mllm_jax.supervise.policy import Tries
from mllm_jax.supervise.supervisor import TICK, Lead, Settings, Supervisor

logger = logging.getLogger(__name__)

#: Seconds after which another supervisor with the same number may take the place of a silent one.
PRESENT = 5.0


@dataclass
class Other:
    """Another supervisor.

    Attributes:
        joined: who it is.
        line: connection to it.
        heard: time of its last message.
    """

    joined: Joined
    line: Line
    heard: float


class Leader(Supervisor):
    """See above.

    Args:
        lead: what is known of a run whose lead it takes over; None for process 0, which begins.
    """

    def __init__(self, own: Sequence[str], settings: Settings, lead: Lead | None = None) -> None:
        lead = lead or Lead(settings.address)
        super().__init__(own, replace(settings, address=lead.address))
        self._back = Back(self._work.words, settings.folder)
        gone_back = int(self._back.gone())  # by an attempt that has taken some step
        self._conductor = Conductor(
            settings.count,
            settings.policy,
            settings.limits,
            settings.wait,
            settings.fallbacks.keys(),
            max(newest(settings.folder), lead.attempt),
            Tries(max(lead.step, gone_back)),
            since=time.monotonic(),
            behind={*lead.behind},
            lead=settings.process,
        )
        self._others: dict[int, Other] = {}
        self._strangers = Strangers(settings.count)
        self._writer = ThreadPoolExecutor(1)
        self._held: socket.socket | None = None
        self._trained = 0

    async def _go_on(self) -> None:
        self._hear(self._settings.joined)
        while self._finish is None:
            self._look(time.monotonic())
            await asyncio.sleep(TICK)
        await asyncio.gather(*(other.line.finish() for other in self._others.values()))

    async def listen(self) -> None:
        """Begin to listen for other supervisors.

        Raises:
            JoinError: that is not possible at the address.
        """
        address = self._settings.address
        if address is None:
            return
        try:
            await asyncio.start_server(self._greet, address.host, address.port, limit=STRANGE)
        except OSError as error:
            raise JoinError(
                f"the supervisor of process {self._settings.process} cannot listen at {address} "
                f"({reason(error)}); "
                "valid: a free port and an address of this machine for --coordinator"
            ) from None

    def _look(self, now: float) -> None:
        """Look at the training process, at the other supervisors, and at the time."""
        if self._slept(now):
            self._conductor.slept(now)
            for other in self._others.values():
                other.heard = now
        beat = self._agent.beat
        if beat is not None:
            self._hear(Sign(self._settings.process, beat))
            self._note_step(beat)
        self._tell(Alive(self._settings.process, self._successors()))
        for other in list(self._others.values()):
            if now - other.heard > self._settings.limits.silent:
                other.line.close()
                self._leave(other)
        self._act(self._conductor.tick(now))

    def _note_step(self, beat: Beat) -> None:
        """Keep that the run has gone back, if it has, once an attempt has taken a step."""
        if beat.step > 0 and beat.attempt != self._trained:
            self._trained = beat.attempt
            self._writer.submit(_keep, self._back)

    def _ended(self, ended: Ended) -> None:
        self._hear(ended)

    def _interrupted(self) -> None:
        self._hear(Interrupted())

    def _hear(self, event: Event) -> None:
        self._act(self._conductor.hear(event, time.monotonic()))

    def _act(self, actions: Sequence[Action]) -> None:
        for action in actions:
            match action:
                case Begin():
                    action = self._with_place(action)
                    self._tell(action)
                    self._agent.begin(action)
                    self._record(Watched(action.attempt, time.time()))
                case Halt():
                    self._tell(action)
                    self._agent.halt()
                case Over():
                    now, rest = time.time(), asdict(action)
                    seconds = rest.pop("seconds")
                    self._record(Watched(began=now - seconds, ended=now, **rest))
                case Say():
                    logger.warning("%s", action.text)
                case Finish():
                    self._tell(action)
                    self._finish = action
                case Leave():
                    self._tell(action)
                    self._finish = Finish(action.code, action.why)

    def _record(self, record: Watched) -> None:
        """Keep the record of an attempt, beside: the folder may be one of a network."""
        self._writer.submit(_write, self._settings.folder, record)

    def _tell(self, action: Order) -> None:
        for other in self._others.values():
            other.line.send(messages.kind(action), **messages.content(action))

    def _with_place(self, begin: Begin) -> Begin:
        """An attempt with the place where its processes meet, and its configuration."""
        own, several = self._settings, len(begin.hosts) > 1
        return replace(
            begin,
            coordinator=self._meeting_point() if several else "",
            overrides=(*own.overrides, *own.fallbacks.get(len(begin.hosts), ())),
        )

    def _successors(self) -> tuple[tuple[int, str], ...]:
        """See `messages.Alive`."""
        address = self._settings.address
        if address is None or not self._settings.fallbacks:
            return ()
        return tuple(
            (number, str(Address(other.line.other_host, address.port)))
            for number, other in sorted(self._others.items())
        )

    def _meeting_point(self) -> str:
        """Where the training processes of the next attempt meet: a port that is held for them."""
        assert self._settings.address is not None, "several hosts have an address"
        if self._held is not None:
            self._held.close()
        host = self._settings.address.host
        self._held = hold_port(host)
        return str(Address(host, self._held.getsockname()[1]))

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = Line(reader, writer)
        hello = await self._strangers.introduced(Hello, line)
        if hello is None:
            return
        if why := self._unfit(hello):
            await refuse(line, why)
            return
        line.trust(LONGEST)
        before = self._others.get(hello.joined.process)
        if before is not None:
            before.line.close()
            self._leave(before)
        other = Other(hello.joined, line, time.monotonic())
        self._others[hello.joined.process] = other
        self._hear(hello.joined)
        with suppress(asyncio.CancelledError):  # at the end, of which asyncio would make an error
            await self._listen(other)

    def _unfit(self, hello: Hello) -> str:
        """Why a supervisor cannot be one of this run; empty if it can."""
        who, own = f"the supervisor of process {hello.joined.process}", self._settings
        first = f"process {own.process}"
        who += f" (host {hello.joined.host}, pid {hello.joined.pid})"
        if hello.run != str(own.folder):
            return f"{who} has the run folder {hello.run}, that of {first} {own.folder}"
        if hello.count != own.count:
            return f"{who} was started with --processes {hello.count}, {first} with {own.count}"
        taken = self._others.get(hello.joined.process)
        here = taken is not None and time.monotonic() - taken.heard < PRESENT
        # One whose connection was cut comes again by a new one, maybe before the old one has ended.
        if taken is not None and here and not taken.joined.same(hello.joined):
            return f"{who} comes too late: host {taken.joined.host}, pid {taken.joined.pid}, is it"
        if not 0 < hello.joined.process < own.count or hello.joined.process == own.process:
            return f"{who} is none of --processes {own.count}; valid: 1 to {own.count - 1}"
        return ""

    async def _listen(self, other: Other) -> None:
        """Hear another supervisor until its connection ends."""
        process = other.joined.process
        while (message := await other.line.receive()) is not None:
            other.heard = time.monotonic()
            try:
                event = messages.event(message, process, other.heard)
            except MessageError as error:
                who = f"the supervisor of process {process} (host {other.joined.host})"
                logger.warning("%s: %s; its connection is closed", who, error)
                other.line.close()
                break
            if event is not None:
                self._hear(event)
        self._leave(other)

    def _leave(self, other: Other) -> None:
        """The connection to another supervisor has ended."""
        process = other.joined.process
        if self._others.get(process) is other:
            del self._others[process]
            self._hear(Left(process))


def _keep(back: Back) -> None:
    try:
        back.keep()
    except OSError as error:
        logger.warning("it cannot be kept that the run has gone back: %s", error)


def _write(folder: Path, record: Watched) -> None:
    try:
        write(folder, record)
    except OSError as error:
        logger.warning("the record of attempt %d cannot be written: %s", record.attempt, error)

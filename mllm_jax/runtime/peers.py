"""The processes of a run: they meet, tell each other things, and watch each other.

Process 0 listens at the address that all were given (`--coordinator`), the others connect to it
and keep that connection::

    process 1  -- hello -->  process 0  <-- hello --  process 2
               <- welcome -             - welcome ->
               -- gather ->             <- gather --      (values of all, to all)
               <- gathered              - gathered ->
               -- post ->               <- post --        (values for process 0 alone)
               <- beat -->              <- beat -->       (twice a second: what was done last)
               <- end ---                                 (process 2 is gone)

Before, both ends show the secret of the run, if it has one (`mllm_jax.runtime.messages.secret`);
process 0 hears few strangers at a time, and little of each (`mllm_jax.runtime.messages.strangers`).
A connection with any other message is closed.

All of it happens on a thread of its own, so that a process is heard while it compiles or waits
for a collective, and can end itself while it is stuck in one.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import threading
import time
from collections import defaultdict
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from functools import partial
from typing import Any, TypeVar

from mllm_jax.runtime.exits import Exit, of_others
from mllm_jax.runtime.messages import words
from mllm_jax.runtime.messages.relay import Relay
from mllm_jax.runtime.messages.secret import RefusedError, show
from mllm_jax.runtime.messages.strangers import Strangers, refuse
from mllm_jax.runtime.messages.typed import MessageError, read
from mllm_jax.runtime.part import (
    Activity,
    JoinError,
    PeerError,
    Peers,
    end_process,
    take_part,
)
from mllm_jax.runtime.supervised.process import attempt, supervised
from mllm_jax.runtime.watch import Limits, Peer, fault
from mllm_jax.runtime.wire import STRANGE, Address, Line, Message, hold_port, reason

logger = logging.getLogger(__name__)

T = TypeVar("T")

#: Seconds between two signs of life.
BEAT = 0.5
#: Seconds for a process to end by itself when another one tells that it has failed: the cause is
#: often one that all of them see.
GRACE = 3.0


class Together(Peers):
    """A process among several.

    Attributes:
        coordinator: address at which this process finds JAX's coordinator.
        bind: address at which JAX's coordinator listens on process 0; None on the others.
    """

    coordinator: Address
    bind: Address | None = None

    def __init__(self, index: int, count: int, address: Address, limits: Limits) -> None:
        super().__init__()
        self.index, self.count = index, count
        self._address, self._limits = address, limits
        now = time.monotonic()
        self._own = Peer(index, socket.gethostname(), os.getpid(), now)
        self.activity = Activity(since=now)
        self._peers: dict[int, Peer] = {}
        self._asked: dict[str, asyncio.Future[list[Any]]] = {}
        self._leaving = self._ending = False
        self._tasks: set[asyncio.Task[Any]] = set()
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="peers", daemon=True).start()

    def meet(self, seconds: float) -> None:
        """Wait until all processes are there.

        Raises:
            JoinError: the processes were not started alike, or the address cannot be used.
            PeerError: somebody did not come within `seconds`.
        """
        self._call(self._meet(seconds))
        self._call(self._start_beating())

    def gather(self, name: str, value: Any) -> list[Any]:
        """See `Peers.gather`; the watch ends this process if another one never comes."""
        # The wait has begun once the value is sent: others may go on then.
        with self.waiting(name, by_all=False):
            found = self._call(self._gather(name, value))
            self.waits += 1
        return found

    @contextmanager
    def meeting(self, what: str) -> Iterator[None]:
        """See `Peers.meeting`; the watch names the process that is missing."""
        self.gather(what, None)
        with self.doing(what, limited=True):
            yield

    @contextmanager
    def waiting(self, what: str, *, limited: bool = True, by_all: bool = True) -> Iterator[None]:
        """See `Peers.waiting`; the watch names the process that is missing."""
        event = f"waiting for the others ({what}), after: {self.activity.event}"
        with self.doing(event, limited=limited):
            self.waits += by_all
            self._be_at(replace(self.activity, waiting=True))
            yield
            self.waits += by_all

    def each(self) -> str:
        """All processes that this one hears, with the last event of each."""
        now = time.monotonic()
        heard = self._peers.values()
        return "; ".join(f"{peer}: {peer.last(now)}" for peer in sorted(heard, key=_number))

    def leave(self, code: int, reason: str = "") -> None:
        """See `Peers.leave`."""
        self._leaving = True
        self._call(self._bye(of_others(code), reason))
        self._call(self._rest())

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        """Run `work` beside; a task that nobody holds may vanish."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _rest(self) -> None:
        """End all that goes on here: the interpreter complains of tasks that are left."""
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _meet(self, seconds: float) -> None:
        raise NotImplementedError

    async def _gather(self, name: str, value: Any) -> list[Any]:
        raise NotImplementedError

    async def _bye(self, code: int, reason: str) -> None:
        raise NotImplementedError

    def _tell(self, kind: str, **content: Any) -> None:
        """Send to whoever this process is connected to."""
        raise NotImplementedError

    async def _start_beating(self) -> None:
        for peer in self._peers.values():
            peer.heard = time.monotonic()
        self._own.heard = time.monotonic()
        self._spawn(self._beat())

    async def _beat(self) -> None:
        while not self._leaving:
            now = time.monotonic()
            if now - self._own.heard > self._limits.silent / 2:
                # This process was stopped itself; the silence of others means nothing.
                for peer in self._peers.values():
                    peer.heard = now
            self._own.heard = now
            own = self.present
            doing = {"limited": own.limited, "waiting": own.waiting, "allowed": own.allowed}
            doing["waits"] = self.waits
            self._tell("beat", event=own.event, ago=now - own.since, **doing)
            if why := self._fault(now):
                await self._end(Exit.LOST_PEER, why)
            await asyncio.sleep(BEAT)

    def _fault(self, now: float) -> str | None:
        """The process at fault, as far as this process can know, and why; None without a fault."""
        raise NotImplementedError

    async def _hear(self, peer: Peer, line: Line, kinds: Mapping[str, type[Any]]) -> None:
        """Hear another process until its connection ends.

        Args:
            kinds: messages that it may send.
        """
        while (message := await line.receive()) is not None:
            try:
                self._take(peer, line, read(kinds, message), message)
            except MessageError as error:
                logger.warning("%s: %s; its connection is closed", peer, error)
                line.close()
                return

    def _take(self, peer: Peer, line: Line, told: Any, message: Message) -> None:
        """Take a message in.

        Args:
            told: what the message says.
        """
        raise NotImplementedError

    def _heard(self, peer: Peer, told: words.Beating) -> None:
        """Note a sign of life."""
        peer.heard = time.monotonic()
        peer.event, peer.limited, peer.waiting = told.event, told.limited, told.waiting
        peer.allowed, peer.waits = told.allowed, told.waits
        peer.since = peer.heard - told.ago

    def _part(self, peer: Peer, line: Line) -> None:
        """Note last words; their sender waits until the connection is closed."""
        peer.ended = True
        line.close()

    async def _gone(self, peer: Peer) -> None:
        """A connection has ended, as it does after last words."""
        if not peer.ended:
            peer.ended = True
            last = peer.last(time.monotonic())
            await self._end(Exit.LOST_PEER, f"{peer} is gone: its connection closed; {last}")

    async def _end(self, code: int, why: str, grace: float = 0.0) -> None:
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


class Member(Together):
    """Any process but the first."""

    _line: Line

    async def _meet(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        self._line = await self._connect(deadline, seconds)
        answer = await self._answer(seconds)
        if isinstance(answer, words.Refused):
            self._line.close()
            raise (JoinError if answer.wrong else PeerError)(answer.why)
        now = time.monotonic()
        self.host = self._line.own_host
        self._peers[0] = Peer(0, answer.host, answer.pid, now, since=now)
        relay = Relay(Address(self._address.host, answer.port))
        self.coordinator = await relay.listen()
        self._spawn(self._listen())

    async def _answer(self, seconds: float) -> Any:
        """The answer of process 0 to a hello, see `words.ANSWERS`."""
        own, at = self._own, f"what listens at {self._address}"
        hello = words.Hello(own.index, own.host, own.pid, self.count, attempt())
        try:
            # Process 0 says who is missing; its deadline may have begun as late as this one ends.
            async with asyncio.timeout(seconds + 5):
                await show(self._line)
                self._line.trust()
                self._line.send("hello", **asdict(hello))
                return read(words.ANSWERS, await self._line.receive())
        except RefusedError as error:
            raise JoinError(f"process {own.index} is refused by {at}: {error}") from None
        except (MessageError, TimeoutError) as error:
            why = str(error) or "it says nothing"
            raise PeerError(
                f"process {self.index} of {self.count}: {at} does not answer as process 0 of a run "
                f"does ({why}); is --coordinator right?"
            ) from None

    async def _connect(self, deadline: float, seconds: float) -> Line:
        """A connection to process 0, as soon as it listens."""
        while True:
            try:
                async with asyncio.timeout(max(0.1, deadline - time.monotonic())):
                    return Line(
                        *await asyncio.open_connection(self._address.host, self._address.port)
                    )
            except OSError as error:  # TimeoutError is one, too
                if time.monotonic() + 0.2 > deadline:
                    hint = await asyncio.to_thread(self._address.hint)
                    raise PeerError(
                        f"process {self.index} of {self.count} found no process 0 at "
                        f"{self._address} within {seconds:g} s ({reason(error)}); is it started, "
                        f"with the same --coordinator? (--join-seconds waits longer){hint}"
                    ) from None
            await asyncio.sleep(0.2)

    async def _listen(self) -> None:
        first = self._peers[0]
        await self._hear(first, self._line, words.FROM_FIRST)
        await self._gone(first)

    def _take(self, peer: Peer, line: Line, told: Any, message: Message) -> None:
        match told:
            case words.Beating():
                self._heard(peer, told)
            case words.Gathered():
                asked, values = self._asked.pop(told.name, None), message.get("values")
                if asked is None or not isinstance(values, list) or len(values) != self.count:
                    raise MessageError(f"gathered: {told.name[:40]!r}: nobody has asked for that")
                asked.set_result(values)
            case words.Bye():
                self._part(peer, line)
            case words.End():
                self._part(peer, line)
                self._spawn(self._end(told.code, told.why, told.grace))

    async def _gather(self, name: str, value: Any) -> list[Any]:
        self._asked[name] = self._loop.create_future()
        self._line.send("gather", name=name, value=value)
        self.waits += 1
        return await self._asked[name]

    def post(self, name: str, value: Any) -> None:
        """See `Peers.post`."""
        self._loop.call_soon_threadsafe(partial(self._line.send, "post", name=name, value=value))

    async def _bye(self, code: int, reason: str) -> None:
        self._line.send("bye", code=code, why=reason)
        await self._line.finish()

    def _tell(self, kind: str, **content: Any) -> None:
        self._line.send(kind, **content)

    def _fault(self, now: float) -> str | None:
        # Only process 0, which hears all, decides whether all stand still.
        known = replace(self._limits, stalled=None, longest=None)
        return fault(self._peers.values(), now, known)


class First(Together):
    """Process 0, which the others connect to."""

    def __init__(self, index: int, count: int, address: Address, limits: Limits) -> None:
        super().__init__(index, count, address, limits)
        self.host = address.host
        self._lines: dict[int, Line] = {}
        self._strangers = Strangers(count)
        self._values: defaultdict[str, dict[int, Any]] = defaultdict(dict)
        self._complete = self._loop.create_future()

    async def _meet(self, seconds: float) -> None:
        try:
            # A supervisor holds the port meanwhile, as `hold_port` does.
            server = await asyncio.start_server(
                self._greet,
                self._address.host,
                self._address.port,
                limit=STRANGE,
                reuse_port=supervised() is not None,
            )
        except OSError as error:
            raise JoinError(
                f"process 0 cannot listen at {self._address} ({reason(error)}); valid: a free "
                "port and an address of this machine for --coordinator"
            ) from None
        hint = await asyncio.to_thread(self._address.hint)
        if hint:
            logger.warning("%s", hint.removeprefix("; "))
        try:
            async with asyncio.timeout(seconds):
                await self._complete
        except TimeoutError:
            missing = [i for i in range(1, self.count) if i not in self._lines]
            why = (
                f"process{'es' * (len(missing) > 1)} {', '.join(map(str, missing))} of "
                f"{self.count} did not come to {self._address} within {seconds:g} s; are they "
                f"started, with the same --coordinator? (--join-seconds waits longer){hint}"
            )
            await self._refuse(why, wrong=False)
            server.close()
            raise PeerError(why) from None
        self._held = hold_port(self._address.host)
        self.bind = self.coordinator = Address(self._address.host, self._held.getsockname()[1])
        self._tell("welcome", host=self._own.host, pid=self._own.pid, port=self.bind.port)

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = Line(reader, writer)
        hello = await self._strangers.introduced(words.Hello, line)
        if hello is None:
            return
        now = time.monotonic()
        peer = Peer(hello.index, hello.host, hello.pid, now, since=now)
        if why := self._unfit(peer, hello.count, hello.attempt):
            await refuse(line, why, wrong=True)
            return
        line.trust()
        self._peers[peer.index], self._lines[peer.index] = peer, line
        if len(self._lines) == self.count - 1:
            self._complete.set_result(None)
        with suppress(asyncio.CancelledError):  # as in the relay
            await self._listen(peer, line)

    def _unfit(self, peer: Peer, count: int, theirs: int | None) -> str:
        """Why `peer` cannot be one of these processes; a wrong number of them ends all."""
        if theirs != attempt():
            return f"{peer} is of attempt {theirs}, process 0 of attempt {attempt()}"
        if count != self.count:
            why = f"{peer} was started with --processes {count}, process 0 with {self.count}"
            if not self._complete.done():
                self._complete.set_exception(JoinError(why))
                self._spawn(self._refuse(why, wrong=True))
            return why
        if not 0 < peer.index < self.count:
            return f"{peer} is none of --processes {count}; valid: 1 to {count - 1}"
        if peer.index in self._peers:
            return f"--process {peer.index} is there already: {self._peers[peer.index]}"
        return ""

    async def _refuse(self, why: str, *, wrong: bool) -> None:
        self._ending = True  # who is refused hangs up, which is no loss to tell of
        self._tell("refused", why=why, wrong=wrong)
        await self._finish()

    async def _listen(self, peer: Peer, line: Line) -> None:
        await self._hear(peer, line, words.TO_FIRST)
        if self._complete.done():
            await self._gone(peer)
        else:
            line.close()
            del self._peers[peer.index], self._lines[peer.index]

    def _take(self, peer: Peer, line: Line, told: Any, message: Message) -> None:
        match told:
            case words.Beating():
                self._heard(peer, told)
            case words.Gather():
                self._collect(told.name, peer.index, message.get("value"))
            case words.Post():
                self._posts[told.name].append((peer.index, message.get("value")))
            case words.Bye():
                self._part(peer, line)
                if told.code:
                    self._spawn(self._end(told.code, f"{peer} ended: {told.why}", GRACE))

    def _collect(self, name: str, index: int, value: Any) -> None:
        values = self._values[name]
        values[index] = value
        if len(values) == self.count:
            del self._values[name]
            whole = [values[i] for i in range(self.count)]
            self._tell("gathered", name=name, values=whole)
            self._asked.pop(name).set_result(whole)

    async def _gather(self, name: str, value: Any) -> list[Any]:
        answer = self._asked[name] = self._loop.create_future()
        self._collect(name, 0, value)
        self.waits += 1
        return await answer

    async def _bye(self, code: int, reason: str) -> None:
        if code:
            await self._pass_on(code, f"{self._own} ended: {reason}", GRACE)
        else:
            self._tell("bye")
            await self._finish()

    async def _pass_on(self, code: int, why: str, grace: float) -> None:
        self._tell("end", code=code, why=why, grace=grace)
        await self._finish()

    def _tell(self, kind: str, **content: Any) -> None:
        for line in self._lines.values():
            line.send(kind, **content)

    def _fault(self, now: float) -> str | None:
        present = asdict(self.present)
        del present["key"]
        own = replace(self._own, **present, waits=self.waits)
        return fault([own, *self._peers.values()], now, self._limits)

    async def _finish(self) -> None:
        await asyncio.gather(*(line.finish() for line in self._lines.values()))


def _number(peer: Peer) -> int:
    return peer.index


def join(index: int, count: int, address: Address, limits: Limits, seconds: float) -> Together:
    """Meet the other processes.

    Raises:
        JoinError: as `Together.meet`.
        PeerError: as `Together.meet`.
    """
    together = (Member if index else First)(index, count, address, limits)
    together.meet(seconds)
    take_part(together)
    return together

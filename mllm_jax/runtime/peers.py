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

All of it happens on a separate thread, so that a process is heard while it compiles or waits
for a collective, and can end itself while it is stuck in one.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from mllm_jax.runtime.messages import peer_messages
from mllm_jax.runtime.messages.relay import CoordinatorRelay
from mllm_jax.runtime.messages.secret import SecretRefusedError, present_secret
from mllm_jax.runtime.messages.strangers import StrangerConnections, refuse_connection
from mllm_jax.runtime.messages.typed import MessageError, parse_message
from mllm_jax.runtime.peer_group import PeerGroup
from mllm_jax.runtime.run_peers import (
    JoinError,
    PeerError,
    set_peers,
)
from mllm_jax.runtime.supervised.process import attempt_number, supervisor_settings
from mllm_jax.runtime.watch import PeerProcess, WatchLimits, find_fault
from mllm_jax.runtime.wire import (
    STRANGE,
    Connection,
    HostAddress,
    Message,
    describe_error,
    hold_port,
)

logger = logging.getLogger(__name__)


#: Seconds for a process to end by itself when another one tells that it has failed: the cause is
#: often one that all of them see.
GRACE = 3.0


class PeerMember(PeerGroup):
    """Any process but the first."""

    _connection: Connection

    async def _wait_for_all(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        self._connection = await self._connect_to_hub(deadline, seconds)
        answer = await self._await_answer(seconds)
        if isinstance(answer, peer_messages.RefusedMessage):
            self._connection.close()
            raise (JoinError if answer.wrong else PeerError)(answer.why)
        now = time.monotonic()
        self.host = self._connection.local_host
        self._peers[0] = PeerProcess(0, answer.host, answer.pid, now, since=now)
        relay = CoordinatorRelay(HostAddress(self._address.host, answer.port))
        self.coordinator = await relay.start_listening()
        self._start_task(self._listen_to_hub())

    async def _await_answer(self, seconds: float) -> Any:
        """The answer of process 0 to a hello, see `peer_messages.ANSWERS`."""
        process, at = self._self, f"what listens at {self._address}"
        hello = peer_messages.HelloMessage(
            process.index, process.host, process.pid, self.count, attempt_number()
        )
        try:
            # Process 0 says who is missing; its deadline may have begun as late as this one ends.
            async with asyncio.timeout(seconds + 5):
                await present_secret(self._connection)
                self._connection.trust_peer()
                self._connection.send("hello", **asdict(hello))
                return parse_message(peer_messages.ANSWERS, await self._connection.receive())
        except SecretRefusedError as error:
            raise JoinError(f"process {process.index} is refused by {at}: {error}") from None
        except (MessageError, TimeoutError) as error:
            why = str(error) or "it says nothing"
            raise PeerError(
                f"process {self.index} of {self.count}: {at} does not answer as process 0 of a run "
                f"does ({why}); is --coordinator right?"
            ) from None

    async def _connect_to_hub(self, deadline: float, seconds: float) -> Connection:
        """A connection to process 0, as soon as it listens."""
        while True:
            try:
                async with asyncio.timeout(max(0.1, deadline - time.monotonic())):
                    return Connection(
                        *await asyncio.open_connection(self._address.host, self._address.port)
                    )
            except OSError as error:  # TimeoutError is one, too
                if time.monotonic() + 0.2 > deadline:
                    hint = await asyncio.to_thread(self._address.reachability_warning)
                    raise PeerError(
                        f"process {self.index} of {self.count} found no process 0 at "
                        f"{self._address} within {seconds:g} s ({describe_error(error)}); is it "
                        f"started, with the same --coordinator? (--join-seconds waits longer){hint}"
                    ) from None
            await asyncio.sleep(0.2)

    async def _listen_to_hub(self) -> None:
        first = self._peers[0]
        await self._hear_peer(first, self._connection, peer_messages.FROM_FIRST)
        await self._on_closed(first)

    def _handle_message(
        self, peer: PeerProcess, connection: Connection, content: Any, message: Message
    ) -> None:
        match content:
            case peer_messages.BeatMessage():
                self._note_beat(peer, content)
            case peer_messages.GatheredMessage():
                answer, values = self._gathering.pop(content.name, None), message.get("values")
                if answer is None or not isinstance(values, list) or len(values) != self.count:
                    raise MessageError(
                        f"gathered: {content.name[:40]!r}: nobody has asked for that"
                    )
                answer.set_result(values)
            case peer_messages.LeaveMessage():
                self._note_leave(peer, connection)
            case peer_messages.EndMessage():
                self._note_leave(peer, connection)
                self._start_task(self._end_process(content.code, content.why, content.grace))

    async def _gather_values(self, name: str, value: Any) -> list[Any]:
        self._gathering[name] = self._loop.create_future()
        self._connection.send("gather", name=name, value=value)
        self.waits += 1
        return await self._gathering[name]

    def post_value(self, name: str, value: Any) -> None:
        """See `RunPeers.post_value`."""
        self._loop.call_soon_threadsafe(
            partial(self._connection.send, "post", name=name, value=value)
        )

    async def _send_last_words(self, code: int, reason: str) -> None:
        self._connection.send("bye", code=code, why=reason)
        await self._connection.finish()

    def _send_message(self, kind: str, **content: Any) -> None:
        self._connection.send(kind, **content)

    def _find_fault(self, now: float) -> str | None:
        # Only process 0, which hears all, decides whether all stand still.
        known = replace(self._limits, stalled=None, longest=None)
        return find_fault(self._peers.values(), now, known)


class PeerHub(PeerGroup):
    """Process 0, which the others connect to."""

    def __init__(self, index: int, count: int, address: HostAddress, limits: WatchLimits) -> None:
        super().__init__(index, count, address, limits)
        self.host = address.host
        self._connections: dict[int, Connection] = {}
        self._strangers = StrangerConnections(count)
        self._values: defaultdict[str, dict[int, Any]] = defaultdict(dict)
        self._complete = self._loop.create_future()

    async def _wait_for_all(self, seconds: float) -> None:
        try:
            # A supervisor holds the port meanwhile, as `hold_port` does.
            server = await asyncio.start_server(
                self._greet_peer,
                self._address.host,
                self._address.port,
                limit=STRANGE,
                reuse_port=supervisor_settings() is not None,
            )
        except OSError as error:
            raise JoinError(
                f"process 0 cannot listen at {self._address} ({describe_error(error)}); valid: a "
                "free port and an address of this machine for --coordinator"
            ) from None
        hint = await asyncio.to_thread(self._address.reachability_warning)
        if hint:
            logger.warning("%s", hint.removeprefix("; "))
        try:
            async with asyncio.timeout(seconds):
                await self._complete
        except TimeoutError:
            missing = [i for i in range(1, self.count) if i not in self._connections]
            why = (
                f"process{'es' * (len(missing) > 1)} {', '.join(map(str, missing))} of "
                f"{self.count} did not come to {self._address} within {seconds:g} s; are they "
                f"started, with the same --coordinator? (--join-seconds waits longer){hint}"
            )
            await self._refuse_all(why, wrong=False)
            server.close()
            raise PeerError(why) from None
        self._reserved_port = hold_port(self._address.host)
        self.bind = self.coordinator = HostAddress(
            self._address.host, self._reserved_port.getsockname()[1]
        )
        self._send_message("welcome", host=self._self.host, pid=self._self.pid, port=self.bind.port)

    async def _greet_peer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = Connection(reader, writer)
        hello = await self._strangers.read_introduction(peer_messages.HelloMessage, connection)
        if hello is None:
            return
        now = time.monotonic()
        peer = PeerProcess(hello.index, hello.host, hello.pid, now, since=now)
        if why := self._mismatch_of(peer, hello.count, hello.attempt):
            await refuse_connection(connection, why, wrong=True)
            return
        connection.trust_peer()
        self._peers[peer.index], self._connections[peer.index] = peer, connection
        if len(self._connections) == self.count - 1:
            self._complete.set_result(None)
        with suppress(asyncio.CancelledError):  # as in the relay
            await self._listen_to(peer, connection)

    def _mismatch_of(self, peer: PeerProcess, count: int, theirs: int | None) -> str:
        """The reason why `peer` is refused; a wrong number of processes ends all."""
        if theirs != attempt_number():
            return f"{peer} is of attempt {theirs}, process 0 of attempt {attempt_number()}"
        if count != self.count:
            why = f"{peer} was started with --processes {count}, process 0 with {self.count}"
            if not self._complete.done():
                self._complete.set_exception(JoinError(why))
                self._start_task(self._refuse_all(why, wrong=True))
            return why
        if not 0 < peer.index < self.count:
            return f"{peer} is none of --processes {count}; valid: 1 to {count - 1}"
        if peer.index in self._peers:
            return f"--process {peer.index} is there already: {self._peers[peer.index]}"
        return ""

    async def _refuse_all(self, why: str, *, wrong: bool) -> None:
        self._ending = True  # who is refused hangs up, which is no loss to tell of
        self._send_message("refused", why=why, wrong=wrong)
        await self._finish_connections()

    async def _listen_to(self, peer: PeerProcess, connection: Connection) -> None:
        await self._hear_peer(peer, connection, peer_messages.TO_FIRST)
        if self._complete.done():
            await self._on_closed(peer)
        else:
            connection.close()
            del self._peers[peer.index], self._connections[peer.index]

    def _handle_message(
        self, peer: PeerProcess, connection: Connection, content: Any, message: Message
    ) -> None:
        match content:
            case peer_messages.BeatMessage():
                self._note_beat(peer, content)
            case peer_messages.GatherMessage():
                self._collect_value(content.name, peer.index, message.get("value"))
            case peer_messages.PostMessage():
                self._posts[content.name].append((peer.index, message.get("value")))
            case peer_messages.LeaveMessage():
                self._note_leave(peer, connection)
                if content.code:
                    self._start_task(
                        self._end_process(content.code, f"{peer} ended: {content.why}", GRACE)
                    )

    def _collect_value(self, name: str, index: int, value: Any) -> None:
        values = self._values[name]
        values[index] = value
        if len(values) == self.count:
            del self._values[name]
            all_values = [values[i] for i in range(self.count)]
            self._send_message("gathered", name=name, values=all_values)
            self._gathering.pop(name).set_result(all_values)

    async def _gather_values(self, name: str, value: Any) -> list[Any]:
        answer = self._gathering[name] = self._loop.create_future()
        self._collect_value(name, 0, value)
        self.waits += 1
        return await answer

    async def _send_last_words(self, code: int, reason: str) -> None:
        if code:
            await self._pass_on(code, f"{self._self} ended: {reason}", GRACE)
        else:
            self._send_message("bye")
            await self._finish_connections()

    async def _pass_on(self, code: int, why: str, grace: float) -> None:
        self._send_message("end", code=code, why=why, grace=grace)
        await self._finish_connections()

    def _send_message(self, kind: str, **content: Any) -> None:
        for connection in self._connections.values():
            connection.send(kind, **content)

    def _find_fault(self, now: float) -> str | None:
        present = asdict(self.present_activity)
        del present["key"]
        process = replace(self._self, **present, waits=self.waits)
        return find_fault([process, *self._peers.values()], now, self._limits)

    async def _finish_connections(self) -> None:
        await asyncio.gather(*(connection.finish() for connection in self._connections.values()))


def join_peers(
    index: int, count: int, address: HostAddress, limits: WatchLimits, seconds: float
) -> PeerGroup:
    """Meet the other processes.

    Raises:
        JoinError: as of `PeerGroup.wait_for_all`.
        PeerError: as of `PeerGroup.wait_for_all`.
    """
    group = (PeerMember if index else PeerHub)(index, count, address, limits)
    group.wait_for_all(seconds)
    set_peers(group)
    return group

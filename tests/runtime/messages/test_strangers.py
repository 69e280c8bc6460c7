"""Who only connects takes little memory, and no place from who belongs to the run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from mllm_jax.runtime.messages import strangers
from mllm_jax.runtime.messages.secret import present_secret
from mllm_jax.runtime.peers import PeerHub
from mllm_jax.runtime.watch import WatchLimits
from mllm_jax.runtime.wire import STRANGE, Connection, HostAddress
from tests.timing import PATIENCE

#: A connection to process 0, for a test.
Connect = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


def first_of(count: int, test: Callable[[PeerHub, Connect], Awaitable[None]]) -> None:
    """Test process 0 of so many, which listens."""

    async def run() -> None:
        first = PeerHub(0, count, HostAddress("127.0.0.1", 1), WatchLimits())
        writers = []
        async with await asyncio.start_server(first._greet_peer, "127.0.0.1", 0) as server:
            place = server.sockets[0].getsockname()

            async def connect() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
                reader, writer = await asyncio.open_connection(*place)
                writers.append(writer)
                return reader, writer

            await asyncio.wait_for(test(first, connect), PATIENCE)
            for writer in writers:
                writer.close()
            async with asyncio.timeout(5):
                await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})

    asyncio.run(run())


def test_what_a_stranger_sends_without_end_is_cut_off(caplog: pytest.LogCaptureFixture) -> None:
    async def test(first: PeerHub, connect: Connect) -> None:
        reader, writer = await connect()
        await reader.readline()  # the nonce
        while not writer.is_closing():  # as it is once the other end has closed
            writer.write(b"x" * STRANGE)
            await asyncio.sleep(0)
        assert not first._strangers._open

    first_of(2, test)
    assert "refused: a connection from 127.0.0.1: no message has come" in caplog.text


def test_who_connects_and_says_nothing_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(strangers, "BEGINNING", 0.05)

    async def test(first: PeerHub, connect: Connect) -> None:
        reader, _ = await connect()
        await reader.readline()  # the nonce
        assert await reader.read() == b""
        assert not first._strangers._open

    first_of(2, test)
    assert "refused: a connection from 127.0.0.1: it says nothing" in caplog.text


def test_of_too_many_strangers_the_oldest_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strangers, "MAX_STRANGERS", 1)

    async def test(first: PeerHub, connect: Connect) -> None:
        ends = [await connect() for _ in range(5)]
        for reader, _ in ends:
            await reader.readline()
        assert await ends[0][0].read() == b""
        assert len(first._strangers._open) == 4
        line = Connection(*await connect())
        await present_secret(line)
        line.send("hello", index=1, host="b", pid=7, count=3, attempt=None)
        while 1 not in first._peers:
            await asyncio.sleep(0.01)
        assert len(first._strangers._open) == 3
        assert await ends[1][0].read() == b""
        assert not any(reader.at_eof() for reader, _ in ends[2:])

    first_of(3, test)


@pytest.mark.parametrize("known", [False, True])
def test_only_who_belongs_to_the_run_may_send_long_lines(known: bool) -> None:
    async def received() -> list[Any]:
        reader = asyncio.StreamReader()
        line = Connection(reader, None)  # type: ignore[arg-type]
        if known:
            line.trust_peer()
        long = b'{"text": "' + b"x" * 2 * STRANGE + b'"}\n'
        for part in (b'{"a": 1}\n{"b"', b": 2}\n" + long, b'{"c": 3}'):
            reader.feed_data(part)
        reader.feed_eof()
        return [await line.receive() for _ in range(4)]

    first, second, long, last = asyncio.run(received())
    assert [first, second] == [{"a": 1}, {"b": 2}]
    assert (long is not None) == known
    assert last == ({"c": 3} if known else None)

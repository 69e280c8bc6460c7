"""Bytes between processes: who does not know the secret gets and gives none."""

from __future__ import annotations

import logging
import socket
import struct
from collections.abc import Iterator

import pytest

from mllm_jax.runtime.wire import HostAddress, Message
from mllm_jax.train.state.snapshots import channel
from mllm_jax.train.state.snapshots.channel import (
    STRANGE,
    MessageChannel,
    RequestServer,
    connect_to,
)
from tests.timing import PATIENCE, soon

SECRET = "of this run"


@pytest.fixture
def server() -> Iterator[RequestServer]:
    """Gives back what it is sent, twice."""

    def answer(channel: MessageChannel, message: Message) -> None:
        content = bytearray(message["bytes"])
        channel.receive_into(memoryview(content))
        channel.send({"bytes": 2 * len(content)})
        for _ in range(2):
            channel.send_bytes(memoryview(content))

    own = RequestServer("127.0.0.1", SECRET, answer)
    yield own
    own.close()


@pytest.mark.parametrize("size", [0, 1, 3_000_000])
def test_messages_and_bytes_come_as_they_were_sent(server, size):
    channel, content = connect_to(server.address, SECRET), bytes(range(256)) * (size // 256 + 1)
    for _ in range(2):
        channel.send({"kind": "twice", "bytes": size})
        channel.send_bytes(memoryview(content)[:size])
        back = bytearray(channel.receive()["bytes"])
        channel.receive_into(memoryview(back))
        assert back == 2 * content[:size]
    channel.close()


def test_who_lacks_the_secret_is_refused_and_named(server, caplog):
    with pytest.raises(OSError):  # whatever the system makes of a closed connection
        connect_to(server.address, "of another run")
    soon(lambda: "127.0.0.1 has connected without the secret of this run" in caplog.text)


def test_a_server_that_lacks_the_secret_is_refused(server, monkeypatch):
    monkeypatch.setattr(server, "_shares_secret", pretend)
    with pytest.raises(ConnectionError, match="has another secret: it is of another run"):
        connect_to(server.address, SECRET)


def pretend(channel: MessageChannel) -> bool:
    """A handshake of one that does not know the secret."""
    channel.send({"nonce": "1"})
    channel.receive()
    channel.send({"proof": "0" * 64})
    return True


@pytest.mark.parametrize("sent", [struct.pack(">Q", STRANGE + 1), struct.pack(">Q", 2) + b"[]"])
def test_a_stranger_can_neither_fill_the_memory_nor_confuse(server, sent, caplog):
    with socket.create_connection((server.address.host, server.address.port)) as stranger:
        stranger.recv(4096)  # the nonce
        stranger.sendall(sent)
        stranger.settimeout(10)
        assert not stranger.recv(4096)
    assert not [r for r in caplog.records if r.levelno >= logging.ERROR]


def test_of_too_many_strangers_the_oldest_is_sent_away(server, monkeypatch):
    monkeypatch.setattr(channel, "STRANGERS", 2)
    place = server.address.host, server.address.port
    known = connect_to(server.address, SECRET)
    known.send({"bytes": 0})
    assert known.receive() == {
        "bytes": 0
    }  # until it answers, the server may know it for a stranger
    strangers = [socket.create_connection(place, timeout=PATIENCE) for _ in range(3)]
    strangers[0].recv(4096)  # the nonce
    assert not strangers[0].recv(4096)
    for stranger in strangers[1:]:
        stranger.recv(4096)
        stranger.settimeout(0.1)
        with pytest.raises(TimeoutError):
            stranger.recv(4096)
    known.send({"bytes": 0})
    assert known.receive() == {"bytes": 0}
    for end in (known, *strangers):
        end.close()


def test_silence_counts_as_a_loss(monkeypatch):
    monkeypatch.setattr(channel, "SILENT", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = HostAddress("127.0.0.1", listening.getsockname()[1])
        with pytest.raises(OSError, match="timed out"):
            connect_to(address, SECRET)

"""Messages of other machines: none is taken whose types are wrong, or that a stranger sends."""

from __future__ import annotations

import asyncio
from dataclasses import asdict, dataclass
from typing import Any

import pytest

from mllm_jax.runtime.messages.secret import VARIABLE, RefusedError, ask, show
from mllm_jax.runtime.messages.typed import MessageError, content, read
from mllm_jax.runtime.messages.words import ANSWERS, FROM_FIRST, TO_FIRST, Beating, Hello, Post
from mllm_jax.runtime.peers import First
from mllm_jax.runtime.watch import Limits, Peer
from mllm_jax.runtime.wire import Address, Line

HELLO = {"kind": "hello", "index": 1, "host": "b", "pid": 7, "count": 2, "attempt": None}


def test_what_is_sent_is_read():
    assert content(Hello, HELLO) == Hello(1, "b", 7, 2, None)
    beating = Beating("step 1", 2.0, True, False)
    assert read(TO_FIRST, {"kind": "beat", **asdict(beating), "ago": 2}) == beating
    assert read(TO_FIRST, {"kind": "post", "name": "times", "value": {}}) == Post("times")


@pytest.mark.parametrize(
    ("field", "value"),
    [("index", "1"), ("index", 1.0), ("index", True), ("host", 3), ("attempt", "x"), ("pid", None)],
)
def test_a_field_of_another_type_is_named(field, value):
    with pytest.raises(MessageError, match=f"^hello: {field}: input should be a valid "):
        content(Hello, HELLO | {field: value})


def test_a_message_that_lacks_a_field_or_is_of_no_kind_is_refused():
    with pytest.raises(MessageError, match="hello: index: field required"):
        content(Hello, {})
    with pytest.raises(MessageError, match="no message has come"):
        read(ANSWERS, None)
    for kind in ("welcome", None, ["beat"], {"beat": 1}):
        with pytest.raises(MessageError, match=r"^kind: .*; valid: beat, gathered, bye, end$"):
            read(FROM_FIRST, {"kind": kind})


@dataclass
class Ends:
    """What the two ends of a connection have come to: an error, or None."""

    listening: Exception | None
    connecting: Exception | None


async def connected(
    monkeypatch: pytest.MonkeyPatch, here: str, there: str, listen: Any = ask
) -> Ends:
    """Both ends of a connection, whose processes have these secrets."""

    async def tried(work: Any, line: Line, own: str) -> Exception | None:
        monkeypatch.setenv(VARIABLE, own)  # which is read before anything is waited for
        try:
            await work(line)
        except (MessageError, RefusedError) as error:
            return error
        return None

    accepted = asyncio.get_running_loop().create_future()
    server = await asyncio.start_server(lambda *ends: accepted.set_result(ends), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    connecting = Line(*await asyncio.open_connection("127.0.0.1", port))
    listening = Line(*await accepted)
    found = await asyncio.gather(tried(listen, listening, here), tried(show, connecting, there))
    for line in (listening, connecting):
        line.close()
    server.close()
    return Ends(*found)


@pytest.mark.parametrize("own", ["", "of this run"])
def test_who_shares_the_secret_is_let_in(own, monkeypatch):
    assert asyncio.run(connected(monkeypatch, own, own)) == Ends(None, None)


@pytest.mark.parametrize(("here", "there"), [("a", "b"), ("a", ""), ("", "b")])
def test_who_has_another_secret_is_refused(here, there, monkeypatch):
    ends = asyncio.run(connected(monkeypatch, here, there))
    assert isinstance(ends.listening, MessageError)
    assert "it has connected without the secret of this run (MLLM_JAX_SECRET)" in str(
        ends.listening
    )
    assert isinstance(ends.connecting, RefusedError)
    assert f"its {VARIABLE} is not that of this process" in str(ends.connecting)


def test_one_that_listens_without_the_secret_is_no_process_of_the_run(monkeypatch):
    ends = asyncio.run(pretending(monkeypatch))
    assert "it has another secret (MLLM_JAX_SECRET): it is of another run" in str(ends)


async def pretending(monkeypatch: pytest.MonkeyPatch) -> Exception | None:
    """What comes of a connection to one that says anything for a proof."""

    async def pretend(line: Line) -> None:
        line.send("nonce", nonce="1")
        await line.receive()
        line.send("shown", proof="0" * 64)

    return (await connected(monkeypatch, "a", "a", pretend)).connecting


@pytest.mark.parametrize("index", [-1, 0, 2, 99])
def test_a_number_that_no_process_has_takes_no_seat(index):
    first = First(0, 2, Address("127.0.0.1", 1), Limits())
    told = f"process {index} (host b, pid 7) is none of --processes 2; valid: 1 to 1"
    assert first._unfit(Peer(index, "b", 7, heard=0.0), 2, None) == told

"""Messages of other machines: none is taken whose types are wrong, or that a stranger sends."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import pytest

from mllm_jax.runtime.messages.peer_messages import (
    ANSWERS,
    FROM_FIRST,
    TO_FIRST,
    BeatMessage,
    HelloMessage,
    PostMessage,
)
from mllm_jax.runtime.messages.secret import (
    VARIABLE,
    SecretRefusedError,
    compute_proof,
    is_proof,
    present_secret,
    request_secret,
)
from mllm_jax.runtime.messages.typed import MessageError, parse_content, parse_message
from mllm_jax.runtime.peers import PeerHub
from mllm_jax.runtime.watch import PeerProcess, WatchLimits
from mllm_jax.runtime.wire import Connection, HostAddress, Message

HELLO = {"kind": "hello", "index": 1, "host": "b", "pid": 7, "count": 2, "attempt": None}


def test_what_is_sent_is_read():
    assert parse_content(HelloMessage, HELLO) == HelloMessage(1, "b", 7, 2, None)
    beating = BeatMessage("step 1", 2.0, True, False)
    assert parse_message(TO_FIRST, {"kind": "beat", **asdict(beating), "ago": 2}) == beating
    assert parse_message(TO_FIRST, {"kind": "post", "name": "times", "value": {}}) == PostMessage(
        "times"
    )


@pytest.mark.parametrize(
    ("field", "value"),
    [("index", "1"), ("index", 1.0), ("index", True), ("host", 3), ("attempt", "x"), ("pid", None)],
)
def test_a_field_of_another_type_is_named(field, value):
    with pytest.raises(MessageError, match=f"^hello: {field}: input should be a valid "):
        parse_content(HelloMessage, HELLO | {field: value})


def test_a_message_that_lacks_a_field_or_is_of_no_kind_is_refused():
    with pytest.raises(MessageError, match="hello: index: field required"):
        parse_content(HelloMessage, {"kind": "hello"})
    with pytest.raises(MessageError, match="no message has come"):
        parse_message(ANSWERS, None)
    for kind in ("welcome", None, ["beat"], {"beat": 1}):
        with pytest.raises(MessageError, match=r"^kind: .*; valid: beat, gathered, bye, end$"):
            parse_message(FROM_FIRST, {"kind": kind})


@dataclass
class Ends:
    """What the two ends of a connection have come to: an error, or None."""

    listening: Exception | None
    connecting: Exception | None


async def connected(
    monkeypatch: pytest.MonkeyPatch, here: str, there: str, listen: Any = request_secret
) -> Ends:
    """Both ends of a connection, whose processes have these secrets."""

    async def tried(work: Any, line: Connection, own: str) -> Exception | None:
        monkeypatch.setenv(VARIABLE, own)  # which is read before anything is waited for
        try:
            await work(line)
        except (MessageError, SecretRefusedError) as error:
            return error
        return None

    accepted = asyncio.get_running_loop().create_future()
    server = await asyncio.start_server(lambda *ends: accepted.set_result(ends), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    connecting = Connection(*await asyncio.open_connection("127.0.0.1", port))
    listening = Connection(*await accepted)
    found = await asyncio.gather(
        tried(listen, listening, here), tried(present_secret, connecting, there)
    )
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
    assert isinstance(ends.connecting, SecretRefusedError)
    assert f"its {VARIABLE} is not that of this process" in str(ends.connecting)


def test_one_that_listens_without_the_secret_is_no_process_of_the_run(monkeypatch):
    ends = asyncio.run(pretending(monkeypatch))
    assert "it has another secret (MLLM_JAX_SECRET): it is of another run" in str(ends)


async def pretending(monkeypatch: pytest.MonkeyPatch) -> Exception | None:
    """What comes of a connection to one that says anything for a proof."""

    async def pretend(line: Connection) -> None:
        line.send("nonce", nonce="1")
        await line.receive()
        line.send("shown", proof="0" * 64)

    return (await connected(monkeypatch, "a", "a", pretend)).connecting


class Scripted:
    """A connection, without one: its other end answers what was sent so far.

    Args:
        answer: the answer, by what was sent.
    """

    def __init__(self, answer: Callable[[list[Message]], Message]) -> None:
        self._answer, self.sent = answer, list[Message]()

    def send(self, kind: str, **content: Any) -> None:
        self.sent.append({"kind": kind, **content})

    async def receive(self) -> Message:
        return self._answer(self.sent)


@pytest.fixture
def ours(monkeypatch: pytest.MonkeyPatch) -> str:
    """The secret of this process."""
    monkeypatch.setenv(VARIABLE, "of this run")
    return "of this run"


def begun(work: Any, answer: Callable[[list[Message]], Message]) -> Scripted:
    """A connection that has begun with such answers."""
    line = Scripted(answer)
    asyncio.run(work(line))
    return line


def test_a_proof_that_is_empty_is_none(ours: str) -> None:
    line = Scripted(lambda sent: {"nonce": "1", "proof": ""})
    with pytest.raises(MessageError, match="without the secret of this run"):
        asyncio.run(request_secret(line))  # type: ignore[arg-type]
    assert [own["kind"] for own in line.sent] == ["nonce", "refused"]


def test_what_was_overheard_proves_nothing(ours: str) -> None:
    """Neither to who listens nor to who connects: both choose a number anew."""

    def connects(sent: list[Message]) -> Message:
        return {"nonce": "1", "proof": compute_proof(ours, sent[0]["nonce"], "1")}

    def listens(sent: list[Message]) -> Message:
        return (
            {"nonce": "1", "proof": compute_proof(ours, sent[0]["nonce"], "1")}
            if sent
            else {"nonce": "1"}
        )

    for work, honest in ((request_secret, connects), (present_secret, listens)):
        overheard = honest(begun(work, honest).sent)

        def replays(_: list[Message], own: Message = overheard) -> Message:
            return own

        with pytest.raises(MessageError, match="secret"):
            begun(work, replays)


def test_a_mirror_does_not_know_the_secret(ours: str) -> None:
    """It listens, and says what it is told."""
    with pytest.raises(MessageError, match="it has another secret"):
        begun(present_secret, lambda sent: {"nonce": "1", **(sent[0] if sent else {})})


def test_proofs_are_compared_in_a_time_that_tells_nothing(monkeypatch) -> None:
    compared = []

    def equal(own: bytes, other: bytes) -> bool:
        compared.append((own, other))
        return own == other

    monkeypatch.setattr(hmac, "compare_digest", equal)
    right = compute_proof("a", "1", "2")
    assert is_proof(right, "a", "1", "2")
    assert not is_proof("\ud800", "a", "1", "2")
    assert compared == [(right.encode(), right.encode()), (b"?", right.encode())]


@pytest.mark.parametrize("index", [-1, 0, 2, 99])
def test_a_number_that_no_process_has_takes_no_seat(index):
    first = PeerHub(0, 2, HostAddress("127.0.0.1", 1), WatchLimits())
    told = f"process {index} (host b, pid 7) is none of --processes 2; valid: 1 to 1"
    assert first._mismatch_of(PeerProcess(index, "b", 7, heard=0.0), 2, None) == told

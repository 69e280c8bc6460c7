"""What supervisors tell each other: nothing else takes a seat, ends a run or begins an attempt."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from mllm_jax.config import refit
from mllm_jax.runtime.messages.secret import VARIABLE, SecretRefusedError, present_secret
from mllm_jax.runtime.messages.typed import MessageError
from mllm_jax.runtime.wire import Connection, HostAddress, Message
from mllm_jax.supervise import messages
from mllm_jax.supervise.coordinator_events import (
    BeginAttempt,
    FinishRun,
    HaltAttempt,
    HeartbeatReceived,
    ProcessEnded,
    SupervisorJoined,
)
from mllm_jax.supervise.ends import ProcessEnd
from mllm_jax.supervise.leader import LeaderSupervisor
from mllm_jax.supervise.messages import (
    CHANGED,
    LeaderAlive,
    SupervisorHello,
    SupervisorRefused,
    exchange_ages,
    parse_event,
    parse_order,
)
from mllm_jax.supervise.supervisor import SupervisorConfig
from tests.runtime.messages.test_messages import connected, pretending
from tests.supervise.test_coordinator import beat

ENDED = ProcessEnded(3, ProcessEnd(1, "b", 97, -9, 41, "step 41", 0.5, True, "stacks"))


def sent(item: Any, kind: str = "") -> Message:
    """A message as it comes at the other end."""
    text = json.dumps(
        {"kind": kind or messages.message_kind(item), **messages.message_content(item)}
    )
    message: Message = json.loads(text)
    return message


@pytest.mark.parametrize(
    "item",
    [
        LeaderAlive(0, ((1, "b:1"), (2, "c:1"))),
        BeginAttempt(
            2, False, (0, 2), "a:77", ("parallel.devices=4", 'parallel.decoder={"data": 4}')
        ),
        HaltAttempt(2),
        FinishRun(6, "gone"),
        SupervisorRefused("comes too late"),
    ],
)
def test_what_the_one_that_leads_says_is_read(item):
    assert parse_order(sent(item)) == item


def test_what_the_others_say_is_read():
    assert parse_event(sent(ENDED), 1, 9.0) == ENDED
    signed = {
        "kind": "heartbeat",
        "beat": asdict(exchange_ages(beat(step=4, since=2.0, time=3.0), 5.0)),
    }
    assert parse_event(signed, 1, 5.0) == HeartbeatReceived(1, beat(step=4, since=2.0, time=3.0))
    assert parse_event({"kind": "alive"}, 1, 5.0) is None
    with pytest.raises(MessageError, match="ended: the end of process 1, not of 2"):
        parse_event(sent(ENDED), 2, 9.0)


@pytest.mark.parametrize(
    ("message", "why"),
    [
        ({"kind": "GET"}, "kind: 'GET'; valid: alive, begin, halt, finish, leave, refused"),
        ({"kind": "halt", "attempt": "2"}, "halt: attempt: input should be a valid integer"),
        (
            sent(BeginAttempt(2, False)) | {"hosts": [0, "1"]},
            "begin: hosts.1: input should be a valid",
        ),
        (sent(BeginAttempt(2, False)) | {"hosts": 0}, "begin: hosts: input should be a valid"),
        (
            sent(BeginAttempt(2, False)) | {"anew": 1},
            "begin: anew: input should be a valid boolean",
        ),
        (sent(LeaderAlive(0, ())) | {"successors": [[1]]}, "alive: successors.0"),
        (
            sent(BeginAttempt(2, False, overrides=("run.compiled_steps=/x",))),
            "begin: run.compiled_steps=",
        ),
        (
            sent(BeginAttempt(2, False, overrides=("model_x=1",))),
            "begin: model_x=1; valid: parallel, ",
        ),
    ],
)
def test_what_no_supervisor_says_begins_nothing(message, why):
    with pytest.raises(MessageError) as refused:
        parse_order(message)
    assert why in str(refused.value)


def test_plans_change_what_one_that_leads_may_change():
    assert {*refit._SEARCHED} == {*CHANGED}


def greeted(folder: Path, *said: Message) -> LeaderSupervisor:
    """A supervisor that leads, after one that has shown the secret has said something to it."""

    async def tried() -> LeaderSupervisor:
        leader = LeaderSupervisor(["x"], SupervisorConfig(folder, count=2))
        server = await asyncio.start_server(leader._greet_supervisor, "127.0.0.1", 0)
        async with server:
            line = Connection(*await asyncio.open_connection(*server.sockets[0].getsockname()))
            await present_secret(line)
            for message in said:
                line.send(**message)
            while await line.receive() is not None:
                pass
            line.close()
        return leader

    return asyncio.run(tried())


def hello(folder: Path, **joined: Any) -> Message:
    """The first message of the supervisor of process 1."""
    own = asdict(SupervisorHello(str(folder), 2, SupervisorJoined(1, "b", 97)))
    return {"kind": "hello", **own, "joined": own["joined"] | joined}


@pytest.mark.parametrize("wrong", [{"attempt": "x"}, {"process": "1"}, {"pid": None}])
def test_a_hello_of_wrong_types_takes_no_seat(wrong, tmp_path, caplog):
    leader = greeted(tmp_path, hello(tmp_path, **wrong))
    assert leader._others == {}
    assert leader._coordinator._places == {}
    (field,) = wrong
    told = f"refused: a connection from 127.0.0.1: hello: joined.{field}: input should be a valid "
    assert told in caplog.text
    assert "Traceback" not in caplog.text


def test_who_has_a_seat_loses_it_by_a_message_that_is_none(tmp_path, caplog):
    leader = greeted(tmp_path, hello(tmp_path), {"kind": "heartbeat", "beat": {"attempt": "x"}})
    assert leader._others == {}
    told = "the supervisor of process 1 (host b): heartbeat: beat.attempt: input should be a valid "
    assert f"{told}integer; its connection is closed" in " ".join(caplog.messages)


def of_strangers(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Says what the runbook has of connections that are none of the run."""
    greeted(folder, hello(folder, attempt="x"))
    with monkeypatch.context() as patched:
        patched.setattr(sys.modules[__name__], "present_secret", scans)
        greeted(folder)
    others = connected(monkeypatch, "a", "b"), pretending(monkeypatch)
    ends = [asyncio.run(other) for other in others]
    return [str(own) for own in ends]


async def scans(line: Connection) -> None:
    """What a scanner says."""
    line._writer.write(b"GET / HTTP/1.1\r\n\r\n")


async def refuses(_: HostAddress) -> None:
    """What a supervisor says to one that has another secret."""
    raise SecretRefusedError(f"its {VARIABLE} is not that of this process")


async def shows_nothing(_: object) -> None:
    """What listens is no process of a run."""
    raise MessageError("nonce: field required")

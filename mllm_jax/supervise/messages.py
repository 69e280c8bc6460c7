"""Messages between supervisors: JSON objects, one a line, over TCP (`mllm_jax.runtime.wire`).

Here the supervisor of process 0 leads::

    process 1  -- hello -->   process 0   <-- hello --  process 2
               -- heartbeat -->           <-- heartbeat --      (every half second)
               <- begin --                - begin -->           (of an attempt)
               -- ended -->               <-- ended --
               <- halt --                 - halt -->
               <- finish --               - finish -->          (of the run)
               <- leave ---               - leave --->          (of the lead)

First, both ends prove that they know the secret of the run, if it has one
(`mllm_jax.runtime.messages.secret`).
Clocks of machines differ, so times in heartbeats are sent as ages.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

from mllm_jax.runtime.messages.typed import MessageError, parse_message
from mllm_jax.runtime.supervised.heartbeats import Heartbeat
from mllm_jax.runtime.wire import Message
from mllm_jax.supervise.coordinator_events import (
    BeginAttempt,
    FinishRun,
    HaltAttempt,
    HeartbeatReceived,
    LeaveRun,
    ProcessEnded,
    SupervisorJoined,
)

#: Bytes of the longest message.
LONGEST = 2**20
#: Keys that a plan for fewer hosts changes, with those below them: a supervisor that leads sets no
#: others, such as folders whose files are run as code.
CHANGED = ("parallel", "schedule", "model", "data.rows", "train.accumulate")


@dataclass(frozen=True)
class SupervisorHello:
    """The first message of a supervisor to the one that leads.

    Attributes:
        run: folder of its run.
        count: number of processes that it was started with.
        joined: who it is.
    """

    run: str
    count: int
    joined: SupervisorJoined


@dataclass(frozen=True)
class HeartbeatMessage:
    """A heartbeat of the training process; its times are ages."""

    beat: Heartbeat


@dataclass(frozen=True)
class PresentMessage:
    """A heartbeat of a supervisor that has no training process."""


@dataclass(frozen=True)
class LeaderAlive:
    """A heartbeat of the supervisor that leads.

    Attributes:
        process: number of its training process.
        successors: numbers of the other hosts and addresses of their supervisors, in the order in
            which they take the lead if the one that has it does not come back; none if all hosts
            are needed.
    """

    process: int
    successors: tuple[tuple[int, str], ...]


@dataclass(frozen=True)
class SupervisorRefused:
    """The supervisor that leads refuses another one, for this reason."""

    why: str


#: Messages to and from the supervisor that leads, by kind.
TO_LEADER = {"alive": PresentMessage, "heartbeat": HeartbeatMessage, "ended": ProcessEnded}
FROM_LEADER = {
    "alive": LeaderAlive,
    "begin": BeginAttempt,
    "halt": HaltAttempt,
    "finish": FinishRun,
    "leave": LeaveRun,
    "refused": SupervisorRefused,
}
#: Messages by kind, as one of both sends them.
_SENT = FROM_LEADER | {"ended": ProcessEnded}
SupervisorOrder = (
    LeaderAlive | BeginAttempt | HaltAttempt | FinishRun | LeaveRun | SupervisorRefused
)


def exchange_ages(beat: Heartbeat, now: float) -> Heartbeat:
    """Turn the times of a heartbeat into ages at the time `now`, and ages into times."""
    return replace(beat, time=now - beat.time, since=now - beat.since)


def parse_event(
    message: Message, process: int, now: float
) -> HeartbeatReceived | ProcessEnded | None:
    """The event in a message from the supervisor of `process`; None for one that is only there.

    Raises:
        MessageError: the message is none of a supervisor, or tells of another process.
    """
    match parse_message(TO_LEADER, message):
        case HeartbeatMessage(beat):
            return HeartbeatReceived(process, exchange_ages(beat, now))
        case ProcessEnded() as ended if ended.end.process != process:
            raise MessageError(f"ended: the end of process {ended.end.process}, not of {process}")
        case ProcessEnded() as ended:
            return ended
    return None


def parse_order(message: Message) -> SupervisorOrder:
    """What a message from the supervisor that leads says.

    Raises:
        MessageError: the message is none of a supervisor, or begins what is no attempt of a run.
    """
    order: SupervisorOrder = parse_message(FROM_LEADER, message)
    if isinstance(order, BeginAttempt):
        for word in order.overrides:
            if not any(word.startswith((f"{key}=", f"{key}.")) for key in CHANGED):
                raise MessageError(f"begin: {word[:80]}; valid: {', '.join(CHANGED)}")
    return order


def message_kind(item: SupervisorOrder | ProcessEnded) -> str:
    """The kind of a message that holds `item`."""
    return next(kind for kind, message in _SENT.items() if message is type(item))


def message_content(item: SupervisorOrder | ProcessEnded) -> Message:
    """The rest of that message."""
    return asdict(item)

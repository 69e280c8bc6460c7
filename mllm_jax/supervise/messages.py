"""What supervisors tell each other: JSON objects, one a line, over TCP (`mllm_jax.runtime.wire`).

Here that of process 0 leads::

    process 1  -- hello -->   process 0   <-- hello --  process 2
               -- sign -->                <-- sign --           (every half second)
               <- begin --                - begin -->           (of an attempt)
               -- ended -->               <-- ended --
               <- halt --                 - halt -->
               <- finish --               - finish -->          (of the run)
               <- leave ---               - leave --->          (of the lead)

Before, both ends show the secret of the run, if it has one (`mllm_jax.runtime.messages.secret`).
Clocks of machines differ, so times of signs travel as ages.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

from mllm_jax.runtime.messages.typed import MessageError, read
from mllm_jax.runtime.supervised.beats import Beat
from mllm_jax.runtime.wire import Message
from mllm_jax.supervise.conductor import Begin, Ended, Finish, Halt, Joined, Leave, Sign

#: Bytes of the longest message.
LONGEST = 2**20
#: Keys that a plan for fewer hosts changes, with those below them: a supervisor that leads sets no
#: others, such as folders whose files are run as code.
CHANGED = ("parallel", "schedule", "model", "data.rows", "train.accumulate")


@dataclass(frozen=True)
class Hello:
    """The first message of a supervisor to the one that leads.

    Attributes:
        run: folder of its run.
        count: number of processes that it was started with.
        joined: who it is.
    """

    run: str
    count: int
    joined: Joined


@dataclass(frozen=True)
class Signed:
    """A sign of life of the training process; its times are ages."""

    beat: Beat


@dataclass(frozen=True)
class Present:
    """A sign of life of a supervisor that has no training process."""


@dataclass(frozen=True)
class Alive:
    """A sign of life of the supervisor that leads.

    Attributes:
        process: number of its training process.
        successors: numbers of the other hosts and addresses of their supervisors, in the order in
            which they take the lead if the one that has it does not come back; none if all hosts
            are needed.
    """

    process: int
    successors: tuple[tuple[int, str], ...]


@dataclass(frozen=True)
class Refused:
    """The supervisor that leads refuses another one: why."""

    why: str


#: What the supervisor that leads hears, and what it says.
TO_LEADER = {"alive": Present, "sign": Signed, "ended": Ended}
FROM_LEADER = {
    "alive": Alive,
    "begin": Begin,
    "halt": Halt,
    "finish": Finish,
    "leave": Leave,
    "refused": Refused,
}
Order = Alive | Begin | Halt | Finish | Leave | Refused


def aged(beat: Beat, now: float) -> Beat:
    """Times of a sign as ages at the time `now`, and ages as times."""
    return replace(beat, time=now - beat.time, since=now - beat.since)


def event(message: Message, process: int, now: float) -> Sign | Ended | None:
    """The event in a message from the supervisor of `process`; None for one that is only there.

    Raises:
        MessageError: the message is none of a supervisor, or tells of another process.
    """
    match read(TO_LEADER, message):
        case Signed(beat):
            return Sign(process, aged(beat, now))
        case Ended() as ended if ended.end.process != process:
            raise MessageError(f"ended: the end of process {ended.end.process}, not of {process}")
        case Ended() as ended:
            return ended
    return None


def action(message: Message) -> Order:
    """What a message from the supervisor that leads says.

    Raises:
        MessageError: the message is none of a supervisor, or begins what is no attempt of a run.
    """
    found: Order = read(FROM_LEADER, message)
    if isinstance(found, Begin):
        for word in found.overrides:
            if not any(word.startswith((f"{key}=", f"{key}.")) for key in CHANGED):
                raise MessageError(f"begin: {word[:80]}; valid: {', '.join(CHANGED)}")
    return found


def kind(item: Order | Ended) -> str:
    """The kind of a message that holds `item`."""
    return type(item).__name__.lower()


def content(item: Order | Ended) -> Message:
    """The rest of that message."""
    return asdict(item)

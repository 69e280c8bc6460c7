"""What supervisors tell each other: JSON objects, one a line, over TCP (`mllm_jax.runtime.wire`).

Here that of process 0 leads::

    process 1  -- hello -->   process 0   <-- hello --  process 2
               -- sign -->                <-- sign --           (every half second)
               <- begin --                - begin -->           (of an attempt)
               -- ended -->               <-- ended --
               <- halt --                 - halt -->
               <- finish --               - finish -->          (of the run)

Clocks of machines differ, so times of signs travel as ages.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

from mllm_jax.runtime.supervised.beats import Beat
from mllm_jax.runtime.wire import Message
from mllm_jax.supervise.conductor import Begin, Ended, Finish, Halt, Joined, Sign
from mllm_jax.supervise.ends import End

#: Bytes of the longest message.
LONGEST = 2**20


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

    @classmethod
    def read(cls, message: Message) -> Hello:
        """Inverse of `asdict`.

        Raises:
            MessageError: the message is none of a supervisor.
        """
        try:
            return cls(message["run"], message["count"], Joined(**message["joined"]))
        except (KeyError, TypeError) as error:
            raise MessageError(f"{message} is no hello of a supervisor") from error


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


class MessageError(ValueError):
    """A message that no supervisor sends."""


def aged(beat: Beat, now: float) -> Beat:
    """Times of a sign as ages at the time `now`, and ages as times."""
    return replace(beat, time=now - beat.time, since=now - beat.since)


def event(message: Message, process: int, now: float) -> Sign | Ended | None:
    """The event in a message from the supervisor of `process`; None for one that only says hello.

    Raises:
        MessageError: the message is none of a supervisor, or tells of another process.
    """
    try:
        match message["kind"]:
            case "alive":
                return None
            case "sign":
                return Sign(process, aged(Beat(**message["beat"]), now))
            case "ended" if message["end"]["process"] == process:
                return Ended(message["attempt"], End(**message["end"]))
    except (KeyError, TypeError) as error:
        raise MessageError(f"{message} is no message of a supervisor") from error
    raise MessageError(f"{message} is no message of the supervisor of process {process}")


def action(message: Message) -> Alive | Begin | Halt | Finish:
    """What a message from the supervisor that leads says.

    Raises:
        MessageError: the message is none of a supervisor.
    """
    content = {name: value for name, value in message.items() if name != "kind"}
    try:
        match message.get("kind"):
            case "alive":
                successors = ((number, address) for number, address in content["successors"])
                return Alive(content["process"], tuple(successors))
            case "begin":
                lists = {name: tuple(content[name]) for name in ("hosts", "overrides")}
                return Begin(**content | lists)
            case "halt":
                return Halt(**content)
            case "finish":
                return Finish(**content)
    except (KeyError, TypeError, ValueError) as error:
        raise MessageError(f"{message} is no message of a supervisor") from error
    raise MessageError(f"{message} is no message of a supervisor")


def kind(item: Alive | Begin | Halt | Finish | Ended) -> str:
    """The kind of a message that holds `item`."""
    return type(item).__name__.lower()


def content(item: Alive | Begin | Halt | Finish | Ended) -> Message:
    """The rest of that message."""
    return asdict(item)

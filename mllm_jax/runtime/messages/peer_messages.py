"""The messages between the training processes of a run, see `mllm_jax.runtime.peers`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class HelloMessage:
    """The first message to process 0: who it is, the number of processes, and the attempt."""

    index: int
    host: str
    pid: int
    count: int
    attempt: int | None


@dataclass(frozen=True)
class WelcomeMessage:
    """The answer of process 0: who it is, and the port of JAX's coordinator."""

    host: str
    pid: int
    port: int


@dataclass(frozen=True)
class RefusedMessage:
    """The refusal of a process that is not of the run; `wrong` if it was started wrongly."""

    why: str
    wrong: bool


@dataclass(frozen=True)
class BeatMessage:
    """A heartbeat: the activity of the process, see `ProcessActivity`, its age in seconds, and
    the
    number of its waits, see `Peers.waits`."""

    event: str
    ago: float
    limited: bool
    waiting: bool
    allowed: float = 0.0
    waits: int = 0


@dataclass(frozen=True)
class GatherMessage:
    """A value of the process for all; the message holds it as `value`."""

    name: str


@dataclass(frozen=True)
class GatheredMessage:
    """The values of all processes; the message holds them as `values`."""

    name: str


@dataclass(frozen=True)
class PostMessage:
    """A value for process 0 alone; the message holds it as `value`."""

    name: str


@dataclass(frozen=True)
class LeaveMessage:
    """Last words: an exit code, and why if it is not 0."""

    code: int = 0
    why: str = ""


@dataclass(frozen=True)
class EndMessage:
    """All are to end with a code, by themselves within `grace` seconds."""

    code: int
    why: str
    grace: float


#: What process 0 hears from the others, and they from it, once they have met.
TO_FIRST = {"beat": BeatMessage, "gather": GatherMessage, "post": PostMessage, "bye": LeaveMessage}
FROM_FIRST = {
    "beat": BeatMessage,
    "gathered": GatheredMessage,
    "bye": LeaveMessage,
    "end": EndMessage,
}
#: What it answers first.
ANSWERS = {"welcome": WelcomeMessage, "refused": RefusedMessage}

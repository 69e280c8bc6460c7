"""The events that the coordinator of a run receives, and the actions that it returns."""

from __future__ import annotations

from dataclasses import dataclass

from mllm_jax.runtime.supervised.heartbeats import Heartbeat
from mllm_jax.supervise.ends import ProcessEnd


@dataclass(frozen=True)
class SupervisorJoined:
    """A supervisor has come.

    Attributes:
        process: number of its training process.
        host: name of its machine.
        pid: id of the supervisor.
        attempt: newest attempt that it knows of.
    """

    process: int
    host: str
    pid: int
    attempt: int = 0

    def is_same_supervisor(self, other: SupervisorJoined) -> bool:
        """Whether both are of one supervisor."""
        return (self.host, self.pid) == (other.host, other.pid)


@dataclass(frozen=True)
class SupervisorLeft:
    """A supervisor has gone, and its training process with it."""

    process: int


@dataclass(frozen=True)
class HeartbeatReceived:
    """A heartbeat of a training process; its times are of the coordinator's clock."""

    process: int
    beat: Heartbeat


@dataclass(frozen=True)
class ProcessEnded:
    """A training process has ended."""

    attempt: int
    end: ProcessEnd


@dataclass(frozen=True)
class LeaderInterrupted:
    """The supervisor that leads was asked to stop; its process, if there is one, was, too."""


CoordinatorEvent = (
    SupervisorJoined | SupervisorLeft | HeartbeatReceived | ProcessEnded | LeaderInterrupted
)


@dataclass(frozen=True)
class BeginAttempt:
    """Start the training processes of an attempt.

    Attributes:
        attempt: number of the attempt.
        anew: whether no attempt has taken a step so far.
        hosts: numbers of the hosts that take part; their processes are numbered in this order.
        coordinator: where the processes of the attempt meet; empty for a single process.
        overrides: words that change the configuration for fewer hosts.
    """

    attempt: int
    anew: bool
    hosts: tuple[int, ...] = (0,)
    coordinator: str = ""
    overrides: tuple[str, ...] = ()


@dataclass(frozen=True)
class HaltAttempt:
    """End the training processes of the attempt that have not ended."""

    attempt: int


@dataclass(frozen=True)
class FinishRun:
    """The run is over, and the supervisors end with this code; why is empty if all is well."""

    code: int
    why: str = ""


@dataclass(frozen=True)
class LeaveRun:
    """The supervisor that leads ends with this code, and the others go on without its host."""

    code: int
    why: str


@dataclass(frozen=True)
class LogLine:
    """A line for the log."""

    text: str


@dataclass(frozen=True)
class AttemptOver:
    """An attempt is over.

    Attributes:
        attempt: number of the attempt.
        seconds: seconds since its begin.
        hung: whether a process of it hung.
        again: whether another attempt follows.
        code: exit code of the process that explains the end.
        why: reason of the end.
    """

    attempt: int
    seconds: float
    hung: bool
    again: bool
    code: int
    why: str


CoordinatorAction = BeginAttempt | HaltAttempt | FinishRun | LeaveRun | LogLine | AttemptOver

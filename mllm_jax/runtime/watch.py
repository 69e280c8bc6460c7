"""The state of the processes of a run, and which of them is at fault when the run stands still."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """The limits beyond which a process is at fault.

    Attributes:
        silent: seconds without a sign of life: the process is stopped, or its machine is gone.
        stalled: seconds without an event of any process, in what should not take long; None: no
            limit.
        longest: seconds without an event of a process in what may take long, e.g. compiling; None:
            no limit.
        stalled_by: what sets `stalled`, for messages.
    """

    silent: float = 60.0
    stalled: float | None = 1800.0
    longest: float | None = 43200.0
    stalled_by: str = "run.stall_seconds"


LIMITS = Limits()


@dataclass
class Peer:
    """A process as another one knows it. Times are of the clock of the process that keeps this.

    Attributes:
        index: number of the process.
        host: name of the process' machine.
        pid: id of the process on this machine.
        heard: time of the last sign of life.
        event: last event of the process.
        since: time of the last event.
        limited: whether the present activity should end within `Limits.stalled`.
        waiting: whether the process only waits for others now.
        ended: whether the process has announced its end.
    """

    index: int
    host: str
    pid: int
    heard: float
    event: str = "start"
    since: float = 0.0
    limited: bool = False
    waiting: bool = False
    ended: bool = False

    def __str__(self) -> str:
        return f"process {self.index} (host {self.host}, pid {self.pid})"

    def last(self, now: float) -> str:
        """The last event of the process and its time."""
        return f"its last event: {self.event}, {now - self.since:.0f} s ago"


def fault(peers: Iterable[Peer], now: float, limits: Limits) -> str | None:
    """The process at fault and why, or None.

    A silent process is at fault, and so is one that takes longer than any activity may. Where all
    are alive and none goes on, it is the one whose last event is the oldest, of those that do not
    say themselves that they wait: the others wait for it.
    """
    there = [peer for peer in peers if not peer.ended]
    silent = [peer for peer in there if now - peer.heard > limits.silent]
    if silent:
        worst = min(silent, key=lambda peer: peer.heard)
        return (
            f"{worst} is stuck or gone: no sign of life for {now - worst.heard:.0f} s "
            f"(run.hang_seconds is {limits.silent:g}); {worst.last(now)}"
        )
    return _endless(there, now, limits.longest) or _stalled(there, now, limits)


def _endless(there: Sequence[Peer], now: float, longest: float | None) -> str | None:
    """The process that exceeds the limit of activities that may take long, such as compiling."""
    busy = [peer for peer in there if not peer.limited]
    if longest is None or not busy:
        return None
    worst = min(busy, key=lambda peer: peer.since)
    if now - worst.since <= longest:
        return None
    return f"{worst} takes longer than {longest:g} s (run.phase_seconds); {worst.last(now)}"


def _stalled(there: Sequence[Peer], now: float, limits: Limits) -> str | None:
    """The process that stopped first, if no process goes on with work that should not take long."""
    stalled, by = limits.stalled, limits.stalled_by
    if stalled is None or not there or not all(peer.limited for peer in there):
        return None
    if now - max(peer.since for peer in there) <= stalled:
        return None
    working = [peer for peer in there if not peer.waiting]
    if not working:
        each = "; ".join(f"{peer}: {peer.last(now)}" for peer in there)
        return f"all processes wait for each other since {stalled:.4g} s ({by}): {each}"
    worst = min(working, key=lambda peer: peer.since)
    return (
        f"{worst} is stuck: no process goes on since {stalled:.4g} s ({by}), and "
        f"it is the one that stopped first; {worst.last(now)}"
    )

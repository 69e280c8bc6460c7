"""What is known of the processes of a run, and which of them is at fault when it stands still."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """When a process is at fault.

    Attributes:
        silent: seconds without a sign of life: it is stopped, or its machine is gone.
        stalled: seconds without an event of any process, in what should not take long; None: no
            limit.
    """

    silent: float = 60.0
    stalled: float | None = 1800.0


LIMITS = Limits()


@dataclass
class Peer:
    """A process as another one knows it. Times are those of the clock of who keeps this.

    Attributes:
        index: its number.
        host: its machine.
        pid: its number there.
        heard: when it gave its last sign of life.
        event: what it did last.
        since: when it did that.
        limited: whether what it does now should end within `Limits.stalled`.
        ended: whether it has taken its leave.
    """

    index: int
    host: str
    pid: int
    heard: float
    event: str = "start"
    since: float = 0.0
    limited: bool = False
    ended: bool = False

    def __str__(self) -> str:
        return f"process {self.index} (host {self.host}, pid {self.pid})"

    def last(self, now: float) -> str:
        """Its last event and when that was."""
        return f"its last event: {self.event}, {now - self.since:.0f} s ago"


def fault(peers: Iterable[Peer], now: float, limits: Limits) -> str | None:
    """The process at fault and why, or None.

    Who is silent is at fault. Where all are alive and none goes on, it is the one whose last event
    is the oldest: the others wait for it.
    """
    there = [peer for peer in peers if not peer.ended]
    silent = [peer for peer in there if now - peer.heard > limits.silent]
    if silent:
        worst = min(silent, key=lambda peer: peer.heard)
        return (
            f"{worst} is stuck or gone: no sign of life for {now - worst.heard:.0f} s "
            f"(run.hang_seconds is {limits.silent:g}); {worst.last(now)}"
        )
    if limits.stalled is None or not there or not all(peer.limited for peer in there):
        return None
    if now - max(peer.since for peer in there) <= limits.stalled:
        return None
    worst = min(there, key=lambda peer: peer.since)
    return (
        f"{worst} is stuck: no process goes on since {limits.stalled:g} s (run.stall_seconds), and "
        f"it is the one that stopped first; {worst.last(now)}"
    )

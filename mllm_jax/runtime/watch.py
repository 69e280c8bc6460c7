"""The state of the processes of a run, and which of them is at fault when the run stands still."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf


@dataclass(frozen=True)
class Limit:
    """How long an event may last.

    Attributes:
        seconds: the most seconds; infinity where there is no limit.
        by: what sets them, for messages.
    """

    seconds: float
    by: str


@dataclass(frozen=True)
class Limits:
    """The limits beyond which a process is at fault.

    Attributes:
        silent: seconds without a sign of life: the process is stopped, or its machine is gone.
        stalled: seconds without an event of any process, in what should not take long; None: no
            limit.
        longest: seconds without an event of a process in what may take long, e.g. compiling; None:
            no limit.
    """

    silent: float = 60.0
    stalled: float | None = 1800.0
    longest: float | None = 43200.0

    def of(self, *, limited: bool) -> Limit:
        """The limit of an event that should not take long (`limited`), or of one that may."""
        seconds, by = (self.longest, "run.phase_seconds")
        if limited:
            seconds, by = (self.stalled, "run.stall_seconds")
        return Limit(inf if seconds is None else seconds, by)

    def allowing(self, limit: Limit, allowed: float) -> Limit:
        """The limit of an event that has `limit` elsewhere.

        Args:
            allowed: seconds for which a place that holds it up is tried again; 0 without one.
        """
        if allowed + self.silent <= limit.seconds or not allowed:
            return limit
        return Limit(allowed + self.silent, "run.hang_seconds beyond retry_seconds")


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
        allowed: seconds for which a place that holds it up now is tried again; 0 without one.
        ended: whether the process has announced its end.
        limit: how long the last event may last, where that is known better than from `Limits`.
        waits: begins and ends of its waits for all processes, counted together: odd within one.
    """

    index: int
    host: str
    pid: int
    heard: float
    event: str = "start"
    since: float = 0.0
    limited: bool = False
    waiting: bool = False
    allowed: float = 0.0
    ended: bool = False
    limit: Limit | None = None
    waits: int = 0

    def __str__(self) -> str:
        return f"process {self.index} (host {self.host}, pid {self.pid})"

    def last(self, now: float) -> str:
        """The last event of the process and its time."""
        return f"its last event: {self.event}, {now - self.since:.0f} s ago"


def fault(peers: Iterable[Peer], now: float, limits: Limits) -> str | None:
    """The process at fault and why, or None.

    A silent process is at fault, and so is one that takes longer than its activity may. Where all
    are alive and none goes on, it is one in a wait that others are beyond: no process comes out of
    a wait for all before all have entered it, so that wait is over. If there is none, it is the one
    whose last event is the oldest, of those that do not say themselves that they wait: the others
    wait for it.
    """
    there = [peer for peer in peers if not peer.ended]
    silent = [peer for peer in there if now - peer.heard > limits.silent]
    if silent:
        worst = min(silent, key=lambda peer: peer.heard)
        return (
            f"{worst} is stuck or gone: no sign of life for {now - worst.heard:.0f} s "
            f"(run.hang_seconds is {limits.silent:g}); {worst.last(now)}"
        )
    busy = [peer for peer in there if not peer.limited and not peer.waiting]
    return _endless(busy, now, limits) if busy else _stalled(there, now, limits)


def _endless(busy: Sequence[Peer], now: float, limits: Limits) -> str | None:
    """The process that is at what may take long, such as compiling, for longer than that may."""
    late = [peer for peer in busy if now - peer.since > _limit(peer, limits).seconds]
    if not late:
        return None
    worst = min(late, key=_since)
    limit = _limit(worst, limits)
    return f"{worst} takes longer than {limit.seconds:.6g} s ({limit.by}); {worst.last(now)}"


def _stalled(there: Sequence[Peer], now: float, limits: Limits) -> str | None:
    """The process that stopped first, if no process goes on and none is at what may take long.

    Those that wait for what may take long wait for the others, whose limits hold, if there are any.
    """
    if not there:
        return None
    judged = [peer for peer in there if peer.limited] or there
    limit = max((_limit(peer, limits) for peer in judged), key=lambda limit: limit.seconds)
    if now - max(map(_since, there)) <= limit.seconds:
        return None
    told = f"since {limit.seconds:.6g} s ({limit.by})"
    working = [peer for peer in there if not peer.waiting]
    if stuck := _behind(there, now, told):
        return stuck
    if not working:
        each = "; ".join(f"{peer}: {peer.last(now)}" for peer in there)
        return f"all processes wait for each other {told}: {each}"
    worst = min(working, key=_since)
    return (
        f"{worst} is stuck: no process goes on {told}, and it is the one that stopped first; "
        f"{worst.last(now)}"
    )


def _behind(there: Sequence[Peer], now: float, told: str) -> str:
    """The process in a wait that others are beyond; empty if there is none."""
    furthest = max(peer.waits for peer in there)
    behind = [peer for peer in there if peer.waiting and peer.waits < furthest]
    if not behind:
        return ""
    worst = min(behind, key=lambda peer: (peer.waits, peer.since))
    return (
        f"{worst} is stuck: no process goes on {told}, and others are beyond the wait that it is "
        f"in; {worst.last(now)}"
    )


def _limit(peer: Peer, limits: Limits) -> Limit:
    return peer.limit or limits.allowing(limits.of(limited=peer.limited), peer.allowed)


def _since(peer: Peer) -> float:
    return peer.since

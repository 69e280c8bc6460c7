"""The state of the processes of a run, and which of them is at fault when the run hangs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf


@dataclass(frozen=True)
class ActivityLimit:
    """The longest duration of an event.

    Attributes:
        seconds: the most seconds; infinity where there is no limit.
        source: what sets them, for messages.
    """

    seconds: float
    source: str


@dataclass(frozen=True)
class WatchLimits:
    """The limits beyond which a process is at fault.

    Attributes:
        silent: seconds without a heartbeat: the process is stopped, or its machine is gone.
        stalled: seconds without an event of any process, in what should not take long; None: no
            limit.
        longest: seconds without an event of a process in what may take long, e.g. compiling; None:
            no limit.
    """

    silent: float = 60.0
    stalled: float | None = 1800.0
    longest: float | None = 43200.0

    def limit_of(self, *, limited: bool) -> ActivityLimit:
        """The limit of an event that should not take long (`limited`), or of one that may."""
        seconds, source = (self.longest, "run.phase_seconds")
        if limited:
            seconds, source = (self.stalled, "run.stall_seconds")
        return ActivityLimit(inf if seconds is None else seconds, source)

    def extend_limit(self, limit: ActivityLimit, allowed: float) -> ActivityLimit:
        """The limit of an event that has `limit` elsewhere.

        Args:
            allowed: seconds for which a place that holds it up is tried again; 0 without one.
        """
        if allowed + self.silent <= limit.seconds or not allowed:
            return limit
        return ActivityLimit(allowed + self.silent, "run.hang_seconds beyond retry_seconds")


LIMITS = WatchLimits()


@dataclass
class PeerProcess:
    """A process as another one knows it. Times are of the clock of the process that keeps this.

    Attributes:
        index: number of the process.
        host: name of the process' machine.
        pid: id of the process on this machine.
        heard: time of the last heartbeat.
        event: last event of the process.
        since: time of the last event.
        limited: whether the present activity should end within `WatchLimits.stalled`.
        waiting: whether the process only waits for others now.
        allowed: seconds for which a place that holds it up now is tried again; 0 without one.
        ended: whether the process has announced its end.
        limit: how long the last event may last, where that is known better than from `WatchLimits`.
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
    limit: ActivityLimit | None = None
    waits: int = 0

    def __str__(self) -> str:
        return f"process {self.index} (host {self.host}, pid {self.pid})"

    def describe_last_event(self, now: float) -> str:
        """The last event of the process and its time."""
        return f"its last event: {self.event}, {now - self.since:.0f} s ago"


def find_fault(peers: Iterable[PeerProcess], now: float, limits: WatchLimits) -> str | None:
    """The process at fault and why, or None.

    A silent process is at fault, and so is one that takes longer than its activity may. Where all
    are alive and none goes on, it is one in a wait that others are beyond: no process comes out of
    a wait for all before all have entered it, so that wait is over. If there is none, it is the one
    whose last event is the oldest, of those that do not say themselves that they wait: the others
    wait for it.
    """
    present = [peer for peer in peers if not peer.ended]
    silent = [peer for peer in present if now - peer.heard > limits.silent]
    if silent:
        worst = min(silent, key=lambda peer: peer.heard)
        return (
            f"{worst} is stuck or gone: no heartbeat for {now - worst.heard:.0f} s "
            f"(run.hang_seconds is {limits.silent:g}); {worst.describe_last_event(now)}"
        )
    busy = [peer for peer in present if not peer.limited and not peer.waiting]
    return _find_endless(busy, now, limits) if busy else _find_stalled(present, now, limits)


def _find_endless(busy: Sequence[PeerProcess], now: float, limits: WatchLimits) -> str | None:
    """The process that is at what may take long, such as compiling, for longer than that may."""
    late = [peer for peer in busy if now - peer.since > _limit_of(peer, limits).seconds]
    if not late:
        return None
    worst = min(late, key=_activity_begin)
    limit = _limit_of(worst, limits)
    last = worst.describe_last_event(now)
    return f"{worst} takes longer than {limit.seconds:.6g} s ({limit.source}); {last}"


def _find_stalled(present: Sequence[PeerProcess], now: float, limits: WatchLimits) -> str | None:
    """The process that stopped first, if no process goes on and none is at what may take long.

    Those that wait for what may take long wait for the others, whose limits hold, if there are any.
    """
    if not present:
        return None
    judged = [peer for peer in present if peer.limited] or present
    limit = max((_limit_of(peer, limits) for peer in judged), key=lambda limit: limit.seconds)
    if now - max(map(_activity_begin, present)) <= limit.seconds:
        return None
    duration = f"since {limit.seconds:.6g} s ({limit.source})"
    working = [peer for peer in present if not peer.waiting]
    if stuck := _find_trailing(present, now, duration):
        return stuck
    if not working:
        each = "; ".join(f"{peer}: {peer.describe_last_event(now)}" for peer in present)
        return f"all processes wait for each other {duration}: {each}"
    worst = min(working, key=_activity_begin)
    return (
        f"{worst} is stuck: no process goes on {duration}, and it is the one that stopped first; "
        f"{worst.describe_last_event(now)}"
    )


def _find_trailing(present: Sequence[PeerProcess], now: float, duration: str) -> str:
    """The process in a wait that others are beyond; empty if there is none."""
    furthest = max(peer.waits for peer in present)
    trailing = [peer for peer in present if peer.waiting and peer.waits < furthest]
    if not trailing:
        return ""
    worst = min(trailing, key=lambda peer: (peer.waits, peer.since))
    return (
        f"{worst} is stuck: no process goes on {duration}, and others are beyond the wait that it "
        f"is in; {worst.describe_last_event(now)}"
    )


def _limit_of(peer: PeerProcess, limits: WatchLimits) -> ActivityLimit:
    return peer.limit or limits.extend_limit(limits.limit_of(limited=peer.limited), peer.allowed)


def _activity_begin(peer: PeerProcess) -> float:
    return peer.since

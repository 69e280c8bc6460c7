"""How long an event of a process usually lasts: what is far beyond is a hang.

`run.stall_seconds` must leave room for the longest step of any run, and `run.phase_seconds` for the
longest compilation. Once a process has shown how long its events last, `run.hang_seconds`, or
ten times the longest so far, says it sooner::

    step 5 | waiting for the data of step 6 | step 6 | ...
     0.4 s |            0.1 s               | 0.5 s  | ...   limit of a step: max(hang_seconds, 5 s)

Of what may take long, such as an evaluation, it is ten times `run.hang_seconds`. An event that has
ended an attempt may have been none that hung, but a restore from a slower place, or a disk that was
busy: until the run takes a step that is new, events of its kind are given twice as long, so that
attempts that are ended at the same place come past it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from mllm_jax.runtime.supervised.heartbeats import Heartbeat
from mllm_jax.runtime.watch import ActivityLimit, WatchLimits

#: Events of a kind after which it is known how long they last.
KNOWN = 3
#: Times the longest so far that an event may last.
FACTOR = 10.0


@dataclass(frozen=True)
class EventPace:
    """The durations of the events of one process, by kind: the event without its numbers.

    Attributes:
        seen: number of events of a kind.
        longest: seconds of the longest of them.
        beat: the newest heartbeat.
        granted: seconds that events of a kind are given that has ended an attempt.
        step: newest step that the process has taken in any attempt.
    """

    seen: Mapping[str, int] = field(default_factory=dict)
    longest: Mapping[str, float] = field(default_factory=dict)
    beat: Heartbeat | None = None
    granted: Mapping[str, float] = field(default_factory=dict)
    step: int = 0

    def after_heartbeat(self, beat: Heartbeat) -> EventPace:
        """The value after one more heartbeat; an event ends where the next one begins."""
        before, pace = self.beat, replace(self, beat=beat)
        if beat.step > self.step:
            pace = replace(pace, step=beat.step, granted={})
        if before is None or (before.since, before.event) == (beat.since, beat.event):
            return pace
        kind = kind_of(before.event)
        lasted = max(self.longest.get(kind, 0.0), beat.since - before.since)
        seen = {**self.seen, kind: self.seen.get(kind, 0) + 1}
        return replace(pace, seen=seen, longest={**self.longest, kind: lasted})

    @property
    def before_attempt(self) -> EventPace:
        """What is known where another attempt begins: the last event of this one has no end."""
        return replace(self, beat=None)

    def present_limit(self, limits: WatchLimits) -> ActivityLimit:
        """The limit of the present event, by `limits` or by what is known of its kind."""
        if self.beat is None:
            return limits.limit_of(limited=False)
        limit, kind = limits.limit_of(limited=self.beat.limited), self._known_kind
        if kind is not None:
            usual = _usual_limit(self.longest[kind], limits.silent, limited=self.beat.limited)
            granted = ActivityLimit(
                self.granted.get(kind, 0.0), "twice the limit that has ended an attempt"
            )
            limit = min(limit, max(usual, granted, key=_limit_seconds), key=_limit_seconds)
        return limits.extend_limit(limit, self.beat.allowed)

    def after_stop(self, now: float, limits: WatchLimits) -> EventPace:
        """The value once an attempt is ended at the time `now`, as an event takes too long."""
        kind, seconds = self._known_kind, self.present_limit(limits).seconds
        if self.beat is None or kind is None or now - self.beat.since <= seconds:
            return self
        return replace(self, granted={**self.granted, kind: 2.0 * seconds})

    @property
    def _known_kind(self) -> str | None:
        """The kind of the present event, if it is known how long events of it last."""
        kind = kind_of(self.beat.event) if self.beat else ""
        return kind if self.seen.get(kind, 0) >= KNOWN else None


def _usual_limit(longest: float, silent: float, *, limited: bool) -> ActivityLimit:
    """The limit of events whose longest has lasted `longest` seconds; `limited`: as of
    `Heartbeat`."""
    if limited:
        source = f"run.hang_seconds, or {FACTOR:g} times the longest of its kind so far"
        return ActivityLimit(max(silent, FACTOR * longest), source)
    source = f"{FACTOR:g} times run.hang_seconds, or the longest of its kind so far"
    return ActivityLimit(FACTOR * max(silent, longest), source)


def _limit_seconds(limit: ActivityLimit) -> float:
    return limit.seconds


def kind_of(event: str) -> str:
    """`waiting for the data of step` of `waiting for the data of step 12`."""
    return re.sub(r"\s*\d+", "", event)

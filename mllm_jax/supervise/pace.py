"""How long an event of a process usually lasts: what is far beyond is a hang.

`run.stall_seconds` must leave room for the longest step of any run. Once a process has shown how
long its own events last, `run.hang_seconds`, or ten times the longest so far, says it sooner::

    step 5 | waiting for the data of step 6 | step 6 | ...
     0.4 s |            0.1 s               | 0.5 s  | ...   limit of a step: max(hang_seconds, 5 s)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from mllm_jax.runtime.supervised.beats import Beat
from mllm_jax.runtime.watch import Limits

#: Events of a kind after which it is known how long they last.
KNOWN = 3
#: Times the longest so far that an event may last.
FACTOR = 10.0


@dataclass(frozen=True)
class Pace:
    """The durations of the events of one process, by kind: the event without its numbers.

    Attributes:
        seen: number of events of a kind.
        longest: seconds of the longest of them.
        beat: the newest sign of life.
    """

    seen: Mapping[str, int] = field(default_factory=dict)
    longest: Mapping[str, float] = field(default_factory=dict)
    beat: Beat | None = None

    def after(self, beat: Beat) -> Pace:
        """The value after one more sign of life; an event ends where the next one begins."""
        before = self.beat
        if before is None or (before.since, before.event) == (beat.since, beat.event):
            return replace(self, beat=beat)
        kind = kind_of(before.event)
        lasted = max(self.longest.get(kind, 0.0), beat.since - before.since)
        return Pace(
            {**self.seen, kind: self.seen.get(kind, 0) + 1}, {**self.longest, kind: lasted}, beat
        )

    @property
    def before_attempt(self) -> Pace:
        """What is known where another attempt begins: the last event of this one has no end."""
        return replace(self, beat=None)

    def limits(self, limits: Limits) -> Limits:
        """`limits` with what is known of the present event."""
        kind = kind_of(self.beat.event) if self.beat else ""
        if self.seen.get(kind, 0) < KNOWN:
            return limits
        usual = max(limits.silent, FACTOR * self.longest[kind])
        if limits.stalled is not None and limits.stalled <= usual:
            return limits
        why = f"run.hang_seconds, or {FACTOR:g} times the longest of its kind so far"
        return replace(limits, stalled=usual, stalled_by=why)


def kind_of(event: str) -> str:
    """`waiting for the data of step` of `waiting for the data of step 12`."""
    return re.sub(r"\s*\d+", "", event)

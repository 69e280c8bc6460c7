"""Names of the backbone's schedules, which `scheduling.schedules.make.SCHEDULES` makes.

The names have a separate file so that a configuration is read without numpy.
"""

from __future__ import annotations

from typing import Literal

ScheduleKind = Literal["1f1b", "gpipe", "zero_bubble"]
#: Kinds of schedules in which weight gradients are separate tasks.
SPLIT_BACKWARD: frozenset[ScheduleKind] = frozenset({"zero_bubble"})

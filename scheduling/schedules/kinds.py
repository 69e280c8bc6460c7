"""Names of the decoder's schedules, which `scheduling.schedules.schedule.SCHEDULES` makes.

They are apart so that a configuration is read without numpy.
"""

from __future__ import annotations

from typing import Literal

ScheduleKind = Literal["1f1b", "gpipe"]

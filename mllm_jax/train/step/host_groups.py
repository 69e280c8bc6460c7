"""What processes tell each other of a step where groups of them balance by themselves.

Each process then knows the media of its own group alone. All of them run one program and one
schedule, and join in the same collectives, so that these follow the media of all groups.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scheduling.schedules.tasks import Consumers


def _same(value: Any) -> Any:
    return value


@dataclass(frozen=True)
class HostGroupExchange:
    """How the groups tell each other; called in the same order on all processes.

    Attributes:
        feeds: from what an encoder's own microbatches feed with the media of this process's group,
            by encoder, to what they feed with those of all groups.
        counts: from the number of this group's outputs that land, by lane and pair of an encoder
            and a decoder microbatch, to those of all groups.
    """

    feeds: Callable[[Mapping[str, Consumers]], Mapping[str, Consumers]] = _same
    counts: Callable[[Mapping[str, Sequence[int]]], Mapping[str, Sequence[int]]] = _same


#: One group of all processes: each knows all media.
ALONE = HostGroupExchange()

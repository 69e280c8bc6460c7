"""The exchange about a step between groups of processes that balance by themselves.

Each process then knows the media of its group alone. All of them run one program and one
schedule, and join in the same collectives, so that these follow the media of all groups.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scheduling.schedules.tasks import Consumers


def _return_unchanged(value: Any) -> Any:
    return value


@dataclass(frozen=True)
class HostGroupExchange:
    """The exchanges between groups; called in the same order on all processes.

    Attributes:
        gather_consumers: from the consumers of independent microbatches with the media of this
            process's group, by encoder, to their consumers with the media of all groups.
        sum_counts: from the number of this group's outputs that are merged, by bucket and pair of
            an encoder and a decoder microbatch, to those of all groups.
    """

    gather_consumers: Callable[[Mapping[str, Consumers]], Mapping[str, Consumers]] = (
        _return_unchanged
    )
    sum_counts: Callable[[Mapping[str, Sequence[int]]], Mapping[str, Sequence[int]]] = (
        _return_unchanged
    )


#: One group of all processes: each knows all media.
SINGLE_GROUP = HostGroupExchange()

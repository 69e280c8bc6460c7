"""Groups of modules on devices, or on slices of devices, of their own: the plan of a step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class PlannedGroup:
    """Modules that share devices, one at a time.

    Attributes:
        modules: names of the modules.
        devices: first and last device.
        quota: the part of each of these devices that is the group's.
        slices: slices of so large a quota that the group has of each device; its rows are divided
            over all of them.
        shards: neighbouring devices that share the state (ZeRO-3); 1: each holds all of it.
    """

    modules: tuple[str, ...]
    devices: tuple[int, int]
    quota: float = 1.0
    slices: int = 1
    shards: int = 1

    @property
    def count(self) -> int:
        """Number of the group's devices."""
        return self.devices[1] - self.devices[0] + 1

    @property
    def ranks(self) -> int:
        """Parts into which the rows of a microbatch are divided."""
        return self.count * self.slices

    def __str__(self) -> str:
        first, last = self.devices
        where = f"device {first}" if first == last else f"devices {first} to {last}"
        many = f"{self.slices} slices of " if self.slices > 1 else ""
        quota = f"{many}{self.quota:.0%} of " if self.quota < 1 else ""
        shared = f" (fsdp {self.shards})" if self.shards > 1 else ""
        return f"{' + '.join(self.modules)}: {quota}{where}{shared}"


@dataclass(frozen=True)
class GroupPlan:
    """All groups of a step: each has a range of devices, or a slice of every device of a range.

    Attributes:
        groups: the groups; the first has the backbone. Quotas of groups with the same devices sum
            to one; other groups have no device in common.
    """

    groups: tuple[PlannedGroup, ...]

    @cached_property
    def islands(self) -> tuple[tuple[int, ...], ...]:
        """Numbers of the groups that are slices of the same devices."""
        by_devices: dict[tuple[int, int], list[int]] = {}
        for number, group in enumerate(self.groups):
            by_devices.setdefault(group.devices, []).append(number)
        return tuple(tuple(numbers) for numbers in by_devices.values())

    @cached_property
    def neighbours(self) -> tuple[tuple[int, ...], ...]:
        """By group, the numbers of all groups on its devices, its own included."""
        of = {number: island for island in self.islands for number in island}
        return tuple(of[number] for number in range(len(self.groups)))

    @cached_property
    def group_of(self) -> dict[str, int]:
        """Number of the group of each module."""
        return {name: n for n, group in enumerate(self.groups) for name in group.modules}

    @property
    def is_single(self) -> bool:
        """Whether all modules share all devices, one at a time, as without groups."""
        return len(self.groups) == 1

    @property
    def has_slices(self) -> bool:
        """Whether several groups share devices."""
        return any(len(island) > 1 for island in self.islands)

    @property
    def has_ranges(self) -> bool:
        """Whether groups have no device in common."""
        return len(self.islands) > 1

    @property
    def kind(self) -> str:
        """In a word: `one group`, `slices`, `devices` or `both`."""
        kinds = {
            (False, False): "one group",
            (True, False): "slices",
            (False, True): "devices",
            (True, True): "both",
        }
        return kinds[self.has_slices, self.has_ranges]

    def __str__(self) -> str:
        return "; ".join(map(str, self.groups))


def single_group(modules: Sequence[str], devices: int, slices: int = 1) -> GroupPlan:
    """All modules on all devices, one at a time.

    Args:
        slices: slices of each device over which the rows are divided, too.
    """
    group = PlannedGroup(tuple(modules), (0, devices - 1), 1 / slices, slices)
    return GroupPlan((group,))

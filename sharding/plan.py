"""The parallel plan of one module: how many ways each axis splits it; and groups of modules.

Modules of one group share its devices under one joint grid. Four devices, a decoder on the first
two and encoders on one each::

    device     0      1      2        3
    group      [  decoder  ] [vision] [audio]
    grid       data 2        one      one
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, Field

#: Plan axes from the slowest (across hosts) to the fastest (neighbouring devices).
AXES = ("data", "fsdp", "stage", "expert", "context", "tensor")
#: Plan axes over which the rows of a batch are split.
ROWS = ("data", "fsdp", "expert")
#: Plan axes over which the positions of a row are split between the blocks of a layer.
POSITIONS = ("context", "tensor")


class PlanError(ValueError):
    """A plan, or a set of plans, that cannot be laid on the devices.

    Args:
        reason: reason for the refusal.
        choices: valid choices, which follow the reason in the message.
    """

    def __init__(self, reason: str, choices: str = "") -> None:
        super().__init__("; ".join(filter(None, (reason, choices))))
        self.reason = reason


class ParallelPlan(BaseModel):
    """Degrees of parallelism of one module (the backbone or one encoder).

    Args:
        data: replicas that see different samples and hold all parameters.
        fsdp: replicas that see different samples and share the parameters (ZeRO-3).
        stage: pipeline stages.
        expert: replicas that see different samples and share the experts of mixture-of-experts
            layers, holding all other parameters.
        context: splits of one sequence; its ranks exchange heads for positions around attention.
        tensor: splits of heads, hidden widths and vocabulary (Megatron-LM, with sequence
            parallelism between the blocks).
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    data: int = Field(1, ge=1)
    fsdp: int = Field(1, ge=1)
    stage: int = Field(1, ge=1)
    expert: int = Field(1, ge=1)
    context: int = Field(1, ge=1)
    tensor: int = Field(1, ge=1)

    @property
    def degrees(self) -> tuple[int, ...]:
        """Degrees in the order of `AXES`."""
        return tuple(getattr(self, axis) for axis in AXES)

    @property
    def devices(self) -> int:
        """Devices that the plan covers."""
        return math.prod(self.degrees)

    @property
    def batch(self) -> int:
        """Number of different shares of the batch: data x fsdp x expert."""
        return self._degree_of(ROWS)

    @property
    def vocab(self) -> int:
        """Splits of the vocabulary, which the stages of a pipeline share: stage x tensor."""
        return self.stage * self.tensor

    @property
    def tokens(self) -> int:
        """Splits of the tokens of a batch before those of tensor: batch x context."""
        return self.batch * self.context

    @property
    def sequence(self) -> int:
        """Splits of a row's positions between the blocks of a layer: context x tensor."""
        return self._degree_of(POSITIONS)

    def _degree_of(self, axes: tuple[str, ...]) -> int:
        return math.prod(getattr(self, axis) for axis in axes)

    @property
    def inner_devices(self) -> int:
        """Devices of a stage that work together in a layer: expert x context x tensor."""
        return self.expert * self.context * self.tensor

    @property
    def groups(self) -> str:
        """Axes of devices that work together in a layer, e.g. `context 2 x tensor 4`."""
        return str(ParallelPlan(expert=self.expert, context=self.context, tensor=self.tensor))

    @property
    def without_stages(self) -> ParallelPlan:
        """The same devices with the stages as part of fsdp."""
        return self.model_copy(update={"fsdp": self.fsdp * self.stage, "stage": 1})

    def __str__(self) -> str:
        parts = [f"{axis} {n}" for axis, n in zip(AXES, self.degrees, strict=True) if n > 1]
        return " x ".join(parts) or "one device"


class PlanRequirement(NamedTuple):
    """`size`, known to the user as `name`, must be divisible by `axis` of a module's plan."""

    name: str
    size: int
    axis: str

    def is_met(self, plan: ParallelPlan) -> bool:
        """Whether the plan divides the size."""
        return self.size % getattr(plan, self.axis) == 0


def divisors_of(n: int) -> list[int]:
    """Divisors of `n` in increasing order; ``divisors(6) == [1, 2, 3, 6]``."""
    small = [k for k in range(1, math.isqrt(n) + 1) if n % k == 0]
    return small + [n // k for k in reversed(small) if k * k != n]


def list_factorizations(n: int, parts: int) -> Iterator[tuple[int, ...]]:
    """All ordered ways to write `n` as a product of `parts` factors."""
    if parts == 1:
        yield (n,)
        return
    for first in divisors_of(n):
        for others in list_factorizations(n // first, parts - 1):
            yield (first, *others)


#: Numbers of the devices of a module, in the order of its grid.
DeviceNumbers = tuple[int, ...]


@dataclass(frozen=True)
class DeviceGroup:
    """Modules that share devices, one at a time; groups have no device in common.

    Attributes:
        devices: numbers of the devices.
        plans: plans of the modules by name.
    """

    devices: DeviceNumbers
    plans: Mapping[str, ParallelPlan]

    @property
    def modules(self) -> tuple[str, ...]:
        """Names of the modules."""
        return tuple(self.plans)


def group_modules(
    plans: Mapping[str, ParallelPlan], devices: Mapping[str, DeviceNumbers]
) -> tuple[DeviceGroup, ...]:
    """Groups of modules with the same devices, that of the backbone first.

    Args:
        plans: plans of all modules by name, the backbone's first.
        devices: devices of each module.

    Raises:
        PlanError: a plan does not cover its devices, or groups have devices in common.
    """
    groups: dict[DeviceNumbers, dict[str, ParallelPlan]] = {}
    for name, plan in plans.items():
        if plan.devices != len(devices[name]):
            raise PlanError(
                f"{name}: {plan} covers {plan.devices} devices but {name} has {len(devices[name])}",
                f"choose degrees that multiply to {len(devices[name])}",
            )
        groups.setdefault(devices[name], {})[name] = plan
    owners: dict[int, str] = {}
    for numbers, of_group in groups.items():
        first = next(iter(of_group))
        for number in numbers:
            owner = owners.setdefault(number, first)
            if owner != first:
                raise PlanError(
                    f"{first} and {owner} have device {number} in common but not all devices",
                    "choose the same devices for both, or none in common",
                )
    return tuple(DeviceGroup(numbers, of_group) for numbers, of_group in groups.items())

"""The step of a configuration with groups on hardware that need not be here: seconds and memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mllm_jax.config.configured_step import build_workload, on_platform
from mllm_jax.config.load import ExperimentConfig
from mllm_jax.plan.groups.memory import GroupMemory, predict_group_memory, schedule_of_groups
from mllm_jax.plan.groups.planner import GroupPlanner
from mllm_jax.plan.prediction import format_gib
from scheduling.costs.hardware import Hardware
from scheduling.schedules.modules.schedule import ModuleSchedule
from scheduling.simulate.groups.plan import GroupPlan, PlannedGroup
from scheduling.simulate.groups.step import GroupRun, simulate_groups

#: Characters of a row of a schedule that are shown.
WIDTH = 96


@dataclass(frozen=True)
class SimulatedGroups:
    """The predicted step of modules in groups.

    Attributes:
        hardware: the devices.
        groups: the memory of every group.
        schedule: what every group runs, tick by tick.
        run: the simulated step; None where plans of modules split rows or layers, of which the
            model of groups knows no seconds.
    """

    hardware: Hardware
    groups: tuple[GroupMemory, ...]
    schedule: ModuleSchedule
    run: GroupRun | None

    columns = (
        "group",
        "modules",
        "on",
        "computes",
        "state GiB",
        "gradients GiB",
        "all GiB",
        "of GiB",
    )

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """Table rows: a group each."""
        return [self._row_of(group) for group in self.groups]

    def _row_of(self, group: GroupMemory) -> tuple[str, ...]:
        busy, memory = self._busy(group), group.memory
        sizes = memory.parameters + memory.optimizer, memory.gradients, memory.total, group.room
        share = "-" if busy is None else f"{busy:.1%}"
        return group.name, ", ".join(group.modules), group.place, share, *map(format_gib, sizes)

    def _busy(self, group: GroupMemory) -> float | None:
        """The share of the step in which a group computes."""
        if self.run is None:
            return None
        return self.run.busy[self.run.plan.group_of[group.modules[0]]]

    @property
    def notes(self) -> list[str]:
        """Lines below the table."""
        if self.run is None:
            seconds = "seconds are predicted of plans with data and fsdp alone"
        else:
            seconds = f"step: {self.run.seconds:.4g} s, by counted work on {self.hardware.title}"
        return [seconds, *_first_ticks(self.schedule)]

    def to_json(self) -> dict[str, Any]:
        """`{"hardware", "seconds", "groups"}`; seconds and `busy` of groups may be null, see
        `GroupMemory.to_json`."""
        return {
            "hardware": self.hardware.name,
            "seconds": None if self.run is None else self.run.seconds,
            "groups": [group.to_json() | {"busy": self._busy(group)} for group in self.groups],
        }


def simulate_configured_groups(config: ExperimentConfig, hardware: Hardware) -> SimulatedGroups:
    """The step of a configuration with groups.

    Raises:
        HardwareError: `hardware` lacks the type of the activations.
    """
    memory, plan = tuple(predict_group_memory(config, hardware)), configured_plan(config)
    schedule = schedule_of_groups(config, build_workload(on_platform(config, hardware.platform)))
    if plan is None:
        return SimulatedGroups(hardware, memory, schedule, None)
    quotas = tuple(sorted({group.quota for group in plan.groups if group.quota < 1}))
    costs = GroupPlanner(config, hardware, quotas=quotas).costs
    return SimulatedGroups(hardware, memory, schedule, simulate_groups(costs, plan))


def _first_ticks(schedule: ModuleSchedule) -> list[str]:
    """The table of a schedule, as far as it fits in a line."""
    lines = str(schedule).splitlines()
    return [line if len(line) <= WIDTH else f"{line[:WIDTH]} .." for line in lines]


def configured_plan(config: ExperimentConfig) -> GroupPlan | None:
    """The groups of a configuration, the backbone's first; None with other degrees than data and
    fsdp, of which `GroupPlan` knows nothing."""
    parallel, backbone = config.parallel, config.model.backbone
    plans = parallel.plans
    if any(plan.batch != plan.devices or plan.expert > 1 for plan in plans.values()):
        return None
    planned = [
        PlannedGroup(
            group.modules,
            group.devices or (0, parallel.devices - 1),
            group.share or 1.0,
            shards=max(plans[name].fsdp for name in group.modules),
        )
        for group in parallel.groups.values()
    ]
    return GroupPlan(tuple(sorted(planned, key=lambda group: backbone not in group.modules)))

"""The memory of groups of modules that have devices, or slices of devices, of their own.

A device of a group holds what its modules need and nothing of others. Slices share the memory of
their device::

    device   0                     1
    memory   [ text | images | ]   [ text | images | ]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import jax

from mllm_jax.config.configured_step import build_strategy, on_platform
from mllm_jax.config.hardware import load_hardware, of_kind
from mllm_jax.config.load import ConfigError, ExperimentConfig
from mllm_jax.plan.memory import device_room
from mllm_jax.plan.prediction import format_gib
from mllm_jax.plan.traced import traced_workload
from scheduling.costs.hardware import GPU_SHARE, Hardware
from scheduling.costs.memory import StepMemory, group_memory
from scheduling.costs.workload import Workload
from scheduling.schedules.modules.make import make_module_schedule
from scheduling.schedules.modules.schedule import ModuleSchedule, PlacedModule, place_stages

GROUPS = "parallel.groups"


@dataclass(frozen=True)
class GroupMemory:
    """The memory of a group on each of its devices, or slices of them.

    Attributes:
        name: name of the group.
        modules: names of its modules.
        place: its devices, in words.
        memory: bytes of one device, or slice.
        room: bytes that a program may use of it.
    """

    name: str
    modules: tuple[str, ...]
    place: str
    memory: StepMemory
    room: float

    def to_json(self) -> dict[str, object]:
        """`{"group", "modules", "devices", "room_bytes", "memory_bytes", "memory"}`; the last has
        the bytes of each kind."""
        return {
            "group": self.name,
            "modules": list(self.modules),
            "devices": self.place,
            "room_bytes": self.room,
            "memory_bytes": self.memory.total,
            "memory": self.memory.by_kind,
        }


def predict_group_memory(config: ExperimentConfig, hardware: Hardware) -> list[GroupMemory]:
    """The memory of every group of a configuration with groups, in their order."""
    settled = on_platform(config, hardware.platform)
    strategy = build_strategy(settled, hardware.platform)
    splits = {(plan.tensor, plan.expert > 1) for plan in settled.parallel.plans.values()}
    workload = traced_workload(settled, splits)
    groups = config.parallel.groups
    schedule = schedule_of_groups(config, workload)
    columns = _group_columns(config)
    in_flight = {
        name: schedule.in_flight[columns[group]]
        for group in groups
        for name in groups[group].modules
    }
    return [
        GroupMemory(
            name,
            group.modules,
            config.parallel.group_place(name),
            group_memory(workload, strategy, hardware, group.modules, in_flight),
            _room_of(config, hardware, name),
        )
        for name, group in groups.items()
    ]


def schedule_of_groups(config: ExperimentConfig, workload: Workload) -> ModuleSchedule:
    """The schedule of a step; a column is a group, in the order of the configuration, or a stage.

    Modules beside the backbone are part of its tasks.

    Args:
        workload: work of the configuration, which says what has gradients.
    """
    backbone, groups = config.model.backbone, config.parallel.groups
    columns = _group_columns(config)
    numbers = {name: columns[n] for n, group in groups.items() for name in group.modules}
    others = [name for name in config.model.buckets if numbers[name] != numbers[backbone]]
    stages, waits = config.parallel.backbone_plan.stage, config.waits_for_step
    modules = [*place_stages(backbone, stages, numbers[backbone])]
    first = modules[-1].name
    for name in others:
        trains = workload.has_backward(name) or name not in workload.frozen_connectors
        read = not waits or name in config.model.merged_buckets
        modules.append(PlacedModule(name, numbers[name], (first,) if read else (), trains))
    return make_module_schedule(modules, config.train.accumulate, waits=waits)


def _group_columns(config: ExperimentConfig) -> dict[str, int]:
    """By group, its column, or that of its first stage."""
    columns, column = dict[str, int](), 0
    for name, group in config.parallel.groups.items():
        columns[name] = column
        has_stages = config.model.backbone in group.modules
        column += config.parallel.backbone_plan.stage if has_stages else 1
    return columns


def _room_of(config: ExperimentConfig, hardware: Hardware, name: str) -> float:
    """Bytes of a device, or of a slice's part of it, that a program may use.

    Processes of slices of a GPU have parts that are set; slices of other devices share all of it.
    """
    group = config.parallel.groups[name]
    if group.share is None or hardware.platform != "gpu":
        return device_room(hardware)[0]
    return hardware.room_within(GPU_SHARE * (group.memory or group.share))


def with_memory_shares(config: ExperimentConfig, hardware: Hardware) -> ExperimentConfig:
    """The configuration with parts of the memory of GPUs for slices that need more than quotas say.

    Parts are in proportion to the needs, in whole percents.
    """
    if config.parallel.platform != "gpu" or not config.parallel.sharing_groups:
        return config
    groups = predict_group_memory(config, hardware)
    if all(group.memory.total <= group.room for group in groups):
        return config
    needed = sum(group.memory.total for group in groups)
    shares = {g.name: max(1, int(100 * g.memory.total / needed)) / 100 for g in groups}
    changed = {
        name: group.model_copy(update={"memory": shares[name]})
        for name, group in config.parallel.groups.items()
    }
    parallel = config.parallel.model_copy(update={"groups": changed})
    return config.model_copy(update={"parallel": parallel})


def check_groups_here(config: ExperimentConfig, devices: Sequence[jax.Device]) -> None:
    """`check_group_memory` on devices of this machine, if their memory is known.

    Args:
        devices: the devices; `schedule.hardware` comes before what they are.
    """
    name = config.schedule.hardware
    hardware = of_kind(devices[0].device_kind) if name is None else load_hardware(name)
    if hardware is not None and hardware.platform == config.parallel.platform:
        check_group_memory(config, hardware)


def check_group_memory(config: ExperimentConfig, hardware: Hardware) -> None:
    """Check, before anything is compiled, that every group has room in the memory of its devices.

    Raises:
        ConfigError: one has not; the message says which shares of memory would do.
    """
    groups = predict_group_memory(config, hardware)
    problems = [*_find_full_groups(config, groups, hardware)]
    if problems:
        raise ConfigError(f"{config.run.name} on {hardware.title}", problems)


def _find_full_groups(
    config: ExperimentConfig, groups: Sequence[GroupMemory], hardware: Hardware
) -> Iterator[str]:
    """Problems with groups that need more than there is."""
    by_name = {group.name: group for group in groups}
    sharing = [[by_name[n] for n in names] for names in config.parallel.sharing_groups.values()]
    full = [line for together in sharing for line in _find_full_devices(together, hardware)]
    yield from full or _find_full_rooms(groups, sharing, hardware)


def _find_full_devices(sharing: Sequence[GroupMemory], hardware: Hardware) -> Iterator[str]:
    """The problem of slices that need more together than their devices have."""
    room = device_room(hardware)[0]
    if sum(group.memory.total for group in sharing) > room:
        listed = " + ".join(f"{g.name} {format_gib(g.memory.total)}" for g in sharing)
        yield (
            f"{GROUPS}: slices of a device need {listed} GiB of {format_gib(room)}; valid: devices "
            "of its own for each group, plans with fsdp, or smaller data.rows or data.budgets"
        )


def _find_full_rooms(
    groups: Sequence[GroupMemory], sharing: Sequence[Sequence[GroupMemory]], hardware: Hardware
) -> Iterator[str]:
    """Problems with groups that need more than their devices, or their parts of them, have."""
    together = {group.name: beside for beside in sharing for group in beside}
    for group in groups:
        if group.memory.total > group.room:
            few = f"{format_gib(group.memory.total)} GiB are needed of {format_gib(group.room)}"
            if group.name in together:
                beside = together[group.name]
                shares = ", ".join(f"{g.name} {_least_share(g, hardware):.2f}" for g in beside)
                yield f"{GROUPS}.{group.name}.memory: {few}; valid: at least {shares}"
            else:
                valid = "more devices, plans with fsdp, or smaller data.rows or data.budgets"
                yield f"{GROUPS}.{group.name}: {few} on {group.place}; valid: {valid}"


def _least_share(group: GroupMemory, hardware: Hardware) -> float:
    """The least share of the memory of a device that a slice needs, in whole percents."""
    return -(-100 * group.memory.total // (GPU_SHARE * hardware.memory)) / 100

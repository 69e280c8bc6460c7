"""Groups of modules for a configuration: what is searched, and plans as configurations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf

from mllm_jax.config.configured_step import on_platform
from mllm_jax.config.load import ExperimentConfig
from mllm_jax.config.run import DeviceGroupConfig
from mllm_jax.plan.groups.memory import with_memory_shares
from mllm_jax.plan.memory import device_room
from mllm_jax.plan.traced import traced_workload
from scheduling.costs.hardware import Hardware, HardwareError
from scheduling.costs.slices import SliceCosts
from scheduling.search.groups.search import GroupSearch
from scheduling.search.groups.space import GroupSpace
from scheduling.simulate.groups.costs import GroupCosts
from scheduling.simulate.groups.estimate import SliceEstimate
from scheduling.simulate.groups.plan import GroupPlan, PlannedGroup, single_group
from scheduling.simulate.groups.step import GroupRun, schedule_groups, simulate_groups
from sharding.plan import ParallelPlan

#: Quotas of slices that are searched where none were measured, by platform; TPUs have no slices.
QUOTAS: Mapping[str, tuple[float, ...]] = {"cpu": (0.5,), "gpu": (0.25, 0.5, 0.75)}
#: Share by which a plan has to be predicted faster than one with fewer groups to be chosen:
#: predictions are not exact, and such a plan is more to run.
MARGIN = 0.05


@dataclass(frozen=True)
class GroupPlanner:
    """Searches groups for the model, the rows and the devices of a configuration.

    Attributes:
        config: configuration whose groups and plans are chosen; `data.rows` and `train.accumulate`
            stay.
        hardware: hardware of the devices, whose description predicts what was not measured.
        measured: costs of modules and pairs from `launch.py calibrate --slices`; None: all costs
            are predicted.
        quotas: quotas that slices may have; None: those that were measured, or `QUOTAS`.
        memory: bytes of a device that a step may take; None for all that a program may.
    """

    config: ExperimentConfig
    hardware: Hardware
    measured: SliceCosts | None = None
    quotas: tuple[float, ...] | None = None
    memory: float | None = None

    @cached_property
    def space(self) -> GroupSpace:
        """Plans that `parallel.groups` can say."""
        quotas, cpu = self._slice_quotas, self.config.parallel.platform == "cpu"
        return GroupSpace(
            devices=self.config.parallel.devices,
            quotas=quotas,
            equal=cpu,
            mixed=cpu,
            replicas=tuple(round(1 / quota) for quota in quotas if cpu and self.measured),
            memory=self._room if self.memory is None else self.memory,
        )

    @property
    def _room(self) -> float:
        """Bytes of a device that a program may use; CPUs share what there is."""
        on_cpu = self.measured is not None and self.config.parallel.platform == "cpu"
        return inf if on_cpu else device_room(self.hardware)[0]

    @property
    def _slice_quotas(self) -> tuple[float, ...]:
        if self.quotas is not None:
            return self.quotas
        if self.measured is not None:
            tasks = (task for m in self.measured.modules.values() for task in m.tasks.values())
            return tuple(sorted({q for task in tasks for q in task.speeds.points if q < 1}))
        platforms = self.config.parallel.platform, self.hardware.platform
        return () if "tpu" in platforms else QUOTAS[platforms[0]]

    @cached_property
    def costs(self) -> GroupCosts:
        """Costs of the step's tasks.

        Raises:
            HardwareError: modules of the configuration were not measured.
        """
        estimate = self._estimate
        if self.measured is None:
            return GroupCosts(estimate.graph, estimate.costs, self.hardware)
        missing = [name for name in estimate.graph.names if name not in self.measured.modules]
        if missing:
            measured = ", ".join(self.measured.modules)
            reason = f"--calibration: {', '.join(missing)} was not measured, but {measured}"
            raise HardwareError(f"{reason}; valid: a calibration of this configuration")
        return GroupCosts(estimate.graph, self.measured)

    @cached_property
    def _estimate(self) -> SliceEstimate:
        here = self.config.parallel.platform if self.measured else self.hardware.platform
        config, waits = on_platform(self.config, here), self.config.waits_for_step
        return SliceEstimate(
            traced_workload(config, [(1, False)]),
            self.hardware,
            config.train.accumulate,
            config.model.remat,
            waits=waits,
            gradient_caching=config.train.caches_gradients,
            unread={*config.model.buckets} - {*config.model.merged_buckets} if waits else (),
            quotas=self._slice_quotas,
        )

    # ---- plans -----------------------------------------------------------------------------------

    def simulate_single(self, slices: int = 1) -> GroupRun:
        """All modules on all devices, one at a time, or on all slices of them; see `has_room`."""
        graph = self.costs.graph
        plan = single_group(graph.names, self.space.devices, slices)
        in_flight = schedule_groups(graph, plan).in_flight
        return simulate_groups(
            self.costs, self.costs.fit_memory(plan, in_flight, self.space.memory)
        )

    def has_room(self, run: GroupRun) -> bool:
        """Whether a step takes no more memory than a device has."""
        return self.bytes_of(run) <= self.space.memory

    def bytes_of(self, run: GroupRun) -> float:
        """Bytes of the device that needs most."""
        return self.costs.device_bytes(run.plan, run.schedule.in_flight)

    def search_all(self) -> GroupSearch:
        """A search of all plans, after it has ended."""
        search = GroupSearch(self.costs, self.space)
        search.search_plans()
        return search

    def search_halves(self) -> GroupRun | None:
        """The fastest two groups with a half of every device each."""
        if 0.5 not in self.space.quotas:
            return None
        space = replace(self.space, quotas=(0.5,), ranges=False, least=2)
        return GroupSearch(self.costs, space).search_plans()

    def search_ranges(self) -> GroupRun | None:
        """The fastest groups with devices of their own."""
        return GroupSearch(self.costs, replace(self.space, quotas=(), least=2)).search_plans()

    def configure_groups(self, plan: GroupPlan) -> ExperimentConfig:
        """The configuration with such groups; its sections are not checked again."""
        places = {name: group for group in plan.groups for name in group.modules}
        plans = {name: _plan_of(places[name]) for name in self.config.parallel.plans}
        parallel = self.config.parallel.with_modules(plans)
        devices, groups, train = self.space.devices, {}, self.config.train
        if plan.is_single:
            devices = plan.groups[0].ranks
        else:
            train = train.model_copy(update={"gradient_caching": None})
            every = 0, devices - 1
            groups = {_group_name(group): _group_config(group, every) for group in plan.groups}
        parallel = parallel.model_copy(update={"devices": devices, "groups": groups})
        schedule = type(self.config.schedule)(hardware=self.config.schedule.hardware)
        # Without stages there is no pipeline whose step could be traced.
        run = self.config.run.model_copy(update={"trace_step": None})
        changed = {"run": run, "parallel": parallel, "schedule": schedule, "train": train}
        return with_memory_shares(self.config.model_copy(update=changed), self.hardware)


def choose_run(runs: list[GroupRun]) -> GroupRun:
    """The fastest of the runs; one that comes later has to be faster by `MARGIN`."""
    chosen = runs[0]
    for run in runs[1:]:
        if run.seconds < (1 - MARGIN) * chosen.seconds:
            chosen = run
    return chosen


def _plan_of(group: PlannedGroup) -> ParallelPlan:
    return ParallelPlan(data=group.ranks // group.shards, fsdp=group.shards)


def _group_name(group: PlannedGroup) -> str:
    return group.modules[0]


def _group_config(group: PlannedGroup, every: tuple[int, int]) -> DeviceGroupConfig:
    """A group of a configuration; slices of `every` device name none."""
    quota = group.quota if group.quota < 1 else None
    devices = None if quota and group.devices == every else group.devices
    return DeviceGroupConfig(modules=group.modules, devices=devices, quota=quota)

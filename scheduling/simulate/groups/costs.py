"""Seconds and bytes of groups of devices: tasks beside others, sums of gradients, memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from scheduling.costs.hardware import Hardware
from scheduling.costs.slices import Phase, RunningTask, SliceCosts
from scheduling.simulate.groups.graph import GraphModule, ModuleGraph
from scheduling.simulate.groups.plan import GroupPlan, PlannedGroup
from sharding.plan import divisors_of

#: Passes over the parameters of a sharded module: gathered for forwards and again for backwards,
#: half as wide as gradients, which are scattered.
_SHARDED_PASSES = {"forward": 0.5, "backward": 1.5}


@dataclass(frozen=True)
class GroupCosts:
    """What tasks of a graph of modules cost on groups of devices.

    Attributes:
        graph: the modules.
        slices: seconds of tasks on slices of devices.
        hardware: the devices, whose links collectives cross in two levels; None: all devices are
            joined by `slices.device_link`.
    """

    graph: ModuleGraph
    slices: SliceCosts
    hardware: Hardware | None = None
    _known: dict[object, float] = field(default_factory=dict, compare=False, repr=False)

    def has_task(self, module: str, phase: Phase) -> bool:
        """Whether a module has such a task."""
        return phase in self.slices.modules[module].tasks

    def running(self, group: PlannedGroup, module: str, phase: Phase) -> RunningTask:
        """A task as it runs on each slice of a group."""
        rows = 1.0 if phase == "update" else 1 / group.ranks
        return RunningTask(module, phase, group.quota, rows)

    def seconds(
        self, group: PlannedGroup, task: RunningTask, concurrent: Sequence[RunningTask] = ()
    ) -> float:
        """Seconds of a task of a group beside others on other slices of its devices."""
        key = task, tuple(concurrent), group.slices, group.shards
        if key not in self._known:
            compute = self.slices.seconds(task, [*[task] * (group.slices - 1), *concurrent])
            self._known[key] = max(compute, self._shard_seconds(group, task))
        return self._known[key]

    def least_seconds(self, group: PlannedGroup, module: str, phase: Phase) -> float:
        """Seconds that a task of a group takes at least, whatever runs beside it."""
        key = group.quota, group.ranks, group.slices, group.shards, module, phase
        if key not in self._known:
            task = self.running(group, module, phase)
            self._known[key] = self._least_factor(module) * self.seconds(group, task)
        return self._known[key]

    def _least_factor(self, module: str) -> float:
        """The product of all interference that makes a module faster, if any was measured so."""
        factor = 1.0
        for pair in self.slices.pairs:
            if pair.module == module:
                factor *= min(1.0, pair.factor)
        return factor

    def _shard_seconds(self, group: PlannedGroup, task: RunningTask) -> float:
        """Seconds of the collectives of a sharded module's layers, which run beside its compute."""
        if group.shards == 1 or task.phase not in _SHARDED_PASSES:
            return 0.0
        data = _SHARDED_PASSES[task.phase] * self.graph.by_name[task.module].gradient_bytes
        return self._ring_seconds(data, group, group.shards, group.shards)

    def sync_seconds(self, group: PlannedGroup) -> float:
        """Seconds in which replicas sum the gradients of a step; shards have done so."""
        trained = (m.gradient_bytes for m in self._modules(group) if m.has_backward)
        data = sum(trained) / group.shards
        return 2 * self._ring_seconds(data, group, group.ranks // group.shards, group.ranks)

    def _ring_seconds(self, data: float, group: PlannedGroup, ranks: int, span: int) -> float:
        """Seconds of a gather, or a scatter, over ranks that are evenly spaced."""
        if self.hardware is not None and group.count > 1:
            return self.hardware.group_seconds(data, ranks, span)
        link = self.slices.slice_link if group.count == 1 else self.slices.device_link
        return link.ring_seconds(data, ranks)

    def copy_seconds(self, module: str, source: PlannedGroup, target: PlannedGroup) -> float:
        """Seconds in which outputs of a microbatch, or their gradients, get to another group."""
        same = source.devices == target.devices
        rows = 1 / min(source.ranks, target.ranks)
        if same or self.hardware is None:
            return self.slices.copy_seconds(module, same_device=same, rows=rows)
        distance = abs(source.devices[0] - target.devices[0])
        return self.hardware.send_seconds(rows * self.slices.modules[module].output_bytes, distance)

    def _modules(self, group: PlannedGroup) -> list[GraphModule]:
        return [self.graph.by_name[name] for name in group.modules]

    # ---- memory ----------------------------------------------------------------------------------

    def group_bytes(self, group: PlannedGroup, in_flight: int) -> float:
        """Bytes that a group takes of each of its slices.

        Args:
            in_flight: microbatches that wait for their backwards at the same time.
        """
        modules = self._modules(group)
        state = sum(m.state_bytes for m in modules) / group.shards
        saved = sum(m.saved_bytes for m in modules if m.has_backward)
        return state + in_flight * saved / group.ranks

    def fit_memory(self, plan: GroupPlan, in_flight: Sequence[int], memory: float) -> GroupPlan:
        """The plan, in which as few devices share a state as is needed for it to fit."""
        groups = list(plan.groups)
        for island in plan.islands:
            for most in divisors_of(max(groups[n].ranks for n in island)):
                for n in island:
                    shards = max(d for d in divisors_of(groups[n].ranks) if d <= most)
                    groups[n] = replace(groups[n], shards=shards)
                if self._island_bytes(groups, island, in_flight) <= memory:
                    break
        return plan if tuple(groups) == plan.groups else GroupPlan(tuple(groups))

    def device_bytes(self, plan: GroupPlan, in_flight: Sequence[int]) -> float:
        """Bytes of the device that needs most."""
        return max(self._island_bytes(plan.groups, each, in_flight) for each in plan.islands)

    def _island_bytes(
        self, groups: Sequence[PlannedGroup], island: Sequence[int], in_flight: Sequence[int]
    ) -> float:
        return sum(groups[n].slices * self.group_bytes(groups[n], in_flight[n]) for n in island)

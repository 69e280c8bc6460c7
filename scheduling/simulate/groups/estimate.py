"""Costs of modules on slices of devices by counted work alone, for what was not measured.

Seconds on a whole device are those of the cost model (`scheduling.costs.estimate`). Products of
matrices are computed in tiles, a tile on a core: where tiles do not fill all cores of a GPU in
their last turn, cores are idle, in the mean half a turn of each product. That part of a task's
seconds becomes shorter neither by fewer rows nor by more cores; what is left is in proportion to
the rows and the inverse of the quota. Memory has the same speed for every slice, as long as the
others leave it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from scheduling.costs.estimate import ModuleTiming
from scheduling.costs.hardware import Hardware, HardwareLink
from scheduling.costs.memory import residual_bytes
from scheduling.costs.slices import ModuleTasks, Phase, QuotaSpeeds, SliceCosts, TaskWork
from scheduling.costs.strategy import Strategy
from scheduling.costs.times import TaskTime
from scheduling.costs.workload import WIDE, Workload
from scheduling.lowering.lowered import Remat
from scheduling.simulate.groups.graph import GraphModule, ModuleGraph
from sharding.plan import ParallelPlan

#: Rows and columns of a tile of a product, as of the kernels of cuBLAS and Triton.
TILE = 128
#: Seconds in which the host starts a program; assumed, `calibrate --slices` measures it.
HOST_SECONDS = 1e-4
#: Bytes per second that no memory has: compute alone is left.
_ENDLESS = 1e30
#: Products of a backward over those of the forward.
_TURNS = {"forward": 1, "backward": 2}


@dataclass(frozen=True)
class SliceEstimate:
    """What modules do on a device and its slices, as counted.

    Attributes:
        workload: the work of a step.
        hardware: the devices.
        microbatches: number of microbatches of the step.
        remat: values that backwards compute again.
        waits, gradient_caching: as of `ModuleGraph`.
        unread: modules whose outputs only losses of the step read.
        quotas: quotas of slices below 1.
    """

    workload: Workload
    hardware: Hardware
    microbatches: int
    remat: Remat = "layer"
    waits: bool = False
    gradient_caching: bool = False
    unread: Collection[str] = ()
    quotas: tuple[float, ...] = ()

    @property
    def costs(self) -> SliceCosts:
        """Costs of all modules."""
        hardware = self.hardware
        copied = HardwareLink(bandwidth=self._bandwidth / 2, latency=hardware.link.latency)
        return SliceCosts(
            modules={name: self._module_tasks(name) for name in self.workload.modules},
            bandwidth=self._bandwidth,
            slice_link=copied,
            device_link=hardware.reached_link,
        )

    @property
    def graph(self) -> ModuleGraph:
        """The modules, whose outputs go to the devices of the backbone."""
        by_module: dict[str, list[str]] = {}
        for bucket, module in self.workload.buckets.items():
            by_module.setdefault(module, []).append(bucket)
        return ModuleGraph(
            tuple(self._graph_module(name) for name in self.workload.modules),
            self.microbatches,
            round(self.workload.rows / self.microbatches),
            self.waits,
            tuple(tuple(names) for names in by_module.values() if len(names) > 1),
            gradient_caching=self.gradient_caching,
        )

    @property
    def _bandwidth(self) -> float:
        return self.hardware.memory_bandwidth * self.hardware.efficiency.memory

    def _timing(self, name: str, hardware: Hardware) -> ModuleTiming:
        """A module alone on a device, with all rows of a microbatch."""
        plans = dict.fromkeys(self.workload.modules, ParallelPlan())
        strategy = Strategy(plans, self.microbatches, remat=self.remat, placement="prologue")
        return ModuleTiming(self.workload, strategy, hardware, name)

    def _graph_module(self, name: str) -> GraphModule:
        timing, backbone = self._timing(name, self.hardware), self.workload.backbone_name
        trained = WIDE * timing.trained_stored_elements
        known = self.workload.residual_bytes
        saved = residual_bytes(timing, timing.profile.layers) if known else 0.0
        ends = 4 * timing.activation_bytes * timing.profile.input_activations
        return GraphModule(
            name,
            () if name == backbone or name in self.unread else (backbone,),
            _has_backward(self.workload, name),
            gradient_bytes=trained,
            state_bytes=timing.stored_bytes + trained + WIDE * timing.moment_elements,
            saved_bytes=saved + ends,
        )

    # ---- tasks -----------------------------------------------------------------------------------

    def _module_tasks(self, name: str) -> ModuleTasks:
        timing = self._timing(name, self.hardware)
        # Without the memory's time, the time of compute is left.
        endless = self.hardware.model_copy(update={"memory_bandwidth": _ENDLESS})
        computed = self._timing(name, endless)
        pairs = zip(_phase_times(timing), _phase_times(computed), strict=True)
        tasks = {
            phase: self._task_work(timing, phase, seconds, compute)
            for (phase, seconds), (_, compute) in pairs
            if seconds
        }
        width = self.workload.backbone.width * self.workload.element_bytes
        return ModuleTasks(tasks=tasks, output_bytes=timing.outputs * width)

    def _task_work(
        self, timing: ModuleTiming, phase: Phase, seconds: float, compute: float
    ) -> TaskWork:
        """A task of so many seconds on a device, of which so many are compute."""
        moving = seconds - compute
        fixed = _TURNS.get(phase, 0) * self._half_turns(timing)
        read = 0.0 if phase == "update" else timing.gathered_bytes
        return TaskWork(
            flops=compute * self._peak if compute else 1.0,
            traffic=moving * self._bandwidth + read,
            speeds=self._speeds(compute, moving),
            fixed_seconds=fixed,
            host_seconds=HOST_SECONDS,
        )

    @property
    def _peak(self) -> float:
        return self.hardware.peak_flops(self.workload.dtype)

    def _speeds(self, compute: float, moving: float) -> QuotaSpeeds:
        """Speeds at which compute takes longer on a slice, and moving does not."""
        flops = compute * self._peak if compute else 1.0
        quotas = {*self.quotas, 1.0}
        return QuotaSpeeds(points={q: flops / (compute / q + moving) for q in quotas})

    def _half_turns(self, timing: ModuleTiming) -> float:
        """Seconds of half a turn of tiles of each product of a forward, on any number of cores.

        Inputs of a layer's products are as wide as its parameters say: of a width d and an MLP of
        f, 4 d^2 + 2 d f parameters, they have 3 d + f elements together.
        """
        cores, profile = self.hardware.cores, timing.profile
        if cores is None:
            return 0.0
        parameters = sum(profile.layer_parameters.values())
        depth = profile.layers * (parameters / (2 * profile.width) + profile.width)
        speed = self._peak * self.hardware.efficiency.matmul / cores
        return 2 * TILE**2 * depth / speed / 2


def _has_backward(workload: Workload, name: str) -> bool:
    return workload.has_backward(name) or name not in workload.frozen_connectors


def _phase_times(timing: ModuleTiming) -> Iterable[tuple[Phase, float]]:
    """Seconds of a module's tasks; losses of a microbatch are part of the backbone's backward."""
    if timing.is_backbone:
        layers = timing.layers_per_task
        yield "forward", timing.forward_time(layers).seconds + timing.embed_seconds()
        yield "backward", timing.backward_time(layers).seconds + timing.head_time().seconds
    else:
        tasks = timing.chunk_times().items()
        yield "forward", _sum_seconds(time for (kind, *_), time in tasks if kind.forward)
        yield "backward", _sum_seconds(time for (kind, *_), time in tasks if not kind.forward)
    yield "update", timing.update_seconds()


def _sum_seconds(times: Iterable[TaskTime]) -> float:
    return sum(time.seconds for time in times)

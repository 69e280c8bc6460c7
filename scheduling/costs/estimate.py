"""The cost model: how long a step of a workload under a strategy takes on given hardware.

Products with parameters and those of attention run at their reached shares of the peak, all other
operations at the reached memory bandwidth; a collective takes the time of a ring that moves its
bytes. `scheduling.costs.layer` has the times of layers, and this module those of tasks and steps.

Sources of the model: FLOPs as `ModuleWork` counts them; ring collectives as in NCCL; the memory of
a step in `scheduling.costs.memory`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import prod

from scheduling.costs.exchange import OutputExchange, exchange_of
from scheduling.costs.hardware import Hardware
from scheduling.costs.layer import LayerTiming
from scheduling.costs.shares import local_elements, vocab_entries
from scheduling.costs.strategy import Strategy
from scheduling.costs.times import StepTimes, TaskSegment, TaskTime
from scheduling.costs.workload import WIDE, Workload
from scheduling.schedules.task_kinds import B, F, TaskKind, W


def step_times(workload: Workload, strategy: Strategy, hardware: Hardware) -> StepTimes:
    """Times of all tasks of a step."""
    modules = {name: ModuleTiming(workload, strategy, hardware, name) for name in workload.modules}
    backbone = modules[workload.backbone_name]
    layers = backbone.layers_per_task
    sources: dict[tuple[TaskKind, str, int], TaskTime] = {}
    for name in workload.sources:
        sources |= modules[name].chunk_times()
    return StepTimes(
        forward=backbone.forward_time(layers),
        backward=backbone.backward_time(layers),
        sources=sources,
        head=backbone.head_time(),
        send=backbone.send_seconds(),
        embed=backbone.embed_seconds(),
        gather=sum(module.gather_seconds() for module in modules.values()),
        scatter=sum(module.scatter_seconds() for module in modules.values()),
        update=sum(module.update_seconds() for module in modules.values()),
        more=backbone.other_times(),
    )


@dataclass(frozen=True)
class ModuleTiming(LayerTiming):
    """Times of one module's parts on one device, for one microbatch.

    Attributes:
        workload, strategy, hardware: as of `step_times`.
        name: name of the module.
    """

    workload: Workload
    strategy: Strategy
    hardware: Hardware
    name: str

    @cached_property
    def exchanged(self) -> OutputExchange:
        """What an encoder exchanges with the backbone for a microbatch."""
        return OutputExchange.of_bucket(self.workload, self.strategy, self.name)

    @cached_property
    def exchange_seconds(self) -> float:
        """Seconds of the exchange of a microbatch's outputs, and of that of their gradients."""
        settings = self.workload, self.strategy, self.name, self.hardware, self.hardware.platform
        return self.exchanged.exchange_seconds(exchange_of(*settings), self.hardware)

    @property
    def task_exchange_seconds(self) -> float:
        """Seconds of the exchanges in all tasks of an encoder on a microbatch."""
        last = self.division.chunks - 1
        return self.exchange_seconds * sum(
            last in self.division.chunks_with(kind) for kind in (F, B)
        )

    @property
    def microbatch_seconds(self) -> float:
        """Seconds of all tasks on a microbatch, without the exchanges of an encoder's outputs."""
        if not self.shared_ends:
            times = self.chunk_times().values()
            return sum(time.seconds for time in times) - self.task_exchange_seconds
        layers = self.layers_per_task
        tasks = self.forward_time(layers), self.backward_time(layers), self.head_time()
        return sum(time.seconds for time in tasks)

    # ---- tasks -----------------------------------------------------------------------------------

    def forward_time(self, layers: int) -> TaskTime:
        """The forward of a run of layers."""
        return TaskTime(self.layer_forward * layers)

    def backward_time(self, layers: int) -> TaskTime:
        """The backward of a run of layers, with the forward that it computes again."""
        return TaskTime((*self.layer_again, *self.layer_backward) * layers)

    def weights_time(self, layers: int) -> TaskTime:
        """The weight gradients of a run of layers, without its backward."""
        return TaskTime(self.layer_weights * layers)

    def chunk_times(self) -> dict[tuple[TaskKind, str, int], TaskTime]:
        """The tasks of an encoder; chunks between the first and the last take equal times."""
        division, times = self.division, dict[tuple[TaskKind, str, int], TaskTime]()
        by_kind: dict[tuple[TaskKind, bool, bool], TaskTime] = {}
        makes: dict[TaskKind, Callable[[int], TaskTime]] = {
            F: self._chunk_forward,
            B: self._chunk_backward,
        }
        for kind, make in makes.items():
            for chunk in division.chunks_with(kind):
                key = kind, chunk == 0, chunk == division.chunks - 1
                if key not in by_kind:
                    by_kind[key] = make(chunk)
                times[kind, self.name, chunk] = by_kind[key]
        return times

    def _chunk_forward(self, chunk: int) -> TaskTime:
        return TaskTime(
            (
                *self._start_segments(chunk),
                *self.forward_time(self.layers_per_task).segments,
                *self._end_segments(chunk),
            )
        )

    def _chunk_backward(self, chunk: int) -> TaskTime:
        # The parts before and after the layers are computed again, and have a backward.
        start, end = (
            self._start_segments(chunk, self.start_again),
            self._end_segments(chunk, self.end_again),
        )
        if self.trains:
            return TaskTime((*self.backward_time(self.layers_per_task).segments, *start, *end))
        again = self.layer_again * self.layers_per_task
        return TaskTime((*again, *end))

    @property
    def start_again(self) -> int:
        """Passes of what comes before an encoder's layers, in its backward."""
        return 2 if self.trains_fully else 0

    @property
    def end_again(self) -> float:
        """Passes of an encoder's connector in its backward: the forward again, then gradients."""
        if self.name in self.workload.adapted_connectors:
            return 2 + self.profile.end.adapters
        return 2 if self.name in self.workload.frozen_connectors else 3

    def _start_segments(self, chunk: int, times: float = 1) -> tuple[TaskSegment, ...]:
        return (
            (TaskSegment(times * self.compute_seconds(self.profile.start)),) if chunk == 0 else ()
        )

    def _end_segments(self, chunk: int, times: float = 1) -> tuple[TaskSegment, ...]:
        """Connector and exchange of the last chunk."""
        if chunk < self.division.chunks - 1:
            return ()
        return (TaskSegment(times * self.compute_seconds(self.profile.end), self.exchange_seconds),)

    def backbone_times(self) -> StepTimes:
        """Times of a step of the backbone alone."""
        return StepTimes(
            self.forward_time(self.layers_per_task),
            self.backward_time(self.layers_per_task),
            {},
            self.head_time(),
            self.send_seconds(),
            self.embed_seconds(),
            self.gather_seconds(),
            self.scatter_seconds(),
            self.update_seconds(),
            self.other_times(),
        )

    def other_times(self) -> dict[str, TaskTime]:
        """Times of the backbone's other kinds of tasks, by the names of their costs."""
        return {W.cost: self.weights_time(self.layers_per_task)} if self.splits_backward else {}

    # ---- what stages and ranks do together -------------------------------------------------------

    def head_time(self) -> TaskTime:
        """Head and loss of a microbatch with their backward, on all stages at once."""
        # A tensor rank's part of the head; the vocabulary is padded.
        head_share = vocab_entries(self.profile, self.plan) * self.plan.tensor / self.profile.vocab
        weights = 1 if self.trains_fully else self.profile.end.adapters
        compute = (2 + weights) * self.compute_seconds(self.profile.end, head_share)
        share = self.activation_bytes / self.plan.sequence
        # The last stage's output is sent to all stages, and its gradient is summed over them.
        moved = 4 * self.group_seconds(share, "stage") + 2 * self.gathered_rows
        return TaskTime((TaskSegment(compute, moved),))

    def send_seconds(self) -> float:
        """Seconds of a stage sync that sends activations one way and gradients the other way."""
        plan = self.plan
        if plan.stage == 1:
            return 0.0
        return self.hardware.send_seconds(self.activation_bytes / plan.sequence, plan.inner_devices)

    def embed_seconds(self) -> float:
        """Seconds of embedding a microbatch: look-up, sum over stages, return of the gradient."""
        share = self.activation_bytes / self.plan.sequence * self.profile.input_activations
        return self.looked_up + 4 * self.group_seconds(share, "stage") + 2 * self.gathered_rows

    @property
    def looked_up(self) -> float:
        """Seconds in which rows of the embedding are read, and their gradients are added to it.

        Each rank of the vocabulary makes an array of all positions: it reads parameters in float32
        and writes activations; it reads their gradients, and reads and writes the sums.
        """
        values = self.activation_bytes / self.workload.element_bytes / self.plan.context
        speed = self.hardware.memory_bandwidth * self.efficiency.memory
        times = (3, 2) if self.trains_fully else (1, 1)
        return values * (times[0] * WIDE + times[1] * self.workload.element_bytes) / speed

    def gather_seconds(self) -> float:
        """Seconds of the gather of the parameters at a step's start."""
        alone = self.strategy.by_layer or not self.holds_parameters
        return 0.0 if alone else self.group_seconds(self.gathered_bytes, "fsdp")

    def scatter_seconds(self) -> float:
        """Seconds of summing gradients, of all buckets together, over ranks at a step's end."""
        if not self.trained_stored_elements:
            return 0.0
        fsdp = (
            0.0
            if self.strategy.by_layer
            else self.group_seconds(WIDE * self.trained_resident_elements, "fsdp")
        )
        trained = self.trained_parameters
        in_full = (
            WIDE * self._stored_elements(trained, lambda axes: "experts" not in axes),
            ("data", "expert", "context"),
        )
        experts = (
            WIDE * self._stored_elements(trained, lambda axes: "experts" in axes),
            ("data", "context"),
        )
        replicas = self._over_replicas(*in_full) + self._over_replicas(*experts)
        return fsdp + 2 * (replicas + self._over_copies())

    def _over_copies(self) -> float:
        """Seconds of a gather, or scatter, over ranks with the same heads of keys and values."""
        if self.kv_copies == 1:
            return 0.0
        layer = self.trained_parameters[0]
        kv_parameters = {axes: count for axes, count in layer.items() if "kv_heads" in axes}
        data = WIDE * self.layers * local_elements(self.profile, kv_parameters, self.plan)
        return self.hardware.group_seconds(data, self.kv_copies, self.kv_copies)

    def _over_replicas(self, data: float, axes: tuple[str, ...]) -> float:
        """Seconds of a gather, or scatter, over `axes`, whose ranks hold the same parameters."""
        degrees = {axis: n for axis in axes if (n := getattr(self.plan, axis)) > 1}
        if not data or not degrees:
            return 0.0
        if len(degrees) == 1:
            return self.group_seconds(data, *degrees)
        return self.hardware.group_seconds(data, prod(degrees.values()), self.plan.devices)

    def update_seconds(self) -> float:
        """Seconds of the optimizer, which reads gradients and reads and writes all other state."""
        values = 3 * self.trained_stored_elements + 2 * self.moment_elements
        return values * WIDE / (self.hardware.memory_bandwidth * self.efficiency.memory)

"""Steps of other systems for the same model and devices, under the same cost model.

`megatron`: encoders in the first pipeline stage, in front of the decoder's layers (Megatron-LM).
`balanced`: encoder and decoder layers cut into virtual stages whose longest is as short as can be.
`optimus`: encoders with plans of their own in the bubbles of the decoder's pipeline (Feng et al.,
arXiv 2408.03505): whole forwards before and whole backwards after it (coarse), then microbatch by
microbatch inside it (fine). All run asynchronous interleaved 1F1B, whose stages stop to exchange
what they have made, and gather parameters and scatter gradients over data-parallel ranks without
overlap (Megatron-LM with its overlaps off).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from benchmarks.systems.asynchronous import OrderTimes, run_order, seconds_of_cases
from benchmarks.systems.loads import UnevenLoads
from benchmarks.systems.memory import chain_memory
from benchmarks.systems.orders import StageOrders, exchanged_in_pairs, megatron_orders
from scheduling.costs.estimate import ModuleTiming
from scheduling.costs.hardware import Hardware
from scheduling.costs.strategy import Strategy
from scheduling.costs.times import TaskSegment, TaskTime
from scheduling.costs.workload import WIDE, Workload
from scheduling.schedules.schedule import ScheduleError
from scheduling.schedules.tasks import Task
from scheduling.simulate.simulation import Simulation, SimulationOptions, StepRun
from sharding.plan import ParallelPlan, divisors_of

#: Transfers that delay a stage after each task: a send, then a receive. Calibrated
#: (docs/measurements/published.md): with two in sequence, overlapping them makes GPT-175B on 256
#: A100 4.4 % faster; MegaScale's ablation (arXiv 2402.15627: MFU 55.5 to 58.0 %) says 4.5 %.
TRANSFERS = 2
#: Relative rounding error of sums in another order.
ROUNDING = 1e-12


@dataclass(frozen=True)
class ChainLayer:
    """A layer of the chain that virtual stages cut: its module, and times of both directions."""

    module: str
    forward: TaskTime
    backward: TaskTime

    @property
    def seconds(self) -> float:
        """Seconds of forward and backward."""
        return self.forward.seconds + self.backward.seconds


@dataclass(frozen=True)
class LayerChain:
    """All modules as one chain of layers under the decoder's plan, head included.

    Attributes:
        workload, strategy, hardware: as of `scheduling.costs.estimate.step_times`; encoders take
            the decoder's plan, all with parameters replicated along the data-parallel ranks.
        overlapped: whether stages send and receive during compute, and not between tasks.
        by_chunk: whether each virtual chunk gathers its parameters and scatters its gradients
            during the compute of others: only the first gather and the last scatter are waited for.
        uneven: rows of several steps that bring unequal work to the encoders; None: all bring the
            same. The decoder's rows are full, and all take the same.
    """

    workload: Workload
    strategy: Strategy
    hardware: Hardware
    overlapped: bool = False
    by_chunk: bool = False
    uneven: UnevenLoads | None = None

    @property
    def backbone_name(self) -> str:
        """Name of the backbone."""
        return self.workload.backbone_name

    @cached_property
    def timings(self) -> dict[str, ModuleTiming]:
        """Timings of the modules, encoders first."""
        decoder = self.strategy.backbone
        # Parameters are replicated on every rank: layers have nothing to gather.
        replicated = decoder.model_copy(update={"data": decoder.data * decoder.fsdp, "fsdp": 1})
        plans = dict.fromkeys(self.workload.modules, replicated)
        strategy = replace(self.strategy, plans=plans).with_source_chunks({})
        names = [*self.workload.sources, self.backbone_name]
        return {name: self.timing_of(strategy, name) for name in names}

    def timing_of(self, strategy: Strategy, name: str) -> ModuleTiming:
        """Timing of a module whose tensor ranks sum in the activations' type, as in Megatron-LM."""
        workload = replace(self.workload, sums=self.workload.element_bytes)
        return ModuleTiming(workload, strategy, self.hardware, name)

    def with_workload(self, workload: Workload, uneven: UnevenLoads | None = None) -> LayerChain:
        """The same chain for another workload of the same model and rows."""
        return replace(self, workload=workload, uneven=uneven)

    def shares_by_encoder(self, uneven: UnevenLoads) -> dict[str, np.ndarray]:
        """By encoder, `[microbatches, steps x replicas]`: the work of every microbatch."""
        by_module = uneven.work_of(self.strategy.microbatches, self.strategy.backbone.batch)
        return {name: share.reshape(len(share), -1) for name, share in by_module.items()}

    @staticmethod
    def mean_of_slowest(uneven: UnevenLoads, seconds: np.ndarray) -> float:
        """Mean seconds of the steps, each of which waits for its slowest replica.

        Args:
            seconds: `[steps x replicas]`.
        """
        return float(seconds.reshape(uneven.steps, -1).max(1).mean())

    @cached_property
    def encoder_layers(self) -> list[ChainLayer]:
        """Layers of all encoders."""
        return [
            ChainLayer(name, timing.forward_time(1), self.backward_time(timing, 1))
            for name, timing in self.timings.items()
            if name != self.backbone_name
            for _ in range(timing.profile.layers)
        ]

    def backward_time(self, timing: ModuleTiming, layers: int) -> TaskTime:
        """The backward of a run of layers; frozen layers have none."""
        return timing.backward_time(layers) if self._is_trained(timing) else TaskTime()

    def _is_trained(self, timing: ModuleTiming) -> bool:
        return timing.name not in self.workload.frozen

    @cached_property
    def decoder_layers(self) -> list[ChainLayer]:
        """Layers of the decoder; the last one carries the head."""
        timing = self.timings[self.backbone_name]
        layers = [
            ChainLayer(self.backbone_name, timing.forward_time(1), timing.backward_time(1))
        ] * timing.profile.layers
        end = timing.compute_seconds(timing.profile.end)
        last = layers[-1]
        forward = TaskTime((*last.forward.segments, TaskSegment(end)))
        backward = TaskTime((TaskSegment(2 * end), *last.backward.segments))
        return [*layers[:-1], ChainLayer(self.backbone_name, forward, backward)]

    def order_times(self, cuts: Sequence[int], layers: Sequence[ChainLayer]) -> OrderTimes:
        """Times of virtual stages that end after `cuts` layers."""
        ends = list(zip([0, *cuts], cuts, strict=False))
        tasks = [
            tuple(
                TaskTime(tuple(s for layer in layers[a:b] for s in kind(layer).segments))
                for kind in (lambda layer: layer.forward, lambda layer: layer.backward)
            )
            for a, b in ends
        ]

        def task_time(task: Task, stage: int) -> TaskTime:
            return tasks[task.chunk][not task.kind.forward]

        modules = {layer.module for layer in layers} | {self.backbone_name}
        around = self.end_seconds([self.timings[name] for name in self.timings if name in modules])
        send = self.timings[self.backbone_name].send_seconds()
        sends = (send, 0.0) if self.overlapped else (0.0, TRANSFERS * send)
        return OrderTimes(task_time, *sends, *around)

    def end_seconds(self, timings: Iterable[ModuleTiming]) -> tuple[float, float, float]:
        """Seconds of gather, scatter and optimizer of some modules."""
        modules = list(timings)
        gather, scatter, update = (
            sum(map(kind, modules))
            for kind in (self.gather_seconds, self.scatter_seconds, self.update_seconds)
        )
        alone = self.strategy.backbone_chunks if self.by_chunk else 1
        return gather / alone, scatter / alone, update

    def shared_parameters(self, timing: ModuleTiming) -> float:
        """Parameters of a module on one device; the optimizer's state is spread over the ranks."""
        plan = timing.plan
        return timing.profile.parameters / (plan.stage * plan.tensor)

    def gather_seconds(self, timing: ModuleTiming) -> float:
        """Seconds of the gather of a module's parameters, in the type of the activations."""
        data = self.workload.element_bytes * self.shared_parameters(timing)
        return self._over_ranks(data, timing.plan)

    def scatter_seconds(self, timing: ModuleTiming) -> float:
        """Seconds of the scatter of a module's gradients, in float32."""
        if not self._is_trained(timing):
            return 0.0
        return self._over_ranks(WIDE * self.shared_parameters(timing), timing.plan)

    def update_seconds(self, timing: ModuleTiming) -> float:
        """Seconds of a module's optimizer, spread over the ranks."""
        if not self._is_trained(timing):
            return 0.0
        values = 3 + 2 * self.workload.moments
        speed = self.hardware.memory_bandwidth * self.hardware.efficiency.memory
        return values * WIDE * self.shared_parameters(timing) / timing.plan.tokens / speed

    def _over_ranks(self, data: float, plan: ParallelPlan) -> float:
        return self.hardware.group_seconds(data, plan.tokens, plan.devices)


@dataclass(frozen=True)
class BaselineStep:
    """A step of a chain; it is simulated once it is asked for.

    Attributes:
        chain: the chain.
        cuts: ends of its virtual stages.
        alone: whether the decoder's layers are its only ones.
    """

    chain: LayerChain
    cuts: tuple[int, ...]
    alone: bool = False

    @cached_property
    def layers(self) -> list[ChainLayer]:
        """The layers that are cut."""
        return [*([] if self.alone else self.chain.encoder_layers), *self.chain.decoder_layers]

    @cached_property
    def memory(self) -> float:
        """Bytes of the device that needs most."""
        ends = zip([0, *self.cuts], self.cuts, strict=False)
        parts = [[layer.module for layer in self.layers[a:b]] for a, b in ends]
        return chain_memory(self.chain.timings, parts)

    @cached_property
    def order(self) -> StageOrders:
        """Interleaved 1F1B as the chain exchanges."""
        strategy = self.chain.strategy
        stages, chunks = strategy.backbone.stage, strategy.backbone_chunks
        orders = megatron_orders(stages, chunks, strategy.microbatches)
        pairs = chunks > 1 and not self.chain.overlapped
        return exchanged_in_pairs(orders) if pairs else StageOrders(orders)

    @cached_property
    def step(self) -> StepRun:
        """The simulated step."""
        options = SimulationOptions(co_issue=False, replicas=self.chain.strategy.backbone.batch)
        return run_order(self.order, self.chain.order_times(self.cuts, self.layers), options)

    @cached_property
    def seconds(self) -> float:
        """Seconds of the step; the mean of several whose rows are uneven."""
        uneven = self.chain.uneven
        if uneven is None:
            return self.step.makespan
        times, shares = (
            self.chain.order_times(self.cuts, self.layers),
            self.chain.shares_by_encoder(uneven),
        )
        parts = self._seconds_of_parts()
        cases = next(iter(shares.values())).shape[1]

        def task_seconds(task: Task, stage: int) -> np.ndarray:
            by_module = parts[task.chunk][not task.kind.forward]
            total = np.full(cases, by_module[self.chain.backbone_name])
            for name, share in shares.items():
                total += by_module[name] * share[task.microbatch]
            return total

        return self.chain.mean_of_slowest(uneven, seconds_of_cases(self.order, times, task_seconds))

    def _seconds_of_parts(self) -> list[tuple[dict[str, float], dict[str, float]]]:
        """By virtual stage, seconds of its forward and its backward, each by module."""
        stages = []
        for start, end in zip([0, *self.cuts], self.cuts, strict=False):
            forward, backward = (dict.fromkeys(self.chain.timings, 0.0) for _ in range(2))
            for layer in self.layers[start:end]:
                forward[layer.module] += layer.forward.seconds
                backward[layer.module] += layer.backward.seconds
            stages.append((forward, backward))
        return stages

    @property
    def compute_share(self) -> float:
        """Share of the devices' time in which they compute."""
        return self.simulation.compute / self.seconds

    def with_workload(self, workload: Workload, uneven: UnevenLoads | None = None) -> BaselineStep:
        """The same cuts for another workload of the same model."""
        return replace(self, chain=self.chain.with_workload(workload, uneven))

    @cached_property
    def simulation(self) -> Simulation:
        """The step in all its parts."""
        return self.step.summarize()


def even_seconds(chain: LayerChain, layers: Iterable[ChainLayer]) -> float:
    """Seconds of interleaved 1F1B whose virtual stages all take the same time, without its ends.

    (M / P + (P - 1) / (P V)) times all layers of a microbatch (Narayanan et al., arXiv 2104.04473,
    section 2.2).
    """
    stages, chunks = chain.strategy.backbone.stage, chain.strategy.backbone_chunks
    rounds = chain.strategy.microbatches / stages + (stages - 1) / (stages * chunks)
    return rounds * sum(layer.seconds for layer in layers)


def stopped_seconds(chain: LayerChain) -> float:
    """Seconds in which every stage stops to exchange, after each of its tasks."""
    strategy = chain.strategy
    if chain.overlapped or strategy.backbone.stage == 1:
        return 0.0
    return (
        2
        * strategy.microbatches
        * strategy.backbone_chunks
        * TRANSFERS
        * chain.timings[chain.backbone_name].send_seconds()
    )


def balanced_cuts(costs: Sequence[float], parts: int) -> list[int]:
    """Ends of `parts` runs, none of them empty, that minimise the largest sum.

    A dynamic programme over layers; among the cuts with the same largest sum it takes those with
    the least sum of squares.

    Raises:
        ScheduleError: there are fewer layers than parts.
    """
    count = len(costs)
    if not 1 <= parts <= count:
        raise ScheduleError(
            f"{count} layers cannot be cut into {parts} virtual stages; valid: 1 to {count}"
        )
    total = np.concatenate([[0.0], np.cumsum(costs)])
    # Sums of the runs from each layer to each end.
    runs = np.where(np.tri(count + 1, k=-1, dtype=bool), total[:, None] - total, np.inf)
    largest = runs[:, 0]
    for _ in range(parts - 1):
        largest = np.maximum(largest, runs).min(axis=1)
    limit = largest[count] * (1 + ROUNDING)
    return _find_even_cuts(np.where(runs <= limit, runs**2, np.inf), parts)


def _find_even_cuts(squares: np.ndarray, parts: int) -> list[int]:
    """Ends of the `parts` runs that have the least sum of `squares` `[ends, starts]`."""
    best, starts = squares[:, 0], []
    for _ in range(parts - 1):
        sums = best + squares
        starts.append(sums.argmin(axis=1))
        best = sums.min(axis=1)
    cuts = [len(squares) - 1]
    for start in reversed(starts):
        cuts.append(int(start[cuts[-1]]))
    return cuts[::-1]


def run_megatron(chain: LayerChain) -> BaselineStep:
    """The fastest of `megatron_layouts`."""
    return min(megatron_layouts(chain), key=lambda option: option.step.makespan)


def megatron_layouts(chain: LayerChain) -> list[BaselineStep]:
    """Encoders at the start of the first virtual stage; the decoder over all stages or the others.

    Both are tried with every number of virtual chunks up to the strategy's: where the first virtual
    stage is long, more chunks only make its round longer.
    """
    stages, encoders = chain.strategy.backbone.stage, chain.encoder_layers
    tried = []
    for chunks in divisors_of(chain.strategy.backbone_chunks):
        strategy = replace(chain.strategy, chunks={chain.backbone_name: chunks})
        with_chunks = replace(chain, strategy=strategy)
        parts = stages * chunks
        for first in (True, False) if encoders and parts > 1 else (True,):
            ends = balanced_cuts([1.0] * len(chain.decoder_layers), parts - (not first))
            cuts = [len(encoders) + end for end in ([] if first else [0]) + ends]
            tried.append(BaselineStep(with_chunks, tuple(cuts)))
    return tried


def run_balanced(chain: LayerChain) -> BaselineStep:
    """Virtual stages as even as whole layers allow."""
    strategy = chain.strategy
    layers = [*chain.encoder_layers, *chain.decoder_layers]
    cuts = balanced_cuts(
        [layer.seconds for layer in layers], strategy.backbone.stage * strategy.backbone_chunks
    )
    return BaselineStep(chain, tuple(cuts))


def decoder_alone(chain: LayerChain) -> BaselineStep:
    """The decoder's layers over all virtual stages, with no work and no parameters of encoders."""
    parts = chain.strategy.backbone.stage * chain.strategy.backbone_chunks
    cuts = balanced_cuts([1.0] * len(chain.decoder_layers), parts)
    return BaselineStep(chain, tuple(cuts), alone=True)

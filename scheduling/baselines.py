"""What others would do with the same model and devices, under the same cost model.

`megatron`: encoders in the first pipeline stage, in front of the decoder's layers (Megatron-LM).
`balanced`: encoder and decoder layers cut into virtual stages whose longest is as short as can be.
`optimus`: encoders with plans of their own in the bubbles of the decoder's pipeline (Feng et al.,
arXiv 2408.03505): whole forwards before and whole backwards after it (coarse), then microbatch by
microbatch inside it (fine). All run asynchronous interleaved 1F1B.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from scheduling.chain_memory import chain_memory
from scheduling.estimate import WIDE, Strategy, Timing, Workload
from scheduling.hardware import Hardware
from scheduling.orders import Ordered, OrderTimes, megatron_orders, simulate_order
from scheduling.schedule import ScheduleError, Task
from scheduling.simulation import Options, Simulation
from scheduling.times import Segment, TaskTime
from sharding.plan import ParallelPlan, divisors

#: Share of the data-parallel collectives that stays exposed where they run bucket by bucket beside
#: the first forwards and the last backwards. Calibrated: with it Optimus hides 68.6 % of ViT-22B's
#: work on 3072 devices without packing inside the decoder's run, published 68.7 % (docs/cost.md).
EXPOSED = 0.6
#: Share that sums in another order may be off.
ROUNDING = 1e-12


@dataclass(frozen=True)
class Layer:
    """A layer of the chain that virtual stages cut: its tower, forward and backward."""

    tower: str
    forward: TaskTime
    backward: TaskTime

    @property
    def seconds(self) -> float:
        """Both."""
        return self.forward.seconds + self.backward.seconds


@dataclass(frozen=True)
class Chain:
    """All towers as one chain of layers under the decoder's plan, head included.

    Attributes:
        workload, strategy, hardware: as of `scheduling.estimate.step_times`; encoders take the
            decoder's plan, all with parameters whole along the data-parallel ranks.
    """

    workload: Workload
    strategy: Strategy
    hardware: Hardware

    @cached_property
    def timings(self) -> dict[str, Timing]:
        """Of the towers, encoders first."""
        decoder = self.strategy.decoder
        # Whole parameters: layers have nothing to gather.
        whole = decoder.model_copy(update={"data": decoder.batch, "fsdp": 1})
        plans = dict.fromkeys(self.workload.towers, whole)
        own = replace(self.strategy, plans=plans, pieces={})
        names = [*self.workload.encoders, "decoder"]
        return {name: Timing(self.workload, own, self.hardware, name) for name in names}

    @cached_property
    def encoders(self) -> list[Layer]:
        """Layers of all encoders."""
        return [
            Layer(name, timing.forward(1), self.backward(timing, 1))
            for name, timing in self.timings.items()
            if name != "decoder"
            for _ in range(timing.tower.layers)
        ]

    def backward(self, timing: Timing, layers: int) -> TaskTime:
        """The backward of a run of layers; frozen ones have none."""
        return timing.backward(layers) if self._trains(timing) else TaskTime()

    def _trains(self, timing: Timing) -> bool:
        return timing.name not in self.workload.frozen

    @cached_property
    def decoder(self) -> list[Layer]:
        """Layers of the decoder; the last one carries the head."""
        timing = self.timings["decoder"]
        layers = [Layer("decoder", timing.forward(1), timing.backward(1))] * timing.tower.layers
        end = timing.compute(timing.tower.end)
        last = layers[-1]
        forward = TaskTime((*last.forward.segments, Segment(end)))
        backward = TaskTime((Segment(2 * end), *last.backward.segments))
        return [*layers[:-1], Layer("decoder", forward, backward)]

    def times(self, cuts: Sequence[int], layers: Sequence[Layer]) -> OrderTimes:
        """Times of virtual stages that end after `cuts` layers."""
        stages = self.strategy.decoder.stage
        ends = list(zip([0, *cuts], cuts, strict=False))
        made = [
            tuple(
                TaskTime(tuple(s for layer in layers[a:b] for s in kind(layer).segments))
                for kind in (lambda layer: layer.forward, lambda layer: layer.backward)
            )
            for a, b in ends
        ]

        def time(task: Task, stage: int) -> TaskTime:
            return made[task.part * stages + stage][task.kind == "B"]

        return self.around(time)

    def around(self, time: Callable[[Task, int], TaskTime]) -> OrderTimes:
        """Times with those of sends, gather, scatter and optimizer."""
        decoder = self.timings["decoder"]
        gather, scatter, update = (
            sum(getattr(self, name)(timing) for timing in self.timings.values())
            for name in ("gather", "scatter", "update")
        )
        return OrderTimes(time, decoder.send(), gather, scatter, update)

    def shared(self, timing: Timing) -> float:
        """Parameters of a tower on one device; the optimizer's are spread over the ranks."""
        plan = timing.plan
        return timing.tower.parameters / (plan.stage * plan.tensor)

    def gather(self, timing: Timing) -> float:
        """Seconds of the gather of a tower's parameters, in the type of the activations."""
        data = self.workload.size * self.shared(timing)
        return EXPOSED * self._over_ranks(data, timing.plan)

    def scatter(self, timing: Timing) -> float:
        """Seconds of the scatter of its gradients, in float32."""
        if not self._trains(timing):
            return 0.0
        return EXPOSED * self._over_ranks(WIDE * self.shared(timing), timing.plan)

    def update(self, timing: Timing) -> float:
        """Seconds of its optimizer, spread over the ranks."""
        if not self._trains(timing):
            return 0.0
        values = 3 + 2 * self.workload.moments
        speed = self.hardware.memory_bandwidth * self.hardware.efficiency.memory
        return values * WIDE * self.shared(timing) / timing.plan.tokens / speed

    def _over_ranks(self, data: float, plan: ParallelPlan) -> float:
        return self.hardware.group_seconds(data, plan.tokens, plan.devices)


@dataclass(frozen=True)
class Baseline:
    """A step of a chain.

    Attributes:
        simulation: in time.
        memory: bytes of the device that needs most.
    """

    simulation: Simulation
    memory: float


def balanced_cuts(costs: Sequence[float], parts: int) -> list[int]:
    """Ends of `parts` runs, none of them empty, whose largest sum is least.

    Dynamic programme over layers; among the cuts with the least largest sum, those of the least
    sum of squares.

    Raises:
        ScheduleError: there are fewer layers than parts.
    """
    count = len(costs)
    if not 1 <= parts <= count:
        raise ScheduleError(f"{count} layers cannot be cut into {parts} virtual stages")
    total = np.concatenate([[0.0], np.cumsum(costs)])
    # What the runs from each layer to each end sum up to.
    runs = np.where(np.tri(count + 1, k=-1, dtype=bool), total[:, None] - total, np.inf)
    largest = runs[:, 0]
    for _ in range(parts - 1):
        largest = np.maximum(largest, runs).min(axis=1)
    limit = largest[count] * (1 + ROUNDING)
    return _evenest(np.where(runs <= limit, runs**2, np.inf), parts)


def _evenest(squares: np.ndarray, parts: int) -> list[int]:
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


def megatron(chain: Chain) -> Baseline:
    """Encoders in front of the first virtual stage, the decoder's layers over all or the others.

    Of the two the faster, and of all numbers of virtual chunks up to the strategy's: where the
    first virtual stage is long, more of them only make its round longer.
    """
    stages, encoders = chain.strategy.decoder.stage, chain.encoders
    layers = [*encoders, *chain.decoder]
    tried = []
    for chunks in divisors(chain.strategy.chunks):
        own = replace(chain, strategy=replace(chain.strategy, chunks=chunks))
        parts = stages * chunks
        for first in (True, False) if encoders and parts > 1 else (True,):
            rest = balanced_cuts([1.0] * len(chain.decoder), parts - (not first))
            cuts = [len(encoders) + end for end in ([] if first else [0]) + rest]
            tried.append(_simulated(own, cuts, layers))
    return min(tried, key=lambda made: made.simulation.makespan)


def balanced(chain: Chain) -> Baseline:
    """Virtual stages as even as whole layers allow."""
    strategy = chain.strategy
    layers = [*chain.encoders, *chain.decoder]
    cuts = balanced_cuts(
        [layer.seconds for layer in layers], strategy.decoder.stage * strategy.chunks
    )
    return _simulated(chain, cuts, layers)


def _simulated(chain: Chain, cuts: Sequence[int], layers: Sequence[Layer]) -> Baseline:
    strategy = chain.strategy
    orders = megatron_orders(strategy.decoder.stage, strategy.chunks, strategy.microbatches)
    options = Options(co_issue=False, replicas=strategy.decoder.batch)
    made = simulate_order(Ordered(orders), chain.times(cuts, layers), options)
    ends = zip([0, *cuts], cuts, strict=False)
    parts = [[layer.tower for layer in layers[a:b]] for a, b in ends]
    return Baseline(made, chain_memory(chain.timings, parts))


def decoder_alone(chain: Chain) -> Baseline:
    """The decoder's layers over all virtual stages, no encoder work; its own parameters too."""
    parts = chain.strategy.decoder.stage * chain.strategy.chunks
    cuts = balanced_cuts([1.0] * len(chain.decoder), parts)
    return _simulated(chain, cuts, chain.decoder)

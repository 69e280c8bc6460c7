"""Systems whose plan is made for one workload and held while the load of encoders moves.

Each has a search of its own: the fastest plan for the usual workload, of those that have room for
the largest one, so that no load ends the run. Rows may be uneven: samples go to replicas and
microbatches in their order, and a step takes as long as its slowest replica. What a device needs is
counted for even rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import islice
from math import inf
from typing import Protocol, Self

from benchmarks.systems.chain import (
    BaselineStep,
    LayerChain,
    decoder_alone,
    even_seconds,
    megatron_layouts,
    run_balanced,
    stopped_seconds,
)
from benchmarks.systems.disaggregated import DisaggregatedSystem
from benchmarks.systems.loads import UnevenLoads
from benchmarks.systems.optimus import OptimusStep, apply_plan, fitting_degrees, planned_optimus
from benchmarks.systems.plans import ideal_seconds, list_chains, list_strategies, plain_space
from scheduling.costs.hardware import Hardware
from scheduling.costs.workload import Workload
from scheduling.schedules.schedule import ScheduleError
from scheduling.search.bounds import module_compute
from scheduling.search.space import Space, backbone_plans
from sharding.plan import ParallelPlan, divisors_of

#: Plans with room of which a system takes the fastest, the most promising ones.
TRIED = 24
#: Numbers of devices for the decoder are tried whose slower part computes at most so many times as
#: long as in the most even split, with so many plans of each whose decoder has room.
UNEVEN, OF_SPLIT = 1.7, 8
#: Of them all, the most promising ones that are simulated.
SIMULATED = 400


class PlannedSystem(Protocol):
    """A planned step that can be run under other workloads."""

    @property
    def seconds(self) -> float:
        """Seconds of the step."""

    @property
    def memory(self) -> float:
        """Bytes of the device that needs most."""

    @property
    def compute_share(self) -> float | None:
        """Share of the devices' time in which they compute; None where only the sum is known."""

    def with_workload(self, workload: Workload, uneven: UnevenLoads | None = None) -> Self:
        """The same plan for another workload of the same model and rows."""


@dataclass(frozen=True)
class PlannedOptimus:
    """Optimus with its plan and the places of its encoders' microbatches.

    Attributes:
        chain: chain of the decoder's strategy.
        alone: the decoder's step with no encoder work in it.
        planned: the planned step.
    """

    chain: LayerChain
    alone: BaselineStep
    planned: OptimusStep
    compute_share: None = None

    @cached_property
    def step(self) -> OptimusStep:
        """The step under the chain's workload."""
        return apply_plan(self.chain, self.alone.simulation, self.planned)

    @property
    def seconds(self) -> float:
        """Seconds of the step."""
        return self.step.seconds

    @property
    def memory(self) -> float:
        """Bytes of a device for decoder and encoders."""
        return self.alone.memory + self.step.memory

    def with_workload(
        self, workload: Workload, uneven: UnevenLoads | None = None
    ) -> PlannedOptimus:
        """The same plan and places for another workload; the decoder's step is the same."""
        return replace(self, chain=self.chain.with_workload(workload, uneven))


@dataclass(frozen=True)
class PlanningCase:
    """What the systems are planned for.

    Attributes:
        space: the plans that can be had; `memory` bounds what a device may take.
        usual, largest: the workload to be fast for, and the one to have room for.
        hardware: hardware of the devices.
        uneven: rows of the usual workload; None: all are equal.
    """

    space: Space
    usual: Workload
    largest: Workload
    hardware: Hardware
    uneven: UnevenLoads | None = None

    @cached_property
    def chains(self) -> list[LayerChain]:
        """Chains for the usual workload, the most promising first."""
        candidates = list_chains(
            allow_padding(self.space), self.usual, self.hardware, separate_remat=True
        )
        return [
            chain.with_workload(self.usual, self.uneven)
            for chain in sorted(candidates, key=_bound_seconds)
        ]

    def has_room(self, system: PlannedSystem) -> bool:
        """Whether a plan has room for the largest workload."""
        return system.with_workload(self.largest).memory <= self.space.memory


def allow_padding(space: Space) -> Space:
    """The space whose stages need not divide the layers, as these systems cut them anywhere."""
    return replace(space, pad=True)


#: Lists how a system may run a chain; each is simulated only when its seconds are read.
ListSystems = Callable[[PlanningCase, LayerChain], Iterable[PlannedSystem]]


def list_searches(question: PlanningCase) -> Mapping[str, Callable[[], PlannedSystem]]:
    """The searches of all systems, by name.

    Each raises ScheduleError if no plan can be run.
    """
    candidates: dict[str, ListSystems] = {
        "megatron": lambda _, chain: megatron_layouts(chain),
        "balanced": lambda _, chain: [run_balanced(chain)],
        "optimus": _try_optimus,
    }
    searches: dict[str, Callable[[], PlannedSystem]] = {
        name: partial(_find_fastest, question, name, search) for name, search in candidates.items()
    }
    return {
        "megatron": searches["megatron"],
        "apart": partial(_find_disaggregated, question),
        "balanced": searches["balanced"],
        "optimus": searches["optimus"],
    }


def _find_fastest(question: PlanningCase, name: str, list_systems: ListSystems) -> PlannedSystem:
    """The fastest of the first `TRIED` chains with room; the leanest if none has."""
    best, leanest, tried = None, None, 0
    for chain in _without_chunks(question.chains) if name == "megatron" else question.chains:
        # Optimus' bubbles may hide all work of the encoders.
        alone = even_seconds(chain, chain.decoder_layers) + stopped_seconds(chain)
        bound = alone if name == "optimus" else _bound_seconds(chain)
        if tried == TRIED or (best is not None and bound >= best.seconds):
            break
        try:
            systems = list(list_systems(question, chain))
            fitting = [system for system in systems if question.has_room(system)]
        except ScheduleError:
            continue
        tried += bool(fitting)
        best = min(
            [*fitting, *([best] if best else [])], key=lambda system: system.seconds, default=None
        )
        if best is None:
            candidates = [*systems, *([leanest] if leanest else [])]
            leanest = min(candidates, key=lambda system: system.memory, default=None)
    chosen = best or leanest
    if chosen is None:
        raise ScheduleError(f"{name}: no degrees divide the devices, the rows and the model")
    return chosen


def _without_chunks(chains: Iterable[LayerChain]) -> list[LayerChain]:
    """One chain with the most virtual chunks of those that differ in nothing else."""
    by_strategy: dict[str, LayerChain] = {}
    for chain in chains:
        key = str(replace(chain.strategy, chunks={}))
        known = by_strategy.get(key)
        if known is None or known.strategy.backbone_chunks < chain.strategy.backbone_chunks:
            by_strategy[key] = chain
    return sorted(by_strategy.values(), key=_bound_seconds)


def _bound_seconds(chain: LayerChain) -> float:
    """Seconds of the step with even stages, the time in which they stop included."""
    return ideal_seconds(chain) + stopped_seconds(chain)


def _try_optimus(question: PlanningCase, chain: LayerChain) -> Iterator[PlannedSystem]:
    """Optimus' step, where the decoder alone leaves room."""
    alone = decoder_alone(chain)
    room = question.space.memory - alone.memory
    if room > 0:
        largest = replace(chain, workload=question.largest)
        degrees = fitting_degrees(chain, room, largest)
        yield PlannedOptimus(chain, alone, planned_optimus(chain, alone.simulation, degrees))


# ---- devices of their own ------------------------------------------------------------------------


def _find_disaggregated(question: PlanningCase) -> PlannedSystem:
    """The fastest split of the devices, and plans of both parts."""
    best: DisaggregatedSystem | None = None
    leanest: DisaggregatedSystem | None = None
    tried = 0
    for split in _by_bound(question):
        if tried == SIMULATED or (best is not None and split.least_seconds >= best.seconds):
            break
        if not question.has_room(split):
            leanest = split if leanest is None or split.memory < leanest.memory else leanest
            continue
        tried += 1
        if _step_seconds(split) < (inf if best is None else best.seconds):
            best = split
    chosen = best or leanest
    if chosen is None:
        raise ScheduleError(
            "apart: no split leaves devices and room for both; valid: more of either"
        )
    return chosen


def _step_seconds(split: DisaggregatedSystem) -> float:
    """Seconds of a step; without end if too few forwards go ahead."""
    try:
        return split.seconds
    except ScheduleError:
        return inf


def _by_bound(question: PlanningCase) -> Sequence[DisaggregatedSystem]:
    """Plans of the most promising splits, the lowest bound first."""
    space, usual = question.space, question.usual
    splits: list[DisaggregatedSystem] = []
    plain = replace(plain_space(allow_padding(space)), devices=space.devices - 1, counts=None)
    plans = backbone_plans(plain, usual)
    for devices in _even_splits(question, list(plans)):
        decoder_chains = [
            LayerChain(usual, strategy, question.hardware, uneven=question.uneven)
            for strategy in list_strategies(plain, usual, plans[devices])
        ]
        decoder_chains.sort(
            key=lambda chain: even_seconds(chain, chain.decoder_layers) + stopped_seconds(chain)
        )
        fitting = (chain for chain in decoder_chains if decoder_alone(chain).memory <= space.memory)
        for chain in islice(fitting, OF_SPLIT):
            splits += _encoder_plans(question, chain, space.devices - devices)
    return sorted(splits, key=lambda split: split.least_seconds)


def _even_splits(question: PlanningCase, counts: Iterable[int]) -> list[int]:
    """Numbers of devices for the decoder that leave both parts about as much compute."""
    usual, hardware = question.usual, question.hardware

    def slower_seconds(devices: int) -> float:
        others = question.space.devices - devices
        encoders = sum(module_compute(usual, n, others, "none", hardware) for n in usual.sources)
        return max(module_compute(usual, usual.backbone_name, devices, "none", hardware), encoders)

    seconds = {devices: slower_seconds(devices) for devices in counts}
    most = UNEVEN * min(seconds.values(), default=0.0)
    return [devices for devices, predicted in seconds.items() if predicted <= most]


def _encoder_plans(
    question: PlanningCase, chain: LayerChain, devices: int
) -> Iterator[DisaggregatedSystem]:
    """Systems that run the encoders on so many devices and the decoder on the others."""
    count, stages = chain.strategy.microbatches, chain.strategy.backbone.stage
    most = question.space.domain or devices
    for tensor in divisors_of(devices):
        plan = ParallelPlan(data=devices // tensor, tensor=tensor)
        if tensor > most or not all(
            question.space.fits_plan(n, plan) for n in question.usual.sources
        ):
            continue
        for in_flight in sorted({min(count, 2 * stages), count}):
            yield DisaggregatedSystem(chain, plan, in_flight)

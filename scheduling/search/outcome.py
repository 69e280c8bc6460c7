"""A strategy of a search with its schedule, and the predicted time and memory of its step."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from scheduling.costs.hardware import Hardware
from scheduling.costs.memory import Sizes, StepMemory, step_memory
from scheduling.costs.strategy import Strategy
from scheduling.costs.times import StepTimes
from scheduling.costs.workload import Workload
from scheduling.lowering.bounds import with_slack
from scheduling.lowering.lower import lower_schedule
from scheduling.schedules.schedule import Schedule
from scheduling.simulate.lockstep import simulate_step
from scheduling.simulate.simulation import Simulation, SimulationOptions


@dataclass(frozen=True)
class SearchOutcome:
    """A strategy with its predicted time and memory.

    Attributes:
        strategy: how the step is run.
        schedule: schedule of the step's tasks.
        times: times of the tasks.
        seconds: seconds of a step.
        memory: memory of one device.
    """

    strategy: Strategy
    schedule: Schedule
    times: StepTimes
    seconds: float
    memory: StepMemory

    @cached_property
    def simulation(self) -> Simulation:
        """The step in all its parts."""
        return simulate_step(self.schedule, self.times, options_of(self.strategy))


def with_schedule_chunks(strategy: Strategy, schedule: Schedule) -> Strategy:
    """Set the numbers of chunks of `schedule` in `strategy`."""
    return strategy.with_source_chunks(
        {module.name: module.chunks // module.stages for module in schedule.sources}
    )


def options_of(strategy: Strategy) -> SimulationOptions:
    """How the step of a strategy runs."""
    return SimulationOptions(
        co_issue=strategy.co_issue,
        # Without stages nothing overlaps the collectives at a step's start and end.
        overlap_gather=strategy.backbone.stage > 1,
        replicas=strategy.backbone.batch,
    )


def buffer_sizes(workload: Workload, schedule: Schedule, strategy: Strategy) -> Sizes | None:
    """Slots of the ring buffers that are compiled for a schedule; None without stages."""
    if strategy.backbone.stage == 1:
        return None
    program = lower_schedule(schedule, strategy.remat, strategy.remats)
    sizes = program.sizes
    if workload.adaptive and strategy.placement == "bubbles":
        sizes |= {name: with_slack(module.sizes) for name, module in program.sources.items()}
    return sizes


def memory_of(
    workload: Workload, strategy: Strategy, hardware: Hardware, schedule: Schedule
) -> StepMemory:
    """Bytes of a device in the step of a schedule."""
    return step_memory(workload, strategy, hardware, buffer_sizes(workload, schedule, strategy))

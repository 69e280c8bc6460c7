"""Search of a strategy that follows a moving load with one compiled program.

Encoders have microbatches of their own, whose number follows the load. Families of strategies are
looked at in the order of their lower bounds for one load, the usual one; of each, the encoders'
plans that divide parameters most, with every rematerialisation of the encoders. A strategy counts
only if the program of the full load has room.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import gcd, inf
from typing import get_args

from scheduling.costs.estimate import Timing, step_times
from scheduling.costs.hardware import Hardware
from scheduling.costs.loads import Load, even_feeds, loaded
from scheduling.costs.memory import Memory, least_memory, step_memory
from scheduling.costs.strategy import Strategy
from scheduling.costs.times import StepTimes
from scheduling.costs.workload import Workload
from scheduling.programs.compile import compile_program
from scheduling.programs.frame import Frame
from scheduling.programs.program import Remat
from scheduling.schedules.schedule import Schedule, ScheduleError, valid_pieces
from scheduling.search.bounds import Bounds
from scheduling.search.make import Follower, seconds_on
from scheduling.search.space import Space, decoder_plans, families, members
from scheduling.simulate.lockstep import makespan, simulate
from scheduling.simulate.simulation import Options, Simulation

#: Strategies that are scheduled at most.
MOST = 800


@dataclass(frozen=True)
class Following:
    """A step that follows its load.

    Attributes:
        workload: rows of the encoders' own microbatches, whose number its `spread` says; its
            `units` are those of the full load.
        strategy: strategy with the pieces of all encoders.
        hardware: hardware of the devices.
    """

    workload: Workload
    strategy: Strategy
    hardware: Hardware

    @property
    def times(self) -> StepTimes:
        """Times of all tasks."""
        return step_times(self.workload, self.strategy, self.hardware)

    @property
    def follower(self) -> Follower:
        """Makes the schedule of each load."""
        return Follower(self.workload, self.strategy, seconds_on(self.hardware))

    @property
    def options(self) -> Options:
        """How the step runs."""
        own = self.strategy
        return Options(own.co_issue, overlap_gather=True, replicas=own.decoder.batch)

    def placed(self, load: Load, live: int | None = None) -> Schedule:
        """The schedule of a load.

        Args:
            live: as of `Follower`; None: the most.

        Raises:
            ScheduleError: the sizes do not fit together.
        """
        count, follower, own = self.strategy.microbatches, self.follower, self.workload
        feeds = {
            name: even_feeds(load[name], own.positions[name] * own.spread.get(name, 1), count)
            for name in own.encoders
        }
        return follower(feeds, follower.lives()[0] if live is None else live)

    def seconds(self, load: Load) -> float:
        """Seconds of a step, wherever its values wait."""
        return makespan(self.placed(load), self.times, self.options)

    def frame(self, full: Load) -> Frame:
        """The compiled program: slots of the full load, and room for every smaller one."""
        own = self.strategy
        program = compile_program(self.placed(full), own.remat, own.remats)
        return Frame.following(program, apart=not own.co_issue)

    def memory(self, frame: Frame) -> Memory:
        """Bytes of a device, with all slots of a frame."""
        sizes = frame.sizes, {name: own.sizes for name, own in frame.encoders.items()}
        return step_memory(self.workload, self.strategy, self.hardware, sizes)

    def fitted(self, load: Load, frame: Frame) -> Schedule:
        """The schedule of a load within the slots of a frame; less may wait until it fits.

        Raises:
            ScheduleError: none fits.
        """
        excess = None
        for live in self.follower.lives():
            made = self.placed(load, live)
            program = compile_program(made, self.strategy.remat, self.strategy.remats)
            excess = frame.excess(program)
            if excess is None:
                return made
        raise ScheduleError(f"no schedule of load {dict(load)} fits the compiled step: {excess}")

    def simulation(self, schedule: Schedule) -> Simulation:
        """The step of a schedule in all its parts."""
        return simulate(schedule, self.times, self.options)


#: Told the number of strategies that were scheduled, and the seconds to undercut.
Told = Callable[[int, float], None]


def search_following(
    space: Space, workload: Workload, hardware: Hardware, usual: Load, full: Load, told: Told
) -> Following:
    """The strategy that is fastest for the usual load, of those with room for the full one.

    Encoders have as many rows in their own microbatches as they need for their plans.

    Args:
        workload: its encoders have as many rows as the decoder.

    Raises:
        ScheduleError: none has room.
    """
    best: Following | None = None
    limit, scheduled = inf, 0
    for bound, family in _by_bound(space, workload, hardware, usual):
        if bound >= limit or scheduled >= MOST:
            break
        for own in _ways(space, workload, hardware, family):
            if least_memory(workload, own.strategy, hardware) > space.memory:
                continue
            seconds = _tried(own, usual)
            scheduled += 1
            told(scheduled, limit)
            if seconds < limit and own.memory(own.frame(full)).total <= space.memory:
                best, limit = own, seconds
    if best is None:
        raise ScheduleError(
            f"no strategy with stages has room in {space.memory / 2**30:.3g} GiB; valid: more "
            "devices, smaller budgets or smaller schedule.encoder_budgets"
        )
    return best


def _tried(own: Following, load: Load) -> float:
    """Seconds of a step, without end if the sizes do not fit together."""
    try:
        return own.seconds(load)
    except ScheduleError:
        return inf


def _by_bound(
    space: Space, workload: Workload, hardware: Hardware, usual: Load
) -> Sequence[tuple[float, Strategy]]:
    """Families with stages that have room for the decoder, by their bounds for the usual load."""
    bounds = Bounds(loaded(workload, usual), hardware)
    plans = next(iter(decoder_plans(space, workload).values()), [])
    found = [
        family
        for family in families(space, workload, [plan for plan in plans if plan.stage > 1])
        if bounds.memory(family) <= space.memory
    ]
    return sorted(((bounds.seconds(own), own) for own in found), key=lambda pair: pair[0])


def _ways(
    space: Space, workload: Workload, hardware: Hardware, family: Strategy
) -> Iterator[Following]:
    """Strategies of a family: plans and rematerialisation of the encoders."""
    names = list(workload.encoders)
    for member in _leanest(space, workload, family):
        spread = _spread(workload, member)
        for remats in product(get_args(Remat), repeat=len(names)):
            own = replace(member, work_ahead=False, remats=dict(zip(names, remats, strict=True)))
            pieces = {name: _pieces(spread, own, hardware, name) for name in names}
            yield Following(spread, replace(own, pieces=pieces), hardware)


def _spread(workload: Workload, member: Strategy) -> Workload:
    """The workload whose encoders have as many rows as they are dealt over ranks, at least."""
    rows, found = workload.rows // member.microbatches, {}
    for name in workload.encoders:
        plan = member.plans[name]
        inside = plan.batch * plan.stage // member.decoder.stage
        found[name] = inside // gcd(inside, rows)
    units = {name: -(-workload.units.get(name, 1) // found[name]) for name in found}
    return replace(workload, spread=found, units=units)


def _leanest(space: Space, workload: Workload, family: Strategy) -> list[Strategy]:
    """Members by degrees of their encoders, in the fewest stages; the most sharded of each."""
    found: dict[tuple[tuple[int, ...], ...], Strategy] = {}
    space = replace(space, placements=("bubbles",), kinds=(), spreads=True)
    for member in members(space, workload, family):
        plans = [member.plans[name] for name in workload.encoders]
        key = tuple((plan.stage, plan.context, plan.tensor) for plan in plans)
        held = found.get(key)
        if held is None or _sharded(member) > _sharded(held):
            found[key] = member
    fewest = min((sum(stage for stage, *_ in key) for key in found), default=0)
    return [own for key, own in found.items() if sum(stage for stage, *_ in key) == fewest]


def _sharded(member: Strategy) -> int:
    return sum(plan.fsdp for name, plan in member.plans.items() if name != "decoder")


def _pieces(workload: Workload, strategy: Strategy, hardware: Hardware, name: str) -> int:
    """The fewest pieces of which each is as short as a chunk of the decoder; else the most."""
    decoder = Timing(workload, strategy, hardware, "decoder")
    slot = decoder.forward(decoder.layers_per_task).seconds
    valid = valid_pieces(workload.towers[name].layers, strategy.plans[name].stage)
    for pieces in valid:
        own = Timing(workload, replace(strategy, pieces={name: pieces}), hardware, name)
        if own.forward(own.layers_per_task).seconds <= slot:
            return pieces
    return valid[-1]

"""The schedule of a strategy: the decoder's tasks, and the encoders' among them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from scheduling.costs.estimate import step_times
from scheduling.costs.flops import task_flops
from scheduling.costs.hardware import Hardware
from scheduling.costs.strategy import Strategy, module_feed, module_stages
from scheduling.costs.workload import Workload
from scheduling.schedules.bubbles import choose_chunks, choose_prefetch, place_modules
from scheduling.schedules.costs import TaskCosts
from scheduling.schedules.make import backbone_schedule
from scheduling.schedules.schedule import Schedule, ScheduleError
from scheduling.schedules.tasks import Consumers, valid_chunks
from sharding.plan import ParallelPlan

#: Costs of the tasks of a strategy's step, by which encoders are placed: FLOPs
#: (`scheduling.costs.flops.task_flops`), or seconds on some hardware (`seconds_on`).
Times = Callable[[Workload, Strategy], TaskCosts]


def seconds_on(hardware: Hardware) -> Times:
    """Tasks cost the seconds that they take on `hardware`."""
    return lambda workload, strategy: step_times(workload, strategy, hardware).costs


def make_schedule(
    workload: Workload,
    strategy: Strategy,
    times: Times,
    thorough: bool = True,
    feeds: Mapping[str, Consumers] | None = None,
    in_turn: bool = False,
) -> Schedule:
    """The schedule with decoder tasks by the strategy's kind and encoder tasks by its placement.

    Without stages it is the order of the plain step: microbatch by microbatch, encoders first.

    Args:
        strategy: strategy with the pieces of all encoders, as `cut_encoders` chooses them.
        thorough: as of `place_modules`.
        feeds: by encoder, what its own microbatches feed (`Feed.consumers`), for a step in
            which they are not the decoder's; then no encoder works ahead.
        in_turn: as of `place_modules`.

    Raises:
        ScheduleError: the sizes do not fit together.
    """
    if strategy.backbone.stage == 1:
        alone = replace(strategy, placement="first_stage")
        return pipeline_schedule(workload, alone, task_flops, thorough)
    return pipeline_schedule(workload, strategy, times, thorough, feeds, in_turn)


def pipeline_schedule(
    workload: Workload,
    strategy: Strategy,
    times: Times,
    thorough: bool = True,
    feeds: Mapping[str, Consumers] | None = None,
    in_turn: bool = False,
) -> Schedule:
    """The schedule as `make_schedule` makes it for several stages; a single stage is allowed."""
    modules = tuple(module_stages(workload, strategy, name) for name in workload.sources)
    fed = [module_feed(workload, name) for name in workload.sources]
    decoder, costs = _backbone_schedule(strategy, strategy.microbatches), times(workload, strategy)
    if feeds is not None:
        fed = [replace(feed, consumers=feeds[feed.source]) for feed in fed]
    elif strategy.prefetch and strategy.placement == "bubbles":
        modules = choose_prefetch(decoder, modules, costs, strategy.fill, strategy.live, fed)
    way = strategy.placement, strategy.fill, strategy.live
    return place_modules(decoder, modules, costs, *way, thorough, in_turn, fed)


def _backbone_schedule(strategy: Strategy, microbatches: int) -> Schedule:
    sizes = strategy.backbone.stage, strategy.chunks, microbatches
    return backbone_schedule(strategy.kind, *sizes, strategy.backbone_name)


class PlacementLimits(NamedTuple):
    """A way to place the encoders' work of a step.

    Attributes:
        live: of how many of the decoder's microbatches outputs, or gradients, may wait.
        in_turn: as of `place_modules`.
    """

    live: int
    in_turn: bool = False


@dataclass(frozen=True)
class StepScheduler:
    """Makes the schedules of steps whose encoders have microbatches of their own.

    Attributes:
        workload, strategy, times: as of `make_schedule`; the strategy has the pieces of all
            encoders.
    """

    workload: Workload
    strategy: Strategy
    times: Times

    def __call__(self, feeds: Mapping[str, Consumers], way: PlacementLimits) -> Schedule:
        """The schedule of a step, found fast.

        Args:
            feeds: as of `make_schedule`.
            way: one of `placement_limits`.
        """
        strategy = replace(self.strategy, live=way.live)
        return make_schedule(
            self.workload, strategy, self.times, thorough=False, feeds=feeds, in_turn=way.in_turn
        )

    @property
    def positions(self) -> Mapping[str, int]:
        """Positions of a row of a microbatch, by module."""
        return self.workload.positions

    @property
    def spread(self) -> Mapping[str, int]:
        """Rows of an encoder's own microbatches for each of the decoder's, if not one."""
        return self.workload.spread

    def placement_limits(self) -> list[PlacementLimits]:
        """Ways to place a step: the first makes the shortest step, the last needs the fewest slots.

        Encoder pipelines first get as many microbatches as their idle slots suggest. Then they get
        them in turn, and ever fewer outputs may wait: in the end none, so that an encoder
        microbatch is held only while one that it feeds is in the decoder.
        """
        stages = self.strategy.backbone.stage
        least = max(stages // plan.stage for plan in self.strategy.plans.values())
        most = live = self.strategy.live or 2 * stages
        lives = [live]
        while live > least:
            live = max(least, live * 3 // 4)
            lives.append(live)
        return [
            PlacementLimits(most),
            *(PlacementLimits(limit, in_turn=True) for limit in dict.fromkeys([*lives, 1, 0])),
        ]


def cut_encoders(workload: Workload, strategy: Strategy, times: Times) -> Strategy:
    """`strategy` with the pieces of all encoders: as it names them, else as they fit bubbles.

    Raises:
        ScheduleError: layers cannot be cut like this.
    """
    pieces = {name: _choose_chunks(workload, strategy, name, times) for name in workload.sources}
    return replace(strategy, encoder_chunks=pieces)


def _choose_chunks(workload: Workload, strategy: Strategy, name: str, times: Times) -> int:
    """Number of pieces of an encoder: as named, else so that a piece fits the decoder's bubbles."""
    stages, profile = strategy.plans[name].stage, workload.modules[name]
    encoder, valid = workload.buckets.get(name, name), valid_chunks(profile.periods, stages)
    bubbles = strategy.placement == "bubbles" and strategy.backbone.stage > 1
    if name in strategy.encoder_chunks or not bubbles:
        pieces = strategy.encoder_chunks.get(name, stages)
        if pieces not in valid:
            each = ", ".join(str(count // stages) for count in valid)
            each = each or "none: choose a stage that divides the layers"
            raise ScheduleError(
                f"schedule.chunks.{name}: {pieces / stages:g} on each of {stages} stages do not "
                f"split the {profile.layers} layers of {encoder} evenly; "
                f"valid: {each}"
            )
        return pieces
    if not valid:
        raise ScheduleError(
            f"{encoder}: {profile.layers} layers cannot be cut over {stages} stages; choose a "
            f"stage of the plan of {name} that divides them"
        )
    return _fitting_chunks(workload, strategy, name, valid, times)


def _fitting_chunks(
    workload: Workload, strategy: Strategy, name: str, valid: list[int], times: Times
) -> int:
    """The pieces of an encoder, one of `valid`, that fit the decoder's bubbles."""
    ways = [replace(strategy, encoder_chunks={name: pieces}) for pieces in valid]
    divisions = {
        module_stages(workload, way, name): times(workload, way).sources[name] for way in ways
    }
    # Pieces that fill the bubbles of a few rounds fill those of many.
    microbatches = min(strategy.microbatches, 2 * strategy.backbone.stage)
    alone = times(workload, replace(strategy, encoder_chunks={}))
    decoder = _backbone_schedule(strategy, microbatches)
    feeds = [module_feed(workload, name)]
    return choose_chunks(decoder, divisions, alone, strategy.fill, strategy.live, feeds).chunks


@dataclass(frozen=True)
class Scheduler:
    """Makes the schedules of strategies that a search compares.

    Attributes:
        workload: the work of a step.
        hardware: hardware whose seconds place the encoders.
    """

    workload: Workload
    hardware: Hardware
    _pieces: dict[tuple[str, str], int] = field(default_factory=dict, repr=False, compare=False)

    def __call__(self, strategy: Strategy, thorough: bool = True) -> Schedule:
        """The schedule of a strategy with all plans, as the train step makes it.

        Args:
            thorough: whether to try all ways; otherwise the schedule is made faster, and its step
                is at most a few percent longer.

        Raises:
            ScheduleError: sizes of the strategy do not fit together.
        """
        pieces = {name: self._chunks_of(strategy, name) for name in self.workload.sources}
        cut = replace(strategy, encoder_chunks=pieces)
        return make_schedule(self.workload, cut, seconds_on(self.hardware), thorough)

    def _chunks_of(self, strategy: Strategy, name: str) -> int:
        """Number of pieces of an encoder.

        An encoder of several stages has a piece for each stage: smaller pieces would only be sent
        more often. The pieces of an encoder of one stage are found once for all strategies that
        differ only in how parameters are shared, or in the plans of other encoders; for that,
        parameters count as gathered over all ranks at the start of a step.
        """
        plan, decoder = strategy.plans[name], strategy.backbone
        if plan.stage > 1 or decoder.stage == 1:
            return plan.stage
        plans = dict.fromkeys(strategy.plans, _share_parameters(plan))
        plans |= {strategy.backbone_name: _share_parameters(decoder)}
        usual = replace(strategy, plans=plans, encoder_chunks={}, gather="step", co_issue=False)
        key = (name, str(usual))
        if key not in self._pieces:
            times = seconds_on(self.hardware)
            self._pieces[key] = _choose_chunks(self.workload, usual, name, times)
        return self._pieces[key]


def _share_parameters(plan: ParallelPlan) -> ParallelPlan:
    """`plan` with its parameters shared by all replicas."""
    return plan.model_copy(update={"data": 1, "fsdp": plan.data * plan.fsdp})

"""Encoder work in the bubbles of the backbone's pipeline.

`place_modules` adds the tasks of encoders to a schedule of the backbone. Two stages,
four microbatches, an encoder as long as one stage of the backbone (e = its forward, E = its
backward)::

    stage 0   e0  F0  F1  F2e3  F3B0  B1E0  B2   B3  E3
    stage 1   e1  e2  F0  F1B0  F2B1  F3B2  B3   E1  E2

e2, e3, E0 and E1 run where the backbone leaves a stage idle and make no tick longer.

Work that no idle slot takes runs in rounds: every stage runs a chunk in the same tick, so that no
stage waits for another. A round costs as much next to backbone tasks as in a separate tick, before
the backbone's first or after its last: only idle slots shorten the step. The step can be no shorter
than all work divided by the number of stages (`lower_bound`).

Encoders are placed one after the other, the largest first, in four steps and polynomial time:

1. *Slots.* A fused task is an idle slot if a chunk in it makes the tick longer by less than the
   chunk's share of a round (its cost over the stages), or not at all. A slot takes as many chunks
   as are worth it; all but the last of them have separate ticks before it, in which the stages do
   not synchronize (`Schedule.stage_syncs`). Chunks of encoders of several stages move between
   stages: a slot takes one of them.
2. *Owners.* Pipeline q of the encoder handles c[q] microbatches, forward and backward. If its idle
   slots take i[q] forwards and j[q] backwards, c[q] - i[q] and c[q] - j[q] are left for rounds.
   The c[q] are chosen to minimise the cost of the most rounds that any pipeline needs.
3. *Placement.* Backwards are placed in one pass through the ticks. A microbatch is ready when
   stage 0 has done its backbone backward. It runs in an idle slot of its owner, or in a round; a
   round is due as soon as all the stages that need the most rounds have a chunk to spare, one that
   no later slot will take. Forwards have deadlines, which in reversed time are the ticks from
   which they may run: the same pass, through the ticks in reverse order, places them.
4. *Refinement.* A chunk that alone makes a tick longer than the other stages need moves to a tick
   that grows less (`scheduling.schedules.refine`).

Where the costs hold times of gathering parameters and scattering gradients, ticks for them come
before the backbone's first and after its last: idle slots of all stages. The step is placed with
and without them, and the shorter one is taken.

Steps 2 and 3 are tried with two orders of the owners, with forwards or backwards first, and with
and without slots that are shorter than a chunk; the shortest are refined, and of those the shortest
step is taken. After Optimus (Feng et al., arXiv 2408.03505), which packs bubbles of continuous time
by search.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from math import inf
from typing import Literal, get_args

from scheduling.schedules.builder import ScheduleBuilder
from scheduling.schedules.check import check_schedule
from scheduling.schedules.costs import ChunkCosts, TaskCosts
from scheduling.schedules.place import place_tasks, slot_capacities
from scheduling.schedules.refine import refine_placement
from scheduling.schedules.schedule import Schedule, ScheduleError
from scheduling.schedules.task_kinds import B, F
from scheduling.schedules.task_queue import TOLERANCE, PlacementRules, TaskQueue
from scheduling.schedules.tasks import Feed, ModuleStages

Placement = Literal["first_stage", "prologue", "bubbles"]
Fill = Literal["pipeline", "tensor", "data"]
#: Share by which a step may be longer if it has fewer chunks.
STEP_TOLERANCE = 0.01
#: Number of placements that are refined: the shortest of those tried.
MAX_REFINED = 3


def place_modules(
    backbone: Schedule,
    modules: Sequence[ModuleStages],
    costs: TaskCosts,
    placement: Placement = "bubbles",
    fill: Collection[str] = get_args(Fill),
    max_waiting: int | None = None,
    thorough: bool = True,
    in_turn: bool = False,
    feeds: Sequence[Feed] = (),
) -> Schedule:
    """Add the tasks of modules that feed the backbone to a schedule of the backbone.

    Args:
        backbone: holds tasks of the backbone only.
        modules: how the work of each module is divided.
        costs: costs of every task.
        placement: `"first_stage"`: on stage 0, forwards one microbatch before the backbone's,
            backwards right after them (Megatron-LM); `"prologue"`: forwards before the backbone's
            first tick, backwards after its last, distributed evenly over the stages; `"bubbles"`:
            in idle slots, the rest in rounds.
        fill: for `"bubbles"`: `"pipeline"` allows the backbone's idle slots; `"tensor"` allows
            rounds in the ticks of its tasks, which otherwise have separate ones; `"data"` allows
            the time in which parameters are gathered and gradients scattered, as the costs say.
        max_waiting: for `"bubbles"`: most of the backbone's microbatches, over all stages and for
            each module, whose outputs wait for the backbone, and whose gradients wait for the
            module; by default 2 x stages. It does not apply to other placements: one output waits
            with `"first_stage"`, all with `"prologue"`.
        thorough: whether to try all the options above; otherwise only the first of each is
            tried, which takes about a quarter of the time and makes the step at most a few percent
            longer.
        in_turn: for `"bubbles"`: microbatches are assigned to a module's pipelines in turn, however
            many chunks the idle slots of each take. So a pipeline keeps values of few microbatches
            at a time. `max_waiting` may then be less than the outputs of a round, whose chunks
            run in several ticks. With 0 none waits: forwards run right before the first of the
            backbone's microbatches that they feed, backwards right after the last, and no chunk is
            refined. So the fewest values are saved, and the step is the longest.
        feeds: which of the backbone's microbatches those of a module feed; microbatch for
            microbatch where it is not said.

    Returns:
        The schedule with `modules`; ticks without tasks of the backbone may come before, between
        and after those of `backbone`.

    Raises:
        ScheduleError: `backbone` breaks a rule of `scheduling.schedules.check`, a name, a size or a
            division is refused, or a kind of task has no cost.
    """
    sources = _with_feeds(backbone, modules, feeds)
    _check_arguments(backbone, sources, costs, placement, fill, max_waiting, in_turn)
    rules = PlacementRules.of_placement(placement, fill, max_waiting, backbone.stages)
    rules = replace(rules, thorough=thorough, in_turn=in_turn)
    return _place_with_ends(backbone, sources, costs, rules).build_schedule(
        [module for module, _ in sources], [feed for _, feed in sources]
    )


def choose_prefetch(
    backbone: Schedule,
    modules: Sequence[ModuleStages],
    costs: TaskCosts,
    fill: Collection[str] = get_args(Fill),
    max_waiting: int | None = None,
    feeds: Sequence[Feed] = (),
) -> tuple[ModuleStages, ...]:
    """Let frozen modules run for the next step as far as that makes steps shorter.

    Outputs for the next step are saved beyond the step's end, at most `max_waiting` of a module.

    Args: as for `place_modules` with `"bubbles"`.

    Returns:
        `modules`; each one without a backward has the smallest `prefetch` among those that give the
        shortest step, chosen for one module after the other.
    """
    sources = _with_feeds(backbone, modules, feeds)
    _check_arguments(backbone, sources, costs, "bubbles", fill, max_waiting)
    rules = PlacementRules.of_placement("bubbles", fill, max_waiting, backbone.stages)
    most = int(min(backbone.microbatches, rules.max_waiting))
    for index in (i for i, module in enumerate(modules) if not module.trains):
        module, feed = sources[index]
        choices = sorted({*range(0, most, backbone.stages // module.stages), most})
        makespans = []
        for prefetch in choices:
            sources[index] = replace(module, prefetch=prefetch), feed
            table = _place_with_ends(backbone, sources, costs, rules)
            makespans.append(table.step_length(costs.gather, costs.scatter))
        least = min(makespans) * (1 + TOLERANCE)
        shortest = (n for n, makespan in zip(choices, makespans, strict=True) if makespan <= least)
        sources[index] = replace(module, prefetch=next(shortest)), feed
    return tuple(module for module, _ in sources)


def choose_chunks(
    backbone: Schedule,
    divisions: Mapping[ModuleStages, ChunkCosts],
    costs: TaskCosts,
    fill: Collection[str] = get_args(Fill),
    max_waiting: int | None = None,
    feeds: Sequence[Feed] = (),
) -> ModuleStages:
    """The division into the fewest chunks whose step is at most a hundredth longer than any other.

    Smaller chunks fill idle slots better, but each is one more task.

    Args:
        divisions: possible divisions of one module, with the costs of their chunks.
        backbone, costs, fill, max_waiting, feeds: as for `place_modules`.

    Raises:
        ScheduleError: there is no division, or one is refused.
    """
    if not divisions:
        raise ScheduleError("no division of the module is given; valid: one or more")
    steps = {}
    for module, chunk_costs in sorted(divisions.items(), key=lambda item: item[0].chunks):
        of_module = replace(costs, sources={module.name: chunk_costs})
        sources = _with_feeds(backbone, [module], feeds)
        _check_arguments(backbone, sources, of_module, "bubbles", fill, max_waiting)
        rules = PlacementRules.of_placement("bubbles", fill, max_waiting, backbone.stages)
        table = _place_with_ends(backbone, sources, of_module, rules)
        steps[module] = table.step_length(costs.gather, costs.scatter)
    limit = min(steps.values()) * (1 + STEP_TOLERANCE)
    return next(module for module, step in steps.items() if step <= limit)


def lower_bound(schedule: Schedule, costs: TaskCosts) -> float:
    """All work divided by the stages, in the unit of `costs`: no step with this work is shorter."""
    name, count = schedule.backbone.name, schedule.microbatches
    kinds = [kind for module, kind in schedule.task_arrays.keys if module == name]
    of_stage = schedule.stage_chunks * sum(costs.of_kind(kind) for kind in kinds) + costs.shared
    others = sum(
        schedule.microbatches_of(module.name) * _module_work(module, costs)
        for module in schedule.sources
    )
    return count * of_stage + others / schedule.stages


#: A module that feeds the backbone, and what it feeds.
_Source = tuple[ModuleStages, Feed]


def _with_feeds(
    backbone: Schedule, modules: Sequence[ModuleStages], feeds: Sequence[Feed]
) -> list[_Source]:
    """Each module with its feed."""
    by_source = {feed.source: feed for feed in feeds}
    name = backbone.backbone.name
    return [
        (module, replace(by_source.get(module.name, Feed(module.name)), target=name))
        for module in modules
    ]


def _module_work(module: ModuleStages, costs: TaskCosts) -> float:
    """A module's work for one microbatch."""
    chunk_costs = costs.sources[module.name]
    return sum(chunk_costs.forward) + sum(
        chunk_costs.backward[chunk] for chunk in module.chunks_with(B)
    )


def _check_arguments(
    backbone: Schedule,
    sources: Sequence[_Source],
    costs: TaskCosts,
    placement: str,
    fill: Collection[str],
    max_waiting: int | None,
    in_turn: bool = False,
) -> None:
    _check_names("placement", [placement], get_args(Placement))
    _check_names("fill", fill, get_args(Fill))
    if backbone.sources:
        raise ScheduleError("the schedule has other modules already; valid: the backbone alone")
    check_schedule(backbone)
    names, backbone_name = [module.name for module, _ in sources], backbone.backbone.name
    if len({*names, backbone_name}) <= len(names):
        raise ScheduleError(
            f"modules named {names} are refused; valid: distinct, not {backbone_name!r}"
        )
    for module, feed in sources:
        _check_division(module, feed, backbone, costs)
        pipelines = backbone.stages // module.stages if placement == "bubbles" else 1
        if max_waiting is not None and max_waiting < (0 if in_turn else pipelines):
            raise ScheduleError(
                f"max_waiting: {max_waiting} is refused: a round of {module.name!r} makes "
                f"{pipelines} outputs; valid: {pipelines} or more"
            )
        if placement == "first_stage" and module.stages > 1:
            raise ScheduleError(
                f"{module.name}: {module.stages} stages are refused for 'first_stage', which "
                "runs modules on one stage; valid: 1"
            )


def _check_names(what: str, names: Collection[str], valid: Sequence[str]) -> None:
    for name in names:
        if name not in valid:
            raise ScheduleError(f"{what}: {name!r} is refused; valid: {', '.join(valid)}")


def _check_division(module: ModuleStages, feed: Feed, backbone: Schedule, costs: TaskCosts) -> None:
    def refuse(what: str, value: object, valid: str) -> None:
        raise ScheduleError(f"{module.name}: {what} {value} is refused; valid: {valid}")

    if module.stages < 1 or backbone.stages % module.stages:
        refuse("stages", module.stages, f"divisors of the backbone's {backbone.stages}")
    if module.chunks < 1 or module.chunks % module.stages:
        refuse("chunks", module.chunks, f"multiples of the module's {module.stages} stages")
    if not 0 <= module.first_backward <= module.chunks:
        refuse("first_backward", module.first_backward, f"0 to {module.chunks}, the chunks")
    most = 0 if module.trains or feed.per_target > 1 else backbone.microbatches
    if not 0 <= module.prefetch <= most:
        refuse("prefetch", module.prefetch, f"0 to {most} (microbatches; only without a backward)")
    chunk_costs = costs.sources.get(module.name)
    if chunk_costs is None:
        raise ScheduleError(f"module {module.name!r} has no costs; given: {[*costs.sources]}")
    if {len(chunk_costs.forward), len(chunk_costs.backward)} != {module.chunks}:
        lengths = f"{len(chunk_costs.forward)} and {len(chunk_costs.backward)} chunks"
        refuse("costs for", lengths, f"{module.chunks}")


def _place_with_ends(
    backbone: Schedule, sources: Sequence[_Source], costs: TaskCosts, rules: PlacementRules
) -> ScheduleBuilder:
    """The shorter of the steps with and without use of the ends, if that can change anything."""
    if not (rules.ends and rules.slots) or costs.gather == costs.scatter == 0:
        return _place_all(backbone, sources, costs, rules)
    choices = (True, False) if rules.thorough else (True,)
    tried = [_place_all(backbone, sources, costs, replace(rules, ends=ends)) for ends in choices]
    return min(tried, key=lambda table: table.step_length(costs.gather, costs.scatter))


def _place_all(
    backbone: Schedule, sources: Sequence[_Source], costs: TaskCosts, rules: PlacementRules
) -> ScheduleBuilder:
    """Place the module with the most work first, and work for the next step last of all."""
    queues = [
        TaskQueue.of_module(*source, kind, costs)
        for source in sources
        for kind in (F, B)
        if source[0].trains
    ]
    queues += [TaskQueue.of_module(*source, F, costs) for source in sources if not source[0].trains]
    table = ScheduleBuilder.of_backbone(backbone, costs, queues if rules.ends else ())
    order = sorted(sources, key=lambda source: -_module_work(source[0], costs))
    for module, feed in order:
        of_module = [queue for queue in queues if queue.module == module]
        numbers = range(module.prefetch, feed.source_count(backbone.microbatches))
        limits = replace(rules, max_waiting=rules.max_waiting * feed.per_target)
        table = _place_shortest(table, of_module, numbers, limits)
    for module, feed in order:
        of_module = [TaskQueue.of_module(module, feed, F, costs, prefetch=True)]
        table = _place_shortest(
            table, of_module, range(module.prefetch), replace(rules, max_waiting=inf)
        )
    return table


def _place_shortest(
    table: ScheduleBuilder, queues: list[TaskQueue], microbatches: range, rules: PlacementRules
) -> ScheduleBuilder:
    """Place `queues` with several options, and take the table with the shortest step."""
    if not microbatches:
        return table
    placed: dict[Hashable, ScheduleBuilder] = {}
    placements = []
    first = rules.eager or not rules.thorough
    options = [(True, True, 1)] if first else product((True, False), (True, False), (1, -1))
    for stretch, rising, order in options:
        limits = replace(rules, stretch=stretch)
        owners = _assign_pipelines(table, queues, microbatches, limits, rising)
        # One encoder pipeline has no two orders.
        choice = stretch, order, tuple(owners)
        if choice not in placed:
            tried = table
            for queue in queues[::order]:
                tried = place_tasks(tried, queue, microbatches, owners, limits)
            placed[choice] = tried
        placements.append(placed[choice])
    placements.sort(key=lambda tried: tried.makespan)
    if rules.slots and rules.rounds == "overlapped" and rules.max_waiting:
        placements[:MAX_REFINED] = [
            refine_placement(tried, rules) for tried in placements[:MAX_REFINED]
        ]
    return min(placements, key=lambda tried: tried.makespan)


def _assign_pipelines(
    table: ScheduleBuilder,
    queues: list[TaskQueue],
    microbatches: range,
    rules: PlacementRules,
    rising: bool,
) -> list[int]:
    """The encoder pipeline of each microbatch.

    Every pipeline gets its microbatches at even distances. Microbatches of the same turn go to the
    pipelines in rising order in one half of the step and in falling order in the other. If they are
    distributed in turn, every pipeline gets as many, in rising order.
    """
    if rules.eager:
        return [0] * len(microbatches)
    if rules.in_turn:
        pipelines = table.stages // queues[0].module.stages
        return [number % pipelines for number in range(len(microbatches))]
    sides = [
        (
            slot_capacities(table, queue, microbatches, rules),
            queue.chunks_by_stage[queue.stages[0]],
            sum(queue.costs) / len(queue.costs),
        )
        for queue in queues
    ]
    counts = _balance_pipelines(len(microbatches), sides)
    turns = max(counts)
    keys = []
    for owner, count in enumerate(counts):
        for i in range(count):
            turn = int((i + 0.5) * turns / count)
            up = rising == (turn < turns / 2)
            keys.append((turn, owner if up else -owner, owner))
    return [owner for _, _, owner in sorted(keys)]


def _balance_pipelines(total: int, sides: list[tuple[list[int], int, float]]) -> list[int]:
    """Number of microbatches of each encoder pipeline, for the least cost of rounds.

    Args:
        total: number of microbatches.
        sides: for forwards, and for backwards if there are any: chunks that the idle slots of each
            pipeline take, chunks per microbatch, and cost of a chunk.
    """
    # Without backwards, their side costs nothing.
    pair = (*sides, ([0] * len(sides[0][0]), 1, 0.0))[:2]

    def counts(*rounds: int) -> list[int]:
        sizes = [
            [(count + slots_taken) // chunks for slots_taken in slots]
            for count, (slots, chunks, _) in zip(rounds, pair, strict=True)
        ]
        return [min(size) for size in zip(*sizes, strict=True)]

    def enough(*rounds: int) -> bool:
        return sum(counts(*rounds)) >= total

    def cost(rounds: tuple[int, int]) -> float:
        # The last microbatch runs in rounds whatever the slots take.
        return sum(max(count, n) * c for count, (_, n, c) in zip(rounds, pair, strict=True))

    forwards, backwards = (range(-(-total // len(pair[0][0])) * n + 1) for _, n, _ in pair)
    fewest = bisect_left(forwards, True, key=lambda count: enough(count, backwards[-1]))
    choices = [
        (count, bisect_left(backwards, True, key=partial(enough, count)))
        for count in forwards[fewest:]
    ]
    chosen = counts(*min(choices, key=cost))
    while sum(chosen) > total:
        chosen[max(range(len(chosen)), key=lambda q: (chosen[q], q))] -= 1
    return chosen

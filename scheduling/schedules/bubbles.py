"""Encoder work in the bubbles of the decoder's pipeline.

`place_encoders` adds the encoders' tasks to a decoder schedule. Two stages, four microbatches, an
encoder as long as one stage of the decoder (e = its forward, E = its backward)::

    stage 0   e0  F0  F1  F2e3  F3B0  B1E0  B2   B3  E3
    stage 1   e1  e2  F0  F1B0  F2B1  F3B2  B3   E1  E2

e2, e3, E0 and E1 run where the decoder leaves a stage idle and make no tick longer.

Work that no idle slot takes runs in rounds: every stage runs a piece in the same tick, so that no
stage waits for another. A round costs as much beside decoder tasks as in a tick of its own, before
the decoder's first or after its last: only idle slots shorten the step. The step can be no shorter
than all work divided by the number of stages (`lower_bound`).

Encoders are placed one after the other, the largest first, in four phases and polynomial time:

1. *Slots.* A bundle is an idle slot if a piece in it makes the tick longer by less than the piece's
   share of a round (its cost over the stages), or not at all. A slot takes as many pieces as are
   worth it; all but the last of them stand in ticks of their own before it, in which the stages do
   not meet (`Schedule.stage_syncs`). Pieces of encoders of several stages move between stages: a
   slot takes one of them.
2. *Owners.* Pipeline q of the encoder handles c[q] microbatches, forward and backward. If its idle
   slots take i[q] forwards and j[q] backwards, c[q] - i[q] and c[q] - j[q] are left for rounds.
   The c[q] are chosen to minimise the cost of the most rounds that any pipeline needs.
3. *Walk.* Backwards are placed by one walk through the ticks. A microbatch is ready when stage 0
   has done its decoder backward. It runs in an idle slot of its owner, or in a round; a round is
   due as soon as all the stages that need the most rounds have a piece to spare, one that no later
   slot will take. Forwards have deadlines, which in reversed time are the ticks from which they may
   run: the same walk, through the ticks in reverse order, places them.
4. *Refinement.* A piece that alone makes a tick longer than the other stages need moves to a tick
   that grows less (`scheduling.schedules.refine`).

Where the costs hold times of gathering parameters and scattering gradients, ticks for them come
before the decoder's first and after its last: idle slots of all stages. The step is placed with
and without them, and the shorter one is taken.

Phases 2 and 3 are tried with two orders of the owners, with forwards or backwards first, and with
and without slots that are shorter than a piece; the shortest are refined, and of those the shortest
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

from scheduling.schedules.builder import TOLERANCE, PlacementRules, ScheduleBuilder, TaskQueue
from scheduling.schedules.check import check
from scheduling.schedules.costs import EncoderCosts, TaskCosts
from scheduling.schedules.place import place_tasks, slot_capacities
from scheduling.schedules.refine import refine
from scheduling.schedules.schedule import Schedule, ScheduleError
from scheduling.schedules.task_kinds import EB, EF
from scheduling.schedules.tasks import EncoderPieces

Placement = Literal["first_stage", "prologue", "bubbles"]
Fill = Literal["pipeline", "tensor", "data"]
#: Share by which a step may be longer if it has fewer pieces.
STEP_TOLERANCE = 0.01
#: Number of placements that are refined: the shortest of those tried.
MAX_REFINED = 3


def place_encoders(
    decoder: Schedule,
    encoders: Sequence[EncoderPieces],
    costs: TaskCosts,
    placement: Placement = "bubbles",
    fill: Collection[str] = get_args(Fill),
    live: int | None = None,
    thorough: bool = True,
    in_turn: bool = False,
) -> Schedule:
    """Adds the encoders' tasks to a schedule of the decoder.

    Args:
        decoder: holds decoder tasks only.
        encoders: how each encoder is cut.
        costs: costs of every task.
        placement: `"first_stage"`: on stage 0, forwards one microbatch ahead of the decoder's,
            backwards right after them (Megatron-LM); `"prologue"`: forwards before the decoder's
            first tick, backwards after its last, dealt evenly over the stages; `"bubbles"`: in
            idle slots, the rest in rounds.
        fill: for `"bubbles"`: `"pipeline"` allows the decoder's idle slots; `"tensor"` allows
            rounds beside decoder tasks, which otherwise have ticks of their own; `"data"` allows
            the time in which parameters are gathered and gradients scattered, as the costs say.
        live: for `"bubbles"`: outputs of how many of the decoder's microbatches may wait for the
            decoder, over all stages and for each encoder, and how many of their gradients for the
            encoder; by default 2 x stages. It does not apply to other placements: one output waits
            with `"first_stage"`, all with `"prologue"`.
        thorough: whether to try all the ways above; otherwise only the first of each is
            tried, which takes about a quarter of the time and makes the step at most a few percent
            longer.
        in_turn: for `"bubbles"`: microbatches are dealt to the encoder pipelines in turn, however
            many pieces the idle slots of each take. So a pipeline keeps values of few microbatches
            at a time. `live` may then be less than the outputs of a round, whose pieces run in
            several ticks. With 0 none waits: forwards run right before the first of the decoder's
            microbatches that they feed, backwards right after the last, and no piece is refined.
            So the fewest values are kept, and the step is the longest.

    Returns:
        The schedule with `encoders`; ticks without decoder tasks may come before, between and
        after those of `decoder`.

    Raises:
        ScheduleError: `decoder` breaks a rule of `scheduling.schedules.check`, a name, a size or a
            cut is refused, or a kind of task has no cost.
    """
    _check(decoder, encoders, costs, placement, fill, live, in_turn)
    rules = PlacementRules.of(placement, fill, live, decoder.stages)
    rules = replace(rules, thorough=thorough, in_turn=in_turn)
    return _place(decoder, encoders, costs, rules).build(encoders)


def choose_prefetch(
    decoder: Schedule,
    encoders: Sequence[EncoderPieces],
    costs: TaskCosts,
    fill: Collection[str] = get_args(Fill),
    live: int | None = None,
) -> tuple[EncoderPieces, ...]:
    """Lets frozen encoders work ahead for the next step as far as that makes steps shorter.

    Outputs for the next step are kept beyond the step's end, at most `live` for each encoder.

    Args: as for `place_encoders` with `"bubbles"`.

    Returns:
        `encoders`; each one without a backward has the smallest `ahead` among those that give the
        shortest step, chosen for one encoder after the other.
    """
    _check(decoder, encoders, costs, "bubbles", fill, live)
    rules = PlacementRules.of("bubbles", fill, live, decoder.stages)
    most = int(min(decoder.microbatches, rules.live))
    chosen = list(encoders)
    for index in (i for i, cut in enumerate(encoders) if not cut.backward):
        choices = sorted({*range(0, most, decoder.stages // chosen[index].stages), most})
        makespans = []
        for ahead in choices:
            chosen[index] = replace(chosen[index], ahead=ahead)
            made = _place(decoder, chosen, costs, rules)
            makespans.append(made.seconds(costs.gather, costs.scatter))
        least = min(makespans) * (1 + TOLERANCE)
        ahead = next(a for a, makespan in zip(choices, makespans, strict=True) if makespan <= least)
        chosen[index] = replace(chosen[index], ahead=ahead)
    return tuple(chosen)


def choose_pieces(
    decoder: Schedule,
    cuts: Mapping[EncoderPieces, EncoderCosts],
    costs: TaskCosts,
    fill: Collection[str] = get_args(Fill),
    live: int | None = None,
) -> EncoderPieces:
    """The fewest pieces whose step is at most a hundredth longer than that of any cut.

    Smaller pieces fill idle slots better, but each is a task of its own.

    Args:
        cuts: the possible cuts of one encoder, with the costs of their pieces.
        decoder, costs, fill, live: as for `place_encoders`.

    Raises:
        ScheduleError: there is no cut, or one is refused.
    """
    if not cuts:
        raise ScheduleError("no cut of the encoder is given; valid: one or more")
    steps = {}
    for cut, own in sorted(cuts.items(), key=lambda item: item[0].pieces):
        with_own = replace(costs, encoders={cut.name: own})
        _check(decoder, [cut], with_own, "bubbles", fill, live)
        rules = PlacementRules.of("bubbles", fill, live, decoder.stages)
        steps[cut] = _place(decoder, [cut], with_own, rules).seconds(costs.gather, costs.scatter)
    limit = min(steps.values()) * (1 + STEP_TOLERANCE)
    return next(cut for cut, step in steps.items() if step <= limit)


def lower_bound(schedule: Schedule, costs: TaskCosts) -> float:
    """All work divided by the stages, in the unit of `costs`: no step with this work is shorter."""
    kinds = [kind for kind in schedule.kinds if not kind.encoder]
    decoder = schedule.chunks * sum(costs.of_kind(kind) for kind in kinds) + costs.shared
    count = schedule.microbatches
    encoders = sum(cut.units(count) * _work(cut, costs) for cut in schedule.encoders)
    return count * decoder + encoders / schedule.stages


def _work(cut: EncoderPieces, costs: TaskCosts) -> float:
    """An encoder's work for one microbatch."""
    own = costs.encoders[cut.name]
    return sum(own.forward) + sum(own.backward[piece] for piece in cut.backward_pieces)


def _check(
    decoder: Schedule,
    encoders: Sequence[EncoderPieces],
    costs: TaskCosts,
    placement: str,
    fill: Collection[str],
    live: int | None,
    in_turn: bool = False,
) -> None:
    _check_names("placement", [placement], get_args(Placement))
    _check_names("fill", fill, get_args(Fill))
    if decoder.encoders:
        raise ScheduleError("the schedule has encoders already; valid: a schedule without encoders")
    check(decoder)
    names = [cut.name for cut in encoders]
    if len({*names, "decoder"}) <= len(names):
        raise ScheduleError(f"encoders named {names} are refused; valid: distinct, not 'decoder'")
    for cut in encoders:
        _check_cut(cut, decoder, costs)
        pipelines = decoder.stages // cut.stages if placement == "bubbles" else 1
        if live is not None and live < (0 if in_turn else pipelines):
            raise ScheduleError(
                f"live: {live} is refused: a round of {cut.name!r} makes {pipelines} outputs; "
                f"valid: {pipelines} or more"
            )
        if placement == "first_stage" and cut.stages > 1:
            raise ScheduleError(
                f"{cut.name}: {cut.stages} encoder stages are refused for 'first_stage', which "
                "runs encoders on one stage; valid: 1"
            )


def _check_names(what: str, names: Collection[str], valid: Sequence[str]) -> None:
    for name in names:
        if name not in valid:
            raise ScheduleError(f"{what}: {name!r} is refused; valid: {', '.join(valid)}")


def _check_cut(cut: EncoderPieces, decoder: Schedule, costs: TaskCosts) -> None:
    def refuse(what: str, value: object, valid: str) -> None:
        raise ScheduleError(f"{cut.name}: {what} {value} is refused; valid: {valid}")

    if cut.stages < 1 or decoder.stages % cut.stages:
        refuse("stages", cut.stages, f"divisors of the decoder's {decoder.stages}")
    if cut.pieces < 1 or cut.pieces % cut.stages:
        refuse("pieces", cut.pieces, f"multiples of the encoder's {cut.stages} stages")
    if not 0 <= cut.backward <= cut.pieces:
        refuse("backward", cut.backward, f"0 to {cut.pieces}, the number of pieces")
    most = 0 if cut.backward or cut.each > 1 else decoder.microbatches
    if not 0 <= cut.ahead <= most:
        refuse("ahead", cut.ahead, f"0 to {most} (microbatches; only without a backward)")
    own = costs.encoders.get(cut.name)
    if own is None:
        raise ScheduleError(f"encoder {cut.name!r} has no costs; given: {[*costs.encoders]}")
    if {len(own.forward), len(own.backward)} != {cut.pieces}:
        refuse("costs for", f"{len(own.forward)} and {len(own.backward)} pieces", f"{cut.pieces}")


def _place(
    decoder: Schedule, encoders: Sequence[EncoderPieces], costs: TaskCosts, rules: PlacementRules
) -> ScheduleBuilder:
    """The shorter of the steps with and without use of the ends, if that can change anything."""
    if not (rules.ends and rules.slots) or costs.gather == costs.scatter == 0:
        return _place_all(decoder, encoders, costs, rules)
    ways = (True, False) if rules.thorough else (True,)
    tried = [_place_all(decoder, encoders, costs, replace(rules, ends=ends)) for ends in ways]
    return min(tried, key=lambda table: table.seconds(costs.gather, costs.scatter))


def _place_all(
    decoder: Schedule, encoders: Sequence[EncoderPieces], costs: TaskCosts, rules: PlacementRules
) -> ScheduleBuilder:
    """Place the encoder with the most work first, and work for the next step last of all."""
    flows = [
        TaskQueue.of(cut, kind, costs) for cut in encoders for kind in (EF, EB) if cut.backward
    ]
    flows += [TaskQueue.of(cut, EF, costs) for cut in encoders if not cut.backward]
    table = ScheduleBuilder.of(decoder, costs, flows if rules.ends else ())
    order = sorted(encoders, key=lambda cut: -_work(cut, costs))
    for cut in order:
        own = [flow for flow in flows if flow.cut == cut]
        units = range(cut.ahead, cut.units(decoder.microbatches))
        table = _place_shortest(table, own, units, replace(rules, live=rules.live * cut.each))
    for cut in order:
        own = [TaskQueue.of(cut, EF, costs, prefetch=True)]
        table = _place_shortest(table, own, range(cut.ahead), replace(rules, live=inf))
    return table


def _place_shortest(
    table: ScheduleBuilder, flows: list[TaskQueue], microbatches: range, rules: PlacementRules
) -> ScheduleBuilder:
    """Places `flows` in several ways and takes the one with the shortest step."""
    if not microbatches:
        return table
    placed: dict[Hashable, ScheduleBuilder] = {}
    made = []
    first = rules.eager or not rules.thorough
    ways = [(True, True, 1)] if first else product((True, False), (True, False), (1, -1))
    for stretch, rising, order in ways:
        own = replace(rules, stretch=stretch)
        owners = _assign_pipelines(table, flows, microbatches, own, rising)
        # One encoder pipeline has no two orders.
        way = stretch, order, tuple(owners)
        if way not in placed:
            tried = table
            for flow in flows[::order]:
                tried = place_tasks(tried, flow, microbatches, owners, own)
            placed[way] = tried
        made.append(placed[way])
    made.sort(key=lambda tried: tried.makespan)
    if rules.slots and rules.rounds == "beside" and rules.live:
        made[:MAX_REFINED] = [refine(tried, rules) for tried in made[:MAX_REFINED]]
    return min(made, key=lambda tried: tried.makespan)


def _assign_pipelines(
    table: ScheduleBuilder,
    flows: list[TaskQueue],
    microbatches: range,
    rules: PlacementRules,
    rising: bool,
) -> list[int]:
    """The encoder pipeline of each microbatch.

    Every pipeline gets its microbatches at even distances. Microbatches of the same turn go to the
    pipelines in rising order in one half of the step and in falling order in the other. If they are
    dealt in turn, every pipeline gets as many, in rising order.
    """
    if rules.eager:
        return [0] * len(microbatches)
    if rules.in_turn:
        pipelines = table.stages // flows[0].cut.stages
        return [unit % pipelines for unit in range(len(microbatches))]
    sides = [
        (
            slot_capacities(table, flow, microbatches, rules),
            flow.per_place[flow.places[0]],
            sum(flow.costs) / len(flow.costs),
        )
        for flow in flows
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
        sides: for forwards, and for backwards if there are any: pieces that the idle slots of each
            pipeline take, pieces per microbatch, and cost of a piece.
    """
    # Without backwards, their side costs nothing.
    pair = (*sides, ([0] * len(sides[0][0]), 1, 0.0))[:2]

    def counts(*rounds: int) -> list[int]:
        sizes = [
            [(own + taken) // pieces for taken in slots]
            for own, (slots, pieces, _) in zip(rounds, pair, strict=True)
        ]
        return [min(size) for size in zip(*sizes, strict=True)]

    def enough(*rounds: int) -> bool:
        return sum(counts(*rounds)) >= total

    def cost(rounds: tuple[int, int]) -> float:
        # The last microbatch runs in rounds whatever the slots take.
        return sum(max(own, n) * c for own, (_, n, c) in zip(rounds, pair, strict=True))

    forwards, backwards = (range(-(-total // len(pair[0][0])) * n + 1) for _, n, _ in pair)
    fewest = bisect_left(forwards, True, key=lambda own: enough(own, backwards[-1]))
    choices = [
        (own, bisect_left(backwards, True, key=partial(enough, own))) for own in forwards[fewest:]
    ]
    chosen = counts(*min(choices, key=cost))
    while sum(chosen) > total:
        chosen[max(range(len(chosen)), key=lambda q: (chosen[q], q))] -= 1
    return chosen

"""Encoder work in the bubbles of the decoder's pipeline.

`place_encoders` adds the encoders' tasks to a decoder schedule. Two stages, four microbatches, an
encoder as long as one stage of the decoder (e = its forward, E = its backward)::

    stage 0   e0  F0  F1  F2e3  F3B0  B1E0  B2   B3  E3
    stage 1   e1  e2  F0  F1B0  F2B1  F3B2  B3   E1  E2

e2, e3, E0 and E1 run where the decoder leaves a stage idle and make no tick longer.

Work that no idle slot takes runs in rounds: every stage runs a piece in the same tick, so that none
waits for another. A round costs as much beside decoder tasks as in a tick of its own, before the
decoder's first or after its last: it is the idle slots that make the step shorter. It can be no
shorter than all work over all stages (`lower_bound`).

One encoder after the other, the largest first, is placed in polynomial time:

1. *Slots.* A piece in a bundle makes the tick longer, or not at all. Where it does so by less than
   its share of a round (its cost over the stages), the bundle is an idle slot.
2. *Owners.* Pipeline q of the encoder handles c[q] microbatches, forward and backward. If its idle
   slots take i[q] forwards and j[q] backwards, c[q] - i[q] and c[q] - j[q] are left for rounds.
   The c[q] are chosen so that the most that any pipeline needs costs least.
3. *Walk.* Backwards are placed by one walk through the ticks. A microbatch is ready when stage 0
   has done its decoder backward. It runs in an idle slot of its owner, or in a round; a round is
   due as soon as all the stages that need the most rounds have a piece to spare, one that no slot
   to come will take. Forwards have deadlines, but seen from the step's end those are starts: the
   same walk, through the ticks in reverse order, places them.

Steps 2 and 3 are tried with two orders of the owners, and with and without slots that are shorter
than a piece; the shortest step is taken. After Optimus (Feng et al., arXiv 2408.03505), which packs
bubbles of continuous time by search.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import product
from math import inf
from typing import Any, Literal, get_args

import numpy as np

from scheduling.cost import TaskCosts
from scheduling.schedule import KINDS, EncoderPieces, Kind, Schedule, ScheduleError, Task

Placement = Literal["first_stage", "prologue", "bubbles"]
Fill = Literal["pipeline", "tensor", "data"]

#: Differences below this share of a piece are rounding errors.
TOLERANCE = 1e-9


def place_encoders(
    decoder: Schedule,
    encoders: Sequence[EncoderPieces],
    costs: TaskCosts,
    placement: Placement = "bubbles",
    fill: Collection[str] = get_args(Fill),
    live: int | None = None,
) -> Schedule:
    """Adds the encoders' tasks to a schedule of the decoder.

    Args:
        decoder: holds decoder tasks only.
        encoders: how each is cut.
        costs: of every task.
        placement: `"first_stage"`: on stage 0, forwards one microbatch ahead of the decoder's,
            backwards right after them (Megatron-LM); `"prologue"`: forwards before the decoder's
            first tick, backwards after its last, dealt evenly over the stages; `"bubbles"`: in
            idle slots, the rest in rounds.
        fill: for `"bubbles"`: `"pipeline"` lets the decoder's idle slots be used; `"tensor"` lets
            rounds run beside decoder tasks, as they otherwise have ticks of their own. `"data"`,
            encoder work beside the collectives at the step's ends, leaves the table as it is.
        live: for `"bubbles"`: how many microbatches' outputs of one encoder may wait for the
            decoder, over all stages, and how many of their gradients for the encoder; by default
            2 x stages. Not for the others: one waits with `"first_stage"`, all with `"prologue"`.

    Returns:
        The schedule with `encoders`; ticks without decoder tasks may come before, between and
        after those of `decoder`.

    Raises:
        ScheduleError: if a name, a size or a cut is refused.
    """
    _check(decoder, encoders, costs, placement, fill, live)
    rules = _Rules.of(placement, fill, live, decoder.stages)
    return _place(decoder, encoders, costs, rules).schedule(encoders)


def fill_ahead(
    decoder: Schedule,
    encoders: Sequence[EncoderPieces],
    costs: TaskCosts,
    fill: Collection[str] = get_args(Fill),
    live: int | None = None,
) -> tuple[EncoderPieces, ...]:
    """Lets frozen encoders work ahead for the next step as far as that makes steps shorter.

    Outputs for the next step are kept over the step's end, at most `live` of an encoder.

    Args: as for `place_encoders` with `"bubbles"`.

    Returns:
        `encoders`; those without a backward with the smallest `ahead` of those that give the
        shortest step, one encoder after the other.
    """
    _check(decoder, encoders, costs, "bubbles", fill, live)
    rules = _Rules.of("bubbles", fill, live, decoder.stages)
    most = int(min(decoder.microbatches, rules.live))
    chosen = list(encoders)
    for index in (i for i, cut in enumerate(encoders) if not cut.backward):
        choices = sorted({*range(0, most, decoder.stages // chosen[index].stages), most})
        makespans = []
        for ahead in choices:
            chosen[index] = replace(chosen[index], ahead=ahead)
            makespans.append(_place(decoder, chosen, costs, rules).makespan)
        least = min(makespans) * (1 + TOLERANCE)
        ahead = next(a for a, makespan in zip(choices, makespans, strict=True) if makespan <= least)
        chosen[index] = replace(chosen[index], ahead=ahead)
    return tuple(chosen)


def choose_pieces(
    layers: int, stages: int, forward: float, backward: float, costs: TaskCosts
) -> int:
    """The fewest pieces that fit the decoder's idle slots: forwards a forward's, and backwards.

    An idle slot takes one piece: smaller ones use less of it, larger ones make its tick longer.

    Args:
        layers: of the encoder.
        stages: of the encoder's own plan.
        forward, backward: cost of the whole encoder on one microbatch, in the unit of `costs`.
        costs: of the decoder.

    Returns:
        A multiple of `stages` and divisor of `layers`; `layers` if not even one layer fits.

    Raises:
        ScheduleError: if the layers cannot be dealt evenly over the stages.
    """
    if layers < 1 or stages < 1 or layers % stages:
        raise ScheduleError(
            f"{layers} encoder layers on {stages} stages are refused: each stage runs as many; "
            f"valid: stages that divide {layers}"
        )
    needed = max(_ratio(forward, costs.forward), _ratio(backward, costs.backward))
    valid = (pieces for pieces in range(stages, layers, stages) if layers % pieces == 0)
    return next((pieces for pieces in valid if pieces >= needed * (1 - TOLERANCE)), layers)


def _ratio(cost: float, slot: float) -> float:
    if cost <= 0:
        return 0
    return cost / slot if slot > 0 else inf


def lower_bound(schedule: Schedule, costs: TaskCosts) -> float:
    """All work over all stages, in the unit of `costs`: no step with this work is shorter."""
    decoder = schedule.chunks * (costs.forward + costs.backward) + costs.shared
    encoders = sum(_work(cut, costs) for cut in schedule.encoders)
    return schedule.microbatches * (decoder + encoders / schedule.stages)


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
) -> None:
    _check_names("placement", [placement], get_args(Placement))
    _check_names("fill", fill, get_args(Fill))
    if decoder.encoders:
        raise ScheduleError("a schedule that already holds encoders is refused; valid: without")
    names = [cut.name for cut in encoders]
    if len({*names, "decoder"}) <= len(names):
        raise ScheduleError(f"encoders named {names} are refused: names differ, none is 'decoder'")
    for cut in encoders:
        _check_cut(cut, decoder, costs)
        pipelines = 1 if placement != "bubbles" else decoder.stages // cut.stages
        if live is not None and live < pipelines:
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
    most = 0 if cut.backward else decoder.microbatches
    if not 0 <= cut.ahead <= most:
        refuse("ahead", cut.ahead, f"0 to {most} (microbatches; only without a backward)")
    own = costs.encoders.get(cut.name)
    if own is None:
        raise ScheduleError(f"no costs for encoder {cut.name!r}; costs: {[*costs.encoders]}")
    if {len(own.forward), len(own.backward)} != {cut.pieces}:
        refuse("costs for", f"{len(own.forward)} and {len(own.backward)} pieces", f"{cut.pieces}")


@dataclass(frozen=True)
class _Rules:
    """What a walk may do.

    Attributes:
        slots: use idle slots in the decoder's ticks.
        rounds: where rounds run before the walk's end: beside decoder tasks, in ticks of their
            own between the decoder's, or nowhere.
        live: microbatches that may be ready and not begun.
        eager: a stage runs what it has, whatever the others have.
        stretch: idle slots may be shorter than a piece.
    """

    slots: bool
    rounds: Literal["beside", "between", "end"]
    live: float
    eager: bool = False
    stretch: bool = True

    @classmethod
    def of(cls, placement: str, fill: Collection[str], live: int | None, stages: int) -> _Rules:
        if placement == "first_stage":
            return cls(slots=False, rounds="beside", live=1, eager=True)
        if placement == "prologue":
            return cls(slots=False, rounds="end", live=inf)
        rounds: Literal["beside", "between"] = "beside" if "tensor" in fill else "between"
        return cls("pipeline" in fill, rounds, 2 * stages if live is None else live)


@dataclass(frozen=True)
class _Flow:
    """One kind of task of one encoder, as a walk meets it.

    Attributes:
        cut, kind: of the tasks.
        pieces: of a microbatch, in the order of the walk.
        costs, places: cost and encoder stage of each of `pieces`.
        reverse: the walk goes from the last tick to the first.
        ahead: the tasks are for the next step.
    """

    cut: EncoderPieces
    kind: Kind
    pieces: tuple[int, ...]
    costs: tuple[float, ...]
    places: tuple[int, ...]
    reverse: bool
    ahead: bool

    @classmethod
    def of(cls, cut: EncoderPieces, kind: Kind, costs: TaskCosts, ahead: bool = False) -> _Flow:
        order = range(cut.pieces) if kind == "EF" else cut.backward_pieces
        pieces = tuple(order if ahead else reversed(order))
        return cls(
            cut,
            kind,
            pieces,
            tuple(costs.of(Task(kind, 0, piece, cut.name)) for piece in pieces),
            tuple(cut.stage(piece) for piece in pieces),
            reverse=kind == "EF" and not ahead,
            ahead=ahead,
        )

    @cached_property
    def per_place(self) -> dict[int, int]:
        """Pieces of a microbatch by encoder stage, in the order of the walk."""
        return {place: self.places.count(place) for place in dict.fromkeys(self.places)}

    def mean_costs(self, stages: int) -> np.ndarray:
        """`[stages]`: mean cost of the pieces of a decoder stage, infinite if it runs none."""
        mean = np.full(self.cut.stages, inf)
        for place in self.per_place:
            mean[place] = np.mean(self.costs, where=np.array(self.places) == place)
        return np.tile(mean, stages // self.cut.stages)

    def share(self, stages: int) -> float:
        """Part of a round that one piece is: one over the decoder stages that run pieces."""
        return self.cut.stages / (len(self.per_place) * stages)


@dataclass(frozen=True, eq=False)
class _Placed:
    """Tasks of a flow in a table.

    Attributes:
        flow: theirs.
        where: `[tasks, 2]`: tick and stage.
        tasks: `[tasks, 2]`: microbatch and piece.
    """

    flow: _Flow
    where: np.ndarray
    tasks: np.ndarray


@dataclass(frozen=True, eq=False)
class _Table:
    """A schedule in the making, in numbers.

    Attributes:
        decoder: the schedule without encoders.
        first: of `"F"` and `"B"`, `[microbatches]`: the decoder's tick in which stage 0 runs
            chunk 0.
        source: `[ticks]`: the tick of `decoder`, -1 for ticks without decoder tasks.
        load: `[ticks, stages]`: cost of the tasks.
        shared: cost of all heads.
        taken: of `"EF"` and `"EB"`, `[ticks, stages]`: the bundle holds one.
        placed: the encoders' tasks.
    """

    decoder: Schedule
    first: Mapping[Kind, np.ndarray]
    source: np.ndarray
    load: np.ndarray
    shared: float
    taken: Mapping[Kind, np.ndarray]
    placed: tuple[_Placed, ...] = ()

    @classmethod
    def of(cls, decoder: Schedule, costs: TaskCosts) -> _Table:
        """The table of the decoder alone."""
        cost: dict[Kind, float] = {"F": costs.forward, "B": costs.backward}
        load = [[sum([cost[task.kind] for task in b]) for b in row] for row in decoder.ticks]
        last = decoder.chunks - 1
        heads = sum(any(t.kind == "F" and t.part == last for t in row[-1]) for row in decoder.ticks)
        free = np.zeros((len(load), decoder.stages), bool)
        return cls(
            decoder,
            {"F": _first(decoder, "F"), "B": _first(decoder, "B")},
            np.arange(len(load)),
            np.array(load, float),
            heads * costs.shared,
            {"EF": free, "EB": free},
        )

    @property
    def stages(self) -> int:
        """Of the decoder."""
        return self.decoder.stages

    @property
    def makespan(self) -> float:
        """In the unit of the costs."""
        return float(self.load.max(axis=1).sum()) + self.shared

    def ready(self, flow: _Flow, microbatches: range, rules: _Rules) -> np.ndarray:
        """First tick, in the walk's order, in which a task of each microbatch may run."""
        span = np.flatnonzero(self.source >= 0)
        ticks = span[self.first["B" if flow.kind == "EB" else "F"][microbatches]]
        if rules.rounds == "end":
            ticks[:] = span[0] if flow.reverse else span[-1]
        return len(self.source) - ticks if flow.reverse else ticks + 1

    def slots(self, flow: _Flow, rules: _Rules) -> np.ndarray:
        """`[ticks, stages]`, ticks in the walk's order: idle slots for pieces of mean cost."""
        taken = self.taken[flow.kind]
        found = np.zeros_like(taken)
        usable = (rules.slots | (self.source < 0)) & (np.ptp(self.load, axis=1) > 0)
        costs = np.where(taken[usable], inf, flow.mean_costs(self.stages))
        found[usable] = _worth(self.load[usable], costs, flow.share(self.stages), rules.stretch)
        return found[::-1] if flow.reverse else found

    def capacity(self, flow: _Flow, microbatches: range, rules: _Rules) -> list[int]:
        """Pieces that idle slots take, by encoder pipeline, if microbatches are dealt evenly."""
        slots = self.slots(flow, rules)[:, flow.places[0] :: flow.cut.stages]
        arrivals = np.bincount(self.ready(flow, microbatches, rules), minlength=len(slots) + 1)
        even = arrivals[:, None] * (flow.per_place[flow.places[0]] / slots.shape[1])
        supply = np.broadcast_to(even, (len(slots) + 1, slots.shape[1]))
        _, left = _withheld(slots, supply)
        return np.floor(supply.sum(axis=0) - left + TOLERANCE).astype(int).tolist()

    def place(self, flow: _Flow, microbatches: range, owners: list[int], rules: _Rules) -> _Table:
        """Adds the tasks of `microbatches`; `owners` are the encoder pipelines that run them."""
        walk = _Walk(self, flow, microbatches, owners, rules)
        walk.run()
        ticks, where, tasks = np.array(walk.ticks), np.array(walk.where), np.array(walk.tasks)
        if flow.reverse:
            ticks = np.where(ticks < 0, -1, len(self.source) - 1 - ticks)[::-1]
            where[:, 0] = len(ticks) - 1 - where[:, 0]
        table = self._grown(ticks)
        cost = dict(zip(flow.pieces, flow.costs, strict=True))
        table.load[*where.T] += [cost[piece] for _, piece in walk.tasks]
        table.taken[flow.kind][*where.T] = True
        return replace(table, placed=(*table.placed, _Placed(flow, where, tasks)))

    def _grown(self, ticks: np.ndarray) -> _Table:
        """A copy whose tick i is this table's tick `ticks[i]`, or empty if that is -1."""
        old = ticks >= 0

        def spread(values: np.ndarray, empty: float) -> np.ndarray:
            grown = np.full((len(ticks), *values.shape[1:]), empty, values.dtype)
            grown[old] = values
            return grown

        new = np.flatnonzero(old)
        moved = [np.stack([new[p.where[:, 0]], p.where[:, 1]], axis=1) for p in self.placed]
        return replace(
            self,
            source=spread(self.source, -1),
            load=spread(self.load, 0),
            taken={kind: spread(taken, False) for kind, taken in self.taken.items()},
            placed=tuple(
                replace(p, where=where) for p, where in zip(self.placed, moved, strict=True)
            ),
        )

    def schedule(self, encoders: Sequence[EncoderPieces]) -> Schedule:
        """The table as a schedule."""
        rows = [[*self.decoder.ticks[t]] if t >= 0 else [()] * self.stages for t in self.source]
        # Bundles are ordered as KINDS, in which encoder tasks come last.
        for placed in sorted(self.placed, key=lambda placed: KINDS.index(placed.flow.kind)):
            kind, name = placed.flow.kind, placed.flow.cut.name
            step = self.decoder.microbatches if placed.flow.ahead else 0
            pairs = zip(placed.where.tolist(), placed.tasks.tolist(), strict=True)
            for (tick, stage), (microbatch, piece) in pairs:
                rows[tick][stage] += (Task(kind, microbatch + step, piece, name),)
        return replace(
            self.decoder, encoders=tuple(encoders), ticks=tuple(tuple(row) for row in rows)
        )


def _first(decoder: Schedule, kind: Kind) -> np.ndarray:
    """`[microbatches]`: the tick in which stage 0 runs chunk 0."""
    ticks = {
        task.microbatch: tick
        for tick, row in enumerate(decoder.ticks)
        for task in row[0]
        if task.kind == kind and task.part == 0
    }
    return np.array([ticks[microbatch] for microbatch in range(decoder.microbatches)])


def _worth(load: np.ndarray, costs: np.ndarray, share: float, stretch: bool) -> np.ndarray:
    """`[ticks, stages]`: where a piece makes the tick longer by less than its share of a round.

    Stages make a tick longer at the same time: of all sets of them the one that gains most is
    taken.

    Args:
        load: `[ticks, stages]`.
        costs: `[ticks, stages]`, of a piece; infinite where none may run.
        share: of a round.
        stretch: else only pieces that make no tick longer.
    """
    possible = np.isfinite(costs)
    costs = np.where(possible, costs, 0)
    longer = np.maximum(load + costs - load.max(axis=1, keepdims=True), 0)
    longer[longer <= TOLERANCE * costs] = 0
    if not stretch:
        return possible & (longer == 0) & (costs > 0)
    longer[~possible] = inf
    order = np.argsort(longer, axis=1, kind="stable")
    level = np.take_along_axis(longer, order, axis=1)
    worth = share * np.cumsum(np.take_along_axis(costs, order, axis=1), axis=1)
    best = (worth - level).argmax(axis=1)[:, None]
    level, worth = (np.take_along_axis(values, best, axis=1) for values in (level, worth))
    return possible & (longer <= level) & (worth - level > TOLERANCE * worth)


def _withheld(slots: np.ndarray, supply: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How many pieces wait for slots, if every slot takes the piece that was ready last.

    Args:
        slots: `[ticks, stages]`: whether a slot takes a piece.
        supply: `[ticks + 1, stages]`: pieces that are ready from a tick on, or only at the end.

    Returns:
        `[ticks + 1, stages]`: how many of the pieces that are ready before a tick's slot that slot
        and later ones take; `[stages]`: how many pieces no slot takes.
    """
    wanted = np.concatenate([slots, np.zeros_like(slots[:1])])
    # Backwards through the ticks: open slots, below 0 by the pieces for which there was none.
    balance = np.cumsum((wanted - supply)[::-1], axis=0)
    left = np.maximum(np.maximum.accumulate(-balance, axis=0), 0)
    later = np.concatenate([(balance + left)[-2::-1], np.zeros_like(left[:1])])
    return later + wanted, left[-1]


@dataclass
class _Job:
    """A microbatch on its walk: `base` is its pipeline's first stage, `done` counts its pieces."""

    microbatch: int
    base: int
    done: int = 0


class _Walk:
    """Places the tasks of one flow: step 3 of the module's description.

    Attributes:
        ticks: of the new table, in the walk's order: the old table's tick, or -1 for a new one.
        where: of each task, its place in `ticks` and its stage.
        tasks: microbatch and piece of each.
    """

    def __init__(
        self, table: _Table, flow: _Flow, microbatches: range, owners: list[int], rules: _Rules
    ) -> None:
        self.flow, self.rules = flow, rules
        self.ticks: list[int] = []
        self.where: list[tuple[int, int]] = []
        self.tasks: list[tuple[int, int]] = []
        step = -1 if flow.reverse else 1
        self.load, self.taken = table.load[::step], table.taken[flow.kind][::step]
        self.slots = table.slots(flow, rules)
        self.has_slots = _truths(self.slots.any(axis=1))
        self.queues: list[deque[_Job]] = [deque() for _ in range(table.stages)]
        self.pending = [0] * table.stages
        self.moving: list[_Job] = []
        self.waiting, self.left = 0, len(microbatches)
        ready = table.ready(flow, microbatches, rules)
        bases = np.array(owners) * flow.cut.stages
        self.arrivals: list[list[_Job]] = [[] for _ in range(len(self.load) + 1)]
        jobs = map(_Job, microbatches, bases.tolist())
        for tick, job in [*zip(ready.tolist(), jobs, strict=True)][::step]:
            self.arrivals[tick].append(job)
        self._plan(ready, bases)

    def _plan(self, ready: np.ndarray, bases: np.ndarray) -> None:
        """Which pieces wait for slots, and how many rounds each stage needs."""
        supply = np.zeros((len(self.load) + 1, len(self.queues)), int)
        tail = np.zeros(len(self.queues), int)
        left = len(self.flow.pieces)
        for place, pieces in self.flow.per_place.items():
            np.add.at(supply, (ready, bases + place), pieces)
            left -= pieces
            tail[place :: self.flow.cut.stages] = left
        before, need = _withheld(self.slots, supply)
        self.before, self.need, self.tail = before.tolist(), need.tolist(), tail.tolist()
        self.held = (before[:-1] - self.slots).tolist()
        self.active = np.flatnonzero(supply.any(axis=0)).tolist()
        self.free = _truths((~self.taken[:, self.active]).all(axis=1))
        self._rank()

    def run(self) -> None:
        """Walks through the ticks, and on until everything is placed."""
        self._admit(self.arrivals[0])
        for tick, arriving in enumerate(self.arrivals[1:]):
            while self.rules.rounds == "between" and self._due(self.before[tick]):
                self._insert(tick)
            self._make_room(tick, len(arriving))
            self.ticks.append(tick)
            if self.has_slots[tick]:
                self._fill(tick)
            elif self._open(tick):
                self._round(tick, everyone=self.waiting + len(arriving) > self.rules.live)
            self._admit(arriving)
        while self.left:
            self._insert(len(self.load), everyone=True)

    def _admit(self, jobs: Sequence[_Job]) -> None:
        """Microbatches that are ready, and those that go on to another stage, join the queues."""
        self.waiting += len(jobs)
        for job in (*self.moving, *jobs):
            place = self.flow.places[job.done]
            self.queues[job.base + place].append(job)
            self.pending[job.base + place] += self.flow.per_place[place]
        self.moving.clear()

    def _make_room(self, tick: int, arriving: int) -> None:
        """Rounds before `tick` if more than `live` would wait after it."""
        while arriving and self.waiting and arriving + self._after(tick) > self.rules.live:
            self._insert(tick, everyone=True)

    def _after(self, tick: int) -> int:
        """How many of those that wait now will wait after `tick`, if there is a round in it."""
        if self.has_slots[tick] or not self._open(tick):
            return self.waiting
        pairs = zip(self.queues, self.taken[tick], strict=True)
        return self.waiting - sum(
            1 for queue, taken in pairs if queue and not (queue[0].done or taken)
        )

    def _open(self, tick: int) -> bool:
        """Whether a round may run beside the tasks of `tick`."""
        return self.rules.rounds == "beside" and (self.free[tick] or self.rules.eager)

    def _insert(self, tick: int, everyone: bool = False) -> None:
        """A round in a tick of its own, before `tick`."""
        self.ticks.append(-1)
        self._round(tick, everyone)
        self._admit(())

    def _due(self, held: list[int]) -> bool:
        """Whether every stage that needs the most rounds has more than slots are to take."""
        if self.rules.eager:
            return any(self.pending)
        return bool(self.critical) and all(self.pending[s] > held[s] for s in self.critical)

    def _rank(self) -> None:
        """Finds the stages that need the most rounds, later stages' included."""
        rounds = {s: self.need[s] + self.tail[s] for s in self.active if self.need[s] > 0}
        most = max(rounds.values(), default=0)
        self.critical = [stage for stage, own in rounds.items() if own == most]

    def _round(self, tick: int, everyone: bool) -> None:
        """Runs a round, if one is due or `everyone` is to run what it has."""
        beside = self.ticks[-1] >= 0
        held = (self.held if beside else self.before)[tick]
        if not (everyone or self._due(held)):
            return
        for stage in self.active:
            spare = self.pending[stage] > held[stage]
            blocked = beside and self.taken[tick, stage]
            if self.pending[stage] and (spare or everyone) and not blocked:
                self.need[stage] -= spare
                self._step(stage)
        self._rank()

    def _fill(self, tick: int) -> None:
        """Runs pieces in idle slots, as far as they are worth it at their own costs."""
        costs = np.full(len(self.queues), inf)
        for stage in self.active:
            if self.pending[stage] and self.slots[tick, stage]:
                costs[stage] = self.flow.costs[self.queues[stage][0].done]
        share = self.flow.share(len(self.queues))
        worth = _worth(self.load[tick, None], costs[None], share, self.rules.stretch)
        for stage in np.flatnonzero(worth).tolist():
            self._step(stage)

    def _step(self, stage: int) -> None:
        """Runs the next piece of the first microbatch in the stage's queue."""
        job, places = self.queues[stage][0], self.flow.places
        self.where.append((len(self.ticks) - 1, stage))
        self.tasks.append((job.microbatch, self.flow.pieces[job.done]))
        self.pending[stage] -= 1
        self.waiting -= not job.done
        job.done += 1
        if job.done == len(places):
            self.left -= 1
        elif places[job.done] == places[job.done - 1]:
            return
        else:
            self.moving.append(job)
        self.queues[stage].popleft()


def _place(
    decoder: Schedule, encoders: Sequence[EncoderPieces], costs: TaskCosts, rules: _Rules
) -> _Table:
    """The encoder with the most work first; work for the next step when all else has its place."""
    table = _Table.of(decoder, costs)
    order = sorted(encoders, key=lambda cut: -_work(cut, costs))
    for cut in order:
        kinds: list[Kind] = ["EF", "EB"] if cut.backward else ["EF"]
        flows = [_Flow.of(cut, kind, costs) for kind in kinds]
        table = _shortest(table, flows, range(cut.ahead, decoder.microbatches), rules)
    for cut in order:
        flows = [_Flow.of(cut, "EF", costs, ahead=True)]
        table = _shortest(table, flows, range(cut.ahead), replace(rules, live=inf))
    return table


def _shortest(table: _Table, flows: list[_Flow], microbatches: range, rules: _Rules) -> _Table:
    """Places `flows` in several ways and takes the one with the shortest step."""
    if not microbatches:
        return table
    made = []
    ways = [(True, True)] if rules.eager else product((True, False), repeat=2)
    for stretch, rising in ways:
        own = replace(rules, stretch=stretch)
        owners = _owners(table, flows, microbatches, own, rising)
        tried = table
        for flow in flows:
            tried = tried.place(flow, microbatches, owners, own)
        made.append(tried)
    return min(made, key=lambda tried: tried.makespan)


def _owners(
    table: _Table, flows: list[_Flow], microbatches: range, rules: _Rules, rising: bool
) -> list[int]:
    """The encoder pipeline of each microbatch.

    Every pipeline gets its microbatches at even distances. Those of the same turn go to the
    pipelines in rising order in one half of the step and in falling order in the other.
    """
    if rules.eager:
        return [0] * len(microbatches)
    sides = [
        (
            table.capacity(flow, microbatches, rules),
            flow.per_place[flow.places[0]],
            sum(flow.costs) / len(flow.costs),
        )
        for flow in flows
    ]
    counts = _balanced(len(microbatches), sides)
    turns = max(counts)
    keys = []
    for owner, count in enumerate(counts):
        for i in range(count):
            turn = int((i + 0.5) * turns / count)
            up = rising == (turn < turns / 2)
            keys.append((turn, owner if up else -owner, owner))
    return [owner for _, _, owner in sorted(keys)]


def _balanced(total: int, sides: list[tuple[list[int], int, float]]) -> list[int]:
    """How many microbatches each encoder pipeline handles, for the least cost of rounds.

    Args:
        total: microbatches.
        sides: forwards, and backwards if there are any: pieces that the idle slots of each
            pipeline take, pieces per microbatch, and cost of a piece.
    """
    # Where there are no backwards they cost nothing.
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


def _truths(values: Any) -> list[bool]:
    """A one-dimensional array of truth values as a list, which is faster to look up."""
    return [bool(value) for value in values]

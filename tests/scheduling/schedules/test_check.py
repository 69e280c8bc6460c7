"""The checker against a second statement of the rules, on valid schedules and on their mutants."""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from scheduling.costs.times import StepTimes, TaskSegment, TaskTime
from scheduling.lowering.lower import lower_schedule
from scheduling.schedules.backbone_schedules import interleaved_schedule
from scheduling.schedules.check import check_schedule, peak_live
from scheduling.schedules.schedule import Schedule, ScheduleError
from scheduling.schedules.task_kinds import B, F, W
from scheduling.schedules.tasks import BACKBONE, Feed, ModuleStages, Task
from scheduling.simulate.lockstep import step_makespan
from tests.scheduling import placing
from tests.scheduling.placing import Placed

VISION = ModuleStages("vision", 2, 4)
FROZEN = ModuleStages("audio", chunks=2, first_backward=2, prefetch=2)


def legal(schedule: Schedule) -> bool:
    """The rules by brute force: every task once, where it may be, after all that it needs."""
    there = [task for *_, task in schedule]
    kinds = Counter((tick, stage, placing.group(schedule, task)) for tick, stage, task in schedule)
    if Counter(there) != Counter(placing.keys(schedule)) or max(kinds.values()) > 1:
        return False
    ticks = {task: tick for tick, _, task in schedule}
    on_time = all(
        ticks[other] + gap <= tick
        for task, tick in ticks.items()
        for other, gap in placing.needs(schedule, task)
    )
    return on_time and all(_in_place(schedule, module) for module in schedule.modules)


def _in_place(schedule: Schedule, module: ModuleStages) -> bool:
    """Whether each microbatch has one pipeline in which every chunk is on its stage."""
    stages: dict[int, set[tuple[int, int]]] = {}
    for _, stage, task in schedule:
        if task.module == module.name:
            number = task.microbatch % schedule.microbatches_of(module.name)
            row = stages.setdefault(number, set())
            row.add((task.chunk, stage))
    share = module.chunks // module.stages

    def place(chunk: int) -> int:
        return chunk % module.stages if module.looped else chunk // share

    return all(
        any(
            all(stage == start + place(chunk) for chunk, stage in row)
            for start in range(0, schedule.stages, module.stages)
        )
        for row in stages.values()
    )


def accepts(schedule: Schedule) -> bool:
    try:
        check_schedule(schedule)
    except ScheduleError:
        return False
    return True


# ---- mutations -----------------------------------------------------------------------------------


def pick(placed: list[Placed], draw: random.Random) -> int:
    """A task's index, of an encoder's every other time: those have more room to move."""
    own = [i for i, (_, _, task) in enumerate(placed) if task.module != "decoder"]
    return draw.choice(own) if own and draw.random() < 0.5 else draw.randrange(len(placed))


def swap(placed: list[Placed], draw: random.Random, schedule: Schedule) -> None:
    """Two tasks change places."""
    i, j = pick(placed, draw), pick(placed, draw)
    (*first, one), (*second, other) = placed[i], placed[j]
    placed[i], placed[j] = (first[0], first[1], other), (second[0], second[1], one)


def delay(placed: list[Placed], draw: random.Random, schedule: Schedule) -> None:
    """A task moves to another tick."""
    i = pick(placed, draw)
    placed[i] = (draw.randrange(len(schedule.ticks) + 2), *placed[i][1:])


def nudge(placed: list[Placed], draw: random.Random, schedule: Schedule) -> None:
    """A task moves by one tick, which is often legal."""
    i = pick(placed, draw)
    tick, stage, task = placed[i]
    placed[i] = (max(0, tick + draw.choice([-1, 1])), stage, task)


def displace(placed: list[Placed], draw: random.Random, schedule: Schedule) -> None:
    """A task moves to another stage."""
    i = pick(placed, draw)
    tick, stage, task = placed[i]
    placed[i] = (tick, (stage + draw.randint(1, 3)) % schedule.stages, task)


def migrate(placed: list[Placed], draw: random.Random, schedule: Schedule) -> None:
    """All pieces of an encoder's microbatch move by some stages, which is legal at times."""
    module, m = next(
        ((t.module, t.microbatch) for _, _, t in placed if t.module != "decoder"), ("decoder", 0)
    )
    shift = draw.randint(1, schedule.stages)
    for i, (tick, stage, task) in enumerate(placed):
        if task.module == module and (task.microbatch - m) % schedule.microbatches == 0:
            placed[i] = (tick, (stage + shift) % schedule.stages, task)


def drop(placed: list[Placed], draw: random.Random, schedule: Schedule) -> None:
    """A task vanishes."""
    del placed[draw.randrange(len(placed))]


def duplicate(placed: list[Placed], draw: random.Random, schedule: Schedule) -> None:
    """A task appears once more."""
    _, stage, task = draw.choice(placed)
    here = stage if draw.random() < 0.5 else draw.randrange(schedule.stages)
    placed.append((draw.randrange(len(schedule.ticks) + 2), here, task))


def relabel(placed: list[Placed], draw: random.Random, schedule: Schedule) -> None:
    """A task becomes that of another microbatch, chunk, kind or module."""
    i = pick(placed, draw)
    tick, stage, task = placed[i]
    changes: list[dict[str, Any]] = [
        {"microbatch": draw.randint(-1, 2 * schedule.microbatches)},
        {"chunk": draw.randint(-1, 4)},
        {"kind": draw.choice([F, B, W])},
        {"module": draw.choice(["decoder", "vision", "audio", "video"])},
    ]
    placed[i] = (tick, stage, task._replace(**draw.choice(changes)))


MUTATIONS = [swap, delay, nudge, displace, migrate, drop, duplicate, relabel]


@given(placing.schedules())
def test_valid_schedules_pass(schedule: Schedule) -> None:
    assert legal(schedule)
    check_schedule(schedule)


@pytest.mark.parametrize("mutate", MUTATIONS, ids=lambda mutation: mutation.__name__)
@settings(max_examples=120)
@given(schedule=placing.schedules(most=3), seed=st.integers(0, 2**16))
def test_every_broken_mutant_is_caught(
    mutate: Callable[[list[Placed], random.Random, Schedule], None], schedule: Schedule, seed: int
) -> None:
    placed = list(schedule)
    mutate(placed, random.Random(seed), schedule)
    mutant = placing.table(schedule, placed)
    assert accepts(mutant) == legal(mutant), mutant


@pytest.mark.parametrize("mutate", [drop, duplicate])
@settings(max_examples=30)
@given(schedule=placing.schedules(most=3), seed=st.integers(0, 2**16))
def test_missing_and_second_tasks_are_never_legal(
    mutate: Callable[[list[Placed], random.Random, Schedule], None], schedule: Schedule, seed: int
) -> None:
    # Without its only weight gradients a schedule is one in which they are not apart.
    assume(sum(task.kind is W for *_, task in schedule) != 1)
    placed = list(schedule)
    mutate(placed, random.Random(seed), schedule)
    assert not accepts(placing.table(schedule, placed))


@settings(max_examples=30)
@given(placing.schedules())
def test_peak_live_counts_activations(schedule: Schedule) -> None:
    ticks = {(task, stage): tick for tick, stage, task in schedule if task.module == "decoder"}
    last = W if W in schedule.kinds else B

    def live(tick: int, stage: int) -> int:
        spans = (
            (start, ticks[task._replace(kind=last), stage])
            for (task, place), start in ticks.items()
            if task.kind == F and place == stage
        )
        return sum(start <= tick <= end for start, end in spans)

    expected = tuple(
        max(live(tick, stage) for tick in range(len(schedule.ticks)))
        for stage in range(schedule.stages)
    )
    assert peak_live(schedule) == expected


# ---- messages ------------------------------------------------------------------------------------


def mutant(change: Callable[[list[Placed]], object], *encoders: ModuleStages) -> Schedule:
    """A schedule of two stages and three microbatches, changed."""
    schedule = placing.naive(interleaved_schedule(2, 1, 3), encoders)
    placed = list(schedule)
    change(placed)
    return placing.table(schedule, placed)


def put(placed: list[Placed], old: Placed, new: Placed) -> None:
    placed[placed.index(old)] = new


def refusal(schedule: Schedule) -> str:
    with pytest.raises(ScheduleError) as caught:
        check_schedule(schedule)
    return str(caught.value)


def test_crowded_and_early_tasks_are_named() -> None:
    task, first = Task(F, BACKBONE, 2, 1), Task(F, BACKBONE, 0, 1)
    text = refusal(mutant(lambda placed: put(placed, (3, 1, task), (2, 1, task))))
    named = "decoder F(1, 1), decoder F(2, 1), decoder B(0, 1)"
    expected = f"tick 2, stage 1: {named} on one stage; valid: at most one task of each kind"
    assert text == f"{expected} of decoder, and one of each kind of all other modules"
    text = refusal(mutant(lambda placed: put(placed, (1, 1, first), (0, 1, first))))
    expected = "tick 0, stage 1: decoder F(0, 1) needs decoder F(0, 0) (tick 0, stage 0)"
    assert f"{expected}; valid: tick 1 or later" in text


def test_missing_second_and_strange_tasks_are_named() -> None:
    def added(task: Task) -> str:
        return refusal(mutant(lambda placed: placed.append((7, 1, task))))

    first = Task(F, BACKBONE, 0, 1)
    text = refusal(mutant(lambda placed: placed.remove((1, 1, first))))
    assert text == "decoder F(0, 1) is missing; valid: once"
    text = added(first)
    assert text == "tick 7, stage 1: decoder F(0, 1) is already in tick 1, stage 1; valid: once"
    text = added(Task(F, BACKBONE, 3, 1))
    assert text == "tick 7, stage 1: decoder F(3, 1) has an unknown microbatch; valid: 0 to 2"
    text = added(Task(F, BACKBONE, 10**30, 1))
    named = f"decoder F({10**30}, 1)"
    assert text == f"tick 7, stage 1: {named} has an unknown microbatch; valid: 0 to 2"
    text = added(Task(B, BACKBONE, 0, 4))
    assert text == "tick 7, stage 1: decoder B(0, 4) has an unknown chunk; valid: 0 to 1"
    text = added(Task(B, BACKBONE, 0, 0))
    assert text == "tick 7, stage 1: decoder B(0, 0) is on a wrong stage; valid: 0"
    lost = Task(B, "vision", 2, 1)
    text = refusal(mutant(lambda placed: placed.pop([t for _, _, t in placed].index(lost)), VISION))
    assert text == "vision B(2, 1) is missing; valid: once"
    stray = (0, 1, Task(F, "video", 0))
    text = refusal(mutant(lambda placed: placed.append(stray), VISION))
    reason = "is of an unknown module; valid: decoder, vision"
    assert text == f"tick 0, stage 1: video F(0, 0) {reason}"


def test_all_problems_of_a_kind_are_listed_up_to_a_bound() -> None:
    text = refusal(mutant(lambda placed: placed.clear()))
    assert text.count("is missing") == 8
    assert text.endswith("...")


def test_encoder_problems_are_named() -> None:
    first = Task(F, "vision", 0, 2)
    schedule = placing.naive(interleaved_schedule(4, 1, 1), [VISION])
    placed = list(schedule)
    tick, stage = schedule.task_places[first]
    assert stage == 1
    put(placed, (tick, 1, first), (tick, 2, first))
    text = refusal(placing.table(schedule, placed))
    assert "stage 2: vision F(0, 2) is on a wrong stage; valid: 1 + n x 2" in text
    put(placed, (tick, 2, first), (tick, 3, first))
    text = refusal(placing.table(schedule, placed))
    named = "F(0, 2) is in another pipeline of the module than vision F(0, 0)"
    assert f"{named} (tick 0, stage 0)" in text


def test_work_ahead_may_not_overwrite_what_waits() -> None:
    schedule = placing.naive(interleaved_schedule(2, 1, 3), [FROZEN])
    task, entry = Task(F, "audio", 4, 1), Task(F, BACKBONE, 1)
    enters, _ = schedule.task_places[entry]

    def at(tick: int) -> Schedule:
        when, stage = schedule.task_places[task]
        placed = list(schedule)
        put(placed, (when, stage, task), (tick, stage, task))
        before = task._replace(chunk=0)
        put(placed, (*schedule.task_places[before], before), (tick - 1, stage, before))
        return placing.table(schedule, placed)

    check_schedule(at(enters))
    text = refusal(at(enters - 1))
    assert f"overwrites what decoder F(1, 0) (tick {enters}, stage 0) reads" in text


def test_what_the_step_before_encoded_is_not_encoded_again() -> None:
    schedule = placing.naive(interleaved_schedule(2, 1, 3), [FROZEN])
    placed = list(schedule)
    ahead = Task(F, "audio", 3, 1)
    tick, stage = schedule.task_places[ahead]
    put(placed, (tick, stage, ahead), (tick, stage, ahead._replace(microbatch=0)))
    text = refusal(placing.table(schedule, placed))
    expected = "audio F(0, 1) has an unknown microbatch; valid: 2 to 4"
    assert text == f"tick {tick}, stage {stage}: {expected}"


def with_modules(schedule: Schedule, *modules: ModuleStages) -> Schedule:
    feeds = (Feed("vision"),)
    return replace(schedule, modules=(schedule.backbone, *modules), feeds=feeds)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"stages": 3}, "stages 3 is refused; valid: a divisor of the backbone's 2"),
        ({"stages": 0}, "stages 0 is refused"),
        ({"chunks": 3}, "chunks 3 is refused; valid: a multiple of the module's 2 stages"),
        ({"chunks": 0}, "chunks 0 is refused"),
        ({"first_backward": 5}, "first_backward 5 is refused; valid: 0 to 4, the chunks"),
        ({"prefetch": 1}, r"prefetch 1 is refused; valid: 0 to 0 \(only without a backward\)"),
        ({"prefetch": 4, "first_backward": 4}, "prefetch 4 is refused; valid: 0 to 3"),
        ({"name": "decoder"}, "module 'decoder': the name is taken"),
        ({"name": "audio"}, "module 'audio': 0 feeds are refused; valid: 1"),
    ],
)
def test_impossible_divisions_are_refused(change: dict[str, Any], message: str) -> None:
    schedule = with_modules(interleaved_schedule(2, 1, 3), replace(VISION, **change))
    with pytest.raises(ScheduleError, match=message):
        check_schedule(schedule)


#: Modules that feed each other: a text encoder reads what a vision encoder makes, and the backbone
#: reads both.
GRAPH = (Feed("image"), Feed("image", "text"), Feed("text"))


def graph_schedule(feeds: tuple[Feed, ...] = GRAPH, first: str = "image") -> Schedule:
    """Two modules around the backbone, the `first` one of them before and after the other."""
    backbone = interleaved_schedule(2, 1, 1)
    order = [first, *{"image", "text"} - {first}]
    before = [((Task(F, name, 0),), ()) for name in order]
    after = [((Task(B, name, 0),), ()) for name in reversed(order)]
    ticks = [*before, *backbone.ticks, *after]
    modules = backbone.backbone, ModuleStages("image"), ModuleStages("text")
    return Schedule(modules, 1, feeds, tuple(ticks))


def test_modules_feed_each_other() -> None:
    """A forward waits for all that feeds it, and a backward for all that it has fed."""
    schedule = graph_schedule()
    check_schedule(schedule)
    assert schedule.stage_syncs[:2].tolist() == [True, True]
    seconds = {kind: TaskTime((TaskSegment(s),)) for kind, s in ((F, 1.0), (B, 2.0))}
    own = {(kind, n, 0): seconds[kind] for kind in (F, B) for n in ("image", "text")}
    times = StepTimes(seconds[F], seconds[B], own, TaskTime())
    assert step_makespan(schedule, times) == 2 * (1.0 + 2.0) + 2 * (1.0 + 2.0)
    with pytest.raises(ScheduleError) as caught:
        check_schedule(graph_schedule(first="text"))
    assert sorted(str(caught.value).splitlines()) == [
        "tick 0, stage 0: text F(0, 0) needs image F(0, 0) (tick 1, stage 0); valid: tick 2 or "
        "later",
        "tick 6, stage 0: image B(0, 0) needs text B(0, 0) (tick 7, stage 0); valid: tick 8 or "
        "later",
    ]
    with pytest.raises(ScheduleError, match="feeds of 'image' into decoder, text are scheduled"):
        lower_schedule(schedule, "layer")
    chain = graph_schedule((Feed("image", "text"), Feed("text")))
    check_schedule(chain)
    with pytest.raises(ScheduleError, match=r"feeds of 'image' into text .*; valid: one feed"):
        lower_schedule(chain, "layer")


@pytest.mark.parametrize(
    ("feeds", "message"),
    [
        ((*GRAPH, Feed("text", "image")), "close a circle; valid: feeds that lead to 'decoder'"),
        ((*GRAPH, GRAPH[0]), "feed image -> decoder is there 2 times; valid: once"),
        ((*GRAPH, Feed("decoder", "text")), "feed decoder -> text is refused; valid: a feed into"),
        ((*GRAPH, Feed("sound")), "feed sound -> decoder: 'sound' is no module; valid: decoder, i"),
        ((Feed("image"),), "module 'text': 0 feeds are refused; valid: 1 or more"),
        (
            (*GRAPH[1:], Feed("image", per_target=2)),
            "module 'image': its feeds need 1 and 2 microbatches; valid: one number",
        ),
    ],
)
def test_impossible_feeds_are_refused(feeds: tuple[Feed, ...], message: str) -> None:
    with pytest.raises(ScheduleError, match=message):
        check_schedule(graph_schedule(feeds))


def test_impossible_sizes_are_refused() -> None:
    schedule = interleaved_schedule(2, 1, 3)
    with pytest.raises(ScheduleError, match="tick 0 has 2 fused tasks; valid: 3, one per stage"):
        check_schedule(replace(schedule, modules=(ModuleStages(BACKBONE, 3, 3, looped=True),)))
    with pytest.raises(ScheduleError, match="microbatches: 0 is refused; valid: 1 or more"):
        check_schedule(replace(schedule, microbatches=0))
    with pytest.raises(ScheduleError, match="'vision': the name is taken"):
        check_schedule(with_modules(schedule, VISION, VISION))

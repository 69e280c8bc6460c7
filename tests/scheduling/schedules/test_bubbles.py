"""Encoder work is placed legally, within its memory, and where it makes the step shorter."""

from collections import Counter
from dataclasses import asdict, replace
from itertools import chain, combinations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.lowering.lower import lower_schedule
from scheduling.schedules import bubbles as placement_of
from scheduling.schedules.backbone_schedules import gpipe_schedule, interleaved_schedule
from scheduling.schedules.bubbles import choose_chunks, choose_prefetch, lower_bound, place_modules
from scheduling.schedules.check import check_schedule
from scheduling.schedules.costs import ChunkCosts, TaskCosts
from scheduling.schedules.gain import gainful_stages, gainful_stages_of_tick
from scheduling.schedules.schedule import Schedule, ScheduleError
from scheduling.schedules.task_kinds import B, F, TaskKind
from scheduling.schedules.task_queue import PlacementRules
from scheduling.schedules.tasks import BACKBONE, Feed, FusedTask, ModuleStages, Task
from tests.scheduling import optimum, placing
from tests.timing import within

PLACEMENTS = ("first_stage", "prologue", "bubbles")
FILLS = ("pipeline", "tensor", "data")
SUBSETS = [*chain.from_iterable(combinations(FILLS, n) for n in range(4))]
SHARES = (0.1, 0.25, 0.4)


def encoder_costs(cut: ModuleStages, forward: float, backward: float) -> ChunkCosts:
    """Pieces of equal cost."""
    backwards = (backward if n >= cut.first_backward else 0.0 for n in range(cut.chunks))
    return ChunkCosts((forward,) * cut.chunks, tuple(backwards))


def typical(
    stages: int, chunks: int, share: float, pieces: int, factor: float = 2.0, /, **cut: Any
) -> tuple[ModuleStages, TaskCosts]:
    """A trainable encoder with `share` of the FLOPs; a decoder forward costs 1 per chunk."""
    encoder = ModuleStages("vision", chunks=pieces, **cut)
    forward = stages * chunks * share / (1 - share) / pieces
    own = encoder_costs(encoder, forward, factor * forward)
    return encoder, TaskCosts(1.0, factor, sources={"vision": own})


def chosen(
    decoder: Schedule, share: float, factor: float = 2.0, /, **cut: Any
) -> tuple[ModuleStages, TaskCosts]:
    """A typical encoder with as many of 24 layers in a piece as suit the decoder."""
    stages, chunks = decoder.stages, decoder.stage_chunks
    cuts = {}
    for pieces in (n for n in (1, 2, 3, 4, 6, 8, 12, 24) if n % cut.get("stages", 1) == 0):
        encoder, costs = typical(stages, chunks, share, pieces, factor, **cut)
        cuts[encoder] = costs.sources["vision"]
    best = choose_chunks(decoder, cuts, costs)
    return typical(stages, chunks, share, best.chunks, factor, **cut)


def makespan(schedule: Schedule, costs: TaskCosts) -> float:
    """Stages wait for the busiest where they meet, and then share the head of what has left."""
    clocks = np.zeros(schedule.stages)
    for meet, row in zip(schedule.stage_syncs, schedule.ticks, strict=True):
        clocks += [sum(costs.cost_of(task) for task in fused) for fused in row]
        last = F, BACKBONE, schedule.backbone.chunks - 1
        heads = any((task.kind, task.module, task.chunk) == last for task in row[-1])
        clocks = np.full_like(clocks, clocks.max() + costs.shared * heads) if meet else clocks
    return float(clocks.max())


def entry(schedule: Schedule, kind: TaskKind) -> dict[int, int]:
    """Tick in which stage 0 runs chunk 0 of each microbatch."""
    return {
        task.microbatch: tick
        for tick, row in enumerate(schedule.ticks)
        for task in row[0]
        if (task.kind, task.module, task.chunk) == (kind, BACKBONE, 0)
    }


def waiting(schedule: Schedule, cut: ModuleStages) -> tuple[int, int]:
    """Most outputs that wait for the decoder between two ticks, and gradients for the encoder."""
    outputs, gradients = np.zeros((2, len(schedule.ticks) + 1), int)
    forward, backward = entry(schedule, F), entry(schedule, B)
    for m in range(cut.prefetch, schedule.microbatches_of(cut.name)):
        made, _ = schedule.task_places[Task(F, cut.name, m, cut.chunks - 1)]
        fed = placing.fed_by(schedule, cut, m)
        outputs[made + 1 : min(forward[n] for n in fed) + 1] += 1
        if cut.trains:
            used, _ = schedule.task_places[Task(B, cut.name, m, cut.chunks - 1)]
            gradients[max(backward[n] for n in fed) + 1 : used + 1] += 1
    return outputs.max(), gradients.max()


def without_encoders(schedule: Schedule) -> list[list[FusedTask]]:
    """The decoder's tasks in the ticks that hold any."""
    rows = [[without(fused) for fused in row] for row in schedule.ticks]
    return [row for row in rows if any(row)]


def without(fused: FusedTask) -> FusedTask:
    """The decoder's tasks."""
    return tuple(task for task in fused if task.module == BACKBONE)


@st.composite
def sources(draw: st.DrawFn, name: str, decoder: Schedule) -> tuple[ModuleStages, Feed]:
    """Any division that suits: trainable, connector only, frozen, frozen and prefetched."""
    stages = draw(st.sampled_from([s for s in range(1, 9) if decoder.stages % s == 0]))
    pieces = stages * draw(st.integers(1, 4 if stages < 3 else 2))
    backward = draw(st.sampled_from([0, 1, pieces]))
    ahead = draw(st.integers(0, decoder.microbatches)) if backward == 0 else 0
    consumers = None if ahead else draw(st.none() | placing.feeds(decoder.microbatches))
    first = pieces - backward
    module = ModuleStages(name, stages, pieces, first_backward=first, prefetch=ahead)
    return module, Feed(name, consumers=consumers)


@st.composite
def cases(
    draw: st.DrawFn, encoders: int = 2
) -> tuple[Schedule, list[ModuleStages], list[Feed], TaskCosts]:
    """A schedule of the decoder, encoders, what they feed, and what all of them cost."""
    stages = draw(st.sampled_from([1, 2, 3, 4, 4, 6, 8]))
    chunks = draw(st.integers(1, 3))
    microbatches = draw(st.integers(1, 9 if stages < 5 else 24))
    make = draw(st.sampled_from([gpipe_schedule, lambda p, m, v: interleaved_schedule(p, v, m)]))
    decoder = make(stages, microbatches, chunks)
    names = ["vision", "audio"][: draw(st.integers(1, encoders))]
    cut = [draw(sources(name, decoder)) for name in names]
    modules, feeds = [module for module, _ in cut], [feed for _, feed in cut]
    sizes = st.sampled_from([0.05, 0.3, 1.0, 1.7])
    own = {e.name: encoder_costs(e, draw(sizes), draw(sizes)) for e in modules}
    return decoder, modules, feeds, TaskCosts(1.0, draw(st.sampled_from([2.0, 3.0])), 0.2, own)


@given(cases(), st.sampled_from(PLACEMENTS), st.sampled_from(SUBSETS), st.data())
def test_placements_are_legal(case, placement, fill, data):
    decoder, encoders, feeds, costs = case
    if placement == "first_stage":
        encoders = [replace(cut, stages=1) for cut in encoders]
    in_turn = data.draw(st.booleans())
    lives = [None, decoder.stages, 3 * decoder.stages, *([1, 0] if in_turn else [])]
    max_waiting = data.draw(st.sampled_from(lives))
    how: dict[str, Any] = {"thorough": not in_turn, "in_turn": in_turn, "feeds": feeds}
    schedule = place_modules(decoder, encoders, costs, placement, fill, max_waiting, **how)

    check_schedule(schedule)
    assert (schedule.sources, schedule.feeds) == (tuple(encoders), tuple(feeds))
    assert without_encoders(schedule) == without_encoders(decoder)
    assert makespan(schedule, costs) >= lower_bound(schedule, costs) * (1 - 1e-9)
    if placement == "bubbles":
        for cut, feed in zip(encoders, feeds, strict=True):
            at_once = 0
            if feed.consumers:
                ends = zip(*feed.consumers, strict=True)
                at_once = max(max(Counter(own).values()) for own in ends)
            assert max(waiting(schedule, cut)) <= max(max_waiting or 2 * decoder.stages, at_once)


@given(cases(encoders=1))
def test_bubbles_are_no_longer_than_the_prologue(case):
    decoder, encoders, feeds, costs = case
    bubbles, prologue = (
        makespan(place_modules(decoder, encoders, costs, placement, feeds=feeds), costs)
        for placement in ("bubbles", "prologue")
    )
    assert bubbles <= prologue + 1e-9


@pytest.mark.parametrize("stages", [2, 4, 8])
@pytest.mark.parametrize("chunks", [1, 2])
@pytest.mark.parametrize("share", SHARES)
def test_bubbles_beat_the_prologue_and_that_the_first_stage(stages, chunks, share):
    decoder = interleaved_schedule(stages, chunks, 4 * stages)
    encoder, costs = chosen(decoder, share)
    first, prologue, bubbles = (
        makespan(place_modules(decoder, [encoder], costs, placement), costs)
        for placement in PLACEMENTS
    )
    assert bubbles < prologue < first


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("factor", [2.0, 3.0])
def test_two_stages_come_near_the_lower_bound(share, factor):
    decoder = interleaved_schedule(2, 1, 8)
    encoder, costs = chosen(decoder, share, factor)
    schedule = place_modules(decoder, [encoder], costs)
    assert makespan(schedule, costs) < 1.06 * lower_bound(schedule, costs)
    first = place_modules(decoder, [encoder], costs, "first_stage")
    gain = makespan(first, costs) / makespan(schedule, costs)
    assert gain > {0.1: 1.1, 0.25: 1.25, 0.4: 1.37}[share]


@pytest.mark.parametrize("stages", [2, 4])
def test_the_largest_gap_shrinks_with_microbatches(stages):
    encoder, costs = chosen(interleaved_schedule(stages, 1, 4 * stages), 0.25)
    gaps = []
    for microbatches in (8, 32, 128):
        schedule = place_modules(interleaved_schedule(stages, 1, microbatches), [encoder], costs)
        gaps.append(makespan(schedule, costs) / lower_bound(schedule, costs) - 1)
    assert gaps[0] > 2 * gaps[1] > 4 * gaps[2]


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("pieces", [1, 2])
@pytest.mark.parametrize(("stages", "microbatches"), [(1, 2), (2, 1), (2, 3), (2, 6), (3, 4)])
def test_no_step_is_much_shorter(stages, microbatches, pieces, share):
    encoder, costs = typical(stages, 1, share, pieces)
    decoder = interleaved_schedule(stages, 1, microbatches)
    step = makespan(place_modules(decoder, [encoder], costs, max_waiting=9), costs)
    bound = optimum.lower_bound(decoder, encoder, costs, seconds=2)
    assert bound * (1 - 1e-6) <= step <= 1.02 * bound


@given(
    st.integers(1, 5).flatmap(
        lambda n: st.tuples(*[st.lists(st.floats(0.1, 4), min_size=n, max_size=n)] * 2)
    ),
    st.floats(0, 6),
)
def test_a_slot_takes_what_makes_the_tick_longer_by_less_than_its_share(case, floor):
    load, costs = map(np.array, case)
    share, length = 1 / len(load), max(floor, load.max())

    def gain(chosen: np.ndarray) -> float:
        longer = max(floor, (load + costs * chosen).max()) - length
        return share * (costs * chosen).sum() - longer

    best = max(map(gain, np.array([*product((False, True), repeat=len(load))])))
    floors = np.array([floor])
    found = gain(gainful_stages(load[None], floors, costs[None], share, True)[0])
    assert found == pytest.approx(best, abs=1e-6)
    fitting = gainful_stages(load[None], floors, costs[None], share, False)[0]
    assert fitting.tolist() == (load + costs <= length).tolist()
    possible = {stage: cost for stage, cost in enumerate(costs.tolist()) if np.isfinite(cost)}
    for stretch in (True, False):
        many = gainful_stages(load[None], floors, costs[None], share, stretch)[0]
        here = gainful_stages_of_tick(load.tolist(), floor, possible, share, stretch)
        assert here == np.flatnonzero(many).tolist()


@pytest.mark.parametrize("cut", [{}, {"stages": 2}, {"stages": 4}, {"first_backward": 3}])
def test_what_waits_does_not_grow_with_microbatches(cut):
    encoder, costs = typical(4, 2, 0.25, 4, **cut)
    counts = []
    for microbatches in (16, 64, 256):
        schedule = place_modules(interleaved_schedule(4, 2, microbatches), [encoder], costs)
        counts.append(max(waiting(schedule, encoder)))
    assert counts[1] == counts[2]
    assert max(counts) <= 8


@pytest.mark.parametrize("cut", [{}, {"stages": 2}, {"stages": 4}, {"first_backward": 3}])
def test_buffers_do_not_grow_with_microbatches(cut):
    encoder, costs = typical(4, 2, 0.25, 4, **cut)
    few, many = (
        lower_schedule(place_modules(interleaved_schedule(4, 2, m), [encoder], costs), "none")
        for m in (32, 128)
    )
    sizes = [asdict(program.sizes["vision"]) for program in (few, many)]
    assert all(sizes[1][name] <= size + 1 for name, size in sizes[0].items())


@pytest.mark.parametrize("pieces", [1, 2, 3, 4])
@pytest.mark.parametrize("stages", [2, 3])
def test_no_more_wait_than_may(stages, pieces):
    for microbatches, max_waiting, share in product(range(3, 13, 2), (stages, stages + 1), SHARES):
        encoder, costs = typical(stages, 1, share, pieces)
        decoder = interleaved_schedule(stages, 1, microbatches)
        schedule = place_modules(decoder, [encoder], costs, max_waiting=max_waiting)
        assert max(waiting(schedule, encoder)) <= max_waiting


@given(cases())
def test_steps_are_as_long_as_the_placement_reckons(case):
    decoder, encoders, feeds, costs = case
    rules = PlacementRules.of_placement("bubbles", FILLS, None, decoder.stages)
    table = placement_of._place_with_ends(
        decoder, [*zip(encoders, feeds, strict=True)], costs, rules
    )
    assert table.makespan == pytest.approx(makespan(table.build_schedule(encoders, feeds), costs))


@pytest.mark.parametrize("share", SHARES)
def test_what_moves_between_stages_stands_where_they_meet(share):
    """The moving piece stands beside several pieces that stay, in one slot."""
    vision, costs = typical(2, 1, share, 4)
    audio = ModuleStages("audio", 2, 2)
    own = encoder_costs(audio, 0.1, 0.2)
    costs = replace(costs, sources={**costs.sources, "audio": own})
    feeds = [Feed("vision"), Feed("audio")]
    sources = [*zip([vision, audio], feeds, strict=True)]
    rules = PlacementRules.of_placement("bubbles", FILLS, None, 2)
    table = placement_of._place_with_ends(interleaved_schedule(2, 1, 8), sources, costs, rules)
    schedule = table.build_schedule([vision, audio], feeds)
    assert table.makespan == pytest.approx(makespan(schedule, costs))
    assert schedule.stage_syncs.sum() <= len(table.source)


def test_less_may_wait_at_the_price_of_a_longer_step():
    encoder, costs = typical(4, 1, 0.1, 1)
    decoder = interleaved_schedule(4, 1, 32)
    steps = [
        makespan(place_modules(decoder, [encoder], costs, max_waiting=n), costs) for n in (4, 8, 32)
    ]
    assert steps[0] > steps[1] > steps[2]


def test_the_first_stage_works_one_microbatch_ahead():
    encoder, costs = typical(4, 1, 0.25, 1)
    schedule = place_modules(interleaved_schedule(4, 1, 8), [encoder], costs, "first_stage")
    forward, backward = entry(schedule, F), entry(schedule, B)
    for m in range(8):
        assert schedule.task_places[Task(F, "vision", m)] == (forward[m] - 1, 0)
        assert schedule.task_places[Task(B, "vision", m)] == (backward[m] + 1, 0)


@pytest.mark.parametrize("pieces", [1, 3])
def test_the_first_stage_keeps_one_microbatch_waiting(pieces):
    encoder, costs = typical(2, 1, 0.4, pieces)
    schedule = place_modules(interleaved_schedule(2, 1, 24), [encoder], costs, "first_stage")
    assert waiting(schedule, encoder) == (1, 1)


def test_the_prologue_is_distributed_evenly_around_the_decoder():
    encoder, costs = typical(4, 1, 0.25, 2)
    schedule = place_modules(interleaved_schedule(4, 1, 10), [encoder], costs, "prologue")
    counts = {kind: np.zeros(4, int) for kind in (F, B)}
    for tick, stage, task in schedule:
        if task.module == "vision":
            assert tick < schedule.span.start if task.kind == F else tick >= schedule.span.stop
            counts[task.kind][stage] += 1
    for count in counts.values():
        assert sorted(count) == [4, 4, 6, 6]
    assert schedule.span.start == len(schedule.ticks) - schedule.span.stop == 3 * 2


def test_encoders_share_the_rounds_of_the_prologue():
    vision, costs = typical(4, 1, 0.25, 1)
    audio = replace(vision, name="audio")
    costs = replace(costs, sources=dict.fromkeys(("vision", "audio"), costs.sources["vision"]))
    decoder = interleaved_schedule(4, 1, 10)
    schedule = place_modules(decoder, [vision, audio], costs, "prologue")
    # Ten microbatches of each on four stages: three rounds for one encoder, five for both.
    assert schedule.span.start == len(schedule.ticks) - schedule.span.stop == 5


def test_rounds_come_just_in_time():
    encoder, costs = typical(4, 1, 0.25, 1)
    for fill in ([], ["tensor"]):
        schedule = place_modules(interleaved_schedule(4, 1, 32), [encoder], costs, fill=fill)
        assert waiting(schedule, encoder) == (4, 4)


def test_slots_count_for_the_stages_that_have_work():
    # Backwards run on the second stage alone: a slot there saves a round, however full it was.
    encoder = ModuleStages("vision", 2, 2, first_backward=1)
    costs = TaskCosts(1.0, 2.0, sources={"vision": ChunkCosts((0.1, 0.1), (0.0, 5.0))})
    decoder = interleaved_schedule(2, 1, 4)
    slots, rounds = (
        makespan(place_modules(decoder, [encoder], costs, fill=fill), costs)
        for fill in (["pipeline"], [])
    )
    assert slots < rounds - 2 + 1e-9


def encoder_ticks(schedule: Schedule) -> set[int]:
    """Ticks of the decoder that hold encoder work."""
    busy = {tick for tick, _, task in schedule if task.module == BACKBONE}
    return {tick for tick, _, task in schedule if task.module != BACKBONE and tick in busy}


def test_each_way_to_fill_can_be_left_out():
    encoder, costs = chosen(interleaved_schedule(4, 1, 16), 0.25)
    decoder = interleaved_schedule(4, 1, 16)
    made = {fill: place_modules(decoder, [encoder], costs, fill=fill) for fill in SUBSETS}
    steps = {fill: makespan(schedule, costs) for fill, schedule in made.items()}

    assert not encoder_ticks(made[()])
    assert made[("data",)] == made[()]
    assert made[FILLS] == made[("pipeline", "tensor")]
    # Without idle slots a round costs the same wherever it runs.
    assert steps[("tensor",)] == pytest.approx(steps[()])
    assert steps[("pipeline",)] < 0.97 * steps[()]
    assert len(encoder_ticks(made[("tensor",)])) > 8
    # With idle slots alone the decoder's ticks get hardly longer.
    beside = encoder_ticks(made[("pipeline",)])
    assert beside
    rows = tuple(made[("pipeline",)].ticks[tick] for tick in sorted(beside))
    bare = replace(decoder, ticks=tuple(tuple(without(b) for b in row) for row in rows))
    assert makespan(replace(decoder, ticks=rows), costs) < 1.2 * makespan(bare, costs)


def test_rounds_keep_all_stages_busy():
    encoder, costs = typical(4, 2, 0.25, 4)
    schedule = place_modules(interleaved_schedule(4, 2, 64), [encoder], costs, fill=["tensor"])
    for kind in (F, B):
        sizes = [
            sum((task.kind, task.module) == (kind, "vision") for b in row for task in b)
            for row in schedule.ticks
        ]
        assert set(sizes) == {0, 4}


def test_waves_go_through_the_encoder_stages_in_a_pipeline():
    encoder, costs = typical(4, 1, 0.25, 4, stages=4)
    schedule = place_modules(interleaved_schedule(4, 1, 32), [encoder], costs, fill=["tensor"])
    sizes = [
        sum((task.kind, task.module) == (F, "vision") for b in row for task in b)
        for row in schedule.ticks
    ]
    # Three rounds until the pipeline is full, three until it is empty, all stages in the others.
    assert sorted(n for n in sizes if n) == [1, 1, 2, 2, 3, 3] + [4] * 29


def test_a_second_encoder_fills_what_the_first_leaves():
    vision, costs = typical(4, 1, 0.2, 2, first_backward=2)
    audio = ModuleStages("audio")
    both = replace(costs, sources={**costs.sources, "audio": ChunkCosts((0.2,), (0.4,))})
    decoder = interleaved_schedule(4, 1, 16)
    one = place_modules(decoder, [vision], costs)
    two = place_modules(decoder, [audio, vision], both)
    assert [cut.name for cut in two.sources] == ["audio", "vision"]
    # The larger encoder is placed first, as if it were alone.
    places = [task for task in one.task_places if task.module == "vision"]
    assert [one.task_places[task][1] for task in places] == [
        two.task_places[task][1] for task in places
    ]
    added = lower_bound(two, both) - lower_bound(one, costs)
    assert makespan(two, both) - makespan(one, costs) < 0.75 * added


def test_frozen_encoders_work_ahead_in_late_slots():
    frozen, costs = typical(4, 1, 0.2, 1, first_backward=1)
    decoder = interleaved_schedule(4, 1, 16)
    (ahead,) = choose_prefetch(decoder, [frozen], costs)
    assert 0 < ahead.prefetch <= 8
    schedule = place_modules(decoder, [ahead], costs)
    check_schedule(schedule)
    numbers = {
        task.microbatch
        for task in schedule.task_places
        if (task.kind, task.module) == (F, "vision")
    }
    assert numbers == set(range(ahead.prefetch, 16 + ahead.prefetch))
    assert not any(task.module == "vision" for task in chain(*schedule.ticks[0]))
    plain = place_modules(decoder, [frozen], costs)
    assert makespan(schedule, costs) < 0.98 * makespan(plain, costs)


def test_nobody_works_ahead_in_vain():
    trained, costs = typical(2, 1, 0.2, 1)
    assert choose_prefetch(interleaved_schedule(2, 1, 8), [trained], costs) == (trained,)
    frozen, costs = typical(1, 1, 0.2, 1, first_backward=1)
    assert choose_prefetch(interleaved_schedule(1, 1, 8), [frozen], costs) == (frozen,)


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize(("stages", "chunks"), [(2, 1), (4, 1), (4, 2)])
def test_the_fewest_pieces_of_the_shortest_steps_are_chosen(stages, chunks, share):
    def step(pieces: int) -> float:
        encoder, costs = typical(stages, chunks, share, pieces)
        return makespan(place_modules(decoder, [encoder], costs), costs)

    decoder = interleaved_schedule(stages, chunks, 4 * stages)
    encoder, _ = chosen(decoder, share)
    steps = {pieces: step(pieces) for pieces in (1, 2, 3, 4, 6, 8, 12, 24)}
    good = [pieces for pieces, length in steps.items() if length <= 1.01 * min(steps.values())]
    assert encoder.chunks == good[0]


def test_no_cut_is_refused():
    with pytest.raises(ScheduleError, match="no division of the module is given"):
        choose_chunks(interleaved_schedule(2, 1, 4), {}, TaskCosts(1.0, 2.0))


def test_lower_bound_counts_all_work():
    encoder = ModuleStages("vision", chunks=2, first_backward=1)
    costs = TaskCosts(1.0, 2.0, 0.5, {"vision": ChunkCosts((1.0, 2.0), (0.0, 3.0))})
    schedule = place_modules(interleaved_schedule(2, 3, 4), [encoder], costs)
    assert lower_bound(schedule, costs) == 4 * (3 * 3.0 + 0.5 + 6.0 / 2)


def test_large_steps_take_little_time_to_plan():
    encoder, costs = typical(16, 8, 0.25, 4)
    decoder = interleaved_schedule(16, 8, 512)
    # 0.6 to 0.9 s where nothing else runs.
    schedule = within(2, lambda: place_modules(decoder, [encoder], costs))
    check_schedule(schedule)
    assert makespan(schedule, costs) < 1.01 * lower_bound(schedule, costs)


@settings(max_examples=10)
@given(cases())
def test_placing_twice_gives_the_same(case):
    decoder, encoders, feeds, costs = case
    read = Schedule.from_json(decoder.to_json())
    one = place_modules(decoder, encoders, costs, fill=FILLS, feeds=feeds)
    other = place_modules(read, encoders, costs, fill=frozenset(FILLS), feeds=feeds)
    assert one == other


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"placement": "nowhere"}, "placement: 'nowhere' .* valid: first_stage, prologue, bubbles"),
        ({"fill": ["pipeline", "gaps"]}, "fill: 'gaps' .* valid: pipeline, tensor, data"),
        ({"max_waiting": 3}, "max_waiting: 3 is refused: .* makes 4 outputs; valid: 4 or more"),
        ({"stages": 3}, "vision: stages 3 .* divisors of the backbone's 4"),
        ({"stages": 4}, "vision: chunks 2 .* multiples of the module's 4 stages"),
        ({"first_backward": 3}, "vision: first_backward 3 .* 0 to 2"),
        ({"prefetch": 1}, "vision: prefetch 1 .* 0 to 0"),
        ({"first_backward": 2, "prefetch": 9}, "vision: prefetch 9 .* 0 to 8"),
        ({"chunks": 3}, "vision: costs for 2 and 2 chunks .* valid: 3"),
        ({"name": "audio"}, "module 'audio' has no costs; given: .'vision'."),
        ({"name": "decoder"}, "valid: distinct, not 'decoder'"),
        ({"stages": 2, "placement": "first_stage"}, "2 stages .* 'first_stage'.*valid: 1"),
    ],
)
def test_what_cannot_be_placed_is_refused(change, message):
    encoder, costs = typical(4, 1, 0.25, 2)
    arguments = {key: change[key] for key in ("placement", "fill", "max_waiting") if key in change}
    encoder = replace(encoder, **{k: v for k, v in change.items() if k not in arguments})
    with pytest.raises(ScheduleError, match=message):
        place_modules(interleaved_schedule(4, 1, 8), [encoder], costs, **arguments)


def test_what_is_placed_or_named_twice_is_refused():
    encoder, costs = typical(2, 1, 0.25, 2)
    with pytest.raises(ScheduleError, match="valid: distinct"):
        place_modules(interleaved_schedule(2, 1, 4), [encoder, encoder], costs)
    placed = place_modules(interleaved_schedule(2, 1, 4), [encoder], costs)
    with pytest.raises(ScheduleError, match="has other modules already; valid: the backbone alone"):
        place_modules(placed, [encoder], costs)

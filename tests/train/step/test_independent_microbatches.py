"""Encoder microbatches of their own: one compiled step for every load, equal to one device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, assume, example, given, settings
from hypothesis import strategies as st

from data.batch import PackedBatch
from data.planning.independent_microbatches import feeds_of_all
from data.rows.pack import empty_rows
from mllm_jax.check.loads import make_loads
from mllm_jax.check.synthetic import scatter_rows, synthetic_batch
from mllm_jax.check.verify import compare_gradients, initial_parameters
from mllm_jax.config.inputs import media_specs
from mllm_jax.config.pipeline_plan import PipelinePlan
from mllm_jax.models.model_config import ModelConfig
from mllm_jax.models.short_form import BACKBONE
from mllm_jax.train.step import independent_microbatches as units
from mllm_jax.train.step import pipeline
from mllm_jax.train.step.batch_placement import place_batch, place_microbatches
from mllm_jax.train.step.build import build_step
from mllm_jax.train.step.gradient_program import AdaptiveSchedules, PlacedSchedule, RowCapacity
from mllm_jax.train.step.host_groups import SINGLE_GROUP, HostGroupExchange
from mllm_jax.train.step.independent_microbatches import place_independent_microbatches
from mllm_jax.train.step.pipeline import PipelineProgram
from mllm_jax.train.step.step import TrainStep
from scheduling.lowering.bounds import ScheduleBounds
from scheduling.lowering.lower import lower_schedule
from scheduling.lowering.lowered import LoweredSchedule
from scheduling.schedules.backbone_schedules import interleaved_schedule
from scheduling.schedules.bubbles import place_modules
from scheduling.schedules.costs import ChunkCosts, TaskCosts
from scheduling.schedules.schedule import Schedule, ScheduleError
from scheduling.schedules.tasks import Consumers, Feed, ModuleStages
from scheduling.search.scheduler import PlacementLimits
from sharding.exchange_kinds import Exchanges
from sharding.grid import JointGrid
from sharding.mesh import named_shardings
from sharding.plan import ParallelPlan, PlanError, list_factorizations
from sharding.stages import StageViews
from tests.train.models import small_model, without_media
from tests.train.step.gradients import CompiledOnce

ROWS, TOKENS, MICROBATCHES = 2, 24, 4
#: Room for the media of this many of the microbatches below.
ROOM = 4
MEDIA = {"vision": 16, "audio": 32}
CUTS = ModuleStages("vision", chunks=2), ModuleStages("audio", 2, 2)
SCHEDULE = interleaved_schedule(2, 2, MICROBATCHES)
PLANS = {
    "decoder": ParallelPlan(stage=2, context=2),
    "vision": ParallelPlan(data=4),
    "audio": ParallelPlan(stage=2, data=2),
}
WIDE = {
    "decoder": ParallelPlan(stage=2, context=2, tensor=2),
    "vision": ParallelPlan(data=8),
    "audio": ParallelPlan(stage=2, data=4),
}


@dataclass(frozen=True)
class Following:
    """Places the encoders' work of a step, as `scheduling.search.scheduler.StepScheduler` does.

    Attributes:
        room: positions of an encoder's own microbatches, over those of the media of a decoder's.
        each: number of them that hold all media of a decoder's.
        rows: number of their rows for each row of a decoder's.
        most: microbatches whose outputs may wait; none: no schedule fits.
    """

    room: int = ROOM
    each: int = 1
    rows: int = 1
    most: tuple[int, ...] = (4, 3, 2)

    def __call__(self, feeds: Mapping[str, Consumers], way: PlacementLimits) -> Schedule:
        own = [replace(feed, consumers=feeds[feed.source]) for feed in self.feeds]
        return placed(CUTS, way.max_waiting, own)

    @property
    def feeds(self) -> list[Feed]:
        return [Feed(cut.name, per_target=self.each) for cut in CUTS]

    @property
    def positions(self) -> dict[str, int]:
        return {name: self.room * n for name, n in MEDIA.items()}

    @property
    def spread(self) -> dict[str, int]:
        return dict.fromkeys(MEDIA, self.rows)

    def placement_limits(self) -> list[PlacementLimits]:
        return [PlacementLimits(max_waiting) for max_waiting in self.most]


#: Exchanges of outputs, by the number of an encoder's own microbatches for one of the decoder.
WAYS: dict[int, Exchanges] = {
    1: {"vision": "gather", "audio": "reduce_scatter"},
    2: {"vision": "reduce_scatter", "audio": "all_to_all"},
}
#: Several of an encoder's own microbatches for a microbatch of the decoder, distributed over more
#: ranks than that has rows.
SMALL = Following(room=1, each=2, rows=2)


def placed(cuts: Any, max_waiting: int = 4, feeds: Sequence[Feed] = ()) -> Schedule:
    own = {cut.name: ChunkCosts((1.0,) * cut.chunks, (2.0,) * cut.chunks) for cut in cuts}
    costs = TaskCosts(4.0, 8.0, 1.0, own)
    return place_modules(SCHEDULE, cuts, costs, max_waiting=max_waiting, feeds=feeds)


@cache
def model() -> ModelConfig:
    values = small_model(remat="layer").model_dump(mode="json")
    values["decoder"] |= {"layers": 4}
    # Encoders that recompute neither as the decoder does nor as each other.
    remats = {"vision": "full", "audio": "none"}
    values["encoders"] = {
        name: tower | {"layers": 4, "remat": remats[name]}
        for name, tower in values["encoders"].items()
    }
    return ModelConfig.model_validate(values)


@cache
def step(follow: Any = Following()) -> TrainStep:
    schedule = placed(CUTS, feeds=follow.feeds)
    plan = PipelinePlan(schedule, co_issue=False, independent_microbatches=follow)
    plans = WIDE if follow.rows > 1 else PLANS
    return build_step(model(), plans, plan, exchanges=WAYS[follow.each])


@cache
def parameters() -> Any:
    return initial_parameters(model(), seed=0)


@cache
def compiled(small: bool = False) -> Any:
    """The one program of all loads."""
    own = step(SMALL) if small else step()
    batch = place_microbatches(scattered_load(1)[1], own)
    return own.gradients.lower(own.abstract_state["params"], batch).compile()


def thin(seed: int) -> PackedBatch:
    """A microbatch whose media fill a part of their rows."""
    batch = synthetic_batch(model(), ROWS, TOKENS, MEDIA, seed)
    encoders, merges = {}, {}
    for name, index in batch.text_rows.merges.items():
        encoders[name] = jax.tree.map(wider, batch.rows[name])
        outputs = MEDIA[name] // model().reduction(name)
        row, offset = np.divmod(index, outputs)
        wide = np.where(index >= 0, row * ROOM * outputs + offset, -1)
        merges[name] = wide.astype(np.int32)
    decoder = replace(batch.text_rows, merges=merges)
    return replace(batch, rows={BACKBONE: decoder, **encoders})


def wider(array: np.ndarray) -> np.ndarray:
    """An array of a row of an encoder with `ROOM` times as many positions."""
    more = [(0, 0), (0, (ROOM - 1) * array.shape[1]), *[(0, 0)] * (array.ndim - 2)]
    return np.pad(array, more)


def scattered_load(load: int | str) -> tuple[list[PackedBatch], list[PackedBatch]]:
    """Microbatches with media in `load` of each four, and the same with rows in another order.

    A name is that of one of `mllm_jax.check.loads.LOADS`.
    """
    batches = [thin(m) for m in range(MICROBATCHES)]
    if isinstance(load, str):
        batches = dict(make_loads(batches, model()))[load]
    else:
        batches = [b if m % 4 < load else without_media(b, MEDIA) for m, b in enumerate(batches)]
    return batches, [scatter_rows(batch, model(), seed) for seed, batch in enumerate(batches)]


@pytest.mark.parametrize("load", [0, 1, 2, 4, "uneven", "late"])
def test_one_program_equals_one_device_at_every_load(load: int | str) -> None:
    equals_one_device(load, step(), compiled())


@pytest.mark.slow
@pytest.mark.parametrize("load", [1, 4])
def test_several_own_microbatches_for_one_of_the_decoder(load: int) -> None:
    equals_one_device(load, step(SMALL), compiled(small=True))


@pytest.mark.slow
def test_full_tables_hold_what_no_schedule_of_the_load_does() -> None:
    """Each microbatch then has encoder microbatches of its own; the program stays the same."""
    equals_one_device(4, step(replace(SMALL, most=())), compiled(small=True))


@st.composite
def plan_sets(draw: st.DrawFn) -> dict[str, ParallelPlan]:
    """Plans whose rows go up in those of the microbatches."""
    inner = draw(st.sampled_from([(1, 1), (2, 1), (1, 2), (2, 2)]))
    context, tensor = inner
    batch = draw(st.sampled_from(["data", "fsdp"])) if context * tensor == 1 else None
    degrees = {"context": context, "tensor": tensor} | ({batch: 2} if batch else {})
    decoder = ParallelPlan(stage=2, **degrees)
    count, found = decoder.devices, {"decoder": decoder}
    for name, stages in (("vision", 1), ("audio", 2)):
        choices = [
            ParallelPlan(data=data, fsdp=fsdp, context=own, tensor=width, stage=stages)
            for data, fsdp, own, width in list_factorizations(count // stages, 4)
            if own <= 2 and data * fsdp * stages <= 2 * ROWS and 8 % (own * width) == 0
        ]
        found[name] = draw(st.sampled_from(choices))
    try:
        StageViews.build(JointGrid.build(found), "step")
    except PlanError:
        assume(False)
    return found


@pytest.mark.slow
@pytest.mark.timeout(7200)
@settings(
    max_examples=20,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)
@given(plans=plan_sets(), load=st.integers(0, 4), co_issue=st.booleans())
@example(
    plans={
        "decoder": ParallelPlan(stage=2, tensor=2),
        "vision": ParallelPlan(fsdp=2, tensor=2),
        "audio": ParallelPlan(stage=2, data=2),
    },
    load=3,
    co_issue=True,
)
def test_many_plans_equal_one_device(
    plans: dict[str, ParallelPlan], load: int, co_issue: bool
) -> None:
    follow: Any = Following()
    schedule = placed(CUTS, feeds=follow.feeds)
    plan = PipelinePlan(schedule, co_issue=co_issue, independent_microbatches=follow)
    own = build_step(model(), plans, plan, exchanges=WAYS[1])
    batch = place_microbatches(scattered_load(load)[1], own)
    equals_one_device(load, own, own.gradients.lower(own.abstract_state["params"], batch).compile())


def equals_one_device(load: int | str, own: TrainStep, program: Any) -> None:
    batches = scattered_load(load)[1]
    params = jax.device_put(
        own.form.to_stored(parameters()), named_shardings(own.mesh, own.form.specs)
    )
    grads, loss = program(params, place_microbatches(batches, own))
    found = np.asarray(loss), jax.tree.map(np.asarray, own.form.to_canonical(grads))
    result = compare_gradients(found, on_one_device(load))
    assert result.loss_error < 1e-6, result
    assert max(result.worst.values()) < 2e-5, result


@cache
def on_one_device(load: int | str) -> Any:
    return single()(scattered_load(load)[0])


@cache
def single() -> CompiledOnce:
    return CompiledOnce.under(model(), dict.fromkeys(PLANS, ParallelPlan()), parameters())


def test_no_rows_are_computed_that_hold_nothing() -> None:
    """Media of four microbatches fit into one of the encoder's own, and without media none runs."""
    program = step().program
    assert isinstance(program, PipelineProgram)
    for load, count in ((0, 0), (4, 1)):
        tables = place_microbatches(scattered_load(load)[1], step()).schedule
        assert tables is not None
        ticks = slice(1, 1 + int(tables.phases[-1]))
        for cut in CUTS:
            column = program.bounds.columns.modules[cut.name].forward.microbatch
            tasks = np.count_nonzero(np.asarray(tables.by_stage)[:, ticks, column] >= 0)
            assert tasks == count * cut.chunks


def test_what_fits_no_slots_runs_with_the_decoders_microbatches() -> None:
    program, follow = step().program, Following()
    assert isinstance(program, PipelineProgram)
    few = tuple(
        replace(own, merges=2) if own.source == "vision" else own for own in program.bounds.feeds
    )
    plan: Any = {
        "independent_microbatches": follow,
        "bounds": replace(program.bounds, feeds=few),
    }
    small = build_step(model(), PLANS, PipelinePlan(placed(CUTS), co_issue=False, **plan))
    for load, reason in ((4, "vision: pairs of microbatches on a stage: 4 do not fit"), (0, "")):
        placed_batch = place_batch(scattered_load(load)[1], small)
        table, standing = placed_batch.batch.schedule, small.program.placed_schedule.arrays
        assert table is not None
        assert standing is not None
        assert placed_batch.fallback_reason.startswith(reason)
        assert bool(placed_batch.fallback_reason) == bool(reason)
        assert np.array_equal(np.asarray(table.by_stage), standing.by_stage) == bool(reason)


def test_rows_go_on_together_where_units_feed_too_many(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Media in the first row of two microbatches, and in the second row of the two others."""
    monkeypatch.setattr(units, "_warned", set())
    kinds, nothing = media_specs(model()), np.zeros((0, 5), np.int64)
    rooms = {own.name: RowCapacity(MEDIA[own.name], 1) for own in kinds}
    batches = [
        PackedBatch(
            {own.name: empty_rows(own, ROWS, MEDIA[own.name]) for own in kinds},
            runs=dict.fromkeys(MEDIA, nothing),
            places={own.name: np.array([[int(m >= 2), 0, MEDIA[own.name], 1, 1]]) for own in kinds},
        )
        for m in range(MICROBATCHES)
    ]
    asked: list[Consumers] = []

    def tables(feeds: Mapping[str, Consumers]) -> PlacedSchedule | str:
        asked.append(feeds["vision"])
        return "no slots" if len(asked) % 2 else step().program.placed_schedule

    for _ in range(2):
        rows = dict.fromkeys(MEDIA, range(ROWS))
        own = place_independent_microbatches(
            step().program, AdaptiveSchedules(tables, rooms), batches, rows, rows, ROWS
        )
        assert own[2]["vision"].inputs.shape[0] == 3
    assert asked == [((0, 2), (1, 3)), ((0, 0), (1, 2), (3, 3))] * 2
    told = [r for r in caplog.records if "its rows go on together" in r.getMessage()]
    assert len(told) == 1


@dataclass(frozen=True)
class Broken(Following):
    """Runs the schedules of loads from their last tick to their first."""

    def __call__(self, feeds: Mapping[str, Consumers], way: PlacementLimits) -> Schedule:
        made = super().__call__(feeds, way)
        return replace(made, ticks=made.ticks[::-1])


def test_a_schedule_of_a_step_that_breaks_a_rule_is_refused() -> None:
    follow: Any = Broken()
    own = build_step(
        model(), PLANS, PipelinePlan(placed(CUTS), co_issue=False, independent_microbatches=follow)
    )
    with pytest.raises(ScheduleError, match=r"tick \d+, stage \d: .* needs "):
        place_microbatches(scattered_load(2)[1], own)


def test_tables_of_a_step_are_run_on_names_where_schedules_are_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With `train.check_schedules`; a wrong slot is named with its task, tick and stage."""
    follow: Any = Following()
    plan = PipelinePlan(placed(CUTS), co_issue=False, independent_microbatches=follow)
    steps = [build_step(model(), PLANS, replace(plan, checked=own)) for own in (False, True)]

    def wrong(*args: Any) -> LoweredSchedule:
        made = lower_schedule(*args)
        tables = made.backbone.tables
        slots = tables.backward.saved
        moved = np.where(slots >= 0, (slots + 1) % made.backbone.sizes.saved, slots)
        tables = replace(tables, backward=replace(tables.backward, saved=moved))
        backbone = replace(made.backbone, tables=tables)
        return replace(made, modules={**made.modules, BACKBONE: backbone})

    monkeypatch.setattr(pipeline, "lower_schedule", wrong)
    place_microbatches(scattered_load(2)[1], steps[0])
    with pytest.raises(ScheduleError, match=r"tick \d+, stage \d: decoder \w+\(\d, \d\) is "):
        place_microbatches(scattered_load(2)[1], steps[1])


def test_groups_that_know_their_own_media_alone_run_the_schedule_of_all() -> None:
    """Each of two groups has the media of one row, and is told what those of the other feed."""
    batches, program = scattered_load(3)[1], step().program
    follow = program.adaptive_schedules
    assert follow is not None
    rows = dict.fromkeys(MEDIA, range(ROWS))

    def planned(
        own: list[PackedBatch], among: HostGroupExchange = SINGLE_GROUP
    ) -> tuple[Any, Any, Any]:
        return place_independent_microbatches(program, follow, own, rows, rows, ROWS, among)

    groups, fed = [of_row(batches, row) for row in range(ROWS)], list[Mapping[str, Consumers]]()

    def overheard(feeds: Mapping[str, Consumers]) -> Mapping[str, Consumers]:
        fed.append(feeds)
        return feeds

    def told(feeds: Mapping[str, Consumers]) -> Mapping[str, Consumers]:
        assert feeds in fed
        return {name: feeds_of_all([own[name] for own in fed]) for name in feeds}

    for own in groups:
        planned(own, HostGroupExchange(overheard))
    tables, moved, arrays = planned(batches)
    assert len(fed) == ROWS
    for row, own in enumerate(groups):
        found = planned(own, HostGroupExchange(told))
        assert found[0] is tables
        for name in MEDIA:
            ids = [part[name].segment_ids for part in (found[2], arrays)]
            assert ids[0].shape == ids[1].shape
            np.testing.assert_array_equal(ids[0][:, row], ids[1][:, row])
            for mine, of_all in zip(found[1], moved, strict=True):
                runs = of_all.runs[name]
                np.testing.assert_array_equal(mine.runs[name], runs[runs[:, 0] == row])


def of_row(batches: list[PackedBatch], row: int) -> list[PackedBatch]:
    """Microbatches that list the media of one row alone."""

    def own(listed: Mapping[str, np.ndarray] | None) -> Mapping[str, np.ndarray]:
        assert listed is not None
        return {name: media[media[:, 0] == row] for name, media in listed.items()}

    return [replace(batch, runs=own(batch.runs), places=own(batch.places)) for batch in batches]


def test_batches_without_places_are_refused() -> None:
    batches = [replace(batch, places=None) for batch in scattered_load(1)[1]]
    with pytest.raises(ValueError, match=r"needs batches that list the runs and the places"):
        place_microbatches(batches, step())


def test_the_frame_has_the_slots_of_full_load() -> None:
    program = step().program
    assert isinstance(program, PipelineProgram)
    standing = ScheduleBounds.of_schedule(program.full_load_schedule, single_tasks=True)
    for name, own in standing.sources.items():
        assert program.bounds.modules[name].sizes.saved == own.sizes.saved
        assert program.bounds.modules[name].slots == own.slots


def test_given_tables_are_taken_whatever_the_load() -> None:
    """Encoders then have the microbatches of the decoder, for which nobody asks where media lie."""
    own, batches = step(), scattered_load(1)[1]
    without = [replace(batch, places=None) for batch in batches]
    with pytest.raises(ValueError, match="the runs and the places"):
        place_batch(without, own)
    assert place_batch(without, own, tables=own.program.placed_schedule).microbatches == {}
    assert {*place_batch(batches, own).microbatches} == {*MEDIA}

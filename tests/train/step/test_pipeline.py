"""A pipeline computes what one device computes: the loss and every gradient leaf."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache, reduce
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from mllm_jax.check.synthetic import scatter_rows, synthetic_batch
from mllm_jax.check.verify import compare_gradients, initial_parameters, loss_and_gradients
from mllm_jax.compile.hlo import parse_hlo
from mllm_jax.config.pipeline_plan import PipelinePlan
from mllm_jax.models.freeze import FrozenParameters
from mllm_jax.models.model_config import ModelConfig
from mllm_jax.models.module_rows import NEXT_TOKEN
from mllm_jax.train.step.batch_placement import place_microbatches
from mllm_jax.train.step.build import build_step
from mllm_jax.train.step.pipeline import PipelineProgram
from scheduling.lowering.bounds import ScheduleBounds
from scheduling.lowering.lower import lower_schedule
from scheduling.schedules.backbone_schedules import (
    gpipe_schedule,
    interleaved_schedule,
    zero_bubble_schedule,
)
from scheduling.schedules.bubbles import place_modules
from scheduling.schedules.costs import ChunkCosts, TaskCosts
from scheduling.schedules.schedule import Schedule
from scheduling.schedules.tasks import ModuleStages, Task
from sharding.exchange_kinds import EXCHANGES, Exchanges
from sharding.grid import JointGrid
from sharding.plan import ParallelPlan, PlanError, list_factorizations
from sharding.stages import StageViews
from tests.scheduling.placing import at_random, naive, with_prologue
from tests.train.models import small_model
from tests.train.step.gradients import CompiledOnce

ROWS, TOKENS, BUDGETS, MOST = 2, 24, {"vision": 16, "audio": 32}, 9
LAYERS = {"decoder": 4, "vision": 4, "audio": 6}
ENCODERS = ("vision", "audio")


@dataclass(frozen=True)
class Case:
    """A pipelined step of the small model.

    Attributes:
        schedule: with the encoders' pieces.
        placement: how the encoders were placed, for the report of a failure.
        data, context, tensor, fsdp: the decoder's other degrees; an encoder without stages uses
            the context ranks for rows.
        split: encoders that use the decoder's tensor ranks for rows, too.
        sharded: encoders have fsdp where they otherwise have data.
        order: seed of the order of encoder rows; none for rows where their samples are.
        still: the decoder is frozen.
        adapted: parts of which adapters alone train.
        family: of the images' encoder.
        own: plans of encoders that have others.
        exchanges: of the encoders' outputs.
    """

    schedule: Schedule = field(repr=False)
    placement: str = "naive"
    remat: str = "full"
    data: int = 1
    fsdp: int = 1
    tensor: int = 1
    context: int = 1
    split: tuple[str, ...] = ()
    sharded: bool = False
    gather: str = "step"
    co_issue: bool = True
    order: int | None = None
    still: bool = False
    adapted: tuple[str, ...] = ()
    family: str = "siglip"
    own: Mapping[str, ParallelPlan] = field(default_factory=dict)
    exchanges: Exchanges = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(own.name for own in self.schedule.sources)

    @property
    def frozen(self) -> FrozenParameters:
        frozen = ["decoder"] * self.still
        for cut in self.schedule.sources:
            if cut.first_backward > 0:
                frozen.append(cut.name)
            if not cut.trains:
                frozen.append(f"{cut.name}.connector")
        return FrozenParameters.from_config(frozen, self.adapted)

    @property
    def plans(self) -> dict[str, ParallelPlan]:
        stages, rows = self.schedule.stages, self.data * self.fsdp
        inner = {"context": self.context, "tensor": self.tensor}
        decoder = ParallelPlan(data=self.data, fsdp=self.fsdp, stage=stages, **inner)
        plans = {"decoder": decoder}
        for cut in self.schedule.sources:
            own = stages // cut.stages
            batch = "fsdp" if self.sharded else "data"
            if cut.stages > 1:
                degrees = {batch: rows * own, "stage": cut.stages, **inner}
            elif cut.name in self.split:
                degrees = {batch: rows * own * decoder.sequence}
            else:
                degrees = {batch: rows * own * self.context, "tensor": self.tensor}
            plans[cut.name] = ParallelPlan(**degrees)
        return {**plans, **self.own}


@cache
def model(names: tuple[str, ...], family: str, remat: str = "layer") -> ModelConfig:
    values = small_model(vision=family, remat=remat).model_dump(mode="json")
    # Padded by every plan, and copied by tensor and by context ranks.
    values["decoder"] |= {"layers": LAYERS["decoder"], "vocab": 47, "kv_heads": 1}
    values["encoders"] = {
        name: tower | {"layers": LAYERS[name]}
        for name, tower in values["encoders"].items()
        if name in names
    }
    whole = ModelConfig.model_validate(values)
    targets = [
        "decoder.layers.*",
        "decoder.lm_head",
        *(f"{name}.*" for name in names if name == "vision"),
    ]
    return whole.with_adapters(targets, rank=2, scale=2.0)


@cache
def parameters(names: tuple[str, ...], family: str) -> Any:
    return initial_parameters(model(names, family), seed=0)


def microbatches(names: tuple[str, ...], family: str, count: int, weighted: int) -> list[Any]:
    """`count` batches, of which those from `weighted` on have no targets."""
    own = model(names, family)
    batches = [synthetic_batch(own, ROWS, TOKENS, BUDGETS, seed=i) for i in range(count)]
    for batch in batches[weighted:]:
        batch.text_rows.targets[NEXT_TOKEN].weights[:] = 0
    return batches


@cache
def reference(names: tuple[str, ...], family: str, count: int) -> tuple[np.ndarray, Any]:
    """One device's loss and gradients of `count` microbatches.

    The others are there without targets, so that one program serves all counts.
    """
    found: tuple[np.ndarray, Any] = single(names, family)(microbatches(names, family, MOST, count))
    return found


@cache
def single(names: tuple[str, ...], family: str) -> CompiledOnce:
    plans = {name: ParallelPlan() for name in ("decoder", *names)}
    return CompiledOnce.under(model(names, family), plans, parameters(names, family))


def run(case: Case, observe: Any = None) -> tuple[np.ndarray, Any]:
    plan = PipelinePlan(case.schedule, gather=case.gather, co_issue=case.co_issue, observe=observe)
    count, own = case.schedule.microbatches, model(case.names, case.family, case.remat)
    batches = microbatches(case.names, case.family, count, count)
    if case.order is not None:
        batches = [scatter_rows(batch, own, case.order + i) for i, batch in enumerate(batches)]
    return loss_and_gradients(
        own,
        case.plans,
        parameters(case.names, case.family),
        batches,
        plan,
        case.frozen,
        case.exchanges,
    )


def check(case: Case) -> None:
    loss, expected = reference(case.names, case.family, case.schedule.microbatches)
    result = compare_gradients(run(case), (loss, case.frozen.partition(expected)[0]))
    assert result.loss_error < 1e-6, result
    assert max(result.worst.values()) < 2e-5, result


COSTS = TaskCosts(
    4.0,
    8.0,
    1.0,
    {name: ChunkCosts((1.0,) * 6, (2.0,) * 6) for name in ENCODERS},
    more={"weights": 4.0},
)


def placed(decoder: Schedule, cuts: tuple[ModuleStages, ...], placement: str) -> Schedule:
    if placement == "naive":
        return naive(decoder, cuts)
    if placement == "random":
        return at_random(naive(decoder, cuts), seed=decoder.microbatches)
    where: Any = placement
    costs = replace(
        COSTS,
        sources={
            cut.name: ChunkCosts(
                (1.0,) * cut.chunks,
                tuple(2.0 * (chunk >= cut.first_backward) for chunk in range(cut.chunks)),
            )
            for cut in cuts
        },
    )
    return place_modules(decoder, cuts, costs, where)


@st.composite
def encoder_cuts(
    draw: st.DrawFn, stages: int, microbatches: int, placement: str
) -> tuple[ModuleStages, ...]:
    cuts = []
    for name in draw(st.sampled_from([ENCODERS, ENCODERS[:1]])):
        own = [n for n in range(1, stages + 1) if stages % n == 0 and LAYERS[name] % n == 0]
        own = [1] if placement == "first_stage" else own
        count = draw(st.sampled_from(own))
        pieces = draw(
            st.sampled_from([n for n in (1, 2, 3, 4) if n % count == 0 and LAYERS[name] % n == 0])
        )
        backward = draw(st.sampled_from([pieces, pieces, 1, 0]))
        works_ahead = backward == 0 and placement in ("bubbles", "naive", "random")
        ahead = draw(st.integers(0, microbatches)) if works_ahead else 0
        cuts.append(
            ModuleStages(name, count, pieces, first_backward=pieces - backward, prefetch=ahead)
        )
    return tuple(cuts)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    stages, chunks = draw(st.sampled_from([1, 2, 2, 3, 4])), draw(st.integers(1, 3))
    count = draw(st.integers(1, MOST))
    decoder = draw(
        st.sampled_from(
            [
                interleaved_schedule(stages, chunks, count),
                gpipe_schedule(stages, chunks, count),
                zero_bubble_schedule(stages, chunks, count),
            ]
        )
    )
    placement = draw(st.sampled_from(["bubbles", "prologue", "first_stage", "random", "naive"]))
    cuts = draw(encoder_cuts(stages, count, placement))
    tensor = draw(st.sampled_from([1, 2]))
    context = draw(st.sampled_from([1, 2] if stages * tensor <= 4 else [1]))
    inner = context * tensor
    rows = draw(st.sampled_from([1, 2] if stages * inner <= 4 and context == 1 else [1]))
    batch = draw(st.sampled_from(["data", "fsdp"]))
    gather = draw(st.sampled_from(["step", "layer"]))
    case = Case(
        draw(with_prologue(placed(decoder, cuts, placement))),
        placement,
        draw(st.sampled_from(["full", "layer", "none"])),
        data=rows if batch == "data" else 1,
        fsdp=rows if batch == "fsdp" else 1,
        tensor=tensor,
        context=context,
        split=draw(st.sampled_from([(), ("vision",)])) if inner * rows <= ROWS else (),
        # Widths of parameters are powers of two.
        sharded=gather == "step" and stages != 3 and draw(st.booleans()),
        gather=gather,
        co_issue=draw(st.booleans()),
        order=draw(st.none() | st.integers(0, 9)),
        still=draw(st.booleans()),
        adapted=draw(st.sampled_from([(), ("decoder",), ("vision.connector",)])),
        family=draw(st.sampled_from(["siglip", "clip"])),
        exchanges={name: draw(st.sampled_from(EXCHANGES)) for name in ENCODERS},
    )
    names = draw(st.sets(st.sampled_from(case.names)))
    others = [cut for cut in case.schedule.sources if cut.name in names]
    return replace(case, own={cut.name: draw(own_plans(case, cut)) for cut in others})


def own_plans(case: Case, cut: ModuleStages) -> st.SearchStrategy[ParallelPlan]:
    """All plans that an encoder can have beside the decoder's, but for context above 2."""
    decoder = case.plans["decoder"]
    found = []
    for data, fsdp, context, tensor in list_factorizations(decoder.devices // cut.stages, 4):
        own = {"data": data, "fsdp": fsdp, "context": context, "tensor": tensor}
        plan = ParallelPlan(**own, stage=cut.stages)
        inside = plan.batch * cut.stages / case.schedule.stages
        divides = 8 % plan.sequence == 0 and 16 % fsdp == 0
        if divides and context <= 2 and inside <= ROWS and stands(case, cut.name, plan):
            found.append(plan)
    return st.sampled_from(found)


def stands(case: Case, name: str, plan: ParallelPlan) -> bool:
    try:
        StageViews.build(JointGrid.build(case.plans | {name: plan}), case.gather)
    except PlanError:
        return False
    return True


def all_before(schedule: Schedule) -> Schedule:
    """`schedule` with all ticks before the decoder's first in its prologue."""
    return replace(schedule, prologue=schedule.span.start)


VISION, AUDIO = ModuleStages("vision", chunks=2), ModuleStages("audio", 2, 2)
AHEAD = replace(AUDIO, first_backward=2, prefetch=3)
SUMMED: Exchanges = dict.fromkeys(ENCODERS, "reduce_scatter")
#: Every example takes half a minute: no time for shrinking.
QUIET: dict[str, Any] = {
    "suppress_health_check": list(HealthCheck),
    "phases": (Phase.explicit, Phase.reuse, Phase.generate),
}


@pytest.mark.parametrize(
    ("schedule", "options"),
    [
        (
            all_before(placed(interleaved_schedule(2, 2, 3), (VISION, AUDIO), "bubbles")),
            {"remat": "none", "context": 2},
        ),
        pytest.param(
            placed(
                interleaved_schedule(2, 1, 5), (replace(VISION, first_backward=1), AHEAD), "bubbles"
            ),
            {"tensor": 2, "split": ("vision",), "still": True},
            marks=pytest.mark.slow,
        ),
        pytest.param(
            all_before(placed(gpipe_schedule(2, 1, 3), (VISION, AUDIO), "random")),
            {"remat": "layer", "fsdp": 2, "sharded": True, "co_issue": False, "order": 1}
            | {"exchanges": {"vision": "gather", "audio": "all_to_all"}},
            marks=pytest.mark.slow,
        ),
        pytest.param(
            placed(interleaved_schedule(2, 1, 3), (VISION, AUDIO), "bubbles"),
            {"context": 2, "order": 2, "family": "clip", "exchanges": SUMMED},
            marks=pytest.mark.slow,
        ),
        pytest.param(
            all_before(placed(interleaved_schedule(2, 1, 3), (VISION, AHEAD), "bubbles")),
            {
                "tensor": 2,
                "adapted": ("decoder", "vision"),
                "exchanges": SUMMED,
                "own": {
                    "vision": ParallelPlan(data=2, context=2),
                    # Stages of its own, and rows where the decoder has tensor ranks.
                    "audio": ParallelPlan(fsdp=2, stage=2),
                },
            },
            marks=pytest.mark.slow,
        ),
        pytest.param(
            placed(zero_bubble_schedule(2, 1, 3), (VISION, AUDIO), "bubbles"),
            {"tensor": 2, "remat": "none", "adapted": ("decoder",)},
            marks=pytest.mark.slow,
        ),
        pytest.param(
            placed(interleaved_schedule(2, 1, 3), (VISION, AUDIO), "bubbles"),
            {
                "fsdp": 2,
                "context": 2,
                "order": 3,
                "own": {
                    # Across the decoder's fsdp, around its stages.
                    "vision": ParallelPlan(fsdp=2, context=2, tensor=2),
                    "audio": ParallelPlan(stage=2, context=2, tensor=2),
                },
            },
            marks=pytest.mark.slow,
        ),
    ],
    ids=("bubbles", "frozen", "random", "released", "inside", "adapted", "around"),
)
def test_loss_and_gradients_equal_one_device(schedule: Schedule, options: dict[str, Any]) -> None:
    check(Case(schedule, **options))


@pytest.mark.slow
@pytest.mark.timeout(7200)
@settings(max_examples=60, derandomize=False, **QUIET)
@given(case=cases())
def test_many_pipelines_equal_one_device(case: Case) -> None:
    check(case)


@pytest.mark.slow
@pytest.mark.parametrize("co_issue", [True, False])
def test_one_compiled_step_runs_other_schedules(co_issue: bool) -> None:
    """Encoder work anywhere, on other stages and slots, without another compilation."""
    decoder, cuts = interleaved_schedule(2, 2, 3), (VISION, AUDIO)
    schedules = [placed(decoder, cuts, "bubbles"), all_before(placed(decoder, cuts, "prologue"))]
    schedules += [at_random(schedules[0], seed) for seed in (1, 2)]
    programs = [lower_schedule(schedule, "layer") for schedule in schedules]
    every = [ScheduleBounds.of_schedule(program, single_tasks=not co_issue) for program in programs]
    bounds = replace(reduce(ScheduleBounds.union_with, every), kinds=every[0].kinds)
    plan = PipelinePlan(
        schedules[0],
        co_issue=co_issue,
        bounds=bounds.without_order(max(own.ticks for own in every)),
    )
    case = Case(schedules[0], "bubbles", "layer", tensor=2)
    step = build_step(model(case.names, case.family, "layer"), case.plans, plan)
    assert isinstance(step.program, PipelineProgram)
    own = step.form.to_stored(parameters(case.names, case.family))
    expected = reference(case.names, case.family, decoder.microbatches)
    batches = microbatches(case.names, case.family, *[decoder.microbatches] * 2)
    for program in programs:
        grads, loss = step.gradients(
            own, place_microbatches(batches, step, None, step.program.place_schedule(program))
        )
        found = np.asarray(loss), jax.tree.map(np.asarray, step.form.to_canonical(grads))
        result = compare_gradients(found, expected)
        assert result.loss_error < 1e-6, result
        assert max(result.worst.values()) < 2e-5, result
    assert len({program.schedule for program in programs}) == len(programs)


@pytest.mark.slow
def test_the_executor_runs_exactly_the_table() -> None:
    """Every device reports every fused task of its stage, at its tick, and nothing else.

    A fused task of a rare kind is reported in parts.
    """
    schedule = at_random(naive(interleaved_schedule(2, 3, 2), (AUDIO,)), seed=3)
    seen: dict[tuple[bool, int, int], list[tuple[Task, ...]]] = defaultdict(list)

    def observe(end: bool, device: int, tick: int, tasks: tuple[Task, ...]) -> None:
        seen[end, device, tick].append(tasks)

    # Four layers over six runs, with residuals in buffers: observing changes neither.
    run(Case(schedule, remat="none", tensor=2), observe)
    tasks = {key: [task for part in parts for task in part] for key, parts in seen.items()}
    assert sum(map(len, seen.values())) < 1.1 * len(seen), "many parts"
    expected = {
        (end, 2 * stage + rank, tick): list(fused)
        for end in (False, True)
        for rank in range(2)
        for tick, row in enumerate(schedule.ticks)
        for stage, fused in enumerate(row)
    }
    assert tasks == expected


def test_buffers_are_not_copied_between_tasks() -> None:
    """Buffers that backwards read and forwards write stay in place."""
    case = Case(
        placed(interleaved_schedule(2, 1, 5), (VISION,), "bubbles"), remat="layer", co_issue=False
    )
    count, plan = case.schedule.microbatches, PipelinePlan(case.schedule, co_issue=False)
    step = build_step(model(case.names, case.family, "layer"), case.plans, plan)
    batch = place_microbatches(microbatches(case.names, case.family, count, count), step)
    compiled = step.gradients.lower(step.abstract_state["params"], batch).compile()
    assert isinstance(step.program, PipelineProgram)
    program = step.program.full_load_schedule
    slots = {sizes.saved for sizes in program.sizes.values()}
    assert min(slots) > 2, "a layer's loop may copy what is not in a ring buffer"
    copies = [
        instruction.shape
        for computation in parse_hlo(compiled.as_text() or "").computations.values()
        for instruction in computation.instructions
        if instruction.opcode == "copy" and "broadcast" not in instruction.inputs  # their zeros
    ]
    shapes = [[int(n) for n in re.findall(r"\d+", shape.partition("{")[0])[1:]] for shape in copies]
    assert not [shape for shape in shapes if len(shape) > 3 and shape[0] in slots]

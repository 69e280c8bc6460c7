"""The predicted memory of a step against its state, its batch and its compiled program."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import pytest

from benchmarks.pipeline import compile_gradients, with_section
from mllm_jax.check.synthetic import synthetic_batch
from mllm_jax.compile.target import training_batch
from mllm_jax.config.configured_step import build_strategy, configure_step, on_platform
from mllm_jax.config.hardware import load_hardware
from mllm_jax.config.load import ExperimentConfig, load_config
from mllm_jax.plan.memory import predict_memory
from mllm_jax.plan.traced import traced_workload
from mllm_jax.train.experiment import Experiment
from mllm_jax.train.step.batch_placement import place_microbatches
from mllm_jax.train.step.build import build_gradient_step
from mllm_jax.train.step.pipeline import PipelineProgram
from scheduling.costs.memory import StepMemory, step_memory
from scheduling.lowering.lowered import BufferSizes
from scheduling.search.outcome import buffer_sizes
from tests.configs import ROOT, config

#: Tensor degrees, without experts.
SPLITS = [(1, False), (2, False)]
STAGES: dict[str, Any] = {
    "parallel__decoder": {"stage": 2, "fsdp": 2},
    "parallel__encoders": {"vision": {"data": 2, "stage": 2}, "audio": {"fsdp": 4}},
    "model__decoder__layers": 2,
    "model__encoders__vision__layers": 2,
    "train__accumulate": 4,
}


BY_LAYER = STAGES | {
    "parallel__encoders": {"vision": {"data": 2, "stage": 2}, "audio": {"data": 4}},
    "schedule__fsdp_gather": "layer",
}


def test_without_gradient_caching_the_activations_of_all_microbatches_are_kept() -> None:
    towers, keys = ROOT / "configs" / "slices" / "towers.yaml", ["parallel.groups={}"]
    kinds = {}
    for cached in ("true", "false"):
        more = [*keys, "train.accumulate=4", f"train.gradient_caching={cached}"]
        kinds[cached] = predict_memory(load_config(towers, more), load_hardware("h100")).by_kind
    assert kinds["false"]["backbone"] == 4 * kinds["true"]["backbone"] > 0
    assert kinds["false"]["sources"] == 4 * kinds["true"]["sources"] > 0
    assert kinds["false"]["work"] == kinds["true"]["work"]


def predicted(experiment: Experiment) -> StepMemory:
    """The bytes that the cost model predicts."""
    own = on_platform(experiment.config, "cpu")
    splits = {(plan.tensor, plan.expert > 1) for plan in own.parallel.plans.values()}
    sizes, pieces, program = None, {}, experiment.step.program
    if isinstance(program, PipelineProgram):
        tables = program.full_load_schedule
        sizes = tables.sizes
        pieces = {own.name: own.chunks // own.stages for own in program.schedule.sources}
    chosen = build_strategy(own, "gpu").with_source_chunks(pieces)
    return step_memory(traced_workload(own, splits), chosen, load_hardware("h100"), sizes)


def batch(experiment: Experiment) -> Any:
    """A step's rows, as full as they can be."""
    own = experiment.config
    budgets = {name: own.data.budgets[name] for name in own.model.encoders}
    rows, tokens = own.data.rows, own.data.budgets["tokens"]
    seeds = range(own.train.accumulate)
    return place_microbatches(
        [synthetic_batch(own.model, rows, tokens, budgets, seed) for seed in seeds], experiment.step
    )


def local(tree: Any) -> int:
    """Bytes of one device's shards, without scalars."""
    leaves = [leaf for leaf in jax.tree.leaves(tree) if leaf.ndim]
    return sum(
        math.prod(leaf.sharding.shard_shape(leaf.shape)) * leaf.dtype.itemsize for leaf in leaves
    )


@pytest.mark.parametrize(
    "own",
    [
        config(),
        config(parallel__encoders__vision={"fsdp": 4}, train__freeze=["vision", "audio"]),
        config(**STAGES),
        config(train__optimizer={"kind": "muon"}),
    ],
    ids=["plain", "frozen", "stages", "muon"],
)
def test_state_and_batch_take_what_is_predicted(own: ExperimentConfig) -> None:
    experiment = Experiment.build(own)
    memory, state = predicted(experiment), experiment.step.abstract_state
    assert memory.parameters == local(state["params"])
    # Of a frozen encoder the connector trains, whose moments are left out.
    assert memory.optimizer <= local(state["optimizer"]) <= 2 * memory.parameters
    if not own.train.freeze:
        assert memory.optimizer == local(state["optimizer"])
    # Routes of the exchange are not counted; audio is counted with the sizes that images have.
    assert memory.batch == pytest.approx(local(batch(experiment)), rel=0.07)


def test_what_is_frozen_has_no_gradients_and_keeps_less() -> None:
    def memory(*freeze: str) -> StepMemory:
        own = on_platform(config(train__freeze=list(freeze), model__remat="none"), "cpu")
        return step_memory(
            traced_workload(own, SPLITS), build_strategy(own, "gpu"), load_hardware("h100")
        )

    whole, encoders, decoder = memory(), memory("vision", "audio"), memory("decoder")
    assert encoders.sources == 0 < whole.sources == decoder.sources
    assert 0 < decoder.backbone < whole.backbone == encoders.backbone
    assert encoders.gradients + decoder.gradients == whole.gradients


def test_an_update_takes_the_room_of_the_tasks_before_it_takes_more() -> None:
    own = on_platform(config(), "cpu")
    workload, chosen, chip = (
        traced_workload(own, SPLITS),
        build_strategy(own, "gpu"),
        load_hardware("h100"),
    )

    def memory(workspace_per_element: int, moments: int = 1) -> StepMemory:
        changed = replace(workload, workspace_per_element=workspace_per_element, moments=moments)
        return step_memory(changed, chosen, chip)

    matrices = memory(0, moments=2).optimizer - memory(0, moments=1).optimizer
    none, little, much = memory(0), memory(1), memory(1000)
    assert none.update == little.update == 0
    assert much.update + much.backbone + much.sources + much.work == 1000 * matrices
    assert much.total - much.update == none.total


@pytest.mark.parametrize(
    ("changes", "casts"),
    [
        ({"train__accumulate": 2}, True),
        ({"train__accumulate": 2, "model__dtype": "float32"}, False),
        ({"train__accumulate": 1}, True),
        (BY_LAYER, True),
        (STAGES, "vision"),  # The one that is not gathered for the whole step.
    ],
    ids=["plain", "float32", "once", "by_layer", "by_step"],
)
def test_tpus_hold_a_cast_copy_of_parameters(changes: dict[str, Any], casts: bool | str) -> None:
    own = on_platform(config(**{"model__dtype": "bfloat16"} | changes), "cpu")
    workload, chosen = traced_workload(own, SPLITS), build_strategy(own, "gpu")
    sizes = {"decoder": BufferSizes(1, 1, 1)}
    sizes |= {name: BufferSizes(1, 1, 1, 0, 1, 1) for name in own.model.buckets}
    given = sizes if chosen.backbone.stage > 1 else None
    tpu, gpu = (
        step_memory(workload, chosen, load_hardware(chip), given) for chip in ("v5p", "h100")
    )
    assert gpu.cast == 0
    assert gpu.gradients == tpu.gradients
    assert tpu.total - gpu.total == pytest.approx(tpu.cast + tpu.work - gpu.work)
    if casts == "vision":
        assert 0 < tpu.cast < tpu.parameters / 2
    else:
        assert tpu.cast == (tpu.parameters / 2 if casts else 0)


@pytest.mark.parametrize("plan", [{"data": 4}, {"data": 2, "fsdp": 2}, {"data": 2, "tensor": 2}])
def test_gpus_hold_gradients_beside_all_that_a_backward_reads(plan: dict[str, int]) -> None:
    """Those of both hidden activations of the MLP, and a whole one of the embedding or the head."""
    alone: dict[str, Any] = {"model__encoders": {}, "parallel__encoders": {}}
    alone |= {"data__budgets": {"tokens": 64, "segments": 8}, "model__dtype": "bfloat16"}
    own = on_platform(config(**alone, parallel__decoder=plan), "cpu")
    splits = {(own.parallel.decoder.tensor, False)}
    workload, chosen = traced_workload(own, splits), build_strategy(own, "gpu")
    tpu, gpu = (step_memory(workload, chosen, load_hardware(chip)) for chip in ("v5p", "h100"))
    decoder, degrees = own.model.decoder, own.parallel.decoder
    positions = own.data.rows // degrees.batch * own.data.budgets["tokens"]
    hidden = 2 * positions * decoder.d_ff * 2 / degrees.tensor
    table = 4 * (decoder.vocab or 0) * decoder.d_model if degrees.fsdp > 1 else 0
    assert gpu.work - tpu.work == pytest.approx(hidden + table)


@pytest.mark.slow
def test_the_demo_takes_the_memory_that_is_predicted() -> None:
    experiment = Experiment.build(load_config(ROOT / "configs" / "demo.yaml"))
    step, memory = experiment.step, predicted(experiment)
    compiled = step.update.lower(step.abstract_state, batch(experiment)).compile()
    real = compiled.memory_analysis()
    assert real is not None
    arguments = real.argument_size_in_bytes
    given = memory.parameters + memory.optimizer + memory.batch
    # Muon has one moment, but tables and vectors are AdamW's, which has two.
    assert given == pytest.approx(arguments, rel=0.02)
    assert memory.total == pytest.approx(arguments + real.temp_size_in_bytes, rel=0.1)


@pytest.mark.slow
def test_weight_gradients_apart_take_what_is_predicted() -> None:
    """The bytes that a compiled step takes more than that of 1F1B."""
    own = load_config(ROOT / "configs" / "bench" / "schedules.yaml")
    kinds = [with_section(own, "schedule", kind=kind) for kind in ("1f1b", "zero_bubble")]
    plain, apart = (predict_memory(kind, load_hardware("h100")).total for kind in kinds)
    first, second = (compile_gradients(k, build_gradient_step(k)).temporary_bytes for k in kinds)
    assert apart - plain == pytest.approx(second - first, rel=0.1)


def following(**schedule: Any) -> ExperimentConfig:
    """A pipeline whose encoder has microbatches of its own, four for each of the decoder's."""
    own = load_config(ROOT / "configs" / "bench" / "mixture.yaml")
    own = with_section(own, "data", budgets={**own.data.budgets, "vision": 1024})
    return with_section(own, "schedule", **schedule)


@pytest.mark.parametrize("independent", [True, False])
def test_the_slots_of_the_compiled_frame_are_counted(independent: bool) -> None:
    budgets = {"vision": 256} if independent else {}
    own = following(independent_microbatches=independent, independent_budgets=budgets)
    program = build_gradient_step(own).program
    assert isinstance(program, PipelineProgram)
    frame, lowered = program.bounds, configure_step(own)
    sizes = frame.sizes
    assert buffer_sizes(lowered.workload, program.schedule, lowered.strategy) == sizes
    standing = program.full_load_schedule.sizes["vision"]
    assert (frame.sizes["vision"].output_buffer > standing.output_buffer) == independent


@pytest.mark.parametrize(
    "file", sorted((ROOT / "configs" / "omni").glob("*.yaml")), ids=lambda own: own.stem
)
def test_recipes_that_follow_a_mixture_have_room_for_all_that_their_budgets_allow(
    file: Path,
) -> None:
    own = load_config(file)
    assert own.schedule.hardware is not None
    chip = load_hardware(own.schedule.hardware)
    assert predict_memory(own, chip).total <= chip.usable_memory


@pytest.mark.slow
def test_slots_to_spare_take_what_is_predicted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bytes that a compiled step takes more than one without them."""
    own, found = following(), []
    for spare in (0, 4):
        monkeypatch.setattr("scheduling.lowering.bounds.SLACK_SLOTS", spare)
        step = build_gradient_step(own)
        lowered = step.gradients.lower(step.abstract_state["params"], training_batch(own, step))
        real = lowered.compile().memory_analysis()
        assert real is not None
        found.append((real.temp_size_in_bytes, predict_memory(own, load_hardware("h100")).total))
    (compiled, told), (roomy, told_roomy) = found
    assert told_roomy - told == pytest.approx(roomy - compiled, rel=0.02)

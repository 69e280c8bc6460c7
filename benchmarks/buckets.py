"""Benchmark of length buckets: short media whole and long ones split, or all in one way.

A mixture with a heavy tail, of lengths up to 32 times the median, is distributed by the planner of
training runs and goes through one encoder in the three ways of `benchmarks.bucket_variants`.
Steps are compiled and timed on the local devices; for many accelerators planned steps are
simulated. Both are predicted before, from lengths and from the cost of the rows of each bucket.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.bucket_variants import (
    WAYS,
    BucketVariant,
    Found,
    make_sample,
    median_positions,
    simulate_variants,
    single_bucket,
)
from benchmarks.pipeline import PrintLine, init_parameters, with_section
from data.batch import PackedBatch
from data.loading.assemble import BatchArrays
from data.planning.bucket_thresholds import bucket_seconds
from data.planning.layout import media_of_plan, runs_of_plan, used_lengths
from data.planning.packing import make_capacity
from data.planning.stream import MicrobatchPlan
from data.rows.spec import BucketCost
from data.sample import Example, Lengths, MediumLengths
from mllm_jax.calibrate.timing import median_seconds
from mllm_jax.config.buckets import bucket_cost
from mllm_jax.config.inputs import media_specs, token_spec
from mllm_jax.config.load import ExperimentConfig, load_config
from mllm_jax.runtime.folder import prepare_folder
from mllm_jax.train.step.batch_placement import place_microbatches
from mllm_jax.train.step.build import build_gradient_step

#: Lengths of the media of a step that is timed, in medians.
MEDIANS = (*[1] * 12, 2, 2, 32)
#: Timed repetitions of a step.
REPETITIONS = 9
#: The configuration of the simulated steps.
SIMULATED = Path(__file__).resolve().parents[1] / "configs" / "bench" / "buckets_64.yaml"

#: What runs a planned step.
Runs = Callable[[MicrobatchPlan], Callable[[], Any]]


def bench_buckets(config: ExperimentConfig, print_line: PrintLine) -> dict[str, Any]:
    """Seconds of a step by `WAYS`, timed here and simulated for the devices of `SIMULATED`.

    A simulated step is drawn as `buckets.png` in the run's folder.
    """
    folder = config.run.path
    prepare_folder(folder)
    drawn = simulate_variants(load_config(SIMULATED), folder / "buckets.png")
    return {"real": time_steps(config, print_line), "simulated": drawn}


def time_steps(config: ExperimentConfig, print_line: PrintLine) -> Found:
    """Seconds of compiled steps on the devices that are here, predicted from those of full rows.

    Rows with media are computed whole: of each way alone, these are all rows.
    """
    print_line("compiling steps with buckets, and timing full rows of each")
    text, full_rows, costs, run_buckets = calibrate_buckets(config)
    (step,) = BucketVariant.from_config(config, "buckets", costs).plan_steps(
        of_medians(config, MEDIANS), 1
    )
    rows = config.data.rows
    predicted = {
        "buckets": text
        + sum(bucket_seconds(media, costs[n]) for n, media in by_bucket(config, step)),
        "short": text + full_rows,
        "long": text + costs["long"].fixed + rows * costs["long"].row_seconds,
    }
    runs = {"buckets": run_buckets(step)}
    for name in WAYS[1:]:
        print_line(f"{name}: compiling")
        way = BucketVariant.from_config(single_bucket(config, name), name, {})
        (plan,) = way.plan_steps(of_medians(config, MEDIANS), 1)
        runs[name] = compile_gradients_of(way, plan)(plan)
    for name, seconds in predicted.items():
        print_line(f"{name}: {seconds:.3f} s predicted")
    print_line("timing the steps in turns")
    seconds_of = median_seconds(runs, REPETITIONS)
    return {n: {"seconds": seconds_of[n], "predicted_seconds": predicted[n]} for n in WAYS}


def of_medians(config: ExperimentConfig, lengths: Sequence[int]) -> list[Lengths]:
    """Samples with a medium each, of so many medians."""
    (encoder,) = {spec.module for spec in media_specs(config.model)}
    (reduction,) = {spec.reduction for spec in media_specs(config.model)}
    return [
        make_sample(config.model.backbone, encoder, n * median_positions(config), reduction)
        for n in lengths
    ]


def by_bucket(config: ExperimentConfig, plan: MicrobatchPlan) -> list[tuple[str, np.ndarray]]:
    """Lengths of the media of each bucket in a planned step."""
    used = used_lengths(plan.placements, plan.capacity.specs)
    return [(name, used[name]) for name in config.model.buckets]


def compile_gradients_of(way: BucketVariant, plan: MicrobatchPlan) -> Runs:
    """The compiled gradients of steps that are shaped like a planned one."""
    step = build_gradient_step(way.config)
    params = init_parameters(way.config, step)

    def place_plan(plan: MicrobatchPlan) -> Any:
        return step.prime_batch(params, place_microbatches([batch_of(way, plan)], step))

    program = step.gradients.lower(params, place_plan(plan)).compile()
    return lambda plan: partial(program, params, place_plan(plan))


def batch_of(way: BucketVariant, plan: MicrobatchPlan) -> PackedBatch:
    """All rows of a planned step, with noise for media and text."""
    rng, rows = np.random.default_rng(0), range(way.config.data.rows)
    backbone = way.config.model.backbone
    specs = token_spec(way.config.model), *way.buckets
    capacity = make_capacity(way.config.data.budgets, specs)
    kinds = {spec.name: spec for spec in capacity.media}
    arrays = BatchArrays(dict.fromkeys((backbone, *kinds), rows), capacity)
    for placed in plan.placements:
        count = placed.lengths.total(backbone)
        tokens = rng.integers(0, way.config.model.backbone_config.vocab_size, count)
        weight = np.ones(len(tokens), np.float32)
        words = tokens.astype(np.int32)
        starts = placed.lengths.starts
        arrays.write_text(placed, Example(words, words, weight, {}, starts, backbone))
        for bucket, number in arrays.wanted_media(placed):
            count = kinds[bucket].outputs(placed.lengths.of(bucket)[number].count)
            medium = kinds[bucket].sketch(rng, count)
            noise = rng.normal(size=medium.inputs.shape).astype(np.float32)
            arrays.write_medium(placed, bucket, number, replace(medium, inputs=noise))
    planned = plan.placements, capacity.media
    return replace(arrays.batch, runs=runs_of_plan(*planned), places=media_of_plan(*planned))


def calibrate_buckets(
    config: ExperimentConfig,
) -> tuple[float, float, Mapping[str, BucketCost], Runs]:
    """Seconds of full rows, as long as those of the steps, in programs that have both buckets.

    Returns:
        Seconds of a step without media; of as many whole media of the longest kind as there are
        ranks, one on each; the costs of both buckets; and the program whose rows they are.
    """
    data, encoders, backbone = config.data, config.parallel.others, config.model.backbone
    short = encoders["short"].batch
    rows = {name: data.budgets[name] for name in ("short", "long")}
    longest, full = (
        rows["long"] // median_positions(config),
        rows["short"] // median_positions(config),
    )
    way = BucketVariant.from_config(config, "buckets", {})
    loads: dict[str, list[Lengths]] = {
        "text": [Lengths({backbone: (MediumLengths(median_positions(config)),)})] * short,
        "short": of_medians(config, [full] * short),
        "long": of_medians(config, [longest]),
        "longer": of_medians(config, [longest] * 2),
    }
    plans = {name: way.plan_steps(samples, 1)[0] for name, samples in loads.items()}
    run = compile_gradients_of(way, plans["long"])
    as_long = with_section(config, "data", budgets={**data.budgets, "short": rows["long"]})
    other = BucketVariant.from_config(as_long, "buckets", {})
    (plan,) = other.plan_steps(of_medians(config, [longest] * short), 1)
    runs = {name: run(samples) for name, samples in plans.items()}
    seconds = median_seconds(runs | {"whole": compile_gradients_of(other, plan)(plan)}, REPETITIONS)
    text, row = seconds["text"], seconds["longer"] - seconds["long"]
    fixed, each = max(0.0, seconds["long"] - text - row), seconds["short"] - text
    costs = {
        "short": with_measured_times(bucket_cost(config, "short"), 0.0, each),
        "long": with_measured_times(bucket_cost(config, "long"), fixed, row),
    }
    return text, seconds["whole"] - text, costs, run


def with_measured_times(cost: BucketCost, fixed: float, row: float) -> BucketCost:
    """The cost of a bucket: `fixed` seconds of a step with any media, and `row` of each row."""
    return replace(cost, fixed=fixed, linear=row / cost.row, quadratic=0.0)

"""Media of unlike lengths through one encoder in three ways, planned and simulated.

In two buckets cut by cost (`buckets`), each medium on one rank (`short`), or all media split
over context ranks (`long`). The planner of training runs distributes the steps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.known_lengths import KnownLengths
from data.planning.bucket_thresholds import group_seconds
from data.planning.layout import used_lengths
from data.planning.packing import make_capacity
from data.planning.problem import Ints
from data.planning.stream import BatchPlanner, LoaderState, MicrobatchPlan, TrainingDemand
from data.rows.spec import BucketCost, LengthBucket, RowSpec
from data.sample import Lengths, MediumLengths
from mllm_jax.config.buckets import compute_bucket_cost
from mllm_jax.config.configured_step import configure_step
from mllm_jax.config.hardware import load_hardware
from mllm_jax.config.inputs import bucket_positions, media_specs, token_spec
from mllm_jax.config.load import ExperimentConfig
from mllm_jax.models.work.flops import module_works
from scheduling.costs.estimate import step_times

#: Ways of the media through the encoder.
WAYS = ("buckets", "short", "long")
#: The longest medium, in medians.
TAIL = 32
#: Simulated steps, media of a step for each rank that takes unsplit media, and spread of their
#: lengths (the standard deviation of the logarithm).
STEPS, EACH, SIGMA = 8, 20, 1.25

#: Lengths of the rows of a bucket alone, in longest media.
ROOMS = (1, 12 / 9, 13 / 9, 14 / 9)

#: Seconds of a step and those that were predicted, by way.
Found = dict[str, dict[str, float]]


@dataclass(frozen=True)
class BucketVariant:
    """A configuration whose media go through the encoder in one way.

    Attributes:
        config: the configuration.
        buckets: descriptions of the rows of its buckets, with costs.
        costs: seconds of the media of each bucket; empty for a cut at the longest medium that a row
            of `short` holds.
    """

    config: ExperimentConfig
    buckets: tuple[RowSpec, ...]
    costs: Mapping[str, BucketCost]

    @classmethod
    def from_config(
        cls, config: ExperimentConfig, name: str, costs: Mapping[str, BucketCost]
    ) -> BucketVariant:
        """One of `WAYS` of a configuration that has its buckets alone (`alone`)."""
        ends: dict[str, tuple[int, int | None]] = {name: (0, None)}
        if name == "buckets":
            most = bucket_positions(config, "short")
            ends = {"short": (0, most), "long": (most, None)}
        buckets = tuple(
            replace(
                spec,
                bucket=LengthBucket(spec.module, *ends[spec.name], costs.get(spec.name)),
            )
            for spec in media_specs(config.model)
        )
        return cls(config, buckets, costs)

    def plan_steps(self, samples: Sequence[Lengths], steps: int) -> list[MicrobatchPlan]:
        """Steps of a run whose source has these samples."""
        data, seed = self.config.data, self.config.train.seed
        data = data.model_copy(update={"samples": len(samples) // steps})
        capacity, source = (
            make_capacity(data.budgets, [token_spec(self.config.model), *self.buckets]),
            KnownLengths(samples),
        )
        consumer = TrainingDemand(module_works(self.config.model))
        planner = BatchPlanner(source, source, data, capacity, LoaderState(seed), consumer)
        return [planner.plan() for _ in range(steps)]


def single_bucket(
    config: ExperimentConfig, bucket: str, positions: int | None = None
) -> ExperimentConfig:
    """`config` with one of its buckets alone, which takes all media.

    Args:
        positions: input positions of the bucket's rows; None for those of `long`.
    """
    (name, encoder), *_ = config.model.others.items()
    encoders = {name: encoder.model_copy(update={"buckets": {bucket: None}})}
    budgets = {key: config.data.budgets[key] for key in ("tokens", "segments")}
    budgets[bucket] = positions or config.data.budgets["long"]
    plans = {name: config.parallel.plans[name] for name in (config.model.backbone, bucket)}
    return config.model_copy(
        update={
            "model": config.model.with_others(encoders),
            "parallel": config.parallel.with_plans(plans),
            "data": config.data.model_copy(update={"budgets": budgets}),
        }
    )


def make_sample(backbone: str, encoder: str, positions: int, reduction: int) -> Lengths:
    """A sample of one medium, and a token of text for every two of its outputs."""
    tokens, medium = MediumLengths(3 * positions // reduction // 2), MediumLengths(positions)
    return Lengths({backbone: (tokens,), encoder: (medium,)}, {encoder: (0,)})


def median_positions(config: ExperimentConfig) -> int:
    """Input positions of the median; the longest medium has `data.image.max_patches`."""
    return config.data.image.max_patches // TAIL


# ---- simulated -----------------------------------------------------------------------------------


def simulate_variants(config: ExperimentConfig, drawing: Path | None = None) -> Found:
    """Seconds of distributed steps on the configured hardware, the mean over `STEPS` of them.

    The prediction is closed (`bound`), one bucket after the other. In the simulation media are
    assigned, and every device has its rows: the ranks of a group of `long` wait for the last of
    them to end its short media, and all devices wait for all outputs before the decoder begins, and
    at the end of the step. A bucket alone has rows of the length, among `ROOMS`, under which its
    steps are shortest.

    Args:
        drawing: file for a picture of the first step.
    """
    samples, drawn = draw_heavy(config), dict[str, list[Phase]]()
    results: Found = {}
    for name in WAYS:
        rooms = [round(room * config.data.image.max_patches) for room in ROOMS]
        ways = (
            [config] if name == "buckets" else [single_bucket(config, name, room) for room in rooms]
        )
        steps = [_simulate_steps(name, variant_config, samples) for variant_config in ways]
        best = min(steps, key=lambda steps_of_variant: steps_of_variant.metrics["seconds"])
        results[name], drawn[name] = best.metrics, best.first
    if drawing is not None:
        draw_steps(drawn, drawing)
    return results


def lower_bound(lengths: Ints, cost: BucketCost) -> float:
    """Seconds of a bucket without packing and balancing, on which its rows are computed in full.

    Media fill rows to the last position, but no two of more than half a row lie in one; groups have
    equally many rows.
    """
    rows = max(math.ceil(lengths.sum() / cost.row), int(np.count_nonzero(2 * lengths > cost.row)))
    media = float(cost.media_seconds(lengths).sum()) / cost.groups
    return (cost.fixed + math.ceil(rows / cost.groups) * cost.row_seconds + media) * (rows > 0)


#: A module, and when its work begins and ends on each group of devices, in seconds, `[groups]`.
Phase = tuple[str, np.ndarray, np.ndarray]


@dataclass(frozen=True)
class _VariantSteps:
    """Mean measured and predicted seconds of the steps of a variant, and its first step."""

    metrics: dict[str, float]
    first: list[Phase]


def _simulate_steps(
    name: str, config: ExperimentConfig, samples: Sequence[Lengths]
) -> _VariantSteps:
    """The steps of one of `WAYS`, of a configuration that has its buckets alone."""
    assert config.schedule.hardware is not None
    hardware = load_hardware(config.schedule.hardware)
    lowered = configure_step(config, hardware.platform)
    parts = lowered.workload, lowered.chosen, hardware
    buckets = {bucket: compute_bucket_cost(*parts, bucket) for bucket in config.model.buckets}
    decoder, times = compute_bucket_cost(*parts, config.model.backbone), step_times(*parts)
    texts = decoder.row_seconds * config.data.rows / decoder.groups
    ends = times.gather + times.scatter + times.update
    way = BucketVariant.from_config(config, name, buckets)
    plans = way.plan_steps(samples, STEPS)
    used = [used_lengths(plan.placements, plan.capacity.specs) for plan in plans]
    predicted = [sum(lower_bound(sizes[n], cost) for n, cost in buckets.items()) for sizes in used]
    steps = [step_phases(way, plan, texts) for plan in plans]
    seconds = [step[-1][-1].max() for step in steps]
    means = {
        "seconds": ends + float(np.mean(seconds)),
        "predicted_seconds": ends + texts + float(np.mean(predicted)),
    }
    return _VariantSteps(means, steps[0])


def draw_heavy(config: ExperimentConfig) -> list[Lengths]:
    """Samples of all steps: log-normal lengths of media, none above `TAIL` medians."""
    (encoder,) = {spec.module for spec in media_specs(config.model)}
    (reduction,) = {spec.reduction for spec in media_specs(config.model)}
    count = STEPS * EACH * config.parallel.others["short"].batch
    draw = np.random.default_rng(config.train.seed).lognormal(0.0, SIGMA, count)
    outputs = np.rint(np.minimum(draw, TAIL) * median_positions(config) / reduction)
    positions = (int(max(1, n)) * reduction for n in outputs)
    return [make_sample(config.model.backbone, encoder, n, reduction) for n in positions]


def step_phases(way: BucketVariant, plan: MicrobatchPlan, texts: float) -> list[Phase]:
    """One distributed step as its devices run it, without the collectives at its ends.

    Args:
        texts: seconds of the decoder, which computes all of its rows.
    """
    phases_found: list[Phase] = []
    ready = np.zeros(1)
    for bucket_of_variant in way.buckets:
        loads = _group_seconds(way, plan, bucket_of_variant.name)
        begun = _begin_times(ready, len(loads))
        ready = begun + loads
        phases_found.append((bucket_of_variant.name, begun, ready))
    begun = np.full(way.config.parallel.backbone_plan.batch, ready.max())
    return [*phases_found, (way.config.model.backbone, begun, begun + texts)]


def _group_seconds(way: BucketVariant, plan: MicrobatchPlan, bucket: str) -> np.ndarray:
    """Seconds of every group of devices of a bucket, `[groups]`; none without media."""
    media = [
        (row, n)
        for p in plan.placements
        for (row, *_), n in zip(p.media[bucket], p.lengths.counts(bucket), strict=True)
    ]
    cost = way.costs[bucket]
    rows, lengths = np.array(media, np.int64).reshape(-1, 2).T
    groups = rows * cost.groups // way.config.data.rows
    return group_seconds(lengths, groups, rows, cost) + cost.fixed * bool(media)


def _begin_times(ready: np.ndarray, groups: int) -> np.ndarray:
    """When each of `groups` begins: when all of its devices are ready."""
    each = np.repeat(ready, max(1, groups // len(ready)))
    return np.asarray(each.reshape(groups, -1).max(1))


def draw_steps(steps: Mapping[str, list[Phase]], path: Path) -> None:
    """Draw the first step of each way: a line for every device, a color for each module."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 6), layout="constrained")
    devices = max(
        len(begun) for step_of_variant in steps.values() for _, begun, _ in step_of_variant
    )
    colors = {"short": "tab:orange", "long": "tab:red"}
    titles = {"buckets": "two buckets", "short": "whole media alone", "long": "split media alone"}
    for axes, (way, step_of_variant) in zip(
        figure.subplots(len(steps), sharex=True), steps.items(), strict=True
    ):
        for module, begun, ended in step_of_variant:
            height = devices / len(begun)
            name = way if module not in colors else module
            axes.barh(
                (np.arange(len(begun)) + 0.5) * height,
                ended - begun,
                height - (height > 1),
                begun,
                color=colors.get(name, "tab:blue"),
                label=name,
            )
        axes.set(title=titles[way], ylabel="device", ylim=(devices, 0))
    figure.axes[0].legend(loc="lower right")
    figure.axes[-1].set_xlabel("seconds")
    figure.savefig(path)

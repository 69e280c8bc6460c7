"""Seconds of the media of buckets, and where buckets may be cut by them, from a configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from data.processing.processor import Processor, make_processor
from data.rows.spec import BucketCost, LengthBucket, RowSpec
from mllm_jax.config.configured_step import configure_step
from mllm_jax.config.hardware import load_hardware
from mllm_jax.config.inputs import (
    bucket_positions,
    media_specs,
    released_of,
    row_specs,
    target_specs,
    token_spec,
)
from mllm_jax.config.sections import ExperimentConfig
from scheduling.costs.estimate import ModuleTiming
from scheduling.costs.hardware import Hardware
from scheduling.costs.strategy import Strategy
from scheduling.costs.workload import Workload


def planning_specs(config: ExperimentConfig) -> list[RowSpec]:
    """The row specs for the planning of batches: those of the model, with buckets priced.

    The highest cut of buckets by cost is the row of the bucket of short media, as longer media do
    not fit into it. Buckets with thresholds have a cost where `schedule.hardware` is given, as
    their media, too, are distributed over groups of devices and in few rows.

    Raises:
        HardwareError: `schedule.hardware` lacks the type of the activations.
    """
    specs, text = media_specs(config.model), token_spec(config.model)
    shorts = {
        encoder: name
        for encoder, encoder_config in config.model.others.items()
        for name, most in encoder_config.buckets.items()
        if most == "auto"
    }
    if config.schedule.hardware is None or not any(spec.bucket for spec in specs):
        return [text, *specs]
    price = _make_pricing(config)
    priced = [
        _with_cost(config, spec, shorts.get(spec.module), price(spec.name)) if spec.bucket else spec
        for spec in specs
    ]
    return [text, *priced]


def configured_processor(config: ExperimentConfig) -> Processor:
    """The processor of the samples of a run; its buckets have costs once budgets are known.

    Raises:
        DataError: tokenizer or processor cannot be used, or do not fit the model.
    """
    specs = row_specs(config.model) if config.data.auto_budgets else planning_specs(config)
    return make_processor(
        config.data,
        specs,
        config.model.backbone_config.max_positions,
        target_specs(config.model),
        released_of(config.data),
    )


def _with_cost(
    config: ExperimentConfig, spec: RowSpec, short: str | None, cost: BucketCost
) -> RowSpec:
    """A bucket with its cost.

    Args:
        short: the bucket of short media, of an encoder whose buckets are cut by cost.
    """
    assert spec.bucket is not None
    if short is None:
        return replace(spec, bucket=replace(spec.bucket, cost=cost, fixed=True))
    most = bucket_positions(config, short)
    bucket = (
        LengthBucket(spec.module, 0, most, cost)
        if spec.name == short
        else _with_threshold(spec.bucket, most, cost)
    )
    return replace(spec, bucket=bucket)


def _with_threshold(bucket: LengthBucket, most: int, cost: BucketCost) -> LengthBucket:
    return replace(bucket, above=most, cost=cost)


def bucket_cost(config: ExperimentConfig, name: str) -> BucketCost:
    """Seconds of the media of a bucket on `schedule.hardware`, which must be given.

    The cost model gives the seconds of a bucket's tasks at three lengths of a row; they lie on
    a parabola, as linear layers, collectives and the moving of bytes grow with positions, and
    attention with pairs. So context ranks' exchange of heads is in the seconds per position: with
    M bytes of a medium between two layers, an array of them takes M (P-1) / P^2 on each of P links
    (Jacobs et al., arXiv 2309.14509). A row with media is computed in full; with
    attention by segments (`layers.attention.limits`) without the pairs of unlike media.
    """
    return _make_pricing(config)(name)


def _make_pricing(config: ExperimentConfig) -> Callable[[str], BucketCost]:
    """The cost of each bucket by its name, of a configuration that is lowered once for all."""
    assert config.schedule.hardware is not None
    hardware = load_hardware(config.schedule.hardware)
    configured = configure_step(config, hardware.platform)
    return partial(compute_bucket_cost, configured.workload, configured.chosen, hardware)


def compute_bucket_cost(
    work: Workload, chosen: Strategy, hardware: Hardware, name: str
) -> BucketCost:
    """`bucket_cost` of a workload under a strategy; of the decoder, whose rows are its texts."""
    unit, plan = work.positions[name], chosen.plans[name]
    timing = ModuleTiming(work, chosen, hardware, name)
    one, two, three = _task_seconds(work, chosen, hardware, name)
    quadratic = (one - 2 * two + three) / (2 * unit**2)
    linear = (two - one) / unit - 3 * quadratic * unit
    latency = max(0.0, one - linear * unit - quadratic * unit**2)
    exchanges = 0.0 if timing.shared_ends else timing.task_exchange_seconds
    rows = timing.rows * plan.stage
    # Without stages the rows of a bucket are computed one by one, otherwise those of a microbatch.
    alone = chosen.backbone.stage == 1 and work.buckets.get(name, name) != name
    latency /= 1 if alone else rows
    return BucketCost(
        groups=plan.batch,
        fixed=exchanges * chosen.microbatches / plan.stage,
        linear=linear / rows + latency / unit,
        quadratic=quadratic / rows,
        row=unit,
        by_segment=work.by_segment,
    )


def _task_seconds(
    work: Workload, chosen: Strategy, hardware: Hardware, name: str
) -> Iterator[float]:
    """Seconds of all tasks of a bucket on one microbatch, with rows of one, two and three times.

    Without the exchange of outputs, whose buffers do not depend on media.
    """
    for factor in (1, 2, 3):
        positions = {**work.positions, name: factor * work.positions[name]}
        timing = ModuleTiming(replace(work, positions=positions), chosen, hardware, name)
        yield timing.microbatch_seconds

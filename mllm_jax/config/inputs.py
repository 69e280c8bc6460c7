"""A model's encoders as the data pipeline sees them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Literal

from data.batch import ModuleRows
from data.config import DataConfig
from data.hf_format.media import ReleasedProcessors
from data.media.audio.row_spec import AudioRowSpec
from data.media.image.row_spec import ImageRowSpec
from data.rows.pack import empty_rows
from data.rows.spec import LengthBucket, MediaRowSpec, RowSpec
from data.rows.tokens import PositionWriter, TokenSpec
from data.targets import TargetSpec
from mllm_jax.config.sections import ExperimentConfig
from mllm_jax.families.family import load_reference
from mllm_jax.families.media import make_row_spec
from mllm_jax.families.processors import released_processors
from mllm_jax.layers.config.encoder import EncoderConfig
from mllm_jax.layers.config.kinds import mask_ids
from mllm_jax.models.model_config import ModelConfig
from mllm_jax.models.objectives.config import find_kind
from sharding.plan import ParallelPlan

#: More input positions than a medium has.
ANY = 2**31
#: What a row has before the data are known: tokens, samples or media, and media of full size.
TOKENS, SEGMENTS, MEDIA = 4096, 64, 4


def row_specs(model: ModelConfig) -> list[RowSpec]:
    """The row specs of all modules, for the data pipeline; the text's is first."""
    return [token_spec(model), *media_specs(model)]


def media_specs(model: ModelConfig) -> list[MediaRowSpec]:
    """The row specs of the encoders, one for each of their buckets."""
    graph, specs = model.graph, list[MediaRowSpec]()
    for name, encoder in model.others.items():
        spec = make_row_spec(name, encoder, graph.connector(name), model.backbone_config)
        read = bool(graph.heads_of(name))
        spec = replace(spec, selected=name not in graph.merged, one_per_sample=read)
        specs += _bucket_specs(spec, encoder)
    return specs


def target_specs(model: ModelConfig) -> dict[str, TargetSpec]:
    """The targets that objectives need of a sample, by their names."""
    return {
        name: load_reference(find_kind(objective.kind).targets)(name, **objective.spec_options)
        for name, objective in model.graph.objectives.items()
    }


def released_of(data: DataConfig) -> ReleasedProcessors:
    """The classes that the folder `data.processor` may name; none if there is no such folder."""
    return ReleasedProcessors() if data.processor is None else released_processors()


def further_budgets(model: ModelConfig) -> dict[str, tuple[str, str]]:
    """Keys of `data.budgets` of further axes than positions: by key, the bucket and the axis."""
    return {
        spec.budgets[axis]: (spec.name, axis) for spec in media_specs(model) for axis in spec.axes
    }


def token_spec(model: ModelConfig) -> TokenSpec:
    """The row spec of the backbone, for the data pipeline."""
    decoder = model.backbone_config
    writer: PositionWriter = load_reference(decoder.position_writer)
    ids = mask_ids(decoder.layer_kinds)
    return TokenSpec(model.backbone, decoder.position_axes, writer, ids)


def _bucket_specs(spec: MediaRowSpec, encoder: EncoderConfig) -> Iterator[MediaRowSpec]:
    """The buckets of an encoder, in their order; the encoder itself if it has none.

    What `auto` means follows from the full configuration (`mllm_jax.config.buckets`); by itself it
    takes all media.
    """
    if not encoder.buckets:
        yield spec
    bounds = sorted(_bucket_limit(edge) for edge in encoder.buckets.values() if edge is not None)
    for name, bucket in encoder.buckets.items():
        most = None if bucket is None else _bucket_limit(bucket)
        above = max((bound for bound in bounds if most is None or bound < most), default=0)
        yield replace(spec, name=name, bucket=LengthBucket(spec.name, above, most))


def _bucket_limit(bucket: int | Literal["auto"]) -> int:
    return ANY if bucket == "auto" else bucket


def longest_medium(config: ExperimentConfig, name: str) -> int:
    """Most input positions of a medium of a bucket, in whole outputs; else its budget."""
    return min([config.data.budgets[name], *_medium_bounds(config, name).values()])


def unbounded_by(config: ExperimentConfig, name: str) -> tuple[str, ...]:
    """Keys that may bound media of a bucket, if none of its bounds is as small as its budget."""
    bounds = _medium_bounds(config, name)
    known = min(bounds.values(), default=ANY) <= config.data.budgets[name]
    return () if known else tuple(key for key in bounds if key.startswith("data."))


def _medium_bounds(config: ExperimentConfig, name: str) -> dict[str, int]:
    """By key, bounds on the input positions of a medium of a bucket, in whole outputs."""
    (spec,) = (spec for spec in media_specs(config.model) if spec.name == name)
    known = {}
    if config.model.encoder(name).buckets.get(name) == "auto":
        known["buckets"] = bucket_positions(config, name)
    if spec.bucket is not None and spec.bucket.up_to is not None:
        known["buckets"] = spec.span(spec.bucket.up_to)
    if isinstance(spec, ImageRowSpec) and spec.tiling is None:
        images = config.data.image
        token = 0 if spec.class_token == "none" else 1
        where = f"modules.{spec.module}." if spec.module in images.modules else ""
        most = images.for_encoder(spec.module).max_patches + token
        known[f"data.image.{where}max_patches"] = spec.span(most)
    if isinstance(spec, AudioRowSpec):
        audio = config.data.audio
        known["data.audio.max_seconds"] = spec.span(
            -(-audio.max_samples // audio.hop) + spec.trailing
        )
        if spec.longest is not None:
            known["max_positions"] = spec.span(spec.longest)
    return known


def bucket_positions(config: ExperimentConfig, name: str) -> int:
    """Input positions of a row of an encoder's microbatches."""
    return config.schedule.independent_budgets.get(name, config.data.budgets[name])


def bucket_rows(config: ExperimentConfig, name: str) -> int:
    """Rows of an encoder's microbatches for each of the decoder's."""
    return config.schedule.independent_rows.get(name, 1)


def empty_module_rows(model: ModelConfig, module: str, rows: int, positions: int) -> ModuleRows:
    """Empty rows of the decoder or of a bucket as layers read them: no inputs and no targets.

    Args:
        positions: number of positions of a row, for an encoder its input positions.
    """
    if module == model.backbone:
        empty = token_spec(model).empty_rows((rows, positions), ())
    else:
        (spec_of_module,) = (spec for spec in media_specs(model) if spec.name == module)
        empty = empty_rows(spec_of_module, rows, positions, [0] * len(spec_of_module.axes))
    return replace(empty, inputs=None, targets={})


# ---- budgets that are yet to be chosen -----------------------------------------------------------


def with_plans(config: ExperimentConfig) -> ExperimentConfig:
    """`config` with a plan for every encoder; those without one split no rows."""
    names = config.model.backbone, *config.model.buckets
    plans = dict.fromkeys(names, ParallelPlan()) | config.parallel.plans
    parallel = config.parallel.with_modules(plans)
    return config.model_copy(update={"parallel": parallel})


def with_budgets(config: ExperimentConfig, budgets: Mapping[str, int]) -> ExperimentConfig:
    """`config` with other `data.budgets`."""
    data = config.data.model_copy(update={"budgets": dict(budgets)})
    return config.model_copy(update={"data": data})


def round_budgets(budgets: Mapping[str, int], config: ExperimentConfig) -> dict[str, int]:
    """`budgets` raised to multiples of the configuration's `budget_units`.

    Rows have no more tokens than the decoder has learned positions.
    """
    units, decoder = config.budget_units, config.model.backbone_config
    assumed = {
        name: -(-budget // units.get(name, 1)) * units.get(name, 1)
        for name, budget in budgets.items()
    }
    if not decoder.parts.rotary:
        most = decoder.max_positions // units["tokens"] * units["tokens"]
        assumed["tokens"] = min(assumed["tokens"], most)
    return assumed


def standing_in(config: ExperimentConfig) -> ExperimentConfig:
    """`config` with budgets of usual sizes, by which all else is checked before data are read."""
    model, own_budgets = config.model, config.schedule.independent_budgets
    media = {
        name: max(model.usual_row(name, MEDIA), own_budgets.get(name, 0)) for name in model.buckets
    }
    entries = {key: media[name] for key, (name, _) in further_budgets(model).items()}
    budgets = {"tokens": TOKENS, "segments": SEGMENTS, **media, **entries}
    return with_budgets(config, round_budgets(budgets, with_plans(config)))

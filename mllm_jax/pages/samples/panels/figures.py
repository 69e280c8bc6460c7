"""Panels of figures: sources, tokens of a sample, padding, skipped samples, configuration."""

from __future__ import annotations

from collections.abc import Sequence

from mllm_jax.config.load import to_yaml
from mllm_jax.config.strict_yaml import write_yaml
from mllm_jax.pages.html import skips
from mllm_jax.pages.html.charts import stacked_bars
from mllm_jax.pages.html.markup import join_markup, make_facts, make_table, make_tag
from mllm_jax.pages.html.panel import PagePanel
from mllm_jax.pages.html.words import format_number, format_percent
from mllm_jax.pages.samples.preview import DataPreview, PreviewSample, find_quantiles, range_width

#: Ranges of the histogram, about.
RANGES = 12


def sources_panel(preview: DataPreview) -> PagePanel:
    """Samples of every source, with their tokens and media."""
    buckets = preview.buckets
    rows = [
        (name, *_source_row(source_samples, len(preview.used), buckets), preview.sizes[name])
        for name, source_samples in preview.by_source.items()
    ]
    columns = ("source", "samples", "share", "tokens", "learnt", *buckets, "samples in all")
    explanation = "Samples of these microbatches that can be read; for each encoder its media."
    return PagePanel("sources", "Sources", make_table(columns, rows), "", explanation, wide=True)


def _source_row(
    samples: Sequence[PreviewSample], every: int, buckets: Sequence[str]
) -> tuple[object, ...]:
    media = [
        sum(len(sample.placement.media.get(bucket, ())) for sample in samples) for bucket in buckets
    ]
    tokens, learnt = (
        sum(sample.tokens for sample in samples),
        sum(sample.learnt for sample in samples),
    )
    return (
        len(samples),
        format_percent(len(samples) / every if every else 0.0),
        tokens,
        learnt,
        *media,
    )


def lengths_panel(preview: DataPreview) -> PagePanel:
    """A histogram of tokens of a sample, by source."""
    tokens = [sample.tokens for sample in preview.used]
    least, median, most = find_quantiles(tokens)
    width = range_width(tokens, RANGES)
    bars = [
        (
            f"{begin} to {begin + width - 1}",
            {
                name: float(
                    sum(begin <= sample.tokens < begin + width for sample in source_samples)
                )
                for name, source_samples in preview.by_source.items()
            },
        )
        for begin in range(least // width * width, most + 1, width)
    ]
    pairs = [("least", str(least)), ("median", format_number(median)), ("most", str(most))]
    content = join_markup(
        (make_facts(pairs), stacked_bars("samples by their tokens", bars, format_number))
    )
    explanation = "Tokens of the decoder that a sample takes, outputs of encoders included."
    return PagePanel("lengths", "Tokens of a sample", content, "", explanation)


def padding_panel(preview: DataPreview) -> PagePanel:
    """Positions with and without samples."""
    rows = [
        (name, room, used, format_percent(preview.padding[name]))
        for name, (room, used) in preview.budgets.items()
    ]
    bars = [
        (name, {"used": float(used), "padding": float(room - used)})
        for name, (room, used) in preview.budgets.items()
    ]
    chart = stacked_bars("positions of all rows by what they hold", bars, format_number)
    content = join_markup((chart, make_table(("budget", "positions", "used", "padding"), rows)))
    explanation = "Positions of all rows of these microbatches. launch.py budgets suggests others."
    return PagePanel("padding", "Padding", content, "", explanation)


def skipped_panel(preview: DataPreview) -> PagePanel:
    """Samples that were read and cannot be used."""
    microbatches_per_step = preview.config.train.accumulate
    every = [
        skips.SkippedEntry(
            sample.microbatch // microbatches_per_step + 1,
            sample.name,
            sample.fault.kind.value,
            sample.fault.text,
        )
        for sample in preview.skipped
    ]
    return skips.make_skipped_panel(every, "step", "the answer of --json")


def configuration_panel(preview: DataPreview) -> PagePanel:
    """The keys that decide what the model sees."""
    config = preview.config
    changed_keys = write_yaml(config.data.model_dump(mode="json", exclude_defaults=True))
    all_keys = make_tag(
        "details", make_tag("summary", "All keys"), make_tag("pre", to_yaml(config))
    )
    explanation = "Keys of data whose values are not the defaults."
    return PagePanel(
        "configuration",
        "Configuration",
        join_markup((make_tag("pre", changed_keys), all_keys)),
        "",
        explanation,
        wide=True,
    )

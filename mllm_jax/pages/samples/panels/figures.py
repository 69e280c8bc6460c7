"""Panels of figures: sources, tokens of a sample, padding, skipped samples, configuration."""

from __future__ import annotations

from collections.abc import Sequence

from mllm_jax.config.load import to_yaml
from mllm_jax.config.strict_yaml import write_yaml
from mllm_jax.pages.html import skips
from mllm_jax.pages.html.charts import stacked_bars
from mllm_jax.pages.html.markup import facts, joined, table, tag
from mllm_jax.pages.html.panel import Panel
from mllm_jax.pages.html.words import number, percent
from mllm_jax.pages.samples.seen import Preview, SeenSample, quantiles, width

#: Ranges of the histogram, about.
RANGES = 12


def sources(preview: Preview) -> Panel:
    """Samples of every source, with their tokens and media."""
    lanes = tuple(preview.specs)
    rows = [
        (name, *_row(own, len(preview.used), lanes), preview.sizes[name])
        for name, own in preview.by_source.items()
    ]
    columns = ("source", "samples", "share", "tokens", "learnt", *lanes, "samples in all")
    told = "Samples of these microbatches that can be read; for each encoder its media."
    return Panel("sources", "Sources", table(columns, rows), "", told, wide=True)


def _row(samples: Sequence[SeenSample], every: int, lanes: Sequence[str]) -> tuple[object, ...]:
    media = [sum(len(own.placement.media.get(lane, ())) for own in samples) for lane in lanes]
    tokens, learnt = sum(own.tokens for own in samples), sum(own.learnt for own in samples)
    return len(samples), percent(len(samples) / every if every else 0.0), tokens, learnt, *media


def lengths(preview: Preview) -> Panel:
    """How many samples have how many tokens, by source."""
    tokens = [own.tokens for own in preview.used]
    least, median, most = quantiles(tokens)
    wide = width(tokens, RANGES)
    bars = [
        (
            f"{begin} to {begin + wide - 1}",
            {
                name: float(sum(begin <= sample.tokens < begin + wide for sample in own))
                for name, own in preview.by_source.items()
            },
        )
        for begin in range(least // wide * wide, most + 1, wide)
    ]
    pairs = [("least", str(least)), ("median", number(median)), ("most", str(most))]
    content = joined((facts(pairs), stacked_bars("samples by their tokens", bars, number)))
    told = "Tokens of the decoder that a sample takes, outputs of encoders included."
    return Panel("lengths", "Tokens of a sample", content, "", told)


def padding(preview: Preview) -> Panel:
    """Positions that hold samples, and those that hold none."""
    rows = [
        (name, room, used, percent(preview.padding[name]))
        for name, (room, used) in preview.budgets.items()
    ]
    bars = [
        (name, {"used": float(used), "padding": float(room - used)})
        for name, (room, used) in preview.budgets.items()
    ]
    chart = stacked_bars("positions of all rows by what they hold", bars, number)
    content = joined((chart, table(("budget", "positions", "used", "padding"), rows)))
    told = "Positions of all rows of these microbatches. launch.py budgets suggests others."
    return Panel("padding", "Padding", content, "", told)


def skipped(preview: Preview) -> Panel:
    """Samples that were met on the way and cannot be used."""
    each = preview.config.train.accumulate
    every = [
        skips.Skipped(own.microbatch // each + 1, own.name, own.fault.kind.value, own.fault.text)
        for own in preview.skipped
    ]
    return skips.skipped(every, "step", "the answer of --json")


def configuration(preview: Preview) -> Panel:
    """The keys that decide what the model sees."""
    config = preview.config
    own = write_yaml(config.data.model_dump(mode="json", exclude_defaults=True))
    whole = tag("details", tag("summary", "All keys"), tag("pre", to_yaml(config)))
    told = "Keys of data whose values are not the defaults."
    return Panel(
        "configuration", "Configuration", joined((tag("pre", own), whole)), "", told, wide=True
    )

"""The panel of rows: where samples and media lie in the rows of every microbatch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from mllm_jax.pages.html.charts import COLOURS
from mllm_jax.pages.html.markup import Markup, join_markup, make_tag
from mllm_jax.pages.html.panel import PagePanel
from mllm_jax.pages.html.words import format_percent
from mllm_jax.pages.samples.preview import DataPreview, PreviewSample, targets_of


def rows_panel(preview: DataPreview) -> PagePanel:
    """Every row of every microbatch, module by module."""
    numbers = range(len(preview.microbatches))
    content = join_markup(
        [_draw_legend(), *(_draw_microbatch(preview, number) for number in numbers)]
    )
    explanation = (
        "A row is a budget of positions; a sample has the same colour in all rows. Point at a "
        "sample for its name, and follow its link to its tokens."
    )
    return PagePanel("rows", "Rows", content, "", explanation, wide=True)


def _draw_legend() -> Markup:
    entries = (
        ("key padded", "padding"),
        ("key loss", "the next token is learnt"),
        ("key merged", "outputs of an encoder are merged"),
    )
    return make_tag(
        "div",
        *(make_tag("span", make_tag("i", class_=k), name) for k, name in entries),
        class_="legend",
    )


def _draw_microbatch(preview: DataPreview, number: int) -> Markup:
    samples = [sample for sample in preview.samples if sample.microbatch == number]
    microbatches_per_step = preview.config.train.accumulate
    step = (
        f"step {number // microbatches_per_step + 1}"
        + f", its microbatch {number % microbatches_per_step + 1}" * (microbatches_per_step > 1)
    )
    modules = [_draw_module(preview, number, name, samples) for name in preview.specs]
    return make_tag(
        "div", make_tag("h3", step[0].upper() + step[1:]), *modules, class_="microbatch"
    )


def _draw_module(
    preview: DataPreview, number: int, name: str, samples: Sequence[PreviewSample]
) -> Markup:
    """The rows of the decoder, or of a bucket."""
    stats, count = preview.microbatches[number].stats, preview.config.data.rows
    is_backbone, budget = name == preview.config.model.backbone, preview.config.budget_key(name)
    room = stats.capacity[budget] // count
    unit = "tokens" if is_backbone else "positions"
    caption = (
        f"{name}: {count} rows of {room} {unit}, {format_percent(stats.padding_shares[budget])} "
        "padding"
    )
    details = len(preview.details)
    parts = []
    for row in range(count):
        if is_backbone:
            parts_of_row = list(_draw_texts(samples, row, room, details))
            marks = _row_marks(preview, number, row, room)
        else:
            parts_of_row, marks = list(_draw_media(samples, name, row, room, details)), Markup()
        strip = make_tag("div", *parts_of_row, class_="strip")
        parts += [make_tag("span", str(row)), make_tag("div", strip, marks)]
    strips = make_tag("div", *parts, class_="strips")
    return make_tag("figure", make_tag("figcaption", caption), strips, class_="chart")


def _draw_texts(
    samples: Iterable[PreviewSample], row: int, room: int, details: int
) -> Iterator[Markup]:
    """The samples of a row of the decoder."""
    for sample in samples:
        if sample.placement.row == row:
            title = f"{sample.name}: {sample.tokens} tokens, {sample.learnt} learnt"
            yield _draw_part(sample, sample.placement.start, sample.tokens, room, title, details)


def _draw_media(
    samples: Iterable[PreviewSample], bucket: str, row: int, room: int, details: int
) -> Iterator[Markup]:
    """The media of a row of a bucket."""
    for sample in samples:
        counts = sample.placement.lengths.counts(bucket)
        places = sample.placement.media.get(bucket, ())
        for (at, start, _), count in zip(places, counts, strict=True):
            if at == row:
                title = f"{sample.name}: {count} positions"
                yield _draw_part(sample, start, count, room, title, details)


def _draw_part(
    sample: PreviewSample, start: int, count: int, room: int, title: str, details: int
) -> Markup:
    """A part of a row; a link for a sample that is shown in detail."""
    shape = f"piece c{sample.number % COLOURS}" + " hole" * (sample.fault is not None)
    title += f"; {sample.fault}" * (sample.fault is not None)
    if sample.number < details:
        return make_tag(
            "a",
            class_=shape,
            style=_span_style(start, count, room),
            title=title,
            href=f"#{sample.key}",
        )
    return make_tag("i", class_=shape, style=_span_style(start, count, room), title=title)


def _span_style(start: int, count: int, room: int) -> str:
    return f"left:{100 * start / room:.4g}%;width:{100 * count / room:.4g}%"


def _row_marks(preview: DataPreview, number: int, row: int, room: int) -> Markup:
    """Below a row of the decoder: positions with a loss, and those where outputs are merged."""
    microbatch = preview.microbatches[number]
    lines = [_draw_marks(targets_of(microbatch).weights[row] > 0, "loss", room, "learnt")]
    for bucket in preview.buckets:
        merged = microbatch.batch.text_rows.merges[bucket][row] >= 0
        if merged.any():
            lines.append(_draw_marks(merged, "merged", room, f"outputs of {bucket}"))
    return join_markup(lines)


def _draw_marks(marked: NDArray[np.bool_], shape: str, room: int, title: str) -> Markup:
    edges = np.flatnonzero(np.diff(np.concatenate([[0], marked.astype(np.int8), [0]])))
    runs = [
        make_tag(
            "i",
            class_=shape,
            style=_span_style(begin, end - begin, room),
            title=f"{title}: {end - begin}",
        )
        for begin, end in edges.reshape(-1, 2).tolist()
    ]
    return make_tag("div", *runs, class_="marks")

"""The panel of rows: where samples and media lie in the rows of every microbatch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from mllm_jax.pages.html.charts import COLOURS
from mllm_jax.pages.html.markup import Markup, joined, tag
from mllm_jax.pages.html.panel import Panel
from mllm_jax.pages.html.words import percent
from mllm_jax.pages.samples.seen import Preview, SeenSample, targets_of


def rows(preview: Preview) -> Panel:
    """Every row of every microbatch, tower by tower."""
    numbers = range(len(preview.microbatches))
    content = joined([_legend(), *(_microbatch(preview, number) for number in numbers)])
    told = (
        "A row is a budget of positions; a sample has the same colour in all rows. Point at a "
        "sample for its name, and follow its link to its tokens."
    )
    return Panel("rows", "Rows", content, "", told, wide=True)


def _legend() -> Markup:
    entries = (
        ("key padded", "padding"),
        ("key loss", "the next token is learnt"),
        ("key landing", "outputs of an encoder land"),
    )
    return tag(
        "div", *(tag("span", tag("i", class_=k), name) for k, name in entries), class_="legend"
    )


def _microbatch(preview: Preview, number: int) -> Markup:
    own = [sample for sample in preview.samples if sample.microbatch == number]
    each = preview.config.train.accumulate
    step = f"step {number // each + 1}" + f", its microbatch {number % each + 1}" * (each > 1)
    towers = [_tower(preview, number, name, own) for name in ("decoder", *preview.specs)]
    return tag("div", tag("h3", step[0].upper() + step[1:]), *towers, class_="microbatch")


def _tower(preview: Preview, number: int, name: str, samples: Sequence[SeenSample]) -> Markup:
    """The rows of the decoder, or of a lane."""
    stats, count = preview.microbatches[number].stats, preview.config.data.rows
    budget = "tokens" if name == "decoder" else name
    room = stats.capacity[budget] // count
    unit = "tokens" if name == "decoder" else "positions"
    told = f"{name}: {count} rows of {room} {unit}, {percent(stats.padding[budget])} padding"
    details = len(preview.details)
    parts = []
    for row in range(count):
        if name == "decoder":
            held = list(_texts(samples, row, room, details))
            marks = _marks(preview, number, row, room)
        else:
            held, marks = list(_media(samples, name, row, room, details)), Markup()
        strip = tag("div", *held, class_="strip")
        parts += [tag("span", str(row)), tag("div", strip, marks)]
    strips = tag("div", *parts, class_="strips")
    return tag("figure", tag("figcaption", told), strips, class_="chart")


def _texts(samples: Iterable[SeenSample], row: int, room: int, details: int) -> Iterator[Markup]:
    """The samples of a row of the decoder."""
    for own in samples:
        if own.placement.row == row:
            told = f"{own.name}: {own.tokens} tokens, {own.learnt} learnt"
            yield _piece(own, own.placement.start, own.tokens, room, told, details)


def _media(
    samples: Iterable[SeenSample], lane: str, row: int, room: int, details: int
) -> Iterator[Markup]:
    """The media of a row of a lane."""
    for own in samples:
        counts = own.placement.lengths.media.get(lane, ())
        places = own.placement.media.get(lane, ())
        for (at, start, _), count in zip(places, counts, strict=True):
            if at == row:
                told = f"{own.name}: {count} positions"
                yield _piece(own, start, count, room, told, details)


def _piece(own: SeenSample, start: int, count: int, room: int, told: str, details: int) -> Markup:
    """A part of a row; a link for a sample that is shown in detail."""
    shape = f"piece c{own.number % COLOURS}" + " hole" * (own.fault is not None)
    told += f"; {own.fault}" * (own.fault is not None)
    if own.number < details:
        return tag(
            "a", class_=shape, style=_span(start, count, room), title=told, href=f"#{own.key}"
        )
    return tag("i", class_=shape, style=_span(start, count, room), title=told)


def _span(start: int, count: int, room: int) -> str:
    return f"left:{100 * start / room:.4g}%;width:{100 * count / room:.4g}%"


def _marks(preview: Preview, number: int, row: int, room: int) -> Markup:
    """Below a row of the decoder: positions with a loss, and those where outputs land."""
    microbatch = preview.microbatches[number]
    lines = [_line(targets_of(microbatch).weights[row] > 0, "loss", room, "learnt")]
    for lane in preview.specs:
        landing = microbatch.batch.decoder.merges[lane][row] >= 0
        if landing.any():
            lines.append(_line(landing, "landing", room, f"outputs of {lane}"))
    return joined(lines)


def _line(there: NDArray[np.bool_], shape: str, room: int, told: str) -> Markup:
    edges = np.flatnonzero(np.diff(np.concatenate([[0], there.astype(np.int8), [0]])))
    runs = [
        tag(
            "i", class_=shape, style=_span(begin, end - begin, room), title=f"{told}: {end - begin}"
        )
        for begin, end in edges.reshape(-1, 2).tolist()
    ]
    return tag("div", *runs, class_="marks")

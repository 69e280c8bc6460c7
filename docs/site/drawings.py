"""Drawings of the concepts, made by the code that they explain: `python -m docs.site.drawings`.

    grid.svg      ranks of every module on the same devices     sharding.grid
    packing.svg   samples in rows, padded and packed            data.planning.packing
    balance.svg   work of ranks, before and after balancing       data.planning.balance

They are SVG on a light ground, so that they can be read on light and on dark pages. A test compares
the files in docs/pictures with what this module draws.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np

from data.planning.balance import assign_items
from data.planning.packing import pack
from data.planning.problem import BalanceProblem, Ints
from mllm_jax.pages.html.markup import Markup, join_markup, make_tag
from scheduling.costs.work import ModuleWork
from sharding.grid import JointGrid, MeshView
from sharding.plan import AXES, ParallelPlan

PICTURES = Path(__file__).parents[1] / "pictures"
WIDTH = 900
#: Colours of samples and ranks; text on them is dark.
COLOURS = (
    *("#8ecae6", "#f4b183", "#a8d5a2", "#e5b8e8", "#ffd97d", "#b7b7d7"),
    *("#f28482", "#9fd8cb", "#d0c8b0", "#c3e88d", "#89a7e0", "#f7c6d9"),
)
GROUND, PADDING, INK, FAINT = "#ffffff", "#eeeeee", "#222222", "#666666"


def main() -> None:
    """Write the drawings into docs/pictures."""
    for name, draw in DRAWINGS.items():
        (PICTURES / name).write_text(draw(), encoding="utf-8")
        sys.stdout.write(f"written: {PICTURES / name}\n")


# ---- elements ------------------------------------------------------------------------------------


def svg(height: float, parts: Sequence[Markup]) -> str:
    """A whole drawing, `WIDTH` wide, on its ground."""
    ground = make_tag("rect", width=WIDTH, height=height, fill=GROUND)
    whole = make_tag(
        "svg",
        ground,
        *parts,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {WIDTH} {height:g}",
        font_family="Helvetica, Arial, sans-serif",
        font_size=13,
    )
    return f"{whole}\n"


def box(x: float, y: float, width: float, height: float, fill: str, text: str = "") -> Markup:
    """A rectangle with a text in its middle."""
    shape = make_tag("rect", x=x, y=y, width=width, height=height, fill=fill, stroke=GROUND)
    if not text:
        return shape
    return join_markup([shape, words(x + width / 2, y + height / 2 + 4.5, text, anchor="middle")])


def words(x: float, y: float, text: str, *, anchor: str = "start", fill: str = INK) -> Markup:
    """A line of text."""
    return make_tag("text", text, x=x, y=y, text_anchor=anchor, fill=fill)


def heading(x: float, y: float, text: str) -> Markup:
    """A line of bold text."""
    return make_tag("text", text, x=x, y=y, fill=INK, font_weight="bold")


# ---- the grid ------------------------------------------------------------------------------------

PLANS = {
    "decoder": ParallelPlan(data=2, stage=2, tensor=4),
    "vision": ParallelPlan(data=8, tensor=2),
    "audio": ParallelPlan(data=16),
}
#: Place of the first device, and height of a line of ranks.
LEFT, LINE = 150, 26


def grid() -> str:
    """The devices from left to right; below them the rank that each module gives to each."""
    joint = JointGrid.build(PLANS)
    numbers = [str(device) for device in range(joint.devices)]
    sizes = " x ".join(f"{name} {size}" for name, size in joint.axes)
    parts = [heading(10, 32, "devices"), _line(18, numbers, [PADDING] * joint.devices)]
    top = 54.0
    for title, rows in [("joint grid", _axes(joint)), *_modules(joint)]:
        told = sizes if title == "joint grid" else _degrees(PLANS[title])
        parts.append(heading(10, top + 14, title))
        parts.append(words(LEFT, top + 14, told, fill=FAINT))
        for number, (axis, ranks) in enumerate(rows):
            y = top + 22 + number * LINE
            colours = [COLOURS[rank % len(COLOURS)] for rank in ranks]
            parts += [words(LEFT - 10, y + 17, axis, anchor="end")]
            parts += [_line(y, [str(rank) for rank in ranks], colours)]
        top += 22 + len(rows) * LINE + 16
    return svg(top, parts)


def _degrees(plan: ParallelPlan) -> str:
    pairs = zip(AXES, plan.degrees, strict=True)
    return " x ".join(f"{axis} {degree}" for axis, degree in pairs if degree > 1)


def _axes(joint: JointGrid) -> list[tuple[str, Ints]]:
    """Every axis of the grid with the index of each device along it."""
    shape = [size for _, size in joint.axes]
    places = np.unravel_index(np.arange(joint.devices), shape)
    return [(name, place) for (name, _), place in zip(joint.axes, places, strict=True)]


def _modules(joint: JointGrid) -> Iterator[tuple[str, list[tuple[str, Ints]]]]:
    """Every module with the ranks of the devices along each axis of its plan."""
    index = dict(_axes(joint))
    for name, view in joint.views.items():
        used = [axis for axis in AXES if getattr(PLANS[name], axis) > 1]
        yield name, [(axis, _ranks(view, axis, index)) for axis in used]


def _ranks(view: MeshView, axis: str, index: Mapping[str, Ints]) -> Ints:
    names = getattr(view, axis)
    sizes = [view.degree_of((name,)) for name in names]
    return np.ravel_multi_index([index[name] for name in names], sizes)


def _line(y: float, texts: Sequence[str], colours: Sequence[str]) -> Markup:
    """A box for each run of neighbours that are alike."""
    each, at, boxes = (WIDTH - LEFT - 10) / len(texts), 0, []
    for (text, colour), run in groupby(zip(texts, colours, strict=True)):
        count = len([*run])
        boxes.append(box(LEFT + at * each, y, count * each, LINE - 4, colour, text))
        at += count
    return join_markup(boxes)


# ---- packing -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sample:
    """Tokens of a sample, those of its image included, and patches of the image; 0: none."""

    tokens: int
    patches: int


SAMPLES = tuple(
    Sample(*lengths)
    for lengths in (
        *((62, 144), (21, 0), (90, 256), (34, 64), (15, 0), (48, 100)),
        *((27, 64), (70, 196), (12, 0), (39, 81), (18, 36), (30, 0)),
    )
)
#: Capacity of a row of the decoder and of a row of the encoder, and rows of the packed step.
TOKENS, PATCHES, ROWS = 128, 320, 4


def packing() -> str:
    """The same samples, each in a row of its own, and packed."""
    needs = [(sample.tokens, sample.patches) for sample in SAMPLES]
    rows = pack(needs, ROWS, (TOKENS, PATCHES))
    packed = [[n for n, own in enumerate(rows) if own == row] for row in range(ROWS)]
    alone = [[number] for number in range(len(SAMPLES))]
    parts, end = _rows(alone, 10.0, "one sample in a row", 18)
    below, end = _rows(packed, end + 14, "packed", LINE)
    row = [0 if at is None else at for at in packed[0]]
    return svg(end + 92, [*parts, *below, *_ids(row, end + 4)])


def _rows(
    rows: Sequence[Sequence[int]], top: float, title: str, line: int
) -> tuple[list[Markup], float]:
    """Rows of the decoder at the left and of the encoder at the right; and where they end."""
    parts, half = list[Markup](), (WIDTH - 40) / 2
    sides = (
        (10.0, "tokens of the decoder", TOKENS, [sample.tokens for sample in SAMPLES]),
        (half + 30.0, "patches of the encoder", PATCHES, [sample.patches for sample in SAMPLES]),
    )
    for x, name, room, lengths in sides:
        filled = sum(lengths[n] for row in rows for n in row)
        padding = 1 - filled / (room * len(rows))
        told = f"{title}: {name}, {len(rows)} x {room}, {padding:.0%} padding"
        parts.append(heading(x, top + 14, told))
        for number, row in enumerate(rows):
            y, at = top + 22 + number * line, x
            parts.append(box(x, y, half, line - 3, PADDING))
            for n in row:
                wide = half * lengths[n] / room
                text = str(n) if wide > 16 else ""
                parts.append(box(at, y, wide, line - 3, COLOURS[n], text))
                at += wide
    return parts, top + 22 + len(rows) * line


def _ids(row: Sequence[int], top: float) -> list[Markup]:
    """Segment ids and positions of the first packed row."""
    parts, half = [heading(10, top + 28, "the first packed row of the decoder")], (WIDTH - 40) / 2
    at = 10.0
    for y, name in ((top + 38, "segment_ids"), (top + 62, "positions")):
        parts.append(words(half + 30, y + 15, name))
    for segment, n in enumerate(row, start=1):
        wide = half * SAMPLES[n].tokens / TOKENS
        last = SAMPLES[n].tokens - 1
        parts.append(box(at, top + 38, wide, 22, COLOURS[n], str(segment)))
        parts.append(box(at, top + 62, wide, 22, COLOURS[n], f"0 .. {last}" if wide > 50 else ""))
        at += wide
    if at < 10 + half - 1:
        parts.append(box(at, top + 38, 10 + half - at, 22, PADDING, "0"))
        parts.append(box(at, top + 62, 10 + half - at, 22, PADDING, "0"))
    return parts


# ---- balance -------------------------------------------------------------------------------------

RANKS = 4
#: Work of the decoder on a token and of the encoder on a patch, in like units.
WORK = {"decoder": ModuleWork(1.0, 2e-3), "vision": ModuleWork(0.3, 5e-4)}


def balance() -> str:
    """Work of the ranks in both phases, as the samples come and as they are assigned."""
    lengths = {
        "decoder": np.array([sample.tokens for sample in SAMPLES]),
        "vision": np.array([sample.patches for sample in SAMPLES]),
    }
    costs = {name: work.segment_flops(lengths[name]) for name, work in WORK.items()}
    comes = np.arange(len(SAMPLES)) // (len(SAMPLES) // RANKS)
    assigned = {
        name: assign_items(BalanceProblem(lengths[name], RANKS, WORK[name])) for name in WORK
    }
    most = max(_loads(comes, own).max() for own in costs.values())
    parts, half = list[Markup](), (WIDTH - 40) / 2
    for number, name in enumerate(WORK):
        x = 10 + number * (half + 20)
        parts += _ranks_of(x, 10, f"{name}, as samples come", comes, costs[name], most)
        parts += _ranks_of(x, 170, f"{name}, balanced", assigned[name], costs[name], most)
    return svg(326, parts)


def _loads(ranks: Ints, costs: np.ndarray) -> np.ndarray:
    return np.bincount(ranks, costs, RANKS)


def _ranks_of(
    x: float, top: float, title: str, ranks: Ints, costs: np.ndarray, most: float
) -> list[Markup]:
    """A bar for every rank, of the samples that it has; the line is where the phase ends."""
    loads, room = _loads(ranks, costs), (WIDTH - 40) / 2 - 56
    imbalance = loads.max() / loads.mean()
    parts = [heading(x, top + 14, f"{title}: {imbalance:.2f} times the mean")]
    for rank in range(RANKS):
        y, at = top + 22 + rank * LINE, x + 52
        parts.append(words(x, y + 16, f"rank {rank}"))
        for n in np.flatnonzero(ranks == rank):
            wide = room * costs[n] / most
            parts.append(box(at, y, wide, LINE - 4, COLOURS[n], str(n) if wide > 16 else ""))
            at += wide
        waits = x + 52 + room * loads.max() / most - at
        if waits > 0.5:
            parts.append(box(at, y, waits, LINE - 4, PADDING, "waits" if waits > 44 else ""))
    end = x + 52 + room * loads.max() / most
    line = make_tag("line", x1=end, x2=end, y1=top + 18, y2=top + 22 + RANKS * LINE, stroke=INK)
    return [*parts, line]


#: Files of docs/pictures that are drawn here.
DRAWINGS: Mapping[str, Callable[[], str]] = {
    "grid.svg": grid,
    "packing.svg": packing,
    "balance.svg": balance,
}

if __name__ == "__main__":
    main()

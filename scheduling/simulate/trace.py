"""Timelines to look at: a trace for Perfetto or Chrome, and a picture."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.legend_handler import HandlerTuple
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import EngFormatter

from scheduling.schedules.schedule import ScheduleError
from scheduling.schedules.task_kinds import Shades
from scheduling.simulate.boxes import (
    BOX,
    IDLE_COLOUR,
    Colour,
    SpanBox,
    boxes_of,
    ink_on,
    label_of,
    parts_of,
    shade_of,
    shades_of,
)
from scheduling.simulate.timeline import Span, Timeline

#: Files that `write_picture` can write.
SUFFIXES = (".png", ".svg")

#: Inches: width of the picture and about that of its rows, height of a row and of what surrounds
#: a panel.
WIDTH, ROW_WIDTH, ROW, MARGIN = 12.0, 11.0, 0.34, 0.7

#: Points in an inch.
POINTS = 72.0

#: Points: size of titles and names, largest and smallest of the numbers in boxes.
TEXT, NUMBER, SMALL_NUMBER = 9.0, 7.5, 5.0

#: Width of a digit over its size, and points left free around a number.
DIGIT, PADDING = 0.64, 2.0

#: Points: narrower boxes have no outline, which would look like idle time.
OUTLINED = 6.0

#: Units of the time axis with their number in a second.
UNITS = (("s", 1.0), ("ms", 1e3), ("µs", 1e6))


def chrome_trace(timelines: Mapping[str, Timeline]) -> dict[str, Any]:
    """The trace event format that Perfetto and `chrome://tracing` read.

    Every timeline is a process and every row of it a thread. Every span is a complete event
    (`"ph": "X"`) with its start and duration in microseconds; its arguments are `tick`, `stage`
    and, for its task, `module`, `kind`, `microbatch` (null outside the schedule) and `part`. A
    span of several tasks has them as the list `tasks`.

    Args:
        timelines: by the name of their process, such as "predicted" and "measured".
    """
    names, events = [], []
    for process, (name, timeline) in enumerate(timelines.items()):
        names.append(_name_event("process", process, 0, name))
        names += [
            _name_event("thread", process, row, text) for row, text in enumerate(timeline.rows)
        ]
        spans = sorted(timeline.spans, key=lambda span: (span.row, span.start))
        events += [_span_event(process, timeline, span) for span in spans]
    return {"displayTimeUnit": "ms", "traceEvents": names + events}


def write_chrome_trace(path: Path, timelines: Mapping[str, Timeline]) -> None:
    """Writes `chrome_trace(timelines)` to `path`, a `.json` file.

    Raises:
        ScheduleError: the file has another suffix.
    """
    _check_suffix(path, (".json",))
    path.write_text(json.dumps(chrome_trace(timelines), separators=(",", ":")))


def write_picture(timelines: Mapping[str, Timeline], path: Path) -> None:
    """Writes `draw_timelines(timelines)` to `path`, a PNG or SVG file.

    Raises:
        ScheduleError: the file has another suffix.
    """
    _check_suffix(path, SUFFIXES)
    draw_timelines(timelines).savefig(path)


def draw_timelines(timelines: Mapping[str, Timeline]) -> Figure:
    """A panel per timeline, below one another with one time axis.

    A row is a stage or a device; idle time is bare. A span of several tasks is split into lanes.
    Boxes hold the number of their microbatch where it fits. Odd virtual chunks have a paler
    forward and a darker backward. The legend says all of this, as far as it occurs.

    Args:
        timelines: at least one, by the title of its panel, such as "predicted" and "measured".
    """
    rows = [len(timeline.rows) for timeline in timelines.values()]
    height = sum(rows) * ROW + len(rows) * MARGIN + MARGIN
    figure = Figure((WIDTH, height), dpi=150, layout="constrained")
    panels = figure.subplots(len(rows), sharex=True, squeeze=False, height_ratios=rows)[:, 0]
    seconds = max(timeline.makespan for timeline in timelines.values())
    scale = ROW_WIDTH * POINTS / (seconds or 1.0)
    shades = shades_of(timelines.values())
    for axes, (name, timeline) in zip(panels, timelines.items(), strict=True):
        _prepare_axes(axes, timeline, scale)
        _fill_boxes(axes, timeline, shades, scale)
        axes.set_title(_panel_title(name, timeline), loc="left", fontsize=TEXT)
    _time_axis(panels[-1], seconds)
    _draw_legend(figure, shades, _colour_lanes(timelines.values(), shades))
    return figure


def _name_event(what: str, process: int, thread: int, name: str) -> dict[str, Any]:
    args = {"name": name}
    return {"ph": "M", "name": f"{what}_name", "pid": process, "tid": thread, "args": args}


def _span_event(process: int, timeline: Timeline, span: Span) -> dict[str, Any]:
    parts = [part._asdict() for part in parts_of(timeline, span)]
    what = parts[0] if len(parts) == 1 else {"tasks": parts}
    return {
        "ph": "X",
        "name": str(span),
        "cat": "+".join(part["module"] for part in parts),
        "pid": process,
        "tid": span.row,
        "ts": span.start * 1e6,
        "dur": span.seconds * 1e6,
        "args": {"tick": span.tick, "stage": span.stage, **what},
    }


def _check_suffix(path: Path, valid: Sequence[str]) -> None:
    if path.suffix not in valid:
        raise ScheduleError(f"{path}: suffix {path.suffix!r} is refused; valid: {', '.join(valid)}")


def _prepare_axes(axes: Axes, timeline: Timeline, scale: float) -> None:
    """A bare row for every stage or device; stage syncs divide it where there is room."""
    count = len(timeline.rows)
    axes.set_ylim(count - 0.5, -0.5)
    axes.set_yticks(range(count), timeline.rows)
    axes.tick_params(left=False, bottom=False, labelbottom=False, labelsize=TEXT)
    axes.spines[:].set_visible(False)
    axes.barh(range(count), timeline.makespan, BOX, color=IDLE_COLOUR, zorder=0)
    syncs = timeline.start[np.diff(timeline.beats, prepend=-1) > 0]
    if timeline.makespan * scale >= len(syncs) * OUTLINED:
        axes.vlines(syncs, -0.5, count - 0.5, "white", linewidth=0.8, zorder=0.5)


def _fill_boxes(
    axes: Axes, timeline: Timeline, shades: Mapping[Colour, Shades], scale: float
) -> None:
    """A collection of boxes for every colour, and the numbers that fit into them."""
    groups: dict[Colour, list[SpanBox]] = {key: [] for key in shades}
    for box in boxes_of(timeline):
        groups[box.part.module, box.part.kind].append(box)
    for key, boxes in groups.items():
        colours = [shade_of(box.part, shades) for box in boxes]
        axes.add_collection(_box_collection(" ".join(key), boxes, colours, scale), autolim=False)
        for box, colour in zip(boxes, colours, strict=True):
            _write_number(axes, box, colour, scale)


def _box_collection(
    label: str, boxes: list[SpanBox], colours: list[str], scale: float
) -> PolyCollection:
    """`boxes` in their colours; `scale` is in points per second."""
    narrowest = min((box.seconds for box in boxes), default=0.0) * scale
    outlined = narrowest >= OUTLINED
    return PolyCollection(
        [box.corners for box in boxes],
        facecolors=colours,
        edgecolors="white" if outlined else "none",
        linewidths=0.8,
        antialiaseds=outlined,
        label=label,
    )


def _write_number(axes: Axes, box: SpanBox, colour: str, scale: float) -> None:
    """The number of the microbatch, if it fits; `scale` is in points per second."""
    if box.part.microbatch is None:
        return
    text = str(box.part.microbatch)
    size = min(NUMBER, 0.85 * box.height * ROW * POINTS)
    if size < SMALL_NUMBER or box.seconds * scale < len(text) * DIGIT * size + PADDING:
        return
    x, y = (box.left + box.right) / 2, box.top + box.height / 2
    axes.text(x, y, text, color=ink_on(colour), fontsize=size, ha="center", va="center_baseline")


def _time_axis(axes: Axes, seconds: float) -> None:
    """Write the labels of the time axis in one unit."""
    unit, factor = next((u for u in UNITS if seconds * u[1] >= 1), UNITS[-1])
    axes.set_xlim(0, seconds or 1.0)
    axes.xaxis.set_major_formatter(lambda x, _: f"{x * factor:.6g}")
    axes.tick_params(bottom=True, labelbottom=True)
    axes.set_xlabel(f"time ({unit}); numbers are microbatches", fontsize=TEXT)


def _panel_title(name: str, timeline: Timeline) -> str:
    """How long the step takes and how much of it is idle."""
    seconds = EngFormatter("s", places=1)(timeline.makespan)
    title = f"{name}: {seconds}, bubble share {timeline.bubble_share:.1%}"
    if timeline.encoder_hidden is None:
        return title
    return f"{title}, {timeline.encoder_hidden:.0%} of encoder work in bubbles"


def _colour_lanes(timelines: Iterable[Timeline], shades: Mapping[Colour, Shades]) -> Shades:
    """Colours of the first tasks that share a span, from the top; none if none do."""
    every = (parts_of(one, span) for one in timelines for span in one.spans)
    shared = next((parts for parts in every if len(parts) > 1), [])
    return tuple(shade_of(part, shades) for part in shared)


class _Lanes(HandlerTuple):
    """Draws a handle of several patches as lanes, below one another."""

    def create_artists(
        self, legend: Any, orig_handle: Any, x0: float, y0: float, width: float, *more: Any
    ) -> list[Any]:
        """See matplotlib's `HandlerBase.create_artists`."""
        height, lane = more[0], more[0] / len(orig_handle)
        boxes = []
        for number, patch in enumerate(orig_handle, 1):
            box = Rectangle((-x0, height - y0 - number * lane), width, lane, color=patch.get_fc())
            box.set_transform(more[-1])
            boxes.append(box)
        return boxes


class _Stack(tuple[Patch, ...]):
    """A handle that `_Lanes` draws."""


def _draw_legend(figure: Figure, shades: Mapping[Colour, Shades], lanes: Shades) -> None:
    """The legend of colours, shades and lanes, above the panels."""
    # Matplotlib takes a tuple of patches as one handle; its annotations do not say so.
    handles: list[Any] = [
        tuple(Patch(color=colour) for colour in colours)
        for colours in (*shades.values(), (IDLE_COLOUR,))
    ]
    labels = [label_of(*what, colours) for what, colours in shades.items()] + ["idle"]
    if lanes:
        handles.append(_Stack(Patch(color=colour) for colour in lanes))
        labels.append("tasks of one tick")
    figure.legend(
        handles,
        labels,
        handler_map={_Stack: _Lanes(), tuple: HandlerTuple(ndivide=None, pad=0)},
        loc="outside upper center",
        # Eight fit in a row; more are in rows of about the same length.
        ncols=ceil(len(handles) / ceil(len(handles) / 8)),
        frameon=False,
        fontsize=TEXT,
        handlelength=1.6,
        columnspacing=1.6,
    )

"""Traces hold every span once; pictures have a box for every task, and only numbers that fit."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_hex, to_rgb, to_rgba
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.patches import Rectangle
from PIL import Image

from scheduling.costs.times import StepTimes, TaskSegment, TaskTime
from scheduling.schedules.backbone_schedules import (
    gpipe_schedule,
    interleaved_schedule,
    zero_bubble_schedule,
)
from scheduling.schedules.schedule import Schedule, ScheduleError
from scheduling.schedules.task_kinds import B, F
from scheduling.schedules.tasks import BACKBONE, Feed, ModuleStages, Task
from scheduling.simulate.boxes import IDLE_COLOUR
from scheduling.simulate.lockstep import simulate_step
from scheduling.simulate.timeline import Timeline, measured_timeline, predict_timeline
from scheduling.simulate.trace import (
    ROW,
    chrome_trace,
    draw_timelines,
    write_chrome_trace,
    write_picture,
)


@dataclass(frozen=True)
class Seconds:
    """The backward takes twice the forward; an encoder's tasks take half of the decoder's."""

    shared: float = 0.125

    def cost_of(self, task: Task) -> float:
        return (2.0 if task.kind is B else 1.0) / (1 if task.module == BACKBONE else 2)


def with_encoders(table: Schedule, *names: str) -> Schedule:
    """Forwards of all encoders in turn before the decoder's first tick, backwards after its last.

    The first encoder also works beside the decoder's tasks in the second tick.
    """
    rows = [
        [tuple(Task(kind, name, stage) for stage in range(table.stages)) for name in names]
        for kind in (F, B)
    ]
    before, after = ([tuple((task,) for task in row) for row in part] for part in rows)
    beside = tuple((*fused_task, Task(F, names[0], 9, 1)) for fused_task in table.ticks[1])
    return replace(
        table,
        modules=(table.backbone, *(ModuleStages(name, chunks=2) for name in names)),
        feeds=tuple(Feed(name) for name in names),
        ticks=(*before, table.ticks[0], beside, *table.ticks[2:], *after),
    )


#: Arguments of an event, in the order of `Task`.
FIELDS = ("kind", "module", "microbatch", "part")

TABLES = {
    "one stage": gpipe_schedule(1, 1, 2),
    "1F1B": interleaved_schedule(4, 1, 8),
    "interleaved": interleaved_schedule(4, 2, 8),
    "one encoder": with_encoders(interleaved_schedule(4, 1, 8), "vision"),
    "two encoders": with_encoders(interleaved_schedule(3, 2, 5), "vision", "audio"),
    "four encoders": with_encoders(interleaved_schedule(2, 1, 2), "a", "b", "c", "d"),
    "long": with_encoders(interleaved_schedule(6, 2, 48), "vision"),
}
every_table = pytest.mark.parametrize("table", TABLES.values(), ids=TABLES.keys())


def as_measured(table: Schedule, devices: int = 2) -> Timeline:
    """Every device takes a tenth longer than predicted, and starts with the others."""
    lines = predict_timeline(table, Seconds())
    ends = {(span.tick, span.row): span.end for span in lines.spans}
    records = [
        (stage, device, tick, 1.1 * start, 1.1 * ends.get((tick, stage), start))
        for tick, start in enumerate(lines.start.tolist())
        for stage in range(table.stages)
        for device in range(devices)
    ]
    return measured_timeline(records, table)


def both(table: Schedule) -> dict[str, Timeline]:
    return {"predicted": predict_timeline(table, Seconds()), "measured": as_measured(table)}


@every_table
def test_a_trace_has_an_event_for_every_span(table: Schedule) -> None:
    lines = both(table)
    events = chrome_trace(lines)["traceEvents"]
    complete = [event for event in events if event["ph"] == "X"]
    for process, one in enumerate(lines.values()):
        mine = [event for event in complete if event["pid"] == process]
        spans = sorted(one.spans, key=lambda span: (span.row, span.start))
        assert [(e["tid"], e["name"]) for e in mine] == [(s.row, str(s)) for s in spans]
        assert [e["ts"] for e in mine] == pytest.approx([s.start * 1e6 for s in spans])
        assert sum(e["dur"] for e in mine) == pytest.approx(one.work * 1e6)
    assert len(complete) == sum(len(one.spans) for one in lines.values())


@every_table
def test_arguments_of_events_are_the_tasks_of_the_table(table: Schedule) -> None:
    events = [e for e in chrome_trace(both(table))["traceEvents"] if e["ph"] == "X"]
    placed = [
        (
            tick,
            s,
            t.kind.name,
            t.module,
            t.microbatch,
            table.module_named(t.module).local_chunk(t.chunk),
        )
        for tick, s, t in table
    ]
    for process, copies in ((0, 1), (1, 2)):
        arguments = [event["args"] for event in events if event["pid"] == process]
        found = Counter(
            (args["tick"], args["stage"], *(what[name] for name in FIELDS))
            for args in arguments
            for what in args.get("tasks", [args])
            if what["kind"] != "head"
        )
        assert found == Counter(dict.fromkeys(placed, copies))


def test_arguments_of_heads_and_bundles() -> None:
    events = chrome_trace(both(interleaved_schedule(2, 1, 2)))["traceEvents"]
    (head,) = [e for e in events if e["name"] == "head(1)" and (e["pid"], e["tid"]) == (0, 0)]
    assert head["args"] == {
        "tick": 2, "stage": 0, "module": "head", "kind": "head", "microbatch": 1, "part": 0,
    }  # fmt: skip
    fused_events = [e for e in events if e["name"] == "decoder F(1, 1) + decoder B(0, 1)"]
    assert [e["pid"] for e in fused_events] == [1, 1]
    assert [task["kind"] for task in fused_events[0]["args"]["tasks"]] == ["F", "B"]
    assert fused_events[0]["args"].keys() == {"tick", "stage", "tasks"}


def test_processes_and_threads_have_names_and_come_first() -> None:
    events = chrome_trace(both(TABLES["two encoders"]))["traceEvents"]
    names = [event for event in events if event["ph"] == "M"]
    assert events[: len(names)] == names
    assert [e["args"]["name"] for e in names if e["name"] == "process_name"] == [
        "predicted",
        "measured",
    ]
    threads = {(e["pid"], e["tid"]): e["args"]["name"] for e in names if e["name"] == "thread_name"}
    assert [threads[0, row] for row in range(3)] == ["stage 0", "stage 1", "stage 2"]
    assert threads[1, 3] == "stage 1, device 1"
    order = [(e["pid"], e["tid"], e["ts"]) for e in events[len(names) :]]
    assert order == sorted(order)
    assert {(pid, tid) for pid, tid, _ in order} == set(threads)


def test_a_trace_is_written_as_json(tmp_path: Path) -> None:
    lines = both(TABLES["one encoder"])
    write_chrome_trace(tmp_path / "step.json", lines)
    assert json.loads((tmp_path / "step.json").read_text()) == chrome_trace(lines)


@pytest.mark.parametrize(
    ("name", "valid"), [("a.pdf", ".png, .svg"), ("a", ".png, .svg"), ("a.json", ".png, .svg")]
)
def test_pictures_of_other_kinds_are_refused(tmp_path: Path, name: str, valid: str) -> None:
    with pytest.raises(ScheduleError, match=f"{name}: suffix .* valid: {valid}"):
        write_picture(both(TABLES["one stage"]), tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_traces_of_other_kinds_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ScheduleError, match=r"a\.png: suffix '\.png' is refused; valid: \.json"):
        write_chrome_trace(tmp_path / "a.png", both(TABLES["one stage"]))


def test_pictures_are_written(tmp_path: Path) -> None:
    lines = both(TABLES["two encoders"])
    write_picture(lines, tmp_path / "a.png")
    with Image.open(tmp_path / "a.png") as image:
        assert image.width > 1000
        assert np.ptp(np.asarray(image.convert("L"))) > 200
    write_picture(lines, tmp_path / "a.svg")
    tree = ElementTree.parse(tmp_path / "a.svg")
    assert sum(1 for _ in tree.iter("{http://www.w3.org/2000/svg}path")) > 100


def drawn(axes: Axes) -> Iterator[tuple[str, str, np.ndarray]]:
    """`(label, colour, [[left, top], [right, bottom]])` of every box of a panel."""
    for collection in axes.collections:
        if isinstance(collection, PolyCollection):
            colours = [to_hex(colour) for colour in np.asarray(collection.get_facecolor())]
            for path, colour in zip(collection.get_paths(), colours, strict=True):
                yield str(collection.get_label()), colour, path.get_extents().get_points()


@every_table
def test_a_picture_has_a_box_for_every_task_where_the_task_is(table: Schedule) -> None:
    lines = both(table)
    panels = draw_timelines(lines).axes
    for axes, one in zip(panels, lines.values(), strict=True):
        parts = {
            (span.row, span.start, label): span
            for span in one.spans
            for label in labels(span.tasks, span.head)
        }
        found = {}
        for label, _, ((left, top), (right, bottom)) in drawn(axes):
            row = round((top + bottom) / 2)
            assert row - 0.5 < top < bottom < row + 0.5
            found[row, left, label] = right
        assert found == {key: span.end for key, span in parts.items()}
        assert sum(1 for _ in drawn(axes)) == len(parts)


def labels(tasks: tuple[Task, ...], head: int | None) -> list[str]:
    return [f"{t.module} {t.kind}" for t in tasks] + ["head head"] * (head is not None)


def test_tasks_of_a_bundle_share_the_height_of_the_row() -> None:
    (axes,) = draw_timelines(
        {"measured": as_measured(interleaved_schedule(2, 1, 4), devices=1)}
    ).axes
    boxes = [corners for _, _, corners in drawn(axes)]
    heights: Counter[tuple[float, int]] = Counter()
    for (left, top), (_, bottom) in boxes:
        heights[left, round((top + bottom) / 2)] += bottom - top
    assert set(np.round(list(heights.values()), 9)) == {0.84}
    assert {round(bottom - top, 9) for (_, top), (_, bottom) in boxes} == {0.84, 0.42}


def test_colours_tell_modules_kinds_and_neighbouring_chunks_apart() -> None:
    (axes,) = draw_timelines(
        {"predicted": predict_timeline(TABLES["two encoders"], Seconds())}
    ).axes
    colours = {(label, colour) for label, colour, _ in drawn(axes)}
    assert len({colour for _, colour in colours}) == len(colours) == 9
    assert Counter(label for label, _ in colours)["decoder F"] == 2


def test_the_legend_names_what_is_drawn() -> None:
    figure = draw_timelines({"predicted": predict_timeline(TABLES["two encoders"], Seconds())})
    (legend,) = figure.legends
    assert isinstance(legend, Legend)
    assert [text.get_text() for text in legend.get_texts()] == [
        "decoder forward (even, odd chunks)",
        "decoder backward (even, odd chunks)",
        "head and loss",
        "audio forward",
        "audio backward",
        "vision forward",
        "vision backward",
        "idle",
    ]


@every_table
def test_the_legend_explains_every_shade_and_band(table: Schedule) -> None:
    for lines in (*both(table).values(), with_phases(table)):
        figure = draw_timelines({"one": lines})
        (legend,) = figure.legends
        explained = {to_hex(box.get_facecolor()) for box in legend.findobj(Rectangle)}
        assert {to_hex(colour) for _, colour, _ in drawn(figure.axes[0])} <= explained
        names = [text.get_text() for text in legend.get_texts()]
        shared = any(len(span.tasks) > 1 and span.head is None for span in lines.spans)
        assert ("tasks of one tick" in names) == shared
        chunks = table.stage_chunks > 1
        assert ("decoder forward (even, odd chunks)" in names) == chunks
        assert ("decoder forward" in names) != chunks


def with_phases(table: Schedule = TABLES["two encoders"]) -> Timeline:
    """A simulated step that has everything."""
    one = TaskTime((TaskSegment(1.0, 0.5),))
    every = (task for _, _, task in table if task.module != BACKBONE)
    pieces = {(task.kind, task.module, task.chunk): one for task in every}
    times = StepTimes(one, one, pieces, one, gather=8.0, scatter=9.0, update=2.0)
    return simulate_step(table, times).timeline


def test_phases_of_a_step_have_boxes_without_numbers_and_names() -> None:
    lines = with_phases()
    figure = draw_timelines({"simulated": lines})
    renderer = rendered(figure).get_renderer()
    extent = figure.legends[0].get_window_extent(renderer)
    assert figure.bbox.x0 <= extent.x0 < extent.x1 <= figure.bbox.x1
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names[-5:-1] == ["gather parameters", "scatter gradients", "update parameters", "idle"]
    found = {(left, label) for label, _, ((left, _), _) in drawn(figure.axes[0])}
    phases = [span for span in lines.spans if span.operation]
    assert {(span.start, f"{span.operation} {span.operation}") for span in phases} <= found
    assert {span.operation for span in phases} == {"gather", "scatter", "update"}
    numbered = [text for text in figure.axes[0].texts if text.get_text() == "None"]
    assert not numbered


def test_who_waits_for_gather_and_scatter_does_no_work() -> None:
    lines = with_phases()
    waiting = sum(span.seconds for span in lines.spans if span.operation in ("gather", "scatter"))
    assert waiting > 0
    assert lines.work + waiting == pytest.approx(sum(span.seconds for span in lines.spans))


def test_arguments_of_phases() -> None:
    events = [e for e in chrome_trace({"x": with_phases()})["traceEvents"] if e["ph"] == "X"]
    updates = [event for event in events if event["name"] == "update"]
    assert len(updates) == 3
    assert {event["args"]["kind"] for event in updates} == {"update"}
    assert {event["args"]["microbatch"] for event in updates} == {None}
    assert {event["cat"] for event in updates} == {"update"}


def rendered(figure: Figure) -> FigureCanvasAgg:
    """The canvas after layout, so that artists know their pixels."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return canvas


@pytest.mark.parametrize("name", ["interleaved", "two encoders", "four encoders"])
def test_numbers_lie_inside_their_boxes_and_can_be_read(name: str) -> None:
    figure = draw_timelines(both(TABLES[name]))
    renderer = rendered(figure).get_renderer()
    for axes in figure.axes:
        boxes = list(drawn(axes))
        corners = [axes.transData.transform(points) for _, _, points in boxes]
        left, top, right, bottom = np.array(corners).reshape(-1, 4).T
        for text in axes.texts:
            extent = text.get_window_extent(renderer)
            across = (left <= extent.x0) & (extent.x1 <= right)
            (box,) = np.flatnonzero(across & (bottom <= extent.y0) & (extent.y1 <= top))
            assert contrast(text.get_color(), boxes[box][1]) > 3.5
        assert axes.texts


def contrast(first: Any, second: Any) -> float:
    """Ratio of relative luminances (WCAG 2.2), from 1 to 21."""
    both = [np.array(to_rgb(colour)) for colour in (first, second)]
    linear = [np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4) for c in both]
    dark, light = sorted(float(c @ [0.2126, 0.7152, 0.0722]) for c in linear)
    return (light + 0.05) / (dark + 0.05)


def test_thin_lanes_have_no_numbers() -> None:
    full = (Task(F, BACKBONE, 0), Task(B, BACKBONE, 0), Task(F, "vision", 0), Task(B, "vision", 0))
    modules = ModuleStages(BACKBONE, looped=True), ModuleStages("vision")
    table = Schedule(modules, 1, (Feed("vision"),), ((full[:3],), (full,)))
    (axes,) = draw_timelines({"measured": as_measured(table, devices=1)}).axes
    assert sum(1 for _ in drawn(axes)) == len(full[:3] + full)
    assert len(axes.texts) == 3


def test_every_box_that_is_large_enough_has_its_number() -> None:
    (axes,) = draw_timelines(
        {"predicted": predict_timeline(interleaved_schedule(4, 1, 8), Seconds(0.0))}
    ).axes
    expected = Counter(str(m) for m in range(8) for _ in range(2 * 4))
    assert Counter(text.get_text() for text in axes.texts) == expected


def test_small_boxes_have_neither_numbers_nor_outlines() -> None:
    """Outlines of small boxes would look like idle time."""
    (axes,) = draw_timelines({"predicted": predict_timeline(TABLES["long"], Seconds())}).axes
    assert not axes.texts
    boxes = [c for c in axes.collections if isinstance(c, PolyCollection)]
    assert all(len(collection.get_edgecolor()) == 0 for collection in boxes)


@pytest.mark.parametrize("name", ["two encoders", "four encoders"])
def test_everything_lies_within_the_picture(name: str) -> None:
    figure = draw_timelines(both(TABLES[name]))
    renderer = rendered(figure).get_renderer()
    whole = figure.bbox
    for artist in (*figure.legends, *figure.axes):
        extent = artist.get_tightbbox(renderer)
        assert extent is not None
        assert whole.x0 <= extent.x0 < extent.x1 <= whole.x1
        assert whole.y0 <= extent.y0 < extent.y1 <= whole.y1


def test_two_timelines_share_the_time_axis() -> None:
    lines = both(TABLES["one encoder"])
    figure = draw_timelines(lines)
    upper, lower = figure.axes
    assert upper.get_xlim() == lower.get_xlim() == (0, lines["measured"].makespan)
    assert [len(axes.get_yticklabels()) for axes in (upper, lower)] == [4, 8]
    assert upper.get_title(loc="left").startswith("predicted: ")
    share, hidden = lines["predicted"].bubble_share, lines["predicted"].encoder_hidden
    assert f"bubble share {share:.1%}, {hidden:.0%} of encoder work" in upper.get_title(loc="left")
    assert "encoder" not in lower.get_title(loc="left")
    assert figure.get_figheight() > 12 * ROW


def test_idle_time_shows_the_background_of_the_row() -> None:
    lines = predict_timeline(interleaved_schedule(4, 1, 8), Seconds())
    (axes,) = draw_timelines({"predicted": lines}).axes
    rows = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
    assert [patch.get_width() for patch in rows] == [lines.makespan] * 4
    assert {patch.get_facecolor() for patch in rows} == {to_rgba(IDLE_COLOUR)}
    assert IDLE_COLOUR.lower() not in {colour for _, colour, _ in drawn(axes)}


@pytest.mark.parametrize(
    ("scale", "label"), [(1.0, "time (s)"), (1e-3, "time (ms)"), (1e-6, "time (µs)"), (0.0, "(µs)")]
)
def test_the_unit_of_time_follows_the_duration(scale: float, label: str) -> None:
    lines = predict_timeline(interleaved_schedule(2, 1, 2), Seconds())
    spans = [replace(s, start=s.start * scale, end=s.end * scale) for s in lines.spans]
    lines = replace(lines, spans=tuple(spans), start=lines.start * scale, end=lines.end * scale)
    (axes,) = draw_timelines({"predicted": lines}).axes
    assert label in axes.get_xlabel()


def test_the_drawing_in_the_documentation_is_what_is_printed() -> None:
    page = Path(__file__).parents[3] / "docs" / "concepts" / "pipeline.md"
    for schedule in (interleaved_schedule(3, 1, 4), zero_bubble_schedule(3, 1, 8)):
        assert f"```\n{schedule}\n```" in page.read_text()

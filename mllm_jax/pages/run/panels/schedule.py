"""The panel of the pipeline's schedule: the predicted timeline of all tasks of a step."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from mllm_jax.config.configured_step import configure_step
from mllm_jax.pages.html.markup import Markup, join_markup, make_facts, make_tag
from mllm_jax.pages.html.panel import PagePanel
from mllm_jax.pages.html.words import format_percent, format_times
from mllm_jax.pages.run.files import RunFiles
from scheduling.schedules.schedule import ScheduleError
from scheduling.schedules.task_kinds import Shades
from scheduling.simulate.boxes import (
    BOX,
    Colour,
    SpanBox,
    boxes_of,
    ink_on,
    label_of,
    shade_of,
    shades_of,
)
from scheduling.simulate.timeline import Timeline, predict_timeline

#: Points: width of the drawing, place of the names of its rows, height of a row.
WIDTH, NAMES, ROW = 1320.0, 66.0, 26.0
#: Points: size of numbers, width of a digit, and the narrowest box that has an outline.
DIGIT_SIZE, DIGIT, OUTLINED = 11.0, 6.6, 5.0
#: Figures of the schedule that were logged when training began, with their names and words.
PREDICTED = {
    "pipeline/bubble_share": ("idle share of the devices", format_percent),
    "pipeline/encoder_hidden": ("encoder work in bubbles", format_percent),
    "pipeline/tick_imbalance": ("unevenness of ticks", format_times),
}


def schedule_panel(run: RunFiles) -> PagePanel:
    """The timeline of a step of the pipeline."""
    content, empty = Markup(), run.trouble
    if run.config:
        try:
            content = _draw_pipeline(run)
        except ScheduleError as error:
            empty = f"The schedule cannot be made here: {error}"
        else:
            empty = f"The backbone has one stage ({run.config.stage_key}), so there is no pipeline."
    explanation = (
        "Every task of a step by the FLOPs of its work: time runs to the right, a row is a stage, "
        "numbers are microbatches, and what is bare is idle."
    )
    return PagePanel("schedule", "Schedule of the pipeline", content, empty, explanation, wide=True)


def _draw_pipeline(run: RunFiles) -> Markup:
    assert run.config is not None
    lowered = configure_step(run.config)
    if lowered.pipeline is None:
        return Markup()
    line = predict_timeline(lowered.pipeline.schedule, lowered.costs)
    logged = [(label, words, run.series(name)[1]) for name, (label, words) in PREDICTED.items()]
    pairs = [(label, words(values[-1] or 0.0)) for label, words, values in logged if values]
    return join_markup(
        (make_facts([("kind", run.config.schedule.kind), *pairs]), _draw_timeline(line))
    )


def _draw_timeline(line: Timeline) -> Markup:
    """The boxes of a timeline, those of a colour in one path, with the numbers that fit."""
    shades, across = shades_of([line]), (WIDTH - NAMES) / line.makespan
    boxes = list(boxes_of(line))
    by_colour: dict[str, list[SpanBox]] = defaultdict(list)
    for box in boxes:
        by_colour[shade_of(box.part, shades)].append(box)
    height = ROW * len(line.rows)
    parts = [*_stage_rows(line.rows)]
    parts += [
        _draw_path(colour, boxes_of_colour, across) for colour, boxes_of_colour in by_colour.items()
    ]
    parts += [
        text for box in boxes for text in _draw_number(box, shade_of(box.part, shades), across)
    ]
    svg = make_tag(
        "svg",
        *parts,
        viewBox=f"0 0 {WIDTH:g} {height:g}",
        role="img",
        aria_label="timeline of a step of the pipeline",
    )
    return make_tag(
        "figure",
        _draw_legend(shades),
        make_tag("div", svg, class_="scroll"),
        class_="chart timeline",
    )


def _stage_rows(names: Iterable[str]) -> Iterable[Markup]:
    """A name and a bare row for every stage."""
    for row, name in enumerate(names):
        top = ROW * (row + (1 - BOX) / 2)
        yield make_tag("text", name, x=NAMES - 8, y=ROW * (row + 0.5) + 4, class_="tick end")
        yield make_tag("rect", x=NAMES, y=top, width=WIDTH - NAMES, height=ROW * BOX, class_="idle")


def _draw_path(colour: str, boxes: Iterable[SpanBox], across: float) -> Markup:
    """All boxes of a colour."""
    moves, narrowest = [], WIDTH
    for box in boxes:
        width, height = box.seconds * across, box.height * ROW
        left, top = NAMES + box.left * across, (box.top + 0.5) * ROW
        moves.append(f"M{left:.2f} {top:.2f}h{width:.2f}v{height:.2f}h{-width:.2f}z")
        narrowest = min(narrowest, width)
    outlined = "box outlined" if narrowest >= OUTLINED else "box"
    return make_tag("path", d="".join(moves), fill=colour, class_=outlined)


def _draw_number(box: SpanBox, colour: str, across: float) -> Iterable[Markup]:
    """The number of the microbatch, if it fits into its box."""
    if box.part.microbatch is None or box.height < BOX:
        return
    text = str(box.part.microbatch)
    if box.seconds * across < len(text) * DIGIT + 3:
        return
    x = NAMES + (box.left + box.right) / 2 * across
    y = (box.top + 0.5 + box.height / 2) * ROW + 4
    yield make_tag(
        "text", text, x=x, y=y, fill=ink_on(colour), class_="number", font_size=DIGIT_SIZE
    )


def _draw_legend(shades: Mapping[Colour, Shades]) -> Markup:
    entries = [
        make_tag(
            "span",
            *(make_tag("i", class_="key", style=f"background:{colour}") for colour in colours),
            label_of(*what, colours),
        )
        for what, colours in shades.items()
    ]
    return make_tag("div", *entries, class_="legend")

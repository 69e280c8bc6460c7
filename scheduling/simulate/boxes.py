"""The boxes of a drawn timeline, with their colours and names, whatever draws them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from scheduling.schedules.task_kinds import KINDS, Shades
from scheduling.schedules.tasks import Task
from scheduling.simulate.timeline import Span, Timeline

#: Module and kind, each pair with its colour.
Colour = tuple[str, str]

#: Shades of the head; the shades of tasks are with their kinds.
HEAD_SHADES: Mapping[Colour, Shades] = {("head", "head"): ("#222222",)}

#: Colours of the operations around the schedule, lighter where a stage only waits.
PHASE_SHADES: Mapping[Colour, Shades] = {
    ("gather", "gather"): ("#C9C9C9",),
    ("scatter", "scatter"): ("#A8A8A8",),
    ("update", "update"): ("#777777",),
}

#: Colour of a row where nothing lies on it.
IDLE_COLOUR = "#EEEEEE"

#: Height of a box in rows.
BOX = 0.84

#: Parts of a picture that are no tasks, in words.
LEGEND = {
    "head": "and loss",
    "gather": "parameters",
    "scatter": "gradients",
    "update": "parameters",
}


class SpanContent(NamedTuple):
    """Content of a span: a task, the head of a microbatch, or an operation around the schedule.

    `part` is the chunk of a task: of the backbone, that among the chunks of its stage.
    """

    module: str
    kind: str
    microbatch: int | None
    part: int


@dataclass(frozen=True)
class SpanBox:
    """A rectangle of the picture: seconds along x, rows along y, from the top."""

    part: SpanContent
    left: float
    right: float
    top: float
    height: float

    @property
    def seconds(self) -> float:
        """The width of the box in seconds."""
        return self.right - self.left

    @property
    def corners(self) -> list[tuple[float, float]]:
        """The four corners, in turn."""
        bottom = self.top + self.height
        left, right = self.left, self.right
        return [(left, self.top), (right, self.top), (right, bottom), (left, bottom)]


def parts_of(timeline: Timeline, span: Span) -> list[SpanContent]:
    """The content of a span of a timeline, from the top if its parts lie in lanes."""
    if span.operation is not None:
        return [SpanContent(span.operation, span.operation, None, 0)]
    if span.head is not None:
        return [SpanContent("head", "head", span.head, 0)]
    return [_span_content(timeline, task) for task in span.tasks]


def _span_content(timeline: Timeline, task: Task) -> SpanContent:
    backbone, chunk = timeline.backbone, task.chunk
    if task.module == backbone.name:
        chunk = backbone.local_chunk(chunk)
    return SpanContent(task.module, task.kind.name, task.microbatch, chunk)


def shades_of(timelines: Iterable[Timeline]) -> dict[Colour, Shades]:
    """Shades in use of every module and kind that occurs, in the order of the legend."""
    last: dict[Colour, int] = {}
    backbones: set[str] = set()
    for timeline in timelines:
        backbones.add(timeline.backbone.name)
        for module, kind, _, part in (p for s in timeline.spans for p in parts_of(timeline, s)):
            last[module, kind] = max(part, last.get((module, kind), 0))
    others = sorted({module for module, kind in last if kind in KINDS} - backbones)
    table = {(name, kind.name): kind.shades_of() for name in backbones for kind in KINDS.values()}
    table |= HEAD_SHADES
    for number, name in enumerate(others, start=1):
        table |= {(name, kind.name): kind.shades_of(number) for kind in KINDS.values()}
    table |= PHASE_SHADES
    return {key: shades[: last[key] + 1] for key, shades in table.items() if key in last}


def boxes_of(timeline: Timeline) -> Iterator[SpanBox]:
    """A box for every part of every span, those of one span in lanes."""
    for span in timeline.spans:
        parts = parts_of(timeline, span)
        height = BOX / len(parts)
        for lane, part in enumerate(parts):
            yield SpanBox(part, span.start, span.end, span.row - BOX / 2 + lane * height, height)


def label_of(module: str, kind: str, colours: Shades) -> str:
    """The legend's text for a module and kind, and for their two shades."""
    chunks = " (even, odd chunks)" if len(colours) > 1 else ""
    what = KINDS[kind].label if kind in KINDS else LEGEND[kind]
    return f"{module} {what}{chunks}"


def shade_of(part: SpanContent, shades: Mapping[Colour, Shades]) -> str:
    """The colour of a part's box, `#RRGGBB`."""
    shade = shades[part.module, part.kind]
    return shade[part.part % len(shade)]


def ink_on(colour: str) -> str:
    """Whichever of black and white is easier to read on `colour`, which is `#RRGGBB`."""
    red, green, blue = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    return "black" if 0.3 * red + 0.6 * green + 0.1 * blue > 0.5 else "white"

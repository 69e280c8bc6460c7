"""Charts as inline SVG: lines over steps, and stacked bars.

Colours are variables of the page's style, so that charts follow its light and dark themes. Charts
of lines bring their points as data, which the page's script shows below the pointer.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from mllm_jax.pages.html.markup import Markup, join_markup, make_tag, script_data
from mllm_jax.pages.html.scale import ChartScale, make_scale
from mllm_jax.pages.html.words import Words, format_known, format_number

#: Points of a drawing: its width and height, and what its axes take at the left, right, top and
#: bottom.
WIDTH, HEIGHT = 640.0, 236.0
LEFT, RIGHT, TOP, BOTTOM = 54.0, 12.0, 12.0, 26.0
#: Most points of a line; each stands for the mean of as many values as there are for one.
POINTS = 500
#: What a chart says of an axis that is not linear.
LOGARITHMIC = "The axis of values is logarithmic: equal distances are equal factors."
#: Colours of the style that series have in turn.
COLOURS = 10


@dataclass(frozen=True)
class ChartSeries:
    """A line of a chart.

    Attributes:
        name: name in the legend.
        steps: steps of its values, increasing.
        values: values; None, or one that is not finite, where there is none.
        colour: number of its colour; None: its place in the chart.
        faint: whether it is drawn below the others.
        dots: whether its values are dots, not a line.
    """

    name: str
    steps: Sequence[float]
    values: Sequence[float | None]
    colour: int | None = None
    faint: bool = False
    dots: bool = False

    @property
    def points(self) -> list[tuple[float, float]]:
        """Steps and values that are finite, thinned out to `POINTS`."""
        pairs = zip(self.steps, self.values, strict=True)
        present = [(step, value) for step, value in pairs if value is not None]
        finite = [(step, value) for step, value in present if math.isfinite(value)]
        every = -(-len(finite) // POINTS)
        return [_mean_point(finite[at : at + every]) for at in range(0, len(finite), every or 1)]


def _mean_point(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The last step and the mean value of some points."""
    return points[-1][0], sum(value for _, value in points) / len(points)


def smooth_series(series: ChartSeries, name: str) -> ChartSeries:
    """The running mean of a series over about 1/40 of its points, without a bias at its start."""
    total = mass = 0.0
    weight = len(series.points) / (len(series.points) + 40)
    means = []
    for _, value in series.points:
        total, mass = weight * total + value, weight * mass + 1.0
        means.append(total / mass)
    return ChartSeries(name, [step for step, _ in series.points], means, series.colour)


def line_chart(
    label: str,
    series: Sequence[ChartSeries],
    words: Words = format_number,
    *,
    zero: bool = False,
    log: bool = False,
) -> Markup:
    """Lines over steps, with a legend of more than one; empty text if no series has a value.

    Args:
        label: what the chart shows, for those who cannot see it.
        words: gives the words for a value.
        zero: values begin at 0.
        log: values may be on a logarithmic axis, if they are far apart.
    """
    shown = [
        (one, number_ if one.colour is None else one.colour)
        for number_, one in enumerate(series)
        if one.points
    ]
    if not shown:
        return Markup()
    points = [point for one, _ in shown for point in one.points]
    values = [value for _, value in points]
    across = _horizontal_scale([step for step, _ in points])
    up = make_scale(values, HEIGHT - BOTTOM, TOP, zero=zero, log=log)
    drawn = [_draw_series(one, colour, across, up) for one, colour in shown]
    svg = make_tag(
        "svg",
        *_draw_axes(across, up, words),
        *drawn,
        make_tag("line", x1=0.0, x2=0.0, y1=TOP, y2=HEIGHT - BOTTOM, class_="pointer"),
        viewBox=f"0 0 {WIDTH:g} {HEIGHT:g}",
        role="img",
        aria_label=label,
    )
    strong = [(one, colour) for one, colour in shown if not one.faint]
    parts = [_draw_legend(strong, words)] if len(strong) > 1 else []
    parts += [make_tag("p", LOGARITHMIC, class_="note")] if up.log else []
    points_data = script_data(
        [_point_data(one, colour, across, words) for one, colour in shown], "points"
    )
    return make_tag(
        "figure", *parts, svg, points_data, make_tag("div", class_="tip"), class_="chart lines"
    )


def _horizontal_scale(steps: Sequence[float]) -> ChartScale:
    low, high = min(steps), max(steps)
    return ChartScale(low if low < high else low - 1, high, LEFT, WIDTH - RIGHT)


def _draw_axes(across: ChartScale, up: ChartScale, words: Words) -> list[Markup]:
    """Lines at the values' ticks, with their words; steps below."""
    parts = []
    for value in up.ticks():
        y = up(value)
        parts.append(make_tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y, class_="grid"))
        parts.append(make_tag("text", words(value), x=LEFT - 8, y=y + 3.5, class_="tick end"))
    steps = [step for step in across.ticks(6) if step == int(step)]
    for step in steps:
        label = "step " * (step == steps[0]) + format_number(step)
        # Narrow screens have room for every second one.
        name = "tick middle" + " spare" * (steps.index(step) % 2)
        parts.append(make_tag("text", label, x=across(step), y=HEIGHT - 8, class_=name))
    return parts


def _draw_series(series: ChartSeries, colour: int, across: ChartScale, up: ChartScale) -> Markup:
    places = [(across(step), up(value)) for step, value in series.points]
    name = f"c{colour % COLOURS}" + " faint" * series.faint
    if series.dots or len(places) == 1:
        return join_markup(
            make_tag("circle", cx=x, cy=y, r=4.0, class_=f"dot {name}") for x, y in places
        )
    path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
    return make_tag("path", d=path, class_=f"line {name}")


def _draw_legend(entries_shown: Iterable[tuple[ChartSeries, int]], words: Words) -> Markup:
    """Names of the series, with their last values."""
    entries = [
        make_tag(
            "span",
            make_tag("i", class_=f"key c{colour % COLOURS}"),
            series.name,
            make_tag("b", format_known(series.points[-1][1], words)),
        )
        for series, colour in entries_shown
    ]
    return make_tag("div", *entries, class_="legend")


def _point_data(
    series: ChartSeries, colour: int, across: ChartScale, words: Words
) -> dict[str, object]:
    """The data of a series for the page's script: horizontal positions, and texts."""
    return {
        "name": series.name,
        "colour": f"c{colour % COLOURS}",
        "faint": series.faint,
        "x": [round(across(step) / WIDTH, 5) for step, _ in series.points],
        "step": [f"{step:g}" for step, _ in series.points],
        "text": [words(value) for _, value in series.points],
    }


def stacked_bars(
    label: str, rows: Sequence[tuple[str, Mapping[str, float]]], words: Words = format_number
) -> Markup:
    """A bar for every row, of parts with one colour for each name; equal lengths are equal values.

    Args:
        label: what the chart shows.
        rows: name of each row, and its parts by name in the order of the bar.
        words: gives the words for a value.
    """
    every = dict.fromkeys(name for _, parts in rows for name in parts)
    names = [name for name in every if any(parts.get(name) for _, parts in rows)]
    longest = max(sum(parts.values()) for _, parts in rows) or 1.0
    bars = [_draw_bar(name, parts, names, longest, words) for name, parts in rows]
    totals = {name: sum(parts.get(name, 0.0) for _, parts in rows) for name in names}
    legend = [
        make_tag(
            "span",
            make_tag("i", class_=f"key c{at % COLOURS}"),
            name,
            make_tag("b", words(totals[name])),
        )
        for at, name in enumerate(names)
    ]
    return make_tag(
        "figure",
        make_tag("div", *legend, class_="legend"),
        make_tag("div", *bars, class_="bars", role="img", aria_label=label),
        class_="chart",
    )


def _draw_bar(
    name: str, parts: Mapping[str, float], names: Sequence[str], longest: float, words: Words
) -> Markup:
    pieces = [
        make_tag(
            "i",
            class_=f"c{names.index(part) % COLOURS}",
            style=f"width:{100 * value / longest:.3f}%",
            title=f"{part}: {words(value)}",
        )
        for part, value in parts.items()
        if value > 0
    ]
    total = words(sum(parts.values()))
    return join_markup(
        (make_tag("span", name), make_tag("div", *pieces, class_="bar"), make_tag("b", total))
    )

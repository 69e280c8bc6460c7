"""A heat map of all processes and devices over the steps: read from a run's folder, and drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ValidationError

from mllm_jax.runtime.records import INT, LIST, OBJECT, RecordLines, RecordSchema, read_record_lines
from mllm_jax.train.listeners.stragglers.window import DEVICE, HOST, LOCAL

Numbers = NDArray[np.float64]

#: Names of the files in the folder of a run.
RANKS, PICTURE = "ranks.jsonl", "ranks.png"
#: What is drawn, with its title: phases whose seconds are added.
MAPS: Mapping[str, Sequence[str]] = {
    "What a process does by itself in a step": LOCAL,
    "A fixed amount of work on the host": (HOST,),
    "A fixed amount of work on the device": (DEVICE,),
}
#: Ratio to the others that has the darkest colours.
FACTOR = 1.3
#: Most columns of a map; each is the mean of as many windows as there are for one.
COLUMNS = 400
#: Places that have a name at the picture.
NAMED = 32


@dataclass(frozen=True)
class HeatMap:
    """Seconds of every process or device, over those of the others.

    Attributes:
        title: what takes these seconds.
        places: `[rows]`, names.
        steps: `[columns]`, last step of each window.
        ratio: `[rows, columns]`, seconds over their median in the window; no number where a place
            has none.
    """

    title: str
    places: tuple[str, ...]
    steps: Numbers
    ratio: Numbers


class RankLine(BaseModel):
    """A line of `ranks.jsonl`.

    Attributes:
        step: last step of the window.
        places: names of the places by phase, where they have changed.
        slow: who is slow, in words.
        read, place, between, host, device: seconds of all places in a phase; None if not timed.
    """

    step: int
    places: dict[str, list[str]] = {}
    slow: list[str] = []
    read: list[float] | None = None
    place: list[float] | None = None
    between: list[float] | None = None
    host: list[float] | None = None
    device: list[float] | None = None


_LISTS = dict.fromkeys((*LOCAL, HOST, DEVICE), LIST)
#: The form of a line.
FORM = RecordSchema({"step": INT}, {"places": OBJECT, "slow": LIST, **_LISTS})


def read_times(folder: Path) -> RecordLines:
    """The records of a run's `ranks.jsonl`."""
    return read_record_lines(folder / RANKS, FORM)


def times_of(records: RecordLines) -> list[RankLine]:
    """The lines of records; lists of another type, of an earlier version, are left out."""
    lines = []
    for record in records.values:
        with suppress(ValidationError):
            lines.append(RankLine.model_validate(record))
    return lines


def load_times(folder: Path) -> list[RankLine]:
    """The lines of a run's `ranks.jsonl`; damaged ones are left out with a warning."""
    return times_of(read_times(folder).log_problems())


def heat_maps(lines: Sequence[RankLine]) -> list[HeatMap]:
    """The maps of a run, of all times that were measured."""
    maps = [_heat_map(title, phases, lines) for title, phases in MAPS.items()]
    return [heat_map for heat_map in maps if len(heat_map.places) > 0]


def slow_ones(lines: Sequence[RankLine]) -> list[tuple[int, str]]:
    """Steps at which a place was slow for the first time, and the messages."""
    first: dict[str, tuple[int, str]] = {}
    for line in lines:
        for message in line.slow:
            first.setdefault(message.split(" is slow: ")[0], (line.step, message))
    return list(first.values())


def _heat_map(title: str, phases: Sequence[str], lines: Sequence[RankLine]) -> HeatMap:
    """The map of the sum of some phases."""
    columns, steps, places = list[dict[str, float]](), list[float](), tuple[str, ...]()
    for line in lines:
        places = tuple(line.places.get(phases[0], places))
        times = [values for phase in phases if (values := getattr(line, phase))]
        # The line with their names may be lost, with the folder of the run.
        rows = places or tuple(map(str, range(len(times[0]) if times else 0)))
        if [len(values) for values in times] == [len(rows)] * len(phases):
            seconds = np.sum(times, axis=0)
            columns.append(dict(zip(rows, seconds / (np.median(seconds) or 1.0), strict=True)))
            steps.append(line.step)
    names = tuple(dict.fromkeys(name for column in columns for name in column))
    ratio = [[column.get(name, np.nan) for column in columns] for name in names]
    return _average_columns(HeatMap(title, names, np.array(steps), np.array(ratio, np.float64)))


def _average_columns(full: HeatMap) -> HeatMap:
    """The map with at most `COLUMNS` columns, each the mean of as many windows."""
    count = -(-len(full.steps) // COLUMNS)
    if count <= 1:
        return full
    ranges = [slice(start, start + count) for start in range(0, len(full.steps), count)]
    ratio = np.stack([full.ratio[:, windows].mean(1) for windows in ranges], axis=1)
    steps = np.array([full.steps[windows][-1] for windows in ranges])
    return HeatMap(full.title, full.places, steps, ratio)


def draw_maps(maps: Sequence[HeatMap], path: Path) -> None:
    """Write a picture of the maps, below one another.

    Raises:
        OSError: the file cannot be written.
    """
    # The drawing library is loaded only where something is drawn.
    from matplotlib.colors import LogNorm
    from matplotlib.figure import Figure

    rows = [min(len(heat_map.places), 2 * NAMED) for heat_map in maps]
    heights = [0.22 * count + 0.9 for count in rows]
    figure = Figure((11.0, sum(heights)), dpi=120, layout="constrained")
    panels = figure.subplots(len(maps), squeeze=False, height_ratios=heights)[:, 0]
    for axes, heat_map in zip(panels, maps, strict=True):
        image = axes.imshow(
            heat_map.ratio,
            cmap="RdBu_r",
            norm=LogNorm(1 / FACTOR, FACTOR, clip=True),
            aspect="auto",
            interpolation="nearest",
        )
        places, steps = heat_map.places, heat_map.steps
        every = -(-len(places) // NAMED)
        axes.set_yticks(range(0, len(places), every), places[::every], fontsize=7)
        shown = np.unique(np.linspace(0, len(steps) - 1, 8).astype(int))
        axes.set_xticks(shown, [f"{steps[column]:.0f}" for column in shown], fontsize=7)
        axes.set_title(heat_map.title, loc="left", fontsize=9)
    panels[-1].set_xlabel("step", fontsize=8)
    ticks = [1 / FACTOR, 1, FACTOR]
    bar = figure.colorbar(image, ax=list(panels), ticks=ticks, extend="both", shrink=0.9)
    bar.ax.set_yticklabels([f"{tick:.2f}" for tick in ticks], fontsize=7)
    bar.ax.minorticks_off()
    bar.set_label("seconds / median", fontsize=8)
    figure.savefig(path)

"""A heat map of all processes and devices over the steps: read from a run's folder, and drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ValidationError

from mllm_jax.runtime.records import INT, LIST, OBJECT, Form, Lines, read_lines
from mllm_jax.train.listeners.stragglers.window import DEVICE, HOST, OWN

Numbers = NDArray[np.float64]

#: Names of the files in the folder of a run.
RANKS, PICTURE = "ranks.jsonl", "ranks.png"
#: What is drawn, with its title: phases whose seconds are added.
MAPS: Mapping[str, Sequence[str]] = {
    "What a process does by itself in a step": OWN,
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


class Line(BaseModel):
    """A line of `ranks.jsonl`.

    Attributes:
        step: last step of the window.
        places: names of the places by phase, where they have changed.
        slow: who was found slow, in words.
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


_LISTS = dict.fromkeys((*OWN, HOST, DEVICE), LIST)
#: The form of a line.
FORM = Form({"step": INT}, {"places": OBJECT, "slow": LIST, **_LISTS})


def read_times(folder: Path) -> Lines:
    """The records of a run's `ranks.jsonl`."""
    return read_lines(folder / RANKS, FORM)


def times_of(records: Lines) -> list[Line]:
    """The lines of records; lists of another type, of an earlier version, are left out."""
    lines = []
    for own in records.values:
        with suppress(ValidationError):
            lines.append(Line.model_validate(own))
    return lines


def kept_times(folder: Path) -> list[Line]:
    """The lines of a run's `ranks.jsonl`, without those that are damaged, which is told."""
    return times_of(read_times(folder).warn())


def heat_maps(lines: Sequence[Line]) -> list[HeatMap]:
    """The maps of a run; none of what was not timed."""
    maps = [_heat_map(title, phases, lines) for title, phases in MAPS.items()]
    return [own for own in maps if len(own.places) > 0]


def slow_ones(lines: Sequence[Line]) -> list[tuple[int, str]]:
    """Steps at which somebody was found slow, and who, without those that say the same again."""
    found: dict[str, tuple[int, str]] = {}
    for line in lines:
        for told in line.slow:
            found.setdefault(told.split(" is slow: ")[0], (line.step, told))
    return list(found.values())


def _heat_map(title: str, phases: Sequence[str], lines: Sequence[Line]) -> HeatMap:
    """The map of the sum of some phases."""
    columns, steps, places = list[dict[str, float]](), list[float](), tuple[str, ...]()
    for line in lines:
        places = tuple(line.places.get(phases[0], places))
        timed = [own for phase in phases if (own := getattr(line, phase))]
        # The line with their names may be lost, with the folder of the run.
        named = places or tuple(map(str, range(len(timed[0]) if timed else 0)))
        if [len(own) for own in timed] == [len(named)] * len(phases):
            seconds = np.sum(timed, axis=0)
            columns.append(dict(zip(named, seconds / (np.median(seconds) or 1.0), strict=True)))
            steps.append(line.step)
    names = tuple(dict.fromkeys(name for column in columns for name in column))
    ratio = [[column.get(name, np.nan) for column in columns] for name in names]
    return _thinned(HeatMap(title, names, np.array(steps), np.array(ratio, np.float64)))


def _thinned(whole: HeatMap) -> HeatMap:
    """The map with at most `COLUMNS` columns."""
    every = -(-len(whole.steps) // COLUMNS)
    if every <= 1:
        return whole
    parts = [slice(at, at + every) for at in range(0, len(whole.steps), every)]
    ratio = np.stack([whole.ratio[:, part].mean(1) for part in parts], axis=1)
    return HeatMap(whole.title, whole.places, np.array([whole.steps[p][-1] for p in parts]), ratio)


def draw(maps: Sequence[HeatMap], path: Path) -> None:
    """Write a picture of the maps, below one another.

    Raises:
        OSError: the file cannot be written.
    """
    # The drawing library is loaded only where something is drawn.
    from matplotlib.colors import LogNorm
    from matplotlib.figure import Figure

    rows = [min(len(own.places), 2 * NAMED) for own in maps]
    heights = [0.22 * count + 0.9 for count in rows]
    figure = Figure((11.0, sum(heights)), dpi=120, layout="constrained")
    panels = figure.subplots(len(maps), squeeze=False, height_ratios=heights)[:, 0]
    for axes, own in zip(panels, maps, strict=True):
        image = axes.imshow(
            own.ratio,
            cmap="RdBu_r",
            norm=LogNorm(1 / FACTOR, FACTOR, clip=True),
            aspect="auto",
            interpolation="nearest",
        )
        every = -(-len(own.places) // NAMED)
        axes.set_yticks(range(0, len(own.places), every), own.places[::every], fontsize=7)
        shown = np.unique(np.linspace(0, len(own.steps) - 1, 8).astype(int))
        axes.set_xticks(shown, [f"{own.steps[at]:.0f}" for at in shown], fontsize=7)
        axes.set_title(own.title, loc="left", fontsize=9)
    panels[-1].set_xlabel("step", fontsize=8)
    ticks = [1 / FACTOR, 1, FACTOR]
    bar = figure.colorbar(image, ax=list(panels), ticks=ticks, extend="both", shrink=0.9)
    bar.ax.set_yticklabels([f"{tick:.2f}" for tick in ticks], fontsize=7)
    bar.ax.minorticks_off()
    bar.set_label("seconds / median", fontsize=8)
    figure.savefig(path)

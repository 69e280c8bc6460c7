"""What a comparison of mixtures leaves: our plan, the figures, and a picture of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from benchmarks.systems.mixture.compare import OURS, SystemComparison
from mllm_jax.plan.prediction import format_gib
from mllm_jax.plan.report import write_plan
from mllm_jax.runtime.folder import prepare_folder

#: Names of the files: our plan, the figures and their picture.
FILES = ("plan.yaml", "mixture.json", "mixture.png")
#: Inches of a panel.
WIDTH, HEIGHT = 4.2, 3.2


def write_files(result: SystemComparison, folder: Path) -> tuple[Path, ...]:
    """Write our plan, the figures and their picture into `folder`.

    Raises:
        RunError: `folder` cannot be written.
        ConfigError: the planned configuration is refused after all.
    """
    prepare_folder(folder)
    value = result.to_json()
    plan, figures, picture = (folder / name for name in FILES)
    write_plan(result.planned, _plan_header(result), plan)
    figures.write_text(json.dumps(value, indent=2) + "\n")
    draw_panels([value], picture)
    return plan, figures, picture


def _plan_header(result: SystemComparison) -> str:
    """What the plan was made for, and what is predicted of it."""
    steps = [cells[OURS].seconds for cells in result.cells]
    span = f"{min(steps):.4g} to {max(steps):.4g} s a step"
    devices = f"{result.planned.parallel.devices} x {result.hardware.title}"
    return (
        f"# Planned for {devices} and mixtures from {result.mixtures[0]} to {result.mixtures[-1]}:"
        f" predicted\n# {span}, {format_gib(result.cells[0][OURS].memory)} GiB a device.\n"
    )


def draw_panels(results: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Draw the speed of all systems over the mixture, a panel for each result.

    Args:
        results: as of `Compared.to_json`.
        path: a PNG or SVG file.
    """
    count = len(results)
    figure = Figure((WIDTH * count, HEIGHT), dpi=120, layout="constrained")
    for axes, result in zip(figure.subplots(1, count, squeeze=False)[0], results, strict=True):
        mixtures = result["mixtures"]
        places = range(len(mixtures))
        for number, name in enumerate(result["plans"]):
            cells = [mixture["systems"].get(name) for mixture in mixtures]
            speeds = [
                cell["tokens_per_second"] / 1e3 if cell and cell["fits"] else None for cell in cells
            ]
            here = [place for place, speed in zip(places, speeds, strict=True) if speed]
            style = {"color": f"C{number}", "marker": "o", "markersize": 3}
            width = 2.2 if name == OURS else 1.2
            shown = [speed for speed in speeds if speed]
            axes.plot(here, shown, label=name, linewidth=width, **style)
        axes.set_xticks(list(places), [mixture["mixture"] for mixture in mixtures], fontsize=7)
        axes.set_ylim(bottom=0)
        axes.set_title(result["name"], fontsize=9)
        axes.set_xlabel("media tokens : text tokens", fontsize=8)
    figure.axes[0].set_ylabel("thousand tokens a second", fontsize=8)
    figure.axes[0].legend(fontsize=7, loc="lower left")
    figure.savefig(path)

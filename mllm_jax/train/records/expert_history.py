"""The load of the experts of a run over its steps, read from its metrics and drawn.

::

    metrics.jsonl -> ExpertHistory -> experts.png   tokens of every expert, and evenness by step
                              \\-> table            the last of them, by layer
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mllm_jax.layers.config.experts import ExpertsConfig
from mllm_jax.models.model_config import ModelConfig
from mllm_jax.runtime.folder import RunError, prepare_folder
from mllm_jax.runtime.records import read_record_lines
from mllm_jax.train.records.forms import metrics_schema as form

if TYPE_CHECKING:  # which reading needs not
    from matplotlib.axes import Axes

Numbers = NDArray[np.float64]

#: Tokens over an even share that have the darkest colors: so many times as many, or as few.
FACTOR = 4.0
#: Tokens of an expert that got none, on a scale that has no zero.
TINY = 1e-9
#: Layers that have a name at the heat map, and in the legend, at most.
LABELS, NAMED = 16, 8


@dataclass(frozen=True)
class ExpertHistory:
    """Loads of all layers that have experts, at every line of the metrics.

    Attributes:
        steps: `[lines]`, steps done at each line.
        layers: `[layers]`, numbers of the layers, from 0.
        load: `[lines, layers, experts]`, tokens of every expert over the mean of its layer; no
            number where the logits of a router were none.
        imbalance, entropy: `[lines, layers]`, see `ExpertLoad`.
    """

    steps: Numbers
    layers: tuple[int, ...]
    load: Numbers
    imbalance: Numbers
    entropy: Numbers

    @property
    def rows(self) -> list[tuple[int, float, int, int, float]]:
        """Table rows of the last line: layer, imbalance, busiest and idlest expert, entropy."""
        last = np.nan_to_num(self.load[-1])
        busy, idle = last.argmax(-1).tolist(), last.argmin(-1).tolist()
        imbalance, entropy = self.imbalance[-1].tolist(), self.entropy[-1].tolist()
        return list(zip(self.layers, imbalance, busy, idle, entropy, strict=True))

    def to_json(self) -> dict[str, Any]:
        """`{"steps", "layers", "load", "imbalance", "entropy"}`."""
        arrays = {name: getattr(self, name).tolist() for name in ("load", "imbalance", "entropy")}
        return {"steps": self.steps.tolist(), "layers": list(self.layers), **arrays}


#: Columns of `ExpertHistory.rows`.
COLUMNS = ("layer", "max/mean", "busiest expert", "idlest expert", "entropy")


def find_experts(model: ModelConfig) -> ExpertsConfig:
    """The experts of a model, for a picture of them.

    Raises:
        RunError: the model has none.
    """
    backbone = model.backbone_config
    if backbone.experts is None:
        raise RunError(
            f"model.{model.key(model.backbone)}.family: {backbone.family} has no experts to draw; "
            "valid: a family with experts"
        )
    return backbone.experts


def read_expert_history(metrics: Path) -> ExpertHistory:
    """The loads in a run's `metrics.jsonl`.

    Raises:
        RunError: there is no such file, or no loads of experts in it.
    """
    if not metrics.is_file():
        raise RunError(f"{metrics} is not there; valid: a configuration whose run has begun")
    lines = read_record_lines(metrics, form).log_problems().values
    reports = [line for line in lines if line.get("experts")]
    if not reports:
        raise RunError(
            f"{metrics} has no loads of experts; valid: a run whose decoder has experts, after its "
            "first line of the log"
        )
    return history_of(reports)


def history_of(reports: Sequence[Mapping[str, Any]]) -> ExpertHistory:
    """The loads in lines of the metrics, each of which has some."""
    shares = _stack_values(reports, "shares")
    mean = shares.mean(-1, keepdims=True)
    return ExpertHistory(
        np.array([line["step"] for line in reports], np.float64),
        tuple(layer["layer"] for layer in reports[0]["experts"]),
        np.divide(shares, mean, out=np.full_like(shares, np.nan), where=mean > 0),
        _stack_values(reports, "imbalance"),
        _stack_values(reports, "entropy"),
    )


def _stack_values(reports: Sequence[Mapping[str, Any]], name: str) -> Numbers:
    """`[lines, layers, ..]` of a figure; null, in JSON, is no number."""
    return np.array([[layer[name] for layer in line["experts"]] for line in reports], np.float64)


def draw_history(history: ExpertHistory, folder: Path) -> Path:
    """Write `experts.png`: a heat map of the last line, and evenness over the steps.

    Raises:
        RunError: `folder` cannot be written.
    """
    # The drawing library is loaded only where something is drawn.
    from matplotlib.figure import Figure

    prepare_folder(folder)
    figure = Figure(figsize=(11.0, 4.2), dpi=120, layout="constrained")
    places = figure.subplot_mosaic(
        [["heat", "imbalance"], ["heat", "entropy"]], width_ratios=[3, 2]
    )
    _draw_heat(history, places["heat"])
    _draw_lines(history, history.imbalance, places["imbalance"])
    _draw_lines(history, history.entropy, places["entropy"])
    places["imbalance"].set(ylabel="busiest / mean", ylim=(1, None))
    places["entropy"].set(ylabel="entropy (1 = even)", xlabel="step", ylim=(None, 1))
    if len(history.layers) <= NAMED:
        places["imbalance"].legend(fontsize=7)
    path = folder / "experts.png"
    figure.savefig(path)
    return path


def _draw_heat(history: ExpertHistory, axes: Axes) -> None:
    """Tokens of each expert over an even share, a row for each layer."""
    from matplotlib.colors import LogNorm

    last = history.load[-1]
    image = axes.imshow(
        np.maximum(last, TINY),
        cmap="RdBu_r",
        norm=LogNorm(1 / FACTOR, FACTOR, clip=True),
        aspect="auto",
        interpolation="nearest",
    )
    every = -(-len(history.layers) // LABELS)
    names = [str(layer) for layer in history.layers]
    axes.set_yticks(range(0, len(names), every), names[::every])
    axes.set(xlabel="expert", ylabel="layer", title=f"load at step {history.steps[-1]:.0f}")
    ticks = [1 / FACTOR, 1 / 2, 1, 2, FACTOR]
    bar = axes.figure.colorbar(image, ax=axes, ticks=ticks, extend="both")
    bar.ax.set_yticklabels([f"{tick:g}" for tick in ticks])
    bar.ax.minorticks_off()
    bar.set_label("tokens of an expert / mean of its layer")


def _draw_lines(history: ExpertHistory, values: Numbers, axes: Axes) -> None:
    """A figure of every layer over the steps; deeper layers are lighter."""
    from matplotlib import colormaps

    shades = colormaps["viridis"](np.linspace(0, 0.9, len(history.layers)))
    for number, (layer, shade) in enumerate(zip(history.layers, shades, strict=True)):
        axes.plot(
            history.steps, values[:, number], color=shade, label=f"layer {layer}", linewidth=1
        )
    axes.grid(alpha=0.3)

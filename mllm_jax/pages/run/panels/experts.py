"""The panel of a decoder's experts: their tokens, and the balance over the steps."""

from __future__ import annotations

import numpy as np

from mllm_jax.pages.html.charts import ChartSeries, line_chart
from mllm_jax.pages.html.heat import heat_map, heat_scale
from mllm_jax.pages.html.markup import join_markup
from mllm_jax.pages.html.panel import PagePanel
from mllm_jax.pages.html.words import format_times
from mllm_jax.pages.run.files import RunFiles
from mllm_jax.train.records.expert_history import FACTOR, NAMED, ExpertHistory, history_of


def experts_panel(run: RunFiles) -> PagePanel | None:
    """Loads of all experts; None without any."""
    reports = [line for line in run.reports if line.get("experts")]
    if not reports:
        return None
    history = history_of(reports)
    last = f"load at step {history.steps[-1]:.0f}"
    names = [f"layer {layer}" for layer in history.layers]
    ends = "expert 0", str(history.load.shape[-1] - 1)
    scale = heat_scale(f"{FACTOR:.2g} times the mean or more", f"1/{FACTOR:.2g} of it or less")
    content = join_markup(
        [
            line_chart(
                "busiest expert over the mean, over steps", _imbalance_series(history), format_times
            ),
            scale,
            heat_map(last, names, history.load[-1], ends, FACTOR),
        ]
    )
    explanation = (
        "Tokens of an expert over the mean of its layer: red has more, blue has fewer. Lines: the "
        "busiest expert of a layer over the mean; 1 is even."
    )
    return PagePanel("experts", "Experts", content, "", explanation)


def _imbalance_series(history: ExpertHistory) -> list[ChartSeries]:
    """A line for each layer; of many layers their worst and their mean."""
    steps, values = [int(step) for step in history.steps], history.imbalance
    if len(history.layers) <= NAMED:
        return [
            ChartSeries(f"layer {layer}", steps, values[:, number].tolist())
            for number, layer in enumerate(history.layers)
        ]
    lines = {"worst layer": values.max(axis=1), "mean of all layers": np.mean(values, axis=1)}
    return [ChartSeries(name, steps, series.tolist()) for name, series in lines.items()]

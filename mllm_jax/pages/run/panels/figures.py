"""Panels of the figures in the log: loss, throughput, MFU, padding, imbalance, evaluations."""

from __future__ import annotations

from typing import Any

from mllm_jax.pages.html.charts import ChartSeries, line_chart, smooth_series
from mllm_jax.pages.html.markup import Markup, join_markup, make_table
from mllm_jax.pages.html.panel import PagePanel
from mllm_jax.pages.html.words import format_number, format_percent, format_seconds, format_times
from mllm_jax.pages.run.files import RunFiles
from mllm_jax.train.records.metrics import content_name, phase_name

#: Reports from which the loss is smoothed.
MANY = 20
#: Prefixes of the figures of an evaluation.
HELD_OUT, EXACT, RECALL = "heldout_loss", "exact_match", "recall_at_1"
#: Why rates are missing.
UNTIMED = "No step has been timed yet: the first step of a process, which compiles, is left out."


def loss_panel(run: RunFiles) -> PagePanel:
    """Training loss, and the loss on held-out samples."""
    steps, values = _reported_series(run, "loss")
    training = ChartSeries("training", steps, values, colour=0)
    lines = [training]
    if len(training.points) >= MANY:
        lines = [ChartSeries("every report", steps, values, colour=0, faint=True)]
        lines.append(smooth_series(training, "training, smoothed"))
    names = _logged_names(run, HELD_OUT)
    lines += [
        ChartSeries(name.replace("_", " "), *run.series(name), colour=at, dots=True)
        for at, name in enumerate(names, 1)
    ]
    chart = line_chart("loss over steps", lines, format_number, log=True)
    explanation = "Mean over the target tokens of the steps of a report."
    if training not in lines:
        explanation += " The pale line has every report; the strong one is a running mean of it."
    return PagePanel("loss", "Loss", chart, "No step has been reported yet.", explanation)


def gradient_panel(run: RunFiles) -> PagePanel:
    """Norm of the gradients of all parameters."""
    norm = ChartSeries("gradient norm", *_reported_series(run, "gradient_norm"))
    chart = line_chart("gradient norm over steps", [norm], format_number, log=True)
    explanation = "Norm of all gradients together, before clipping, at the last step of a report."
    return PagePanel(
        "gradient", "Gradient norm", chart, "No step has been reported yet.", explanation
    )


def learning_rate_panel(run: RunFiles) -> PagePanel:
    """Learning rate of the updates."""
    rate = ChartSeries("learning rate", *_reported_series(run, "learning_rate"))
    chart = line_chart("learning rate over steps", [rate], format_number, zero=True)
    explanation = "Learning rate of the last update of a report."
    return PagePanel(
        "learning_rate", "Learning rate", chart, "No step has been reported yet.", explanation
    )


def throughput_panel(run: RunFiles) -> PagePanel:
    """Tokens per second."""
    rate = ChartSeries("tokens per second", *_reported_series(run, "tokens_per_second"))
    chart = line_chart("tokens per second over steps", [rate], format_number, zero=True)
    explanation = "Token positions that hold samples, per second."
    return PagePanel("throughput", "Throughput", chart, UNTIMED, explanation)


def pace_panel(run: RunFiles) -> PagePanel:
    """Seconds of a step."""
    series = ChartSeries("seconds of a step", *_reported_series(run, "step_seconds"))
    chart = line_chart("seconds of a step over steps", [series], format_seconds, zero=True)
    explanation = "Wall time of a step in the mean of a report, waiting and saving included."
    return PagePanel("pace", "Seconds of a step", chart, UNTIMED, explanation)


def mfu_panel(run: RunFiles) -> PagePanel:
    """Model FLOP/s over the peak of all devices."""
    share = ChartSeries("MFU", *_reported_series(run, "mfu"))
    chart = line_chart("model FLOP/s utilization over steps", [share], format_percent, zero=True)
    empty = "Not known: the peak FLOP/s of the devices is in no description of configs/hardware."
    explanation = "FLOP/s that the model asks for, over the peak of all devices."
    return PagePanel("mfu", "Model FLOP/s utilization", chart, empty, explanation)


def waits_panel(run: RunFiles) -> PagePanel:
    """The times for which a step waits."""
    lines = [
        ChartSeries("for data", *_reported_series(run, "wait_share")),
        ChartSeries("placing a batch", *_share_series(run, "place_seconds")),
        ChartSeries("for the devices", *_share_series(run, "device_wait_seconds")),
    ]
    chart = line_chart("share of a step that the host waits", lines, format_percent, zero=True)
    explanation = "Shares of a step's time. A host that waits for its devices keeps them busy."
    return PagePanel("waits", "What the host waits for", chart, UNTIMED, explanation)


def padding_panel(run: RunFiles) -> PagePanel:
    """Share of computed positions without a sample."""
    lines = [
        ChartSeries(content_name(name), *_inner_series(run, "padding", name))
        for name in _list_names(run, "padding")
    ]
    chart = line_chart("share of padding over steps", lines, format_percent, zero=True)
    explanation = "Share of computed positions that hold no sample, by budget."
    return PagePanel("padding", "Padding", chart, "No step has been reported yet.", explanation)


def imbalance_panel(run: RunFiles) -> PagePanel:
    """Work of the heaviest data-parallel rank over the mean."""
    names = _list_names(run, "imbalance")
    after = [
        ChartSeries(phase_name(name), *_inner_series(run, "imbalance", name, "after"), colour=at)
        for at, name in enumerate(names)
    ]
    before = [
        ChartSeries(
            phase_name(name),
            *_inner_series(run, "imbalance", name, "before"),
            colour=at,
            faint=True,
        )
        for at, name in enumerate(names)
    ]
    chart = line_chart("imbalance over steps", [*before, *after], format_times)
    explanation = (
        "Work of the heaviest data-parallel rank over the mean of all; 1 is even. Pale lines are "
        "before balancing."
    )
    return PagePanel("imbalance", "Imbalance", chart, "No step has been reported yet.", explanation)


def evaluations_panel(run: RunFiles) -> PagePanel:
    """Figures on held-out samples."""
    shares = [*_logged_names(run, EXACT), *_logged_names(run, RECALL)]
    names = [*_logged_names(run, HELD_OUT), *shares]
    series = [ChartSeries(name.partition("/")[2] or "all", *run.series(name)) for name in shares]
    several = [share for share in series if len(share.steps) > 1]
    last = [(name.replace("_", " "), run.series(name)[1][-1]) for name in names]
    content = Markup()
    if last:
        chart = line_chart(
            "shares of exact answers and of partners found over steps", several, format_percent
        )
        content = join_markup((chart, make_table(("last evaluation", "value"), last)))
    empty = "No evaluation has ended yet (evaluate.every, or the end of the run)."
    return PagePanel("evaluations", "Held-out samples", content, empty)


def _reported_series(run: RunFiles, name: str) -> tuple[list[int], list[Any]]:
    """Steps and values of a figure of every report."""
    return [line["step"] for line in run.reports], [line.get(name) for line in run.reports]


def _share_series(run: RunFiles, name: str) -> tuple[list[int], list[Any]]:
    """Steps, and values over the seconds of a step."""
    steps, values = _reported_series(run, name)
    _, paces = _reported_series(run, "step_seconds")
    pairs = zip(values, paces, strict=True)
    return steps, [None if value is None or not pace else value / pace for value, pace in pairs]


def _inner_series(run: RunFiles, *path: str) -> tuple[list[int], list[Any]]:
    """Steps and values of a figure within others."""
    steps, values = _reported_series(run, path[0])
    for name in path[1:]:
        values = [value.get(name) if value else None for value in values]
    return steps, values


def _list_names(run: RunFiles, name: str) -> list[str]:
    """Names of the values within a figure, in any report."""
    return list(dict.fromkeys(key for line in run.reports for key in line.get(name) or {}))


def _logged_names(run: RunFiles, prefix: str) -> list[str]:
    """Names of values that were logged, beginning with `prefix`."""
    names = (key for line in run.lines for key in line if key.split("/")[0] == prefix)
    return sorted(dict.fromkeys(names))

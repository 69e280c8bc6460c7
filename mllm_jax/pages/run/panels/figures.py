"""Panels of the figures in the log: loss, throughput, MFU, padding, imbalance, evaluations."""

from __future__ import annotations

from typing import Any

from mllm_jax.pages.html.charts import Series, line_chart, smooth
from mllm_jax.pages.html.markup import Markup, joined, table
from mllm_jax.pages.html.panel import Panel
from mllm_jax.pages.html.words import number, percent, seconds, times
from mllm_jax.pages.run.files import RunFiles
from mllm_jax.train.records.metrics import modality, phase

#: Reports from which the loss is smoothed.
MANY = 20
#: Prefixes of the figures of an evaluation.
HELD_OUT, EXACT = "heldout_loss", "exact_match"
#: Why rates are missing.
UNTIMED = "No step has been timed yet: the first step of a process, which compiles, is left out."


def loss(run: RunFiles) -> Panel:
    """Training loss, and the loss on held-out samples."""
    steps, values = _reported(run, "loss")
    training = Series("training", steps, values, colour=0)
    lines = [training]
    if len(training.points) >= MANY:
        lines = [Series("every report", steps, values, colour=0, faint=True)]
        lines.append(smooth(training, "training, smoothed"))
    names = _logged(run, HELD_OUT)
    lines += [
        Series(name.replace("_", " "), *run.series(name), colour=at, dots=True)
        for at, name in enumerate(names, 1)
    ]
    chart = line_chart("loss over steps", lines, number, log=True)
    told = "Mean over the target tokens of the steps of a report."
    if training not in lines:
        told += " The pale line has every report; the strong one is a running mean of it."
    return Panel("loss", "Loss", chart, "No step has been reported yet.", told)


def gradient(run: RunFiles) -> Panel:
    """Norm of the gradients of all parameters."""
    norm = Series("gradient norm", *_reported(run, "gradient_norm"))
    chart = line_chart("gradient norm over steps", [norm], number, log=True)
    told = "Norm of all gradients together, before clipping, at the last step of a report."
    return Panel("gradient", "Gradient norm", chart, "No step has been reported yet.", told)


def learning_rate(run: RunFiles) -> Panel:
    """Learning rate of the updates."""
    rate = Series("learning rate", *_reported(run, "learning_rate"))
    chart = line_chart("learning rate over steps", [rate], number, zero=True)
    told = "Learning rate of the last update of a report."
    return Panel("learning_rate", "Learning rate", chart, "No step has been reported yet.", told)


def throughput(run: RunFiles) -> Panel:
    """Tokens per second."""
    rate = Series("tokens per second", *_reported(run, "tokens_per_second"))
    chart = line_chart("tokens per second over steps", [rate], number, zero=True)
    told = "Token positions that hold samples, per second."
    return Panel("throughput", "Throughput", chart, UNTIMED, told)


def pace(run: RunFiles) -> Panel:
    """Seconds of a step."""
    own = Series("seconds of a step", *_reported(run, "step_seconds"))
    chart = line_chart("seconds of a step over steps", [own], seconds, zero=True)
    told = "Wall time of a step in the mean of a report, waiting and saving included."
    return Panel("pace", "Seconds of a step", chart, UNTIMED, told)


def mfu(run: RunFiles) -> Panel:
    """Model FLOP/s over the peak of all devices."""
    share = Series("MFU", *_reported(run, "mfu"))
    chart = line_chart("model FLOP/s utilization over steps", [share], percent, zero=True)
    empty = "Not known: the peak FLOP/s of the devices is in no description of configs/hardware."
    told = "FLOP/s that the model asks for, over the peak of all devices."
    return Panel("mfu", "Model FLOP/s utilization", chart, empty, told)


def waits(run: RunFiles) -> Panel:
    """What a step waits for."""
    lines = [
        Series("for data", *_reported(run, "wait_share")),
        Series("placing a batch", *_shares(run, "place_seconds")),
        Series("for the devices", *_shares(run, "device_wait_seconds")),
    ]
    chart = line_chart("share of a step that the host waits", lines, percent, zero=True)
    told = "Shares of a step's time. A host that waits for its devices keeps them busy."
    return Panel("waits", "What the host waits for", chart, UNTIMED, told)


def padding(run: RunFiles) -> Panel:
    """Share of computed positions without a sample."""
    lines = [
        Series(modality(name), *_inner(run, "padding", name)) for name in _names(run, "padding")
    ]
    chart = line_chart("share of padding over steps", lines, percent, zero=True)
    told = "Share of computed positions that hold no sample, by budget."
    return Panel("padding", "Padding", chart, "No step has been reported yet.", told)


def imbalance(run: RunFiles) -> Panel:
    """Work of the heaviest data-parallel rank over the mean."""
    names = _names(run, "imbalance")
    after = [
        Series(phase(name), *_inner(run, "imbalance", name, "after"), colour=at)
        for at, name in enumerate(names)
    ]
    before = [
        Series(phase(name), *_inner(run, "imbalance", name, "before"), colour=at, faint=True)
        for at, name in enumerate(names)
    ]
    chart = line_chart("imbalance over steps", [*before, *after], times)
    told = (
        "Work of the heaviest data-parallel rank over the mean of all; 1 is even. Pale lines are "
        "before balancing."
    )
    return Panel("imbalance", "Imbalance", chart, "No step has been reported yet.", told)


def evaluations(run: RunFiles) -> Panel:
    """Figures on held-out samples."""
    names = [*_logged(run, HELD_OUT), *_logged(run, EXACT)]
    exact = [
        Series(name.partition("/")[2] or "all", *run.series(name)) for name in _logged(run, EXACT)
    ]
    several = [own for own in exact if len(own.steps) > 1]
    last = [(name.replace("_", " "), run.series(name)[1][-1]) for name in names]
    content = Markup()
    if last:
        chart = line_chart("share of exact answers over steps", several, percent)
        content = joined((chart, table(("last evaluation", "value"), last)))
    empty = "No evaluation has ended yet (evaluate.every, or the end of the run)."
    return Panel("evaluations", "Held-out samples", content, empty)


def _reported(run: RunFiles, name: str) -> tuple[list[int], list[Any]]:
    """Steps and values of a figure of every report."""
    return [line["step"] for line in run.reports], [line.get(name) for line in run.reports]


def _shares(run: RunFiles, name: str) -> tuple[list[int], list[Any]]:
    """Steps, and values over the seconds of a step."""
    steps, values = _reported(run, name)
    _, paces = _reported(run, "step_seconds")
    pairs = zip(values, paces, strict=True)
    return steps, [None if value is None or not pace else value / pace for value, pace in pairs]


def _inner(run: RunFiles, *path: str) -> tuple[list[int], list[Any]]:
    """Steps and values of a figure within others."""
    steps, values = _reported(run, path[0])
    for name in path[1:]:
        values = [value.get(name) if value else None for value in values]
    return steps, values


def _names(run: RunFiles, name: str) -> list[str]:
    """Names of the values within a figure, in any report."""
    return list(dict.fromkeys(key for line in run.reports for key in line.get(name) or {}))


def _logged(run: RunFiles, prefix: str) -> list[str]:
    """Names of values that were logged, beginning with `prefix`."""
    found = (key for line in run.lines for key in line if key.split("/")[0] == prefix)
    return sorted(dict.fromkeys(found))

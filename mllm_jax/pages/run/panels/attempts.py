"""The panel of a run's time: goodput, and the time of each attempt by kind."""

from __future__ import annotations

import time
from collections.abc import Mapping

from mllm_jax.pages.html.charts import stacked_bars
from mllm_jax.pages.html.markup import Markup, join_markup, make_facts, make_note, make_table
from mllm_jax.pages.html.panel import PagePanel
from mllm_jax.pages.html.words import format_known, format_percent, format_seconds
from mllm_jax.pages.run.files import RunFiles
from mllm_jax.supervise.attempts import KINDS, LOSSES, account_attempts

#: What trains comes first in every bar.
ORDER = ("step", *(kind for kind in KINDS if kind != "step"), *LOSSES)
#: Text where the records of a run do not say what its state has.
UNKNOWN = "How much of the steps was taken again is not known, so that their share is not, either."


def goodput_panel(run: RunFiles) -> PagePanel:
    """The share of time spent on training, and the time of every attempt."""
    parts = []
    if run.goodput:
        goodput = run.goodput
        total = sum(goodput["seconds"].values())
        pairs = [
            ("goodput", format_known(goodput["share"], format_percent)),
            ("of", format_seconds(total)),
            ("attempts", str(goodput["attempts"])),
            ("most time lost to", _largest_kind(goodput["seconds"])),
        ]
        parts.append(make_facts(pairs))
        if goodput["share"] is None:
            parts.append(make_note(UNKNOWN))
        accounts = account_attempts(
            run.attempts.times_spent, run.attempts.watched, [*run.attempts.damage]
        )
        rows = [(f"attempt {number}", _bar_parts(account)) for number, account in accounts.items()]
        if rows:
            what = "seconds of every attempt by what they went into"
            parts += [stacked_bars(what, rows, format_seconds), _attempt_ends(run)]
    explanation = (
        "Bars hold the seconds of process 0, and the pause after an attempt. Goodput counts steps "
        "that the final state has; steps that were lost by a fault and taken again are rework."
    )
    empty = "There is no record of an attempt."
    return PagePanel(
        "goodput", "Goodput by attempt", join_markup(parts), empty, explanation, wide=True
    )


def _largest_kind(seconds_by_kind: Mapping[str, float]) -> str:
    """The kind of work besides training that has taken the most seconds."""
    losses = {name: value for name, value in seconds_by_kind.items() if name != "effective"}
    name = max(losses, key=lambda key: losses[key])
    return f"{name}, {format_seconds(losses[name])}" if losses[name] else "none"


def _bar_parts(seconds: Mapping[str, float]) -> dict[str, float]:
    """Seconds of an attempt in the order of its bar."""
    return {kind: seconds.get(kind, 0.0) for kind in ORDER}


def _attempt_ends(run: RunFiles) -> Markup:
    """The end of every attempt that a supervisor has recorded."""
    ended = [attempt for attempt in run.attempts.watched if attempt.ended is not None]
    if not ended:
        return Markup()
    rows = [
        (
            str(attempt.attempt),
            _format_clock(attempt.began),
            _format_clock(attempt.ended or 0.0),
            str(attempt.code),
            attempt.why,
        )
        for attempt in ended
    ]
    return make_table(("attempt", "began", "ended", "exit code", "reason"), rows)


def _format_clock(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(at)) + " UTC"

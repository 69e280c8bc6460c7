"""The panel of a run's time: goodput, and what each attempt went into."""

from __future__ import annotations

import time
from collections.abc import Mapping

from mllm_jax.pages.html.charts import stacked_bars
from mllm_jax.pages.html.markup import Markup, facts, joined, note, table
from mllm_jax.pages.html.panel import Panel
from mllm_jax.pages.html.words import known, percent, seconds
from mllm_jax.pages.run.files import RunFiles
from mllm_jax.supervise.attempts import KINDS, LOSSES, account_attempts

#: What trains comes first in every bar.
ORDER = ("step", *(kind for kind in KINDS if kind != "step"), *LOSSES)
#: Text where the records of a run do not say what its state has.
UNKNOWN = "How much of the steps was taken again is not known, so that their share is not, either."


def goodput(run: RunFiles) -> Panel:
    """The share of the time that has trained, and the time of every attempt."""
    parts = []
    if run.goodput:
        found = run.goodput
        total = sum(found["seconds"].values())
        pairs = [
            ("goodput", known(found["share"], percent)),
            ("of", seconds(total)),
            ("attempts", str(found["attempts"])),
            ("most time lost to", _largest(found["seconds"])),
        ]
        parts.append(facts(pairs))
        if found["share"] is None:
            parts.append(note(UNKNOWN))
        each = account_attempts(
            run.attempts.times_spent, run.attempts.watched, [*run.attempts.damage]
        )
        rows = [(f"attempt {number}", _parts(own)) for number, own in each.items()]
        if rows:
            what = "seconds of every attempt by what they went into"
            parts += [stacked_bars(what, rows, seconds), _ends(run)]
    told = (
        "Bars hold the seconds of process 0, and the pause behind an attempt. Goodput counts steps "
        "that the final state has; steps that were lost by a fault and taken again are rework."
    )
    empty = "There is no record of an attempt."
    return Panel("goodput", "Goodput by attempt", joined(parts), empty, told, wide=True)


def _largest(spent: Mapping[str, float]) -> str:
    """What has taken the most seconds beside training."""
    losses = {name: value for name, value in spent.items() if name != "effective"}
    name = max(losses, key=lambda key: losses[key])
    return f"{name}, {seconds(losses[name])}" if losses[name] else "none"


def _parts(seconds: Mapping[str, float]) -> dict[str, float]:
    """Seconds of an attempt in the order of its bar."""
    return {kind: seconds.get(kind, 0.0) for kind in ORDER}


def _ends(run: RunFiles) -> Markup:
    """How every attempt has ended, as far as a supervisor has seen it."""
    ended = [own for own in run.attempts.watched if own.ended is not None]
    if not ended:
        return Markup()
    rows = [
        (str(own.attempt), _clock(own.began), _clock(own.ended or 0.0), str(own.code), own.why)
        for own in ended
    ]
    return table(("attempt", "began", "ended", "exit code", "reason"), rows)


def _clock(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(at)) + " UTC"

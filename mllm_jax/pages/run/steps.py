"""Lines of `metrics.jsonl` that are lost, repeated or out of order, though each is complete."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from mllm_jax.runtime.folder import METRICS

#: Steps that a sentence names.
_NAMED = 3

Line = Mapping[str, Any]


def wrong_steps(
    reports: Sequence[Line], summary: Line | None, every: int | None, damaged: int
) -> list[str]:
    """Sentences about reports whose steps are not in order.

    Args:
        reports: reports of the log, in the order of the file.
        summary: content of `summary.json`, if the run has ended.
        every: `run.log_every`, if it is known.
        damaged: damaged lines, which are reported separately, and may be those that are missing.
    """
    steps = [int(line["step"]) for line in reports]
    sentences = [_describe_disorder(steps)]
    missing = _missing_steps(steps, every)
    if len(missing) > damaged:
        sentences.append(
            f"{METRICS} has no report of step {_name_items(missing)}, though run.log_every is "
            f"{every}: lines are lost, or the run was interrupted there or had another "
            "run.log_every"
        )
    ended = int(summary["steps"]) if summary else 0
    last = max(steps, default=0)
    if last < ended and not damaged:
        has = f"ends with step {last}" if steps else "has no report"
        sentences.append(
            f"{METRICS} {has}, and summary.json tells of {ended} steps: lines are lost"
        )
    return [sentence for sentence in sentences if sentence]


def _describe_disorder(steps: Sequence[int]) -> str:
    """A sentence about steps that are there twice, or after a later one; empty without any."""
    wrong = [
        f"step {other} twice" if one == other else f"step {other} after step {one}"
        for one, other in pairwise(steps)
        if other <= one
    ]
    return f"{METRICS} has lines out of order: {_name_items(wrong)}" if wrong else ""


def _missing_steps(steps: Sequence[int], every: int | None) -> list[int]:
    """Steps before the last one that is there of which there is no report."""
    if every is None or not steps:
        return []
    return sorted({*range(every, max(steps), every)} - {*steps})


def _name_items(items: Sequence[object]) -> str:
    """The first of some items, and how many more there are."""
    more = len(items) - _NAMED
    return ", ".join([*map(str, items[:_NAMED]), *([f"{more} more"] if more > 0 else [])])

"""Schedules in JSON as they were written when modules other than the backbone had kinds of tasks.

A schedule had `stages`, `chunks`, `microbatches` and `encoders`; a task was
`[kind, microbatch, part, module]`, where `EF` and `EB` were the kinds of encoders, and `part` was
the chunk among those of a stage of the backbone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scheduling.schedules.tasks import BACKBONE

_KINDS = {"EF": "F", "EB": "B"}


def is_older(values: Mapping[str, Any]) -> bool:
    """Whether these are the values of an older schedule."""
    return "encoders" in values and "modules" not in values


def translate_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values as `Schedule.to_json` writes them.

    Raises:
        KeyError, TypeError, ValueError: the values are those of no schedule.
    """
    stages = values["stages"]
    backbone = {
        "name": BACKBONE,
        "stages": stages,
        "chunks": stages * values["chunks"],
        "looped": True,
        "shared_ends": True,
    }
    ticks = [
        [
            [_translate_task(stages, stage, *task) for task in tasks]
            for stage, tasks in enumerate(row)
        ]
        for row in values["ticks"]
    ]
    return {
        "modules": [backbone, *map(_translate_module, values["encoders"])],
        "feeds": [_translate_feed(cut) for cut in values["encoders"]],
        "microbatches": values["microbatches"],
        "ticks": ticks,
        "prologue": values["prologue"],
    }


def _translate_task(
    stages: int, stage: int, kind: str, microbatch: int, part: int, module: str
) -> list[Any]:
    chunk = part * stages + stage if module == BACKBONE else part
    return [_KINDS.get(kind, kind), module, microbatch, chunk]


def _translate_module(cut: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": cut["name"],
        "stages": cut["stages"],
        "chunks": cut["pieces"],
        "first_backward": cut["pieces"] - cut["backward"],
        "prefetch": cut["ahead"],
    }


def _translate_feed(cut: Mapping[str, Any]) -> dict[str, Any]:
    return {"source": cut["name"], "consumers": cut["feeds"], "per_target": cut["each"]}

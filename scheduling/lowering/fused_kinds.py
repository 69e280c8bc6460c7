"""Kinds of fused tasks that a step is compiled for, and the parts in which the others run."""

from __future__ import annotations

from collections.abc import Container, Iterable

import numpy as np

from scheduling.lowering.lowered import FusedKind, LoweredSchedule

#: Share of a schedule's fused tasks below which a kind of several tasks is not compiled: the time
#: of compiling grows with the tasks of all kinds, and few fused tasks gain from it.
RARE_SHARE = 0.02


def phase_kinds(
    program: LoweredSchedule, ticks: range, single_tasks: bool
) -> tuple[FusedKind, ...]:
    """The kinds in `ticks`: as they are, or each task as a kind by itself."""
    codes = np.unique(program.codes[ticks.start : ticks.stop]).tolist()
    backbone = program.schedule.backbone.name
    shares = {program.kind_of_code(code): np.mean(program.codes == code) for code in codes}
    if single_tasks:
        return sort_single_tasks(
            backbone, (single for kind in shares for single in kind.single_tasks)
        )
    rare = [kind for kind, share in shares.items() if len(kind.tasks) > 1 and share < RARE_SHARE]
    common = tuple(kind for kind in shares if kind not in rare)
    parts = tuple(part for kind in rare for part in split_fused(backbone, kind, common))
    return union_kinds(backbone, common, parts)


def split_fused(backbone: str, fused: FusedKind, kinds: Container[FusedKind]) -> list[FusedKind]:
    """Parts of a fused task: the backbone's tasks together if `kinds` has them, and single ones."""
    joint = fused.of_module(backbone)
    together = [joint] if joint.tasks and joint in kinds else []
    return together + [
        single
        for single in fused.single_tasks
        if not (together and single.of_module(backbone).tasks)
    ]


def union_kinds(
    backbone: str, kinds: tuple[FusedKind, ...], more: tuple[FusedKind, ...]
) -> tuple[FusedKind, ...]:
    """Kinds of both: those of several tasks first, then single tasks."""
    every = dict.fromkeys((*kinds, *more))
    several = [kind for kind in every if len(kind.tasks) != 1]
    return (
        *several,
        *sort_single_tasks(backbone, (kind for kind in every if len(kind.tasks) == 1)),
    )


def sort_single_tasks(backbone: str, singles: Iterable[FusedKind]) -> tuple[FusedKind, ...]:
    """Single tasks of each module: those that read slots before those that write them."""

    def place(single: FusedKind) -> tuple[bool, bool, bool]:
        ((kind, module),) = single.tasks
        return module != backbone, kind.forward, kind.passes

    return tuple(sorted(dict.fromkeys(singles), key=place))

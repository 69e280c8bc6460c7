"""Kinds of tasks: what each waits for, what it costs, and how people see it.

A microbatch goes through the chunks of a module in a row: forwards from the first chunk to the
last, backwards the other way. Where the row of one kind ends, that of another kind begins; here
outputs of a vision module feed the backbone::

    F  of vision  ->  F  of the backbone
                      |
    B  of vision  <-  B  of the backbone
                      |
                      W  gradients of weights, if these are split from the backwards

Checks, costs, simulations and pictures read the attributes below, so that another kind is another
entry in `KINDS`; the executor also needs a function for it (`scheduling.executor.tasks`). In
schedules that hold `W` tasks, `B` makes gradients of inputs alone, and no task waits for `W` (Qi et
al., "Zero bubble pipeline parallelism", arXiv 2401.10241).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

#: Hexadecimal colours that virtual chunks take in turn.
Shades = tuple[str, ...]


@dataclass(frozen=True, eq=False, slots=True)
class TaskKind:
    """A kind of task. There is one value of each kind, so kinds are compared by identity.

    Attributes:
        name: name of the kind in printed schedules and in JSON.
        label: name of the kind in legends, in words.
        colours: shades of the boxes in pictures: the first for the backbone, the others for other
            modules, which take them in turn.
        forward: every chunk of a module has such a task, and they run from the first chunk to the
            last; else only chunks with a backward have one, and they run from the last to the
            first.
        cost: name of what it costs in `TaskCosts`, `ChunkCosts` and `StepTimes`, and of its table
            in lowered schedules.
        passes: the task's result goes on to the next chunk, which may be on another stage; else
            tasks of this kind do not wait for each other. The first forward of a microbatch waits
            for the last ones of the microbatches that feed it. The first backward waits for the
            last ones of the microbatches that it has fed, or for the last forward.
        same_chunk: the kind whose task of the same chunk and microbatch a task waits for.
        reads: the forward kind whose task of the same chunk and microbatch keeps activations that
            this task reads. The activations are freed after the last task that reads them.
        optional: a module may have no task of this kind; if it has one, it has all of them.

    Raises:
        ValueError: there is no colour.
    """

    name: str
    label: str
    colours: tuple[Shades, ...]
    forward: bool
    cost: str
    passes: bool = True
    same_chunk: TaskKind | None = None
    reads: TaskKind | None = None
    optional: bool = False

    def __post_init__(self) -> None:
        if not self.colours or not all(self.colours):
            raise ValueError(f"kind {self.name!r} has no colour; valid: one or more")

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Callable[[str], TaskKind], tuple[str]]:
        # A copy is the same value.
        return parse_kind, (self.name,)

    def shades_of(self, module: int = 0) -> Shades:
        """Colours of the boxes, by virtual chunk in turn.

        Args:
            module: number of the module among those in the picture, 0 for the backbone.
        """
        others = self.colours[1:]
        return others[(module - 1) % len(others)] if module and others else self.colours[0]


# Colour-blind readers can distinguish these colours (after Okabe and Ito, "Color Universal Design",
# 2008); a backward is darker than its forward.
F = TaskKind(
    "F",
    "forward",
    (("#56B4E9", "#AEDCF6"), ("#F0C000",), ("#5CC8A0",), ("#E58FC5",)),
    forward=True,
    cost="forward",
)
B = TaskKind(
    "B",
    "backward",
    (("#0072B2", "#003A5C"), ("#D55E00",), ("#00785A",), ("#9A3F7A",)),
    forward=False,
    cost="backward",
    reads=F,
)
W = TaskKind(
    "W",
    "weight gradients",
    (("#8A8A8A", "#4D4D4D"),),
    forward=False,
    cost="weights",
    passes=False,
    same_chunk=B,
    reads=F,
    optional=True,
)

#: All kinds by name, in the order in which a fused task holds those of a module.
KINDS: dict[str, TaskKind] = {kind.name: kind for kind in (F, B, W)}


def parse_kind(name: str) -> TaskKind:
    """The kind of that name.

    Raises:
        ValueError: there is none.
    """
    if name not in KINDS:
        raise ValueError(f"kind of task {name!r} is unknown; valid: {', '.join(KINDS)}")
    return KINDS[name]

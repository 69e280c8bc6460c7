"""Kinds of tasks: what each waits for, what it costs, and how people see it.

A microbatch goes through the parts of a module in a row: forwards from the first part on the first
stage to the last part on the last stage, backwards the other way. Where the row of one kind ends,
that of another kind begins::

    EF  pieces of an encoder, forwards   ->  F   chunks of the decoder, forwards
                                                 |
    EB  pieces of an encoder, backwards  <-  B   chunks of the decoder, backwards
                                                 |
                                             W   their gradients of weights, if these are apart

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
        colours: shades of the boxes in pictures: a kind of encoder task has one entry for each
            encoder, which encoders take in turn.
        encoder: encoders run such tasks; else the decoder does.
        forward: every part of a module has such a task, and they run from the first part to the
            last; else only parts with a backward have one, and they run from the last to the first.
        cost: name of what it costs in `TaskCosts`, `EncoderCosts` and `StepTimes`, and of its table
            in programs.
        letter: letter behind an encoder's name in printed schedules; empty for the decoder.
        passes: the task's result goes on to the next part, which may be on another stage; else
            tasks of this kind do not wait for each other.
        entry: the kind whose last task the first task of the same microbatch waits for; None if it
            waits for no task of another kind. All encoders enter the decoder.
        same_chunk: the kind whose task of the same part, microbatch and stage a task waits for.
        reads: the forward kind whose task of the same part, microbatch and stage keeps activations
            that this task reads. The activations are freed after the last task that reads them.
        optional: a schedule may hold no task of this kind; if it holds one, it holds all of them.

    Raises:
        ValueError: there is no colour, or `same_chunk` or `reads` is a kind of another module.
    """

    name: str
    label: str
    colours: tuple[Shades, ...]
    encoder: bool
    forward: bool
    cost: str
    letter: str = ""
    passes: bool = True
    entry: TaskKind | None = None
    same_chunk: TaskKind | None = None
    reads: TaskKind | None = None
    optional: bool = False

    def __post_init__(self) -> None:
        if not self.colours or not all(self.colours):
            raise ValueError(f"kind {self.name!r} has no colour; valid: one or more")
        for role in ("same_chunk", "reads"):
            other = getattr(self, role)
            if other is not None and other.encoder != self.encoder:
                raise ValueError(
                    f"kind {self.name!r}: {role} {other} is a kind of another module; valid: None, "
                    f"or a kind with encoder={self.encoder}"
                )

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Callable[[str], TaskKind], tuple[str]]:
        # A copy is the same value.
        return parse_kind, (self.name,)

    def shades(self, encoder: int = 0) -> Shades:
        """Colours of the boxes, by virtual chunk in turn.

        Args:
            encoder: number of the encoder among those in the picture.
        """
        return self.colours[encoder % len(self.colours)]


# These colours stay apart for colour-blind readers (after Okabe and Ito, "Color Universal Design",
# 2008); a backward is darker than its forward.
EF = TaskKind(
    "EF",
    "forward",
    (("#F0C000",), ("#5CC8A0",), ("#E58FC5",)),
    encoder=True,
    forward=True,
    cost="forward",
    letter="f",
)
F = TaskKind(
    "F",
    "forward",
    (("#56B4E9", "#AEDCF6"),),
    encoder=False,
    forward=True,
    cost="forward",
    entry=EF,
)
B = TaskKind(
    "B",
    "backward",
    (("#0072B2", "#003A5C"),),
    encoder=False,
    forward=False,
    cost="backward",
    entry=F,
    reads=F,
)
W = TaskKind(
    "W",
    "weight gradients",
    (("#8A8A8A", "#4D4D4D"),),
    encoder=False,
    forward=False,
    cost="weights",
    passes=False,
    same_chunk=B,
    reads=F,
    optional=True,
)
EB = TaskKind(
    "EB",
    "backward",
    (("#D55E00",), ("#00785A",), ("#9A3F7A",)),
    encoder=True,
    forward=False,
    cost="backward",
    letter="b",
    entry=B,
    reads=EF,
)

#: All kinds by name, in the order in which a bundle holds its tasks.
KINDS: dict[str, TaskKind] = {kind.name: kind for kind in (F, B, W, EF, EB)}


def parse_kind(name: str) -> TaskKind:
    """The kind of that name.

    Raises:
        ValueError: there is none.
    """
    if name not in KINDS:
        raise ValueError(f"kind of task {name!r} is unknown; valid: {', '.join(KINDS)}")
    return KINDS[name]


def kinds_of(module: str) -> list[TaskKind]:
    """Kinds of the tasks that a module runs: `"decoder"`, or else an encoder."""
    return [kind for kind in KINDS.values() if kind.encoder == (module != "decoder")]

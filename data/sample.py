"""Samples before processing (`Sample`), after (`Example`), and their lengths (`Lengths`)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from data.faults import LONGEST, FaultKind, SampleFault
from data.quotes import cut, printable

Role = Literal["system", "user", "assistant"]
Size = tuple[int, int]  # (height, width) in pixels, or (rows, columns)


class Grid(NamedTuple):
    """The outputs of a medium: `t` times `h` rows of `w` columns.

    A medium whose outputs have no grid, such as a clip, has the grid (1, 1, outputs).

    Attributes:
        interval: seconds from one `t` to the next; more than 0 for a video, 0 for all others.
    """

    t: int
    h: int
    w: int
    interval: float = 0.0

    @property
    def outputs(self) -> int:
        """Number of outputs."""
        return self.t * self.h * self.w

    def __str__(self) -> str:
        """`3 rows and 4 columns`, of an image; of a video its times before that."""
        times = (
            f"{self.t} times {self.interval:g} s from one to the next, " if self.interval else ""
        )
        return f"{times}{self.h} rows and {self.w} columns"


@dataclass(frozen=True, slots=True)
class MediumLengths:
    """Lengths of a medium, or of a text.

    Attributes:
        count: number of input positions; of a text, its tokens with those of the media in it.
        grid: its outputs, of media that have several rows or times; None for others. The grid of
            any medium is that of `data.rows.spec.MediaRowSpec.grid_of`, which alone reads this.
        entries: number of entries on each further axis that the medium has, in the order of
            `data.rows.spec.RowSpec.axes`: say, of edges between positions.
    """

    count: int
    grid: Grid | None = None
    entries: tuple[int, ...] = ()


#: The grid of a tiled image that is only seen whole, of which no tile follows.
NO_TILES = Grid(1, 0, 0)


class DataError(Exception):
    """A data set that cannot be used at all."""

    def __str__(self) -> str:
        return printable(cut(super().__str__(), 4 * LONGEST), allowed="\n")


class StorageError(DataError):
    """A file that cannot be reached or read, for a reason that lies outside of the file."""


class UnreachableError(StorageError):
    """A place that has stayed out of reach; a run that is started again later may go on."""


class UnusableError(DataError):
    """A source none of whose samples can be used.

    Attributes:
        skipped: name of every sample, and why it cannot be used.
    """

    def __init__(self, text: str, skipped: tuple[tuple[str, SampleFault], ...]) -> None:
        super().__init__(text, skipped)
        self.text, self.skipped = text, skipped

    def __str__(self) -> str:
        return self.text


class MediaError(Exception):
    """A medium that cannot be used; `Processor` turns it into a `SampleError`."""

    def __init__(self, kind: FaultKind, text: str) -> None:
        super().__init__(kind, text)
        self.fault = SampleFault(kind, text)

    def __str__(self) -> str:
        return str(self.fault)


class ConversationError(Exception):
    """A conversation that cannot be tokenized; `Processor` turns it into a `SampleError`."""

    @property
    def fault(self) -> SampleFault:
        """The reason as a fault."""
        return SampleFault(FaultKind.CONVERSATION, str(self))


class SampleError(Exception):
    """An unusable sample, which is skipped and counted, or raised with `data.on_error: raise`."""

    def __init__(self, name: str, fault: SampleFault) -> None:
        # Both in args, so that the error survives the pickling out of a worker process.
        super().__init__(name, fault)
        self.name, self.fault = name, fault

    def __str__(self) -> str:
        return f"sample {self.name}: {self.fault}"


class LengthError(SampleError):
    """A sample that is not as long as it was measured."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(name, SampleFault(FaultKind.LENGTH, text))
        self.args = (name, text)  # what it is made of when it is unpickled


@dataclass(frozen=True)
class Turn:
    """An utterance; its text holds a placeholder for each of its media.

    Attributes:
        role: who speaks.
        text: what is said.
        learnt: whether it is learnt, if it is an answer.
        words: characters of the text at which a placeholder begins that is a word like any other.
    """

    role: Role
    text: str
    learnt: bool = True
    words: tuple[int, ...] = ()

    @property
    def is_learnt(self) -> bool:
        """Whether it is an answer that is learnt."""
        return self.role == "assistant" and self.learnt

    def count(self, mark: str) -> int:
        """Number of placeholders `mark` that stand for media."""
        return sum(is_mark for _, is_mark in self.split_at(re.compile(re.escape(mark))))

    def split_at(self, marks: re.Pattern[str]) -> list[tuple[str, bool]]:
        """The text in pieces: placeholders of media (true), and what is between them, if anything.

        `Turn("user", "<image> or <img>?").split_at(re.compile("<image>"))` has the pieces
        `("<image>", True)` and `(" or <img>?", False)`.
        """
        parts, done = [], 0
        for mark in marks.finditer(self.text):
            if mark.start() not in self.words:
                parts += [(self.text[done : mark.start()], False), (mark[0], True)]
                done = mark.end()
        parts.append((self.text[done:], False))
        return [(text, is_mark) for text, is_mark in parts if text]

    def with_words(self, marks: re.Pattern[str]) -> Turn:
        """The turn, in which all placeholders `marks` are words like any other."""
        more = (mark.start() for mark in marks.finditer(self.text))
        return replace(self, words=tuple(sorted({*self.words, *more})))


def pattern_of(marks: Iterable[str]) -> re.Pattern[str]:
    """The pattern of some placeholders; it matches nothing if there are none."""
    return re.compile("|".join(map(re.escape, marks)) or "(?!)")


@dataclass(frozen=True)
class Sample:
    """A conversation with its media by kind, in the order of their placeholders.

    The type of a medium before it is read depends on its kind, see `data.media`.

    Attributes:
        encoders: by kind, the encoder that each medium is for, None if `data.routes` decides; a
            kind without an entry has None for all.
        keys: keys of its record that are read, and those that are passed over.
        labels: what objectives other than the next token learn of it, by objective.
    """

    name: str
    turns: tuple[Turn, ...]
    media: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    encoders: Mapping[str, tuple[str | None, ...]] = field(default_factory=dict)
    keys: tuple[tuple[str, ...], tuple[str, ...]] = field(default=((), ()), compare=False)
    labels: Mapping[str, Any] = field(default_factory=dict)

    def of(self, kind: str) -> tuple[Any, ...]:
        """Media of one kind."""
        return self.media.get(kind, ())


@dataclass(frozen=True)
class Lengths:
    """Lengths of what the modules take of a sample.

    A text with an image, for a backbone `decoder` and an encoder `vision`::

        modules   decoder  (40 tokens,)        vision  (64 positions,)
        starts                                 vision  (7,)

    Attributes:
        modules: by module, the lengths of each medium that it takes; of the module that takes the
            text, those of the text alone. A module without media has no entry. The grid of a tiled
            image has the outputs that follow those of the whole image, see
            `data.media.image.tiles`.
        starts: by module that takes media, the token at which the outputs of each begin to be
            merged; they are merged side by side, those of a tiled image with newlines between.
        numbers: by bucket, which of its module's media go through it; nothing until a step is
            planned. From then on all attributes are by bucket (`data.planning.buckets`).
    """

    modules: Mapping[str, tuple[MediumLengths, ...]] = field(default_factory=dict)
    starts: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    numbers: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def __str__(self) -> str:
        return ", ".join(f"{name} {list(self.counts(name))}" for name in self.modules)

    def of(self, module: str) -> tuple[MediumLengths, ...]:
        """Lengths of the media that a module or bucket takes."""
        return self.modules.get(module, ())

    def counts(self, module: str) -> tuple[int, ...]:
        """Input positions of the media that a module or bucket takes; the tokens of a text."""
        return tuple(medium.count for medium in self.of(module))

    def total(self, module: str) -> int:
        """Input positions of all of these media together: the tokens, of the text's module."""
        return sum(medium.count for medium in self.of(module))


@dataclass(frozen=True)
class ProcessedMedium:
    """A medium as encoder input, in arrays that `data.rows.spec.RowSpec.arrays` lists.

    Attributes:
        inputs: [n, F] float32; of a tiled image first those of the complete image, then those of
            its tiles.
        positions: [n, ...] int32.
        more: other arrays by name.
        grid, entries: as in `MediumLengths`.
    """

    inputs: NDArray[np.float32]
    positions: NDArray[np.int32]
    more: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    grid: Grid | None = None
    entries: tuple[int, ...] = ()

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """All arrays by name."""
        return {"inputs": self.inputs, "positions": self.positions, **self.more}

    @property
    def lengths(self) -> MediumLengths:
        """Lengths that the medium has."""
        return MediumLengths(len(self.inputs), self.grid, self.entries)


@dataclass(frozen=True)
class Example:
    """A processed sample.

    Attributes:
        tokens, targets: [n] int32.
        loss_weight: [n] float32, 1 where `targets` is the assistant's.
        media: by module, its media in order.
        starts: as in `Lengths`.
        text: name of the module that takes the tokens.
        values: by objective, what its `TargetSpec` makes of the sample, if anything.
    """

    tokens: NDArray[np.int32]
    targets: NDArray[np.int32]
    loss_weight: NDArray[np.float32]
    media: Mapping[str, tuple[ProcessedMedium, ...]]
    starts: Mapping[str, tuple[int, ...]]
    text: str
    values: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    @property
    def lengths(self) -> Lengths:
        """Lengths actually produced, to compare with `Processor.measure`."""
        text = {self.text: (MediumLengths(len(self.tokens)),)}
        return Lengths(text | lengths_of(self.media), self.starts)


def lengths_of(
    media: Mapping[str, Sequence[ProcessedMedium]],
) -> dict[str, tuple[MediumLengths, ...]]:
    """Lengths of media, by module."""
    return {name: tuple(medium.lengths for medium in every) for name, every in media.items()}

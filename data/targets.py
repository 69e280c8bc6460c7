"""What objectives need of a sample, and the arrays in which their targets reach the model.

An objective has a `TargetSpec`, which refuses samples that the objective cannot learn from. The
next token needs a conversation that ends with an answer, some of which is learnt; an objective
that compares a text with an image needs none, and one of classes needs a label::

    {"messages": [...], "image": "a.png", "labels": {"scene": 3}}
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from data.batch import NEXT_TOKEN, NextTokenTargets, SampleTargets, Targets
from data.quotes import quoted
from data.sample import ConversationError, Sample


class TargetSpec(Protocol):
    """What an objective needs of a sample; picklable."""

    def check(self, sample: Sample) -> None:
        """Check that the objective can learn from a sample.

        Raises:
            ConversationError: it cannot; the message says why.
        """

    def make(self, sample: Sample) -> NDArray[Any] | None:
        """The value of a sample that `check` accepts; None if the objective reads none."""

    def sketch(self, rng: np.random.Generator) -> Any:
        """A random value of a sample, for verification; None if the objective reads none."""

    def empty(self, rows: int, tokens: int, segments: int) -> Targets:
        """Targets of rows without samples.

        Args:
            tokens, segments: most of them in a row.
        """


@dataclass(frozen=True)
class NextTokenSpec:
    """The next token of every answer that is learnt; its targets are the sample's tokens."""

    name: str = NEXT_TOKEN

    def check(self, sample: Sample) -> None:
        """Check that the sample ends with an answer, and that one is learnt.

        Raises:
            ConversationError: it does not, or none is.
        """
        if not sample.turns or sample.turns[-1].role != "assistant":
            raise ConversationError("the conversation does not end with an answer")
        if not any(turn.is_learnt for turn in sample.turns):
            raise ConversationError("no answer is learnt, as each has a weight of 0")

    def make(self, sample: Sample) -> None:
        """See `TargetSpec.make`."""

    def sketch(self, rng: np.random.Generator) -> None:
        """See `TargetSpec.sketch`."""

    def empty(self, rows: int, tokens: int, segments: int) -> Targets:
        """See `TargetSpec.empty`."""
        shape = rows, tokens
        return NextTokenTargets(np.zeros(shape, np.int32), np.zeros(shape, np.float32))


@dataclass(frozen=True)
class PairSpec:
    """Nothing but the sample's outputs, which are compared with those of other samples."""

    name: str

    def check(self, sample: Sample) -> None:
        """See `TargetSpec.check`: every sample will do."""

    def make(self, sample: Sample) -> None:
        """See `TargetSpec.make`."""

    def sketch(self, rng: np.random.Generator) -> None:
        """See `TargetSpec.sketch`."""

    def empty(self, rows: int, tokens: int, segments: int) -> Targets:
        """See `TargetSpec.empty`."""
        return SampleTargets(np.zeros((rows, segments), np.float32))


@dataclass(frozen=True)
class LabelSpec:
    """The class of a sample, a number below `classes`."""

    name: str
    classes: int

    def check(self, sample: Sample) -> None:
        """Check that the sample has such a label.

        Raises:
            ConversationError: it has none, or another.
        """
        label = _label_of(sample, self.name)
        is_integer = isinstance(label, int) and not isinstance(label, bool)
        if not is_integer or not 0 <= label < self.classes:
            raise ConversationError(
                f"labels.{self.name}: {quoted(label)} is no class; valid: 0 to {self.classes - 1}"
            )

    def make(self, sample: Sample) -> NDArray[np.int32]:
        """The number of the class."""
        return np.array(sample.labels[self.name], np.int32)

    def sketch(self, rng: np.random.Generator) -> Any:
        """See `TargetSpec.sketch`."""
        return rng.integers(self.classes)

    def empty(self, rows: int, tokens: int, segments: int) -> Targets:
        """See `TargetSpec.empty`."""
        shape = rows, segments
        return SampleTargets(np.zeros(shape, np.float32), np.zeros(shape, np.int32))


@dataclass(frozen=True)
class ValuesSpec:
    """So many numbers of a sample."""

    name: str
    count: int

    def check(self, sample: Sample) -> None:
        """Check that the sample has as many finite numbers.

        Raises:
            ConversationError: it has none, or others.
        """
        label = _label_of(sample, self.name)
        values = label if isinstance(label, list | tuple) else [label]
        if len(values) != self.count or not all(map(_is_finite, values)):
            raise ConversationError(
                f"labels.{self.name}: {quoted(label)} is refused; valid: {self.count} finite "
                f"number{'s' * (self.count > 1)}"
            )

    def make(self, sample: Sample) -> NDArray[np.float32]:
        """The numbers, `[count]`."""
        return np.array(sample.labels[self.name], np.float32).reshape(self.count)

    def sketch(self, rng: np.random.Generator) -> Any:
        """See `TargetSpec.sketch`."""
        return rng.normal(size=self.count)

    def empty(self, rows: int, tokens: int, segments: int) -> Targets:
        """See `TargetSpec.empty`."""
        shape = rows, segments
        values = np.zeros((*shape, self.count), np.float32)
        return SampleTargets(np.zeros(shape, np.float32), values)


def _label_of(sample: Sample, name: str) -> Any:
    if name not in sample.labels:
        there = ", ".join(sample.labels) or "no labels"
        raise ConversationError(f"the sample has no label {name}; it has {there}")
    return sample.labels[name]


def _is_finite(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return math.isfinite(value) and abs(value) <= float(np.finfo(np.float32).max)


#: The objectives of a language model.
NEXT_TOKEN_ONLY: Mapping[str, TargetSpec] = MappingProxyType({NEXT_TOKEN: NextTokenSpec()})

"""What the stages of a pipeline do: tasks, and how the work of encoders is cut into them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from scheduling.schedules.task_kinds import TaskKind
from sharding.plan import divisors


@dataclass(frozen=True, slots=True)
class Task:
    """A unit of work.

    Attributes:
        kind: kind of the task; one of `KINDS`.
        microbatch: number of the microbatch; of an encoder's task, of the encoder's own
            (`EncoderPieces.feeds`).
        part: virtual chunk of the decoder, or piece of an encoder.
        module: `"decoder"`, or the encoder's name.
    """

    kind: TaskKind
    microbatch: int
    part: int = 0
    module: str = "decoder"

    def __str__(self) -> str:
        name = "" if self.module == "decoder" else f"{self.module} "
        return f"{name}{self.kind}({self.microbatch}, {self.part})"


#: A piece of an encoder, or several.
Piece = TypeVar("Piece", int, NDArray[np.intp])
#: Tasks of one stage in one tick, ordered as `KINDS`; at most one of each kind.
FusedTask = tuple[Task, ...]
#: First and last decoder microbatch that each of an encoder's own microbatches feeds.
Feeds = tuple[tuple[int, int], ...]


class Observer(Protocol):
    """A callback for the start and the end of bundles, called while devices run."""

    def __call__(self, end: bool, device: int, tick: int, tasks: tuple[Task, ...]) -> None:
        """A bundle starts or ends.

        Args:
            end: whether the bundle ends; False at its start.
            device: number of the device in the grid, the slowest axis first.
            tick: tick of the schedule.
            tasks: tasks of the bundle, in the order of `KINDS`.
        """


@dataclass(frozen=True)
class EncoderPieces:
    """How one encoder's work is cut.

    Attributes:
        name: name of the encoder.
        pieces: number of runs of its layers; the first holds the embedding, the last the connector.
        stages: stages of the encoder's own plan, a divisor of the decoder's. Stage s of the
            decoder is stage `s % stages` of encoder pipeline `s // stages`; every piece of a
            microbatch runs in one encoder pipeline, piece j on its stage `j // (pieces / stages)`.
        backward: number of pieces that have a backward, counted from the last: all if the encoder
            trains, 1 if only its connector trains, 0 if neither does.
        ahead: number of microbatches of the next step that this step already encodes, for encoders
            without a backward: the schedule holds `EF(M + i, j)` in place of `EF(i, j)` for
            i < ahead.
        feeds: the first and the last decoder microbatch that each of the encoder's own microbatches
            feeds; None: its microbatch e feeds the decoder's microbatch `e // each`.
        each: number of the encoder's own microbatches that hold all that one of the decoder's can
            bring.
    """

    name: str
    pieces: int = 1
    stages: int = 1
    backward: int = 1
    ahead: int = 0
    feeds: Feeds | None = None
    each: int = 1

    def units(self, microbatches: int) -> int:
        """Number of the encoder's own microbatches in a step of the decoder's `microbatches`."""
        return microbatches * self.each if self.feeds is None else len(self.feeds)

    def consumers(self, microbatches: int) -> NDArray[np.intp]:
        """`[units, 2]`: first and last decoder microbatch that each of its own feeds."""
        if self.feeds is None:
            fed = np.repeat(np.arange(microbatches), self.each)
            return np.stack([fed, fed], axis=1)
        return np.array(self.feeds, np.intp).reshape(-1, 2)

    def reduce_consumers(self, values: NDArray[np.intp], choose: np.ufunc) -> NDArray[np.intp]:
        """`[units]`: of the `values` `[microbatches]` of those that each feeds, the chosen one.

        Args:
            choose: `np.minimum` or `np.maximum`.
        """
        if self.feeds is None:
            return np.repeat(values, self.each)
        # From each first to behind its last, and what lies between units, which is left out.
        bounds = np.add(self.consumers(len(values)), [0, 1]).ravel()
        if not len(bounds):
            return bounds
        return np.asarray(choose.reduceat(np.append(values, 0), bounds)[::2], np.intp)

    def feed_pairs(self, microbatches: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Pairs of an own microbatch and a decoder microbatch that it feeds, `[pairs]` each."""
        first, last = self.consumers(microbatches).T
        counts = last - first + 1
        units = np.repeat(np.arange(len(first)), counts)
        begins = np.cumsum(counts) - counts
        return units, np.arange(len(units)) - np.repeat(begins - first, counts)

    def stage(self, piece: Piece) -> Piece:
        """Stage of the encoder's own pipeline that runs `piece`, or one of each of several."""
        return piece // (self.pieces // self.stages)

    @property
    def backward_pieces(self) -> range:
        """Pieces that have a backward."""
        return range(self.pieces - self.backward, self.pieces)

    def parts(self, kind: TaskKind) -> range:
        """Pieces that have a task of an encoder's kind."""
        return range(self.pieces) if kind.forward else self.backward_pieces


def valid_pieces(layers: int, stages: int) -> list[int]:
    """Into how many pieces an encoder's layers can be cut over its stages."""
    return [pieces for pieces in divisors(layers) if pieces % stages == 0]

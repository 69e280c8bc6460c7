"""Modules as the data pipeline sees them: what their rows hold, and the outputs that are merged.

Rows of tokens are described in `data.rows.tokens`, those of media in a folder for each kind. Rows
are arrays of the names that `RowSpec.arrays` lists; `data.rows.pack` makes, writes, sends and
reads them, whatever the kind of media.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from data.batch import ModuleRows
from data.sample import Grid, MediumLengths, ProcessedMedium

#: Name of a kind of media: its section of `data`, its field of records, its key in a sample.
Kind = str


@dataclass(frozen=True)
class ArraySpec:
    """An array of a module's rows, which is zero where no medium lies.

    Attributes:
        axis: what a medium has an entry for: each input `position`, each merged `output`,
            itself (`medium`, written to all of its positions), or each place on a further axis
            (`RowSpec.axes`).
        shape, dtype: shape and type of an entry.
        blank: value for a medium that cannot be read.
        offset: what is added to the values in a row: the place there of the medium's first input
            `position`, or of its first `output`. So indices of outputs count from the row's first
            one, and ids from 1 on are those of one medium alone. None: nothing.

    An array of edges between the positions of graphs is `ArraySpec("edge", (2,),
    offset="position")`: an edge from position 0 to 2 of a graph that begins at position 8 of its
    row is (8, 10) there.
    """

    axis: str
    shape: tuple[int, ...] = ()
    dtype: DTypeLike = np.int32
    blank: int = 0
    offset: Literal["position", "output"] | None = None


@dataclass(frozen=True)
class BucketCost:
    """Seconds of the media of a bucket in a step, forward and backward; a `WorkModel`.

    Attributes:
        groups: number of groups of devices, each of which encodes whole media by itself.
        fixed: seconds of a step in which the bucket has any media, however few.
        linear: seconds of a group per input position.
        quadratic: seconds of a group per pair of input positions of one medium.
        row: input positions of a row, if rows with media are computed whole, padding included; 0
            if every medium costs by itself.
        by_segment: whether attention in such a row costs the pairs of each medium, and not all
            pairs of the row.
    """

    groups: int
    fixed: float
    linear: float
    quadratic: float
    row: int = 0
    by_segment: bool = False

    @property
    def row_seconds(self) -> float:
        """Seconds of a row that is computed whole, without those of its media."""
        pairs = 0.0 if self.by_segment else self.quadratic * self.row**2
        return self.linear * self.row + pairs

    def media_seconds(self, lengths: NDArray[np.int64]) -> NDArray[np.float64]:
        """Seconds of media of `lengths` alone, without those of their rows."""
        n = lengths.astype(np.float64)
        linear = 0.0 if self.row else self.linear
        return linear * n + (self.attention(n) if self.by_segment or not self.row else 0.0)

    def attention(self, lengths: NDArray[np.float64]) -> NDArray[np.float64]:
        """Seconds with pairs of positions, of media of `lengths`."""
        return self.quadratic * lengths * lengths


@dataclass(frozen=True)
class LengthBucket:
    """Which media of an encoder a bucket takes, by their input positions.

    Attributes:
        module: name of the module that the bucket belongs to.
        above: number of positions that a medium of this bucket exceeds.
        up_to: most positions of a medium of this bucket; None for any number.
        cost: seconds of the bucket's media, by which they are distributed; unless `fixed`, every
            step also chooses by them where it cuts (`data.planning.bucket_thresholds`), and `above`
            and `up_to` are those of the highest cut.
        fixed: the threshold is given; the cost moves no medium to another bucket.
    """

    module: str
    above: int = 0
    up_to: int | None = None
    cost: BucketCost | None = None
    fixed: bool = False

    def takes(self, positions: ArrayLike) -> NDArray[np.bool_]:
        """Whether media with so many input positions go through the bucket, an entry for each."""
        lengths = np.asarray(positions)
        most = np.iinfo(np.int64).max if self.up_to is None else self.up_to
        return (self.above < lengths) & (lengths <= most)


@dataclass(frozen=True)
class RowSpec(ABC):
    """What the rows of one bucket of a module hold: tokens, or media of one kind.

    A module without buckets has one, of its own name, which takes all of its media.

    Attributes:
        name: the bucket's name, which is also its key in batches.
        bucket: media of the module that go through the bucket; None for all of the module `name`.
        selected: whether the first output of a medium alone is of use, for an objective: it lies at
            the first token of the sample, which has no tokens for the medium.
        one_per_sample: whether every sample has one medium of the module, as objectives read an
            output of it.
    """

    name: str
    bucket: LengthBucket | None = field(default=None, kw_only=True)
    selected: bool = field(default=False, kw_only=True)
    one_per_sample: bool = field(default=False, kw_only=True)

    @property
    def module(self) -> str:
        """The name of the module whose rows these are."""
        return self.name if self.bucket is None else self.bucket.module

    @property
    def of_module(self) -> Self:
        """The description of the whole module, which all of its buckets share."""
        return self if self.bucket is None else replace(self, name=self.bucket.module, bucket=None)

    @property
    @abstractmethod
    def arrays(self) -> Mapping[str, ArraySpec]:
        """Arrays of a row, by name: `inputs`, `positions` and perhaps more."""

    @property
    def budgets(self) -> Mapping[str, str]:
        """By axis, the key of `data.budgets` that bounds the entries of a row on it.

        Positions have the bucket's name; other axes, which media of some kinds have, follow::

            {"position": "molecules", "edge": "molecules_edges"}
        """
        return {"position": self.name}

    @property
    def positions_budget(self) -> str:
        """The key of `data.budgets` that bounds the positions of a row."""
        return self.budgets["position"]

    @property
    def segments_resource(self) -> str:
        """The resource that counts the media in a row."""
        return f"{self.name} segments"

    @property
    def axes(self) -> tuple[str, ...]:
        """Further axes than positions on which a medium has entries."""
        return tuple(axis for axis in self.budgets if axis != "position")

    @property
    def reduction(self) -> int:
        """Input positions per output position."""
        return 1

    @property
    def unit(self) -> int | None:
        """Number of outputs of which a medium has a whole multiple; None for any number."""
        return None

    def span(self, inputs: int) -> int:
        """Positions of a row that such a medium takes, rounded up to whole outputs."""
        return -(-inputs // self.reduction) * self.reduction

    def segments(self, inputs: int) -> int:
        """Number of parts of a medium, each of which attends only to itself."""
        return 1


@dataclass(frozen=True)
class MediaRowSpec(RowSpec):
    """Input format of one bucket of an encoder; a subclass for each kind of media."""

    kind: ClassVar[Kind]

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """Kinds of media that the encoder takes, in the order in which its media lie."""
        return (self.kind,)

    def length_fields(self) -> dict[str, Any]:
        """The fields that decide the lengths of an encoder's media; its buckets do not."""
        fields = asdict(self)
        del fields["bucket"]
        # Those of an objective are listed where they hold; `selected` says both.
        for key, holds in (("selected", self.selected), ("one_per_sample", not self.selected)):
            if not fields[key] or not holds:
                del fields[key]
        return fields

    @property
    @abstractmethod
    def reduction(self) -> int:
        """Input positions per output position."""

    @property
    @abstractmethod
    def features(self) -> int:
        """Width F of an input position."""

    @property
    def is_gridded(self) -> bool:
        """Whether media have grids of several rows or times, which lengths then list."""
        return False

    @property
    def averaged(self) -> int:
        """Number of positions after the encoder that an output averages; incomplete ones drop."""
        return 1

    @property
    def trailing(self) -> int:
        """Number of last input positions that are read but do not belong to the medium."""
        return 0

    def outputs(self, inputs: int) -> int:
        """Number of merged outputs, the first ones of a medium with `inputs` positions."""
        return -(-(inputs - self.trailing) // (self.reduction // self.averaged)) // self.averaged

    def merge_runs(self, lengths: MediumLengths) -> Iterator[tuple[int, int, int]]:
        """Runs of the merged outputs of a medium: (first output, first token, number) of each."""
        return iter([(0, 0, 1 if self.selected else self.outputs(lengths.count))])

    def merged_outputs(self, lengths: MediumLengths) -> int:
        """Number of outputs of a medium that are merged."""
        return sum(count for _, _, count in self.merge_runs(lengths))

    def in_text(self, lengths: MediumLengths, placeholder: int) -> list[int]:
        """The tokens of a medium: `placeholder` where its outputs are merged, and newlines."""
        return [] if self.selected else [placeholder] * self.merged_outputs(lengths)

    def grid_of(self, lengths: MediumLengths) -> Grid:
        """Grid of a medium's outputs; where lengths have none, the outputs are one row."""
        return lengths.grid or Grid(1, 1, self.outputs(lengths.count))

    # ---- of random media, for verification and tests ---------------------------------------------

    @abstractmethod
    def sketch(self, rng: np.random.Generator, outputs: int) -> ProcessedMedium:
        """A medium with `outputs` outputs, merged or not; its inputs are zero.

        It has at most as many entries on a further axis as positions.
        """

    def merged_outputs_mask(self, rows: ModuleRows) -> NDArray[np.bool_]:
        """Which outputs of rows are merged, `[rows, outputs]`."""
        ids = rows.segment_ids[:, :: self.reduction // self.averaged]
        real = first_positions(ids) if self.selected else ids > 0
        return np.all(real.reshape(len(real), -1, self.averaged), axis=-1)

    def mix_outputs(self, rng: np.random.Generator, rows: ModuleRows) -> dict[str, NDArray[Any]]:
        """Random arrays that have an entry for each output of a row, if there are such arrays."""
        return {}


def first_positions(segment_ids: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Which positions of rows are the first ones of their segments, `[rows, positions]`."""
    before = np.pad(segment_ids[:, :-1], ((0, 0), (1, 0)))
    first: NDArray[np.bool_] = (segment_ids > 0) & (segment_ids != before)
    return first


def blank(spec: MediaRowSpec, lengths: MediumLengths) -> ProcessedMedium:
    """A replacement for a medium that cannot be read."""
    arrays = {
        name: np.full(shape, array.blank, array.dtype)
        for name, (array, shape) in shapes(spec, lengths).items()
    }
    return medium_of_arrays(arrays, lengths)


def medium_of_arrays(arrays: Mapping[str, NDArray[Any]], lengths: MediumLengths) -> ProcessedMedium:
    """The medium of such arrays."""
    more = dict(arrays)
    inputs, positions = more.pop("inputs"), more.pop("positions")
    return ProcessedMedium(inputs, positions, more, lengths.grid, lengths.entries)


def shapes(
    spec: MediaRowSpec, lengths: MediumLengths
) -> dict[str, tuple[ArraySpec, tuple[int, ...]]]:
    """The arrays of a medium, and their shapes."""
    outputs = spec.merged_outputs(lengths)
    counts = {"position": (lengths.count,), "output": (outputs,), "medium": ()}
    counts |= {axis: (n,) for axis, n in zip(spec.axes, lengths.entries, strict=True)}
    return {
        name: (array, (*counts[array.axis], *array.shape)) for name, array in spec.arrays.items()
    }


def sizes(spec: MediaRowSpec, lengths: MediumLengths) -> list[int]:
    """Elements of the arrays of a medium, in the order of `RowSpec.arrays`."""
    return [math.prod(shape) for _, shape in shapes(spec, lengths).values()]

"""Routes of an exchange: which encoder output goes from which device to which, made on the host.

Balancing deals media over the encoder's rows and samples over the decoder's, each for itself, so
that an output may have to go from any device to any other (OrchMLLM, arXiv 2503.23830, section 5:
the second arrangement after the inverse of the first). What is to be moved is a list of runs::

    encoder row, first output, decoder row, first token, length

Every output lies on one device, every token too: rows over the batch axes of a view, positions over
its tensor axes. A run is cut where a device ends on either side.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sharding.grid import Axes, View
from sharding.plan import PlanError

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Side:
    """How one side of an exchange lies on the devices.

    Attributes:
        view: of the module.
        rows: of the whole batch.
        positions: of a row: outputs of an encoder, tokens of the decoder.
    """

    view: View
    rows: int
    positions: int

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and positions of one device."""
        batch, tensor = (self.view.degree(axes) for axes in (self.view.batch, self.view.tensor))
        return self.rows // batch, self.positions // tensor

    def devices(self, axes: Axes) -> Ints:
        """Number along `axes` of the device with share `[b, t]` of rows and positions."""
        own = (*self.view.batch, *self.view.tensor)
        sizes = [self.view.degree((axis,)) for axis in axes]
        numbers = np.arange(math.prod(sizes)).reshape(sizes)
        order = [axes.index(axis) for axis in own]
        return numbers.transpose(order).reshape(self.view.degree(self.view.batch), -1)


@dataclass(frozen=True, eq=False)
class Routes:
    """The routes of one exchange.

    Attributes:
        source: the encoder's side.
        target: the decoder's.
        runs: `[runs, 5]`, see above.
        axes: grid axes that number the devices between which outputs move.
    """

    source: Side
    target: Side
    runs: Ints
    axes: Axes

    @classmethod
    def build(cls, source: Side, target: Side, runs: NDArray[np.integer]) -> Routes:
        """Routes of `runs`.

        Raises:
            PlanError: the two views do not deal over the same devices.
            ValueError: a run leaves its row.
        """
        views = source.view, target.view
        own, other = ({*view.batch, *view.tensor} for view in views)
        if own != other:
            raise PlanError(
                f"an encoder dealt over {sorted(own)} cannot send to a decoder dealt over "
                f"{sorted(other)}; valid: the same axes"
            )
        runs = np.asarray(runs, np.int64).reshape(-1, 5)
        routes = cls(source, target, runs, target.view.positions)
        routes._check()
        return routes

    def _check(self) -> None:
        for side, row, first in ((self.source, 0, 1), (self.target, 2, 3)):
            rows, start, length = self.runs[:, row], self.runs[:, first], self.runs[:, 4]
            wrong = (rows < 0) | (rows >= side.rows) | (start < 0) | (length < 0)
            wrong |= start + length > side.positions
            for run in self.runs[wrong][:1].tolist():
                raise ValueError(
                    f"run {run} leaves the {side.rows} rows of {side.positions} positions"
                )

    @property
    def count(self) -> int:
        """Devices between which outputs move."""
        return self.target.view.degree(self.axes)

    @property
    def capacity(self) -> int:
        """Outputs that one device can send to another at most: all it has, or all that it takes.

        That does not depend on the runs, so that one program serves all of them.
        """
        return min(math.prod(self.source.shape), math.prod(self.target.shape))

    @cached_property
    def _pieces(self) -> tuple[Ints, Ints, Ints, Ints]:
        """Runs cut at the ends of devices, in the order in which a pair of devices moves them.

        Returns:
            The pieces `[pieces, 5]`; the devices that send and receive them; where a piece begins
            among those of its pair.
        """
        pieces = _cut(_cut(self.runs, 1, self.source.shape[1]), 3, self.target.shape[1])
        sends = self._devices(self.source, pieces[:, 0], pieces[:, 1])
        receives = self._devices(self.target, pieces[:, 2], pieces[:, 3])
        pair = sends * self.count + receives
        order = np.argsort(pair, kind="stable")
        ends = np.cumsum(pieces[order, 4])
        begins = ends - pieces[order, 4]
        _, first, which = np.unique(pair[order], return_index=True, return_inverse=True)
        return pieces[order], sends[order], receives[order], begins - begins[first][which]

    def _devices(self, side: Side, rows: Ints, positions: Ints) -> Ints:
        share = rows // side.shape[0], positions // side.shape[1]
        return side.devices(self.axes)[share]

    @cached_property
    def counts(self) -> Ints:
        """Outputs that device i sends to device j, `[i, j]`."""
        pieces, sends, receives, _ = self._pieces
        counts = np.zeros((self.count, self.count), np.int64)
        np.add.at(counts, (sends, receives), pieces[:, 4])
        return counts

    def send(self, device: int) -> NDArray[np.int32]:
        """Which of its outputs `device` sends to every other, `[devices, capacity]`.

        Numbers count the outputs that the device holds, row by row; their number means none.
        """
        pieces, _, receives, begins = (part[self._sent(device)] for part in self._pieces)
        rows, positions = self.source.shape
        send = np.full((self.count, self.capacity), rows * positions, np.int32)
        own = pieces[:, 0] % rows * positions + pieces[:, 1] % positions
        inside = _expanded(pieces[:, 4])
        send[np.repeat(receives, pieces[:, 4]), np.repeat(begins, pieces[:, 4]) + inside] = (
            np.repeat(own, pieces[:, 4]) + inside
        )
        return send

    def receive(self, device: int) -> NDArray[np.int32]:
        """What `device` has received for its tokens, `[rows, tokens]`.

        Numbers count `[devices, capacity]` of what it receives; their number means nothing.
        """
        pieces, sends, _, begins = (part[self._received(device)] for part in self._pieces)
        rows, positions = self.target.shape
        receive = np.full((rows, positions), self.count * self.capacity, np.int32)
        inside = _expanded(pieces[:, 4])
        row, token = pieces[:, 2] % rows, pieces[:, 3] % positions
        receive[np.repeat(row, pieces[:, 4]), np.repeat(token, pieces[:, 4]) + inside] = (
            np.repeat(sends * self.capacity + begins, pieces[:, 4]) + inside
        )
        return receive

    def _sent(self, device: int) -> slice:
        """Pieces that `device` sends."""
        sends = self._pieces[1]
        return slice(*np.searchsorted(sends, [device, device + 1]).tolist())

    def _received(self, device: int) -> NDArray[np.intp]:
        """Pieces that `device` receives."""
        return np.flatnonzero(self._pieces[2] == device)


def runs_of(index: NDArray[np.integer], outputs: int) -> Ints:
    """Runs `[runs, 5]` of an index `[rows, tokens]`: `row * outputs + offset`, or -1 for none."""
    rows, tokens = np.nonzero(index >= 0)
    found = index[rows, tokens].astype(np.int64)
    encoder, offset = found // outputs, found % outputs
    steps = [np.diff(rows) != 0, np.diff(encoder) != 0, np.diff(tokens) != 1, np.diff(offset) != 1]
    first = np.flatnonzero(np.concatenate([[True], np.any(steps, axis=0)])[: len(found)])
    lengths = np.diff(np.append(first, len(found)))
    columns: Sequence[Ints] = (encoder, offset, rows, tokens)
    return np.stack([*(column[first] for column in columns), lengths], axis=1)


def _cut(runs: Ints, column: int, size: int) -> Ints:
    """Runs cut where `column`, an encoder's output or a token, passes a multiple of `size`."""
    runs = runs[runs[:, 4] > 0]
    start, length = runs[:, column], runs[:, 4]
    parts = (start + length - 1) // size - start // size + 1
    which, part = np.repeat(np.arange(len(runs)), parts), _expanded(parts)
    begin = np.maximum(start[which], (start[which] // size + part) * size)
    end = np.minimum(start[which] + length[which], (start[which] // size + part + 1) * size)
    pieces = runs[which]
    pieces[:, [1, 3]] += (begin - start[which])[:, None]
    pieces[:, 4] = end - begin
    return pieces


def _expanded(lengths: Ints) -> Ints:
    """0 to n - 1 for each n of `lengths`, one after the other."""
    return np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)

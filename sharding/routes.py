"""Routes of an exchange: which encoder output goes from which device to which, made on the host.

Balancing assigns media to the encoder's rows and samples over the backbone's rows independently, so
that an output may have to go from any device to any other (OrchMLLM, arXiv 2503.23830, section 5:
the second arrangement after the inverse of the first). A list of runs says what is moved::

    source row, first output, target row, first token, length

Every output and every token lies on one device: rows are split over the batch axes of a view,
positions over its sequence axes. A run is cut where a device's shard ends on either side.

A device puts the outputs that it sends into a buffer, in the order of the receiving devices, and
finds the outputs that it receives in another, in the order of the sending devices. Slices of the
buffers follow one another (ragged), or each has room for the most that one device can send another
(padded)::

    device 0 has 4 outputs, of which it keeps 3 and sends 1 to device 1; that keeps 1 and sends 2
    device      0                1
    ragged      0 0 0 1          0 0 1 .
    padded      0 0 0 . 1 . . .  0 0 . . 1 . . .
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sharding.grid import Axes, MeshView
from sharding.plan import PlanError

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class RouteSide:
    """Layout of one side of an exchange on the devices.

    Attributes:
        view: view of the module.
        rows: number of rows of the whole batch.
        positions: number of positions of a row: outputs of an encoder, tokens of the backbone.
    """

    view: MeshView
    rows: int
    positions: int

    @property
    def device_shape(self) -> tuple[int, int]:
        """Rows and positions of one device."""
        batch, shards = (
            self.view.degree_of(axes) for axes in (self.view.batch_axes, self.view.sequence_axes)
        )
        return self.rows // batch, self.positions // shards

    def device_numbers(self, axes: Axes) -> Ints:
        """Number along `axes` of the device with shard `[b, t]` of rows and positions."""
        view_axes = (*self.view.batch_axes, *self.view.sequence_axes)
        sizes = [self.view.degree_of((axis,)) for axis in axes]
        numbers = np.arange(math.prod(sizes)).reshape(sizes)
        order = [axes.index(axis) for axis in view_axes]
        return numbers.transpose(order).reshape(self.view.degree_of(self.view.batch_axes), -1)


@dataclass(frozen=True, eq=False)
class Routes:
    """The routes of one exchange.

    Attributes:
        source: the encoder's side.
        target: the backbone's side.
        runs: `[runs, 5]`, see above.
        axes: grid axes that number the devices between which outputs move.
        ragged: whether slices of the buffers follow one another, see above; otherwise they are
            padded.
    """

    source: RouteSide
    target: RouteSide
    runs: Ints
    axes: Axes
    ragged: bool

    @classmethod
    def build(
        cls, source: RouteSide, target: RouteSide, runs: NDArray[np.integer], ragged: bool = False
    ) -> Routes:
        """Routes of `runs`.

        Raises:
            PlanError: the two views are not split over the same devices.
            ValueError: a run leaves its row, an output is sent twice, or a token gets two.
        """
        views = source.view, target.view
        source_axes, target_axes = ({*view.batch_axes, *view.sequence_axes} for view in views)
        if source_axes != target_axes:
            raise PlanError(
                f"an encoder split over {sorted(source_axes)} cannot send to a backbone split over "
                f"{sorted(target_axes)}; valid: the same axes"
            )
        wide: Ints = np.asarray(runs).astype(np.int64).reshape(-1, 5)
        routes = cls(source, target, wide, target.view.position_axes, ragged)
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
        # The buffers have room for every output and for every token once.
        for what, row, first in (("outputs", 0, 1), ("tokens", 2, 3)):
            for one, other in _find_overlap(self.runs, row, first):
                raise ValueError(f"runs {one} and {other} share {what}; valid: each in one run")

    @property
    def count(self) -> int:
        """Number of devices between which outputs move."""
        return self.target.view.degree_of(self.axes)

    @property
    def capacity(self) -> int:
        """Most outputs that one device can send to another: all that one has or the other takes.

        The number does not depend on the runs, so that one program serves all of them.
        """
        return min(math.prod(self.source.device_shape), math.prod(self.target.device_shape))

    @property
    def entries(self) -> tuple[int, int]:
        """Numbers of entries of a device's buffers for sending and for receiving.

        As `capacity`, they do not depend on the runs.
        """
        if not self.ragged:
            return (self.count * self.capacity,) * 2
        outputs, tokens = math.prod(self.source.device_shape), math.prod(self.target.device_shape)
        return outputs, min(tokens, self.count * outputs)

    @cached_property
    def _device_runs(self) -> tuple[Ints, Ints, Ints, Ints]:
        """Runs cut at the ends of devices, in the order in which a pair of devices moves them.

        Returns:
            The runs between pairs of devices, `[runs, 5]`; the devices that send and receive them;
            where a run begins among those of its pair.
        """
        device_runs = _cut_runs(
            _cut_runs(self.runs, 1, self.source.device_shape[1]), 3, self.target.device_shape[1]
        )
        sends = self._device_numbers(self.source, device_runs[:, 0], device_runs[:, 1])
        receives = self._device_numbers(self.target, device_runs[:, 2], device_runs[:, 3])
        pair = sends * self.count + receives
        order = np.argsort(pair, kind="stable")
        ends = np.cumsum(device_runs[order, 4])
        begins = ends - device_runs[order, 4]
        _, first, which = np.unique(pair[order], return_index=True, return_inverse=True)
        return device_runs[order], sends[order], receives[order], begins - begins[first][which]

    def _device_numbers(self, side: RouteSide, rows: Ints, positions: Ints) -> Ints:
        share = rows // side.device_shape[0], positions // side.device_shape[1]
        return side.device_numbers(self.axes)[share]

    def send_indices(self, device: int) -> NDArray[np.int32]:
        """Indices of the outputs that `device` sends, `[entries of its buffer for sending]`.

        Indices count the outputs that the device holds, row by row; an index equal to the number of
        these outputs marks an empty entry.
        """
        device_runs, _, receives, within = (
            part[self._sent_runs(device)] for part in self._device_runs
        )
        rows, positions = self.source.device_shape
        send = np.full(self.entries[0], rows * positions, np.int32)
        output = device_runs[:, 0] % rows * positions + device_runs[:, 1] % positions
        entry = self._slice_starts(self._pair_sizes(device)[0])[receives] + within
        inside = _expand_ranges(device_runs[:, 4])
        send[np.repeat(entry, device_runs[:, 4]) + inside] = (
            np.repeat(output, device_runs[:, 4]) + inside
        )
        return send

    def receive_indices(self, device: int) -> NDArray[np.int32]:
        """Indices of the received outputs for the tokens of `device`, `[rows, tokens]`.

        Indices count the entries of its buffer for receiving; an index equal to the number of
        entries marks a token without an output.
        """
        device_runs, sends, _, within = (
            part[self._received_runs(device)] for part in self._device_runs
        )
        rows, positions = self.target.device_shape
        receive = np.full((rows, positions), self.entries[1], np.int32)
        entry = self._slice_starts(self._pair_sizes(device)[1])[sends] + within
        inside = _expand_ranges(device_runs[:, 4])
        row, token = device_runs[:, 2] % rows, device_runs[:, 3] % positions
        receive[np.repeat(row, device_runs[:, 4]), np.repeat(token, device_runs[:, 4]) + inside] = (
            np.repeat(entry, device_runs[:, 4]) + inside
        )
        return receive

    def merge_index(self, first: int, last: int) -> NDArray[np.int32]:
        """Outputs that are merged at the tokens of the backbone's rows `first` to before `last`.

        `[rows, tokens]`; `row * outputs + offset` of the output, or -1 where none is.
        """
        runs = self.runs[(self.runs[:, 2] >= first) & (self.runs[:, 2] < last)]
        index = np.full((last - first, self.target.positions), -1, np.int32)
        outputs = runs[:, 0] * self.source.positions + runs[:, 1]
        columns = (outputs, runs[:, 2] - first, runs[:, 3])
        output, row, token = (np.repeat(column, runs[:, 4]) for column in columns)
        inside = _expand_ranges(runs[:, 4])
        index[row, token + inside] = output + inside
        return index

    def ragged_slices(self, device: int) -> NDArray[np.int32]:
        """Slices of the buffers of `device` where they are ragged, `[4, devices]`.

        For every other device: start and length of the slice sent there, its start in that device's
        buffer for receiving, and length of the slice received from there.
        """
        device_runs, _, receives, _ = self._device_runs
        sent, received = self._pair_sizes(device)
        before = slice(0, self._sent_runs(device).start)
        there = self._sum_by_device(receives[before], device_runs[before, 4])
        return np.stack([self._slice_starts(sent), sent, there, received]).astype(np.int32)

    def _pair_sizes(self, device: int) -> tuple[Ints, Ints]:
        """Outputs that `device` sends to every other, and those that it receives, `[devices]`."""
        device_runs, sends, receives, _ = self._device_runs
        out, into = self._sent_runs(device), self._received_runs(device)
        return self._sum_by_device(receives[out], device_runs[out, 4]), self._sum_by_device(
            sends[into], device_runs[into, 4]
        )

    def _sum_by_device(self, devices: Ints, lengths: Ints) -> Ints:
        """Lengths of runs by device."""
        return np.bincount(devices, lengths, self.count).astype(np.int64)

    def _slice_starts(self, sizes: Ints) -> Ints:
        """Starts of slices of `sizes` in a buffer."""
        if self.ragged:
            return np.cumsum(sizes) - sizes
        return np.arange(self.count) * self.capacity

    def _sent_runs(self, device: int) -> slice:
        """Runs that `device` sends."""
        sends = self._device_runs[1]
        return slice(*np.searchsorted(sends, [device, device + 1]).tolist())

    def _received_runs(self, device: int) -> NDArray[np.intp]:
        """Runs that `device` receives."""
        return np.flatnonzero(self._device_runs[2] == device)


def runs_of(index: NDArray[np.integer], outputs: int) -> Ints:
    """Runs `[runs, 5]` of an index `[rows, tokens]`: `row * outputs + offset`, or -1 for none."""
    rows, tokens = np.nonzero(index >= 0)
    entries = index[rows, tokens].astype(np.int64)
    encoder, offset = entries // outputs, entries % outputs
    breaks = [np.diff(rows) != 0, np.diff(encoder) != 0, np.diff(tokens) != 1, np.diff(offset) != 1]
    first = np.flatnonzero(np.concatenate([[True], np.any(breaks, axis=0)])[: len(entries)])
    lengths = np.diff(np.append(first, len(entries)))
    columns: Sequence[Ints] = (encoder, offset, rows, tokens)
    return np.stack([*(column[first] for column in columns), lengths], axis=1)


def _find_overlap(runs: Ints, row: int, first: int) -> list[list[list[int]]]:
    """The first pair of runs, if any, whose spans from column `first` share a position of a row."""
    runs = runs[runs[:, 4] > 0]
    runs = runs[np.lexsort((runs[:, first], runs[:, row]))]
    before, after = runs[:-1], runs[1:]
    shared = before[:, row] == after[:, row]
    shared &= before[:, first] + before[:, 4] > after[:, first]
    return np.stack([before[shared], after[shared]], axis=1)[:1].tolist()


def _cut_runs(runs: Ints, column: int, size: int) -> Ints:
    """Runs cut at multiples of `size` of `column`, an encoder's output or a token."""
    runs = runs[runs[:, 4] > 0]
    start, length = runs[:, column], runs[:, 4]
    parts = (start + length - 1) // size - start // size + 1
    which, part = np.repeat(np.arange(len(runs)), parts), _expand_ranges(parts)
    begin = np.maximum(start[which], (start[which] // size + part) * size)
    end = np.minimum(start[which] + length[which], (start[which] // size + part + 1) * size)
    device_runs = runs[which]
    device_runs[:, [1, 3]] += (begin - start[which])[:, None]
    device_runs[:, 4] = end - begin
    return device_runs


def _expand_ranges(lengths: Ints) -> Ints:
    """0 to n - 1 for each n of `lengths`, one after the other."""
    return np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)

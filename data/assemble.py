"""Step plans to arrays: the packed batch.

    {"decoder": {tokens, targets, loss_weight, segment_ids, positions: [R, T],
                 media: {encoder: [R, T]}},
     "encoders": {encoder: {inputs [R, Te, F], segment_ids [R, Te],
                            positions [R, Te, 2] (images) or [R, Te] (clips),
                            sizes [R, Te, 2] (images)}}}

`media` is -1, or row * T_out + offset of the encoder output that lands at the position, where `row`
is the global row and T_out the encoder's outputs per row. Segment 0 is padding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from data.config import DataConfig
from data.modality import Modality
from data.packing import Capacity
from data.plan import Placement, Skip
from data.processor import PAD_ID, Processor
from data.sample import Example, Medium, SampleError
from data.sources import Source

Batch = dict[str, Any]
Rows = Mapping[str, Sequence[int]]


def check_rows(rows: Rows, capacity: Capacity, total: int) -> None:
    """Check which global rows of each tower a process asks for.

    Raises:
        ValueError: a tower is missing or unknown, or a row is out of range or repeated.
    """
    towers = ["decoder", *(m.name for m in capacity.modalities)]
    if sorted(rows) != sorted(towers):
        raise ValueError(f"rows are given for {sorted(rows)}; valid: exactly {towers}")
    for tower, wanted in rows.items():
        if len(set(wanted)) < len(wanted) or not set(wanted) <= set(range(total)):
            raise ValueError(f"rows of {tower}: {list(wanted)} are not distinct in 0..{total - 1}")


class Assembler:
    """Reads the samples of some rows and writes them into arrays.

    A process reads every sample that has a part in any of its rows, and all of it, so that two
    processes with parts of one bad sample both leave the same hole.
    """

    def __init__(
        self,
        source: Source,
        processor: Processor,
        config: DataConfig,
        capacity: Capacity,
        rows: Rows,
    ) -> None:
        check_rows(rows, capacity, config.rows)
        self._raise = config.on_error == "raise"
        self._source, self._processor, self._capacity = source, processor, capacity
        self._local = {tower: {row: i for i, row in enumerate(r)} for tower, r in rows.items()}
        self._rows = frozenset(row for wanted in rows.values() for row in wanted)

    def __call__(
        self, placements: Sequence[Placement], reserve: int | None = None
    ) -> tuple[Batch, tuple[Skip, ...]]:
        """The batch, and the samples that turned out bad when read (they leave holes).

        With `reserve`, examples end where the answer begins, and the last `reserve` positions of
        each placement are left free (segment and positions set, padding tokens).

        Raises:
            SampleError: a bad sample, with `data.on_error: raise`.
        """
        batch, skipped = self._empty(), []
        for placement in placements:
            if placement.row not in self._rows:
                continue
            try:
                example = self._read(placement, reserve)
            except SampleError as error:
                if self._raise:
                    raise
                skipped.append((error.name, error.reason))
                continue
            self._write(batch, placement, example)
        return batch, tuple(skipped)

    def _read(self, placement: Placement, reserve: int | None) -> Example:
        sample, lengths = self._source[placement.index], placement.lengths
        if reserve is None:
            return self._processor.process(sample, lengths)
        prompt = replace(lengths, tokens=lengths.tokens - reserve)
        return self._processor.prompt(sample, prompt)

    def _empty(self) -> Batch:
        limit = dict(zip(self._capacity.resources, self._capacity.limits, strict=True))
        shape = (len(self._local["decoder"]), limit["tokens"])
        decoder: Batch = {
            "tokens": np.full(shape, PAD_ID, np.int32),
            "targets": np.full(shape, PAD_ID, np.int32),
            "loss_weight": np.zeros(shape, np.float32),
            "segment_ids": np.zeros(shape, np.int32),
            "positions": np.zeros(shape, np.int32),
            "media": {m.name: np.full(shape, -1, np.int32) for m in self._capacity.modalities},
        }
        encoders = {
            m.name: _empty_encoder(m, (len(self._local[m.name]), limit[m.name]))
            for m in self._capacity.modalities
        }
        return {"decoder": decoder, "encoders": encoders}

    def _write(self, batch: Batch, placement: Placement, example: Example) -> None:
        row = self._local["decoder"].get(placement.row)
        if row is not None:
            _write_text(batch["decoder"], row, placement, example)
            for modality in self._capacity.modalities:
                self._write_indices(batch["decoder"], row, placement, example, modality)
        for name, media in example.media.items():
            row = self._local[name].get(placement.row)
            if row is not None:
                for (start, segment), medium in zip(placement.media[name], media, strict=True):
                    _write_medium(batch["encoders"][name], row, start, segment, medium)

    def _write_indices(
        self, decoder: Batch, row: int, placement: Placement, example: Example, modality: Modality
    ) -> None:
        if modality.name not in example.media:
            return
        limit = dict(zip(self._capacity.resources, self._capacity.limits, strict=True))
        base = placement.row * (limit[modality.name] // modality.reduction)
        outputs = [
            base + start // modality.reduction + np.arange(modality.outputs(len(medium.inputs)))
            for (start, _), medium in zip(
                placement.media[modality.name], example.media[modality.name], strict=True
            )
        ]
        slots = placement.start + example.slots[modality.name]
        decoder["media"][modality.name][row, slots] = np.concatenate(outputs)


def _empty_encoder(modality: Modality, shape: tuple[int, int]) -> Batch:
    encoder: Batch = {
        "inputs": np.zeros((*shape, modality.features), np.float32),
        "segment_ids": np.zeros(shape, np.int32),
    }
    if modality.kind == "audio":
        return encoder | {"positions": np.zeros(shape, np.int32)}
    grid = {key: np.zeros((*shape, 2), np.int32) for key in ("positions", "sizes")}
    return encoder | grid


def _write_text(decoder: Batch, row: int, placement: Placement, example: Example) -> None:
    start, length = placement.start, placement.lengths.tokens
    whole = slice(start, start + length)
    decoder["segment_ids"][row, whole] = placement.segment
    decoder["positions"][row, whole] = np.arange(length)
    written = slice(start, start + len(example.tokens))
    for key in ("tokens", "targets", "loss_weight"):
        decoder[key][row, written] = getattr(example, key)


def _write_medium(encoder: Batch, row: int, start: int, segment: int, medium: Medium) -> None:
    span = slice(start, start + len(medium.inputs))
    encoder["inputs"][row, span] = medium.inputs
    encoder["segment_ids"][row, span] = segment
    encoder["positions"][row, span] = medium.positions
    if medium.grid is not None:
        encoder["sizes"][row, span] = medium.grid

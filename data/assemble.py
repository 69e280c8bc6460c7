"""Step plans to arrays: the packed batch.

    {"decoder": {tokens, targets, loss_weight, segment_ids, positions: [R, T],
                 media: {encoder: [R, T]}},
     "encoders": {encoder: {inputs [R, Te, F], segment_ids [R, Te],
                            positions [R, Te, 2] (images) or [R, Te] (clips),
                            sizes [R, Te, 2] (images)}}}

`media` is -1, or row * T_out + offset of the encoder output that lands at the position, where `row`
is the encoder's global row and T_out its outputs per row. Segment 0 is padding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from data.config import DataConfig
from data.modality import Modality
from data.packing import Capacity
from data.plan import Placement, Skip, runs_of_plan
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

    By default a process reads every sample that has a part in any of its rows, and all of it, so
    that two processes with parts of one bad sample both leave the same hole.

    Args:
        apart: media lie in rows of their own. A process then reads the texts of its decoder rows
            and the media of its encoder rows, each of which no other process reads. In the place of
            a medium that turns out bad is a blank one.
    """

    def __init__(
        self,
        source: Source,
        processor: Processor,
        config: DataConfig,
        capacity: Capacity,
        rows: Rows,
        apart: bool = False,
    ) -> None:
        check_rows(rows, capacity, config.rows)
        self._raise, self._apart = config.on_error == "raise", apart
        self._source, self._processor, self._capacity = source, processor, capacity
        self._local = {tower: {row: i for i, row in enumerate(r)} for tower, r in rows.items()}

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
            if not self._has_part(placement):
                continue
            try:
                if self._apart:
                    self._write_parts(batch, placement)
                else:
                    self._write(batch, placement, self._read(placement, reserve))
            except SampleError as error:
                if self._raise:
                    raise
                skipped.append((error.name, error.reason))
        return batch, tuple(skipped)

    def _has_part(self, placement: Placement) -> bool:
        """Whether any part of a sample lies in a row of this process."""
        return placement.row in self._local["decoder"] or any(
            row in self._local[name]
            for name, media in placement.media.items()
            for row, _, _ in media
        )

    def _read(self, placement: Placement, reserve: int | None) -> Example:
        sample, lengths = self._source[placement.index], placement.lengths
        if reserve is None:
            return self._processor.process(sample, lengths)
        prompt = replace(lengths, tokens=lengths.tokens - reserve)
        return self._processor.prompt(sample, prompt)

    def _write_parts(self, batch: Batch, placement: Placement) -> None:
        """Write what lies in rows of this process, and read no more than that.

        Raises:
            SampleError: for the first bad part, after all have been written.
        """
        sample, lengths = self._source[placement.index], placement.lengths
        row = self._local["decoder"].get(placement.row)
        if row is not None:
            self._write_decoder(
                batch["decoder"], row, placement, self._processor.text(sample, lengths)
            )
        errors = []
        for name, media in placement.media.items():
            for number, (where, start, segment) in enumerate(media):
                row = self._local[name].get(where)
                if row is None:
                    continue
                try:
                    medium = self._processor.medium(sample, name, number, lengths)
                except SampleError as error:
                    errors.append(error)
                    medium = _blank(self._processor.modalities[name], lengths.media[name][number])
                _write_medium(batch["encoders"][name], row, start, segment, medium)
        if errors:
            raise errors[0]

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
            self._write_decoder(batch["decoder"], row, placement, example)
        for name, media in example.media.items():
            for (where, start, segment), medium in zip(placement.media[name], media, strict=True):
                row = self._local[name].get(where)
                if row is not None:
                    _write_medium(batch["encoders"][name], row, start, segment, medium)

    def _write_decoder(
        self, decoder: Batch, row: int, placement: Placement, example: Example
    ) -> None:
        _write_text(decoder, row, placement, example)
        limit = dict(zip(self._capacity.resources, self._capacity.limits, strict=True))
        for name, runs in runs_of_plan([placement], self._capacity.modalities).items():
            modality = self._processor.modalities[name]
            outputs = limit[name] // modality.reduction
            for encoder_row, first, _, token, count in runs.tolist():
                index = encoder_row * outputs + first + np.arange(count)
                decoder["media"][name][row, token : token + count] = index


def _blank(modality: Modality, length: int) -> Medium:
    """Stands for a medium that cannot be read."""
    image = modality.kind == "image"
    positions = np.zeros((length, 2) if image else length, np.int32)
    inputs = np.zeros((length, modality.features), np.float32)
    return Medium(inputs, positions, (1, 1) if image else None)


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

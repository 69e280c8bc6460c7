"""Plans of microbatches to arrays: the packed batch, see `data.batch`.

An encoder has one bucket of its name, or several (`data.planning.buckets`). `data.rows.pack` says
what rows of a bucket hold. An output is merged at a position as `row * outputs of a row + number`,
where `row` is the bucket's global row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from data.batch import ModuleRows, NextTokenTargets, PackedBatch
from data.config import DataConfig
from data.planning.buckets import by_module, number_of
from data.planning.layout import SamplePlacement, runs_of_plan
from data.planning.packing import Capacity, make_capacity
from data.planning.stream import SkippedSample
from data.processing.processor import Processor
from data.rows.pack import empty_rows, write_medium
from data.rows.spec import blank
from data.rows.tokens import text_spans
from data.sample import DataError, Example, LengthError, Lengths, ProcessedMedium, SampleError
from data.sources.source import Source
from data.targets import NEXT_TOKEN_ONLY, TargetSpec

RowNumbers = Mapping[str, Sequence[int]]
#: The place of a sample that turned out bad when it was read, and why it cannot be used.
MissingSample = tuple[SamplePlacement, SkippedSample]


def check_rows(rows: RowNumbers, modules: Sequence[str], total: int) -> None:
    """Check the global rows of each module that a process asks for.

    Raises:
        ValueError: a module is missing or unknown, or a row is out of range or repeated.
    """
    if sorted(rows) != sorted(modules):
        raise ValueError(f"rows are given for {sorted(rows)}; valid: exactly {[*modules]}")
    for module, numbers in rows.items():
        if len(set(numbers)) < len(numbers) or not set(numbers) <= set(range(total)):
            raise ValueError(
                f"rows of {module}: {list(numbers)} are refused; valid: distinct, 0 to {total - 1}"
            )


def capacity_of(config: DataConfig, processor: Processor) -> Capacity:
    """Capacity of a row with `data.budgets`, and the longest sample that the model can learn.

    Raises:
        DataError: budgets that do not fit the encoders.
    """
    return make_capacity(config.budgets, [*processor.specs.values()], processor.longest)


class BatchArrays:
    """The arrays of some rows, empty at first.

    Args:
        rows: global rows of each module.
        capacity: capacity of a row.
        targets: by objective, what it needs of a sample.
    """

    def __init__(
        self,
        rows: RowNumbers,
        capacity: Capacity,
        targets: Mapping[str, TargetSpec] = NEXT_TOKEN_ONLY,
    ) -> None:
        self._local = {
            module: {row: i for i, row in enumerate(numbers)} for module, numbers in rows.items()
        }
        self._specs = {spec.name: spec for spec in capacity.media}
        self._capacity, self._text = capacity, capacity.text
        shape = (len(rows[self._text.name]), capacity.limit(self._text.positions_budget))
        media = {
            name: empty_rows(
                spec,
                len(rows[name]),
                capacity.limit(name),
                [capacity.limit(spec.budgets[axis]) for axis in spec.axes],
            )
            for name, spec in self._specs.items()
        }
        segments = capacity.limit(self._text.segments_resource)
        empty = {name: spec.empty(*shape, segments) for name, spec in targets.items()}
        text = replace(self._text.empty_rows(shape, list(self._specs)), targets=empty)
        self.batch = PackedBatch({self._text.name: text, **media})

    def wants_text(self, placement: SamplePlacement) -> bool:
        """Whether the row of the text of a sample is among these."""
        return placement.row in self._local[self._text.name]

    def wanted_media(self, placement: SamplePlacement) -> Iterator[tuple[str, int]]:
        """Bucket and number in it of the media of a sample whose rows are among these."""
        for name, media in placement.media.items():
            for number, (row, _, _) in enumerate(media):
                if row in self._local[name]:
                    yield name, number

    def write_text(self, placement: SamplePlacement, example: Example) -> None:
        """Write a sample into its row of the text, with the places where its media are merged."""
        name, text_rows = self._text.name, self.batch.text_rows
        row, count = self._local[name][placement.row], placement.lengths.total(name)
        spans = text_spans(placement.lengths, self._capacity.media)
        self._text.write(text_rows, row, placement.start, placement.segment, count, spans)
        _write_text(text_rows, row, placement, example)
        for name, runs in runs_of_plan([placement], self._capacity.media).items():
            outputs = self._capacity.limit(name) // self._specs[name].reduction
            for encoder_row, first, _, token, count in runs.tolist():
                index = encoder_row * outputs + first + np.arange(count)
                text_rows.merges[name][row, token : token + count] = index

    def write_medium(
        self, placement: SamplePlacement, name: str, number: int, medium: ProcessedMedium
    ) -> None:
        """Write one medium of a sample into its row of bucket `name`."""
        row, start, segment = placement.media[name][number]
        local = self._local[name][row]
        rows = self.batch.rows[name]
        offsets = placement.offsets[name][number] if self._specs[name].axes else ()
        write_medium(rows, self._specs[name], local, start, segment, medium, offsets)


def mask_sample(batch: PackedBatch, rows: Sequence[int], placement: SamplePlacement) -> None:
    """Mask the tokens of a sample in its row of the text as padding, if the row is among `rows`.

    Outputs of its media are merged nowhere.

    Args:
        batch: arrays of the rows of a process.
        rows: global rows of the text that the process holds, in the order of the arrays.
    """
    if placement.row not in rows:
        return
    text_rows, start = batch.text_rows, placement.start
    count = placement.lengths.total(batch.text_name)
    place = list(rows).index(placement.row), slice(start, start + count)
    plain = text_rows.inputs, text_rows.segment_ids, text_rows.positions, text_rows.index
    for array in (*plain, *text_rows.arrays.values()):
        array[place] = 0
    for targets in text_rows.targets.values():
        if isinstance(targets, NextTokenTargets):
            targets.labels[place] = targets.weights[place] = 0
        else:
            targets.weights[place[0], placement.segment - 1] = 0
    for merged in text_rows.merges.values():
        merged[place] = -1


class BatchAssembler:
    """Reads the samples of some rows and writes them into arrays.

    By default a process reads the whole of every sample that has a part in any of its rows, so that
    two processes with parts of one bad sample both leave the same hole.

    Args:
        rows: global rows of each module that this process holds.
        by_parts: whether media are in rows of their own. A process then reads the texts of its
            rows of texts and the media of its rows of media, and no other process reads them. A
            bad medium is replaced by a blank one, and the text of its sample is left out; where
            another process holds that text, it gets to know (`assemble_batch`).
    """

    def __init__(
        self,
        source: Source,
        processor: Processor,
        config: DataConfig,
        rows: RowNumbers,
        by_parts: bool = False,
    ) -> None:
        check_rows(rows, list(processor.specs), config.rows)
        self._raise, self._by_parts, self._rows = config.on_error == "raise", by_parts, rows
        self._source, self._processor = source, processor

    def __call__(
        self, placements: Sequence[SamplePlacement], capacity: Capacity, *, prompts: bool = False
    ) -> tuple[PackedBatch, tuple[SkippedSample, ...]]:
        """The batch, and the samples that turned out bad when read, whose places stay empty.

        With `prompts`, examples end where the answer begins.

        Raises:
            SampleError: a bad sample, with `data.on_error: raise`.
            DataError: a sample has changed since its lengths were measured.
        """
        batch, missing = self.assemble_batch(placements, capacity, prompts=prompts)
        return batch, tuple(skip for _, skip in missing)

    def assemble_batch(
        self, placements: Sequence[SamplePlacement], capacity: Capacity, *, prompts: bool = False
    ) -> tuple[PackedBatch, tuple[MissingSample, ...]]:
        """The batch, and the places of samples that turned out bad when this process read them.

        Raises:
            SampleError, DataError: see `__call__`.
        """
        arrays = BatchArrays(self._rows, capacity, self._processor.targets)
        missing: list[MissingSample] = []
        for placement in placements:
            media = list(arrays.wanted_media(placement))
            if not media and not arrays.wants_text(placement):
                continue
            try:
                if self._by_parts:
                    self._write_parts(arrays, placement, media)
                else:
                    self._write_whole(arrays, placement, media, prompts)
            except LengthError as error:
                if not prompts:
                    self._check_unchanged(placement, error)
                self._note_missing(error, placement, missing)
            except SampleError as error:
                self._note_missing(error, placement, missing)
        for placement, _ in missing:
            mask_sample(arrays.batch, self._rows[capacity.text.name], placement)
        return arrays.batch, tuple(missing)

    def _note_missing(
        self, error: SampleError, placement: SamplePlacement, missing: list[MissingSample]
    ) -> None:
        if self._raise:
            raise error
        missing.append((placement, (error.name, error.fault)))

    def _check_unchanged(self, placement: SamplePlacement, error: LengthError) -> None:
        """Distinguish a sample whose header is wrong, a bad sample, from one that has changed.

        Raises:
            DataError: the sample has other lengths than measured; others may too, and plans would
                be wrong.
        """
        lengths = self._by_encoder(placement)
        if self._processor.measure(self._source[placement.key]) != lengths:
            raise DataError(
                f"{error}; the data have changed since their lengths were measured: delete "
                f"{self._source.home}, or its like in data.lengths_folder"
            ) from error

    def _write_whole(
        self,
        arrays: BatchArrays,
        placement: SamplePlacement,
        media: Sequence[tuple[str, int]],
        prompts: bool,
    ) -> None:
        """Read a whole sample, or its prompt, and write its parts in rows of this process."""
        sample, lengths = self._source[placement.key], self._by_encoder(placement)
        read = self._processor.process_prompt if prompts else self._processor.process
        example = read(sample, lengths)
        if arrays.wants_text(placement):
            arrays.write_text(placement, example)
        for name, number in media:
            encoder, index = self._of_encoder(placement, name, number)
            arrays.write_medium(placement, name, number, example.media[encoder][index])

    def _write_parts(
        self, arrays: BatchArrays, placement: SamplePlacement, media: Sequence[tuple[str, int]]
    ) -> None:
        """Read and write only the parts in rows of this process.

        Raises:
            SampleError: a part is bad; raised for the first one after all have been written.
        """
        sample, lengths = self._source[placement.key], self._by_encoder(placement)
        if arrays.wants_text(placement):
            arrays.write_text(placement, self._processor.process_text(sample, lengths))
        errors = []
        for name, number in media:
            encoder, index = self._of_encoder(placement, name, number)
            try:
                medium = self._processor.read_medium(sample, encoder, index, lengths)
            except SampleError as error:
                errors.append(error)
                medium = blank(self._processor.media[encoder], placement.lengths.of(name)[number])
            arrays.write_medium(placement, name, number, medium)
        if errors:
            raise errors[0]

    def _by_encoder(self, placement: SamplePlacement) -> Lengths:
        """Lengths of a sample as the processor knows them."""
        return by_module(placement.lengths, self._processor.specs.values())

    def _of_encoder(self, placement: SamplePlacement, bucket: str, number: int) -> tuple[str, int]:
        """The encoder of a medium of a bucket, and the medium's number among all of the encoder."""
        encoder = self._processor.specs[bucket].module
        return encoder, number_of(placement.lengths, bucket, number)


def _write_text(
    text_rows: ModuleRows, row: int, placement: SamplePlacement, example: Example
) -> None:
    written = slice(placement.start, placement.start + len(example.tokens))
    text_rows.inputs[row, written] = example.tokens
    for name, targets in text_rows.targets.items():
        if isinstance(targets, NextTokenTargets):
            targets.labels[row, written] = example.targets
            targets.weights[row, written] = example.loss_weight
            continue
        slot = row, placement.segment - 1
        targets.weights[slot] = targets.values is None or name in example.values
        if targets.values is not None and name in example.values:  # prompts have none
            targets.values[slot] = example.values[name]

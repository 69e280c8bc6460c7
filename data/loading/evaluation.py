"""Finite passes over a split: of prompts without their answers, and of whole samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from data.batch import PackedBatch
from data.config import DataConfig
from data.loading.assemble import BatchAssembler, RowNumbers, capacity_of
from data.planning.bucket_thresholds import choose_thresholds, has_thresholds, relaid
from data.planning.layout import SamplePlacement, lay_out
from data.planning.packing import Capacity, pack
from data.planning.stream import SkippedSample
from data.processing.processor import Processor
from data.sample import DataError, Lengths, SampleError
from data.sources.mixture import SourceMixture
from data.sources.source import Source


@dataclass(frozen=True)
class PromptSlot:
    """The place of the prompt of sample `index`: `tokens` positions of `row`, from `start` on.

    The logits at the last one predict the answer's first token. segment: number of the segment in
    the row, from 1; encoders: encoders of the sample's media.
    """

    index: int
    row: int
    start: int
    tokens: int
    segment: int
    encoders: tuple[str, ...]


@dataclass(frozen=True)
class PromptBatch:
    """A batch, its slots (of all rows), and samples skipped in it."""

    batch: PackedBatch
    slots: tuple[PromptSlot, ...]
    skipped: tuple[SkippedSample, ...]


@dataclass(frozen=True)
class ExampleBatch:
    """A batch, and the samples skipped in it."""

    batch: PackedBatch
    skipped: tuple[SkippedSample, ...]


def prompt_batches(
    source: Source,
    processor: Processor,
    config: DataConfig,
    rows: RowNumbers,
    limit: int | None = None,
) -> Iterator[PromptBatch]:
    """Prompts of samples 0..limit-1, each exactly once, oldest first; the last batch is padded.

    Raises:
        DataError, SampleError: as `DataLoader`.
    """
    capacity = capacity_of(config, processor)
    measure = _prompt_measure(source, processor, capacity)
    assemble = partial(BatchAssembler(source, processor, config, rows), prompts=True)
    for batch, placed, skipped in _pass_over(
        source, config, capacity, heldout_indices(source, limit), measure, assemble
    ):
        yield PromptBatch(batch, tuple(slot_of(p, processor) for p in placed), skipped)


def example_batches(
    source: Source,
    processor: Processor,
    config: DataConfig,
    rows: RowNumbers,
    indices: Sequence[int],
) -> Iterator[ExampleBatch]:
    """Samples `indices` with their answers, each exactly once; the last batch is padded.

    Raises:
        DataError, SampleError: as `DataLoader`.
    """
    capacity = capacity_of(config, processor)
    measure = _example_measure(source, processor, capacity)
    assemble = BatchAssembler(source, processor, config, rows)
    for batch, _, skipped in _pass_over(source, config, capacity, indices, measure, assemble):
        yield ExampleBatch(batch, skipped)


def check_heldout(
    source: Source,
    processor: Processor,
    config: DataConfig,
    indices: Sequence[int],
    *,
    prompts: bool,
) -> None:
    """Measure samples as `prompt_batches` does, or, without `prompts`, as `example_batches`.

    Skipped unusable samples are no error, as long as one sample can be used.

    Raises:
        SampleError: a sample cannot be used, with `data.on_error: raise`.
        DataError: no sample can be used.
    """
    capacity = capacity_of(config, processor)
    measure = (_prompt_measure if prompts else _example_measure)(source, processor, capacity)
    if config.on_error == "raise":
        _measure_samples(source, config, indices, measure)
        return
    last = "the split is empty"
    for index in indices:
        try:
            measure(index)
        except SampleError as error:
            last = f"the last: {error}"
        else:
            return
    raise DataError(
        f"none of {len(indices)} held-out samples can be evaluated; {last}; with "
        "evaluate.enabled=false training does not evaluate"
    )


def heldout_indices(source: Source, limit: int | None) -> range:
    """Indices of the first `limit` samples, or of all."""
    return range(len(source) if limit is None else min(limit, len(source)))


def by_member(source: Source, indices: Sequence[int]) -> dict[str, list[int]]:
    """`indices` by the member of a mixture that holds them; under "" for another source."""
    if not isinstance(source, SourceMixture):
        return {"": list(indices)}
    groups: dict[str, list[int]] = {name: [] for name in source.members}
    for index in indices:
        groups[source.member_name(index)].append(index)
    return groups


def _pass_over(
    source: Source,
    config: DataConfig,
    capacity: Capacity,
    indices: Sequence[int],
    measure: Callable[[int], Lengths],
    assemble: Callable[
        [Sequence[SamplePlacement], Capacity], tuple[PackedBatch, tuple[SkippedSample, ...]]
    ],
) -> Iterator[tuple[PackedBatch, list[SamplePlacement], tuple[SkippedSample, ...]]]:
    """Batches of samples, oldest first, with the placements of the good and the bad samples."""
    waiting, skipped = _measure_samples(source, config, indices, measure)
    offered = config.on_offer()
    while waiting or skipped:
        chosen = rebucket_samples(waiting[:offered], capacity, config.rows)
        placed = pack([capacity.needs(n) for _, n in chosen], config.rows, capacity.limits)
        placements = lay_out(chosen, placed, capacity.specs)
        batch, bad = assemble(placements, capacity)
        names = {name for name, _ in bad}
        yield batch, [p for p in placements if source.name(p.index) not in names], skipped + bad
        unplaced = [item for item, row in zip(chosen, placed, strict=True) if row is None]
        waiting, skipped = unplaced + waiting[offered:], ()


def rebucket_samples(
    chosen: list[tuple[int, Lengths]], capacity: Capacity, rows: int
) -> list[tuple[int, Lengths]]:
    """Samples by the buckets of the cheapest cut, if buckets are cut by cost."""
    if not has_thresholds(capacity):
        return chosen
    samples = [lengths for _, lengths in chosen]
    bucketed = relaid(samples, choose_thresholds(samples, capacity, rows))
    return [(index, lengths) for (index, _), lengths in zip(chosen, bucketed, strict=True)]


def _measure_samples(
    source: Source, config: DataConfig, indices: Sequence[int], measure: Callable[[int], Lengths]
) -> tuple[list[tuple[int, Lengths]], tuple[SkippedSample, ...]]:
    """(index, lengths) of usable samples, and the others with their reasons."""
    usable, skipped = [], []
    for index in indices:
        try:
            usable.append((index, measure(index)))
        except SampleError as error:
            if config.on_error == "raise":
                raise
            skipped.append((error.name, error.fault))
    return usable, tuple(skipped)


def _prompt_measure(
    source: Source, processor: Processor, capacity: Capacity
) -> Callable[[int], Lengths]:
    """Measures a prompt, of a sample that has an answer."""

    def measure_sample(index: int) -> Lengths:
        return bucketed_lengths(source, capacity, index, processor.measure_prompt(source[index, 0]))

    return measure_sample


def _example_measure(
    source: Source, processor: Processor, capacity: Capacity
) -> Callable[[int], Lengths]:
    """Measures a sample with its answer."""

    def measure_sample(index: int) -> Lengths:
        return bucketed_lengths(source, capacity, index, processor.measure(source[index, 0]))

    return measure_sample


def bucketed_lengths(source: Source, capacity: Capacity, index: int, lengths: Lengths) -> Lengths:
    """`lengths` by bucket, if a row can hold them. Raises SampleError."""
    lengths = capacity.by_bucket(lengths)
    if misfit := capacity.misfit(lengths):
        raise SampleError(source.name(index), misfit)
    return lengths


def slot_of(placement: SamplePlacement, processor: Processor) -> PromptSlot:
    """The place of a prompt that was laid out."""
    buckets = (processor.specs[name] for name, media in placement.media.items() if media)
    encoders = tuple(dict.fromkeys(bucket.module for bucket in buckets))
    count = placement.lengths.total(processor.text.name)
    place = placement.row, placement.start, count, placement.segment
    return PromptSlot(placement.index, *place, encoders)

"""The first samples of a run as the model sees them, from the batches of training."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from data.batch import NEXT_TOKEN, NextTokenTargets
from data.faults import SampleFault
from data.loading.loader import Microbatch
from data.media.preview import MediaPreview
from data.planning.buckets import number_of
from data.planning.layout import SamplePlacement
from data.processing.processor import Processor
from data.rows.pack import read_medium
from data.rows.spec import RowSpec
from data.sample import UnusableError
from data.sources.make import make_source
from data.sources.mixture import SourceMixture
from data.sources.source import Source
from mllm_jax.config.buckets import configured_processor
from mllm_jax.config.load import ExperimentConfig
from mllm_jax.train.loading.loader import open_single_loader


@dataclass(frozen=True)
class PreviewToken:
    """A token of a sample, or all tokens of a medium.

    Attributes:
        at: its place in the sample; that of the first of several.
        text: text that it adds; for a medium its encoders.
        id: its id; for a medium that of the first token.
        learnt: whether it has a loss.
        count: number of tokens.
        medium: whether outputs of encoders are merged here.
    """

    at: int
    text: str
    id: int
    learnt: bool
    count: int = 1
    medium: bool = False


@dataclass(frozen=True)
class PreviewMedium:
    """A medium of a sample, in the row of an encoder's bucket.

    Attributes:
        bucket: name of the bucket, or of an encoder that has none.
        row, start: row of the bucket, and the input position at which the medium begins.
        positions, outputs: number of its input positions, and of its outputs that are merged.
        look: how it looks.
    """

    bucket: str
    row: int
    start: int
    positions: int
    outputs: int
    look: MediaPreview


@dataclass(frozen=True)
class PreviewSample:
    """A sample in the rows of a microbatch.

    Attributes:
        number: number of the sample in the page, from 0.
        name: name of the sample in messages.
        source: name of the source, in a mixture of the member.
        microbatch: number of the microbatch, from 0.
        placement: places of the text and of the media.
        learnt: number of tokens with a loss.
        text: name of the module that has the text.
        fault: why it turned out to be unusable when it was read; None for one that is used.
    """

    number: int
    name: str
    source: str
    microbatch: int
    placement: SamplePlacement
    learnt: int
    text: str
    fault: SampleFault | None = None

    @property
    def tokens(self) -> int:
        """Positions of the decoder's row."""
        return self.placement.lengths.total(self.text)

    @property
    def key(self) -> str:
        """Name of its place in the page."""
        return f"sample-{self.number}"

    def to_json(self) -> dict[str, Any]:
        """A JSON-able dict."""
        placement = self.placement
        return {
            "name": self.name,
            "source": self.source,
            "microbatch": self.microbatch,
            "row": placement.row,
            "start": placement.start,
            "segment": placement.segment,
            "tokens": self.tokens,
            "learnt": self.learnt,
            "media": {
                bucket: list(placement.lengths.counts(bucket))
                for bucket in placement.lengths.modules
                if bucket != self.text
            },
            "unusable": self.fault and self.fault.text,
        }


@dataclass(frozen=True)
class RefusedSample:
    """A sample that could not be used.

    Attributes:
        microbatch: number of the microbatch in which it was read first.
        name: name of the sample.
        fault: why it cannot be used.
        times: how often it was met, as small data come up again and again.
    """

    microbatch: int
    name: str
    fault: SampleFault
    times: int

    def to_json(self) -> dict[str, Any]:
        """A JSON-able dict."""
        return {
            "microbatch": self.microbatch,
            "sample": self.name,
            "reason": self.fault.kind.value,
            "text": self.fault.text,
            "times": self.times,
        }


@dataclass(frozen=True)
class SampleDetail:
    """A sample token by token, with its media."""

    sample: PreviewSample
    tokens: tuple[PreviewToken, ...]
    media: tuple[PreviewMedium, ...]


@dataclass(frozen=True)
class DataPreview:
    """The first samples of a run.

    Attributes:
        config: configuration of the run.
        specs: row specs of all buckets.
        microbatches: the first microbatches of the run.
        samples: their samples, row by row.
        details: the first of these.
        sizes: number of samples of each source.
        read, passed: keys of the records of samples in detail that are read, and that are not.
        refused: if no sample of the source can be used, all of them with their reasons; there is no
            microbatch then.
    """

    config: ExperimentConfig
    specs: Mapping[str, RowSpec]
    microbatches: Sequence[Microbatch]
    samples: Sequence[PreviewSample]
    details: Sequence[SampleDetail]
    sizes: Mapping[str, int]
    read: Sequence[str] = ()
    passed: Sequence[str] = ()
    refused: Sequence[tuple[str, SampleFault]] = ()

    @cached_property
    def skipped(self) -> list[RefusedSample]:
        """The samples that could not be used, each once."""
        if self.refused:
            return [RefusedSample(0, name, fault, 1) for name, fault in self.refused]
        met = [
            (number, *skip)
            for number, microbatch in enumerate(self.microbatches)
            for skip in microbatch.skipped
        ]
        times = Counter(name for _, name, _ in met)
        first = {name: (number, fault) for number, name, fault in reversed(met)}
        return [
            RefusedSample(first[name][0], name, first[name][1], count)
            for name, count in times.items()
        ]

    @cached_property
    def used(self) -> list[PreviewSample]:
        """The samples that are trained on: those that could be read whole."""
        return [sample for sample in self.samples if sample.fault is None]

    @cached_property
    def budgets(self) -> dict[str, tuple[int, int]]:
        """By budget, positions of all rows, and positions that samples were planned for."""
        room: Counter[str] = Counter()
        used: Counter[str] = Counter()
        for microbatch in self.microbatches:
            room.update(microbatch.stats.capacity)
            used.update(microbatch.stats.used)
        return {name: (room[name], used[name]) for name in room}

    @property
    def buckets(self) -> tuple[str, ...]:
        """Names of the buckets of media."""
        return tuple(name for name in self.specs if name != self.config.model.backbone)

    @property
    def padding(self) -> dict[str, float]:
        """Share of positions that hold no sample, by budget."""
        return {name: 1 - used / room for name, (room, used) in self.budgets.items()}

    @cached_property
    def by_source(self) -> dict[str, list[PreviewSample]]:
        """The samples of each source that are trained on."""
        return {
            name: [sample for sample in self.used if sample.source == name] for name in self.sizes
        }

    def to_json(self) -> dict[str, Any]:
        """A JSON-able dict."""
        return {
            "seed": self.config.train.seed,
            "microbatches": len(self.microbatches),
            "samples": [sample.to_json() for sample in self.samples],
            "skipped": [sample.to_json() for sample in self.skipped],
            "sources": {
                name: {"samples": len(source_samples), "of": self.sizes[name]}
                for name, source_samples in self.by_source.items()
            },
            "padding": self.padding,
        }


def build_preview(config: ExperimentConfig, samples: int) -> DataPreview:
    """The first microbatches of a run that hold `samples` samples, with so many in detail.

    Raises:
        DataError: the data cannot be used; but a source none of whose samples can be used is shown
            with the reasons.
        SampleError: a sample cannot be used, with `data.on_error: raise`.
    """
    source = make_source(config.data)
    processor = configured_processor(config)
    microbatches: list[Microbatch] = []
    sizes = _source_sizes(source, config)
    try:
        with open_single_loader(config, source, processor) as loader:
            while sum(microbatch.stats.samples for microbatch in microbatches) < samples:
                microbatches.append(next(loader))
    except UnusableError as error:
        return DataPreview(config, processor.specs, [], [], [], sizes, refused=error.skipped)
    all_samples = list(_list_samples(microbatches, source, config))
    details = [
        _sample_detail(sample, microbatches[sample.microbatch], source, processor)
        for sample in all_samples[:samples]
    ]
    keys = [source[sample.placement.key].keys for sample in all_samples[:samples]]
    read, passed = (
        sorted({key for keys_of_sample in keys for key in keys_of_sample[which]})
        for which in (0, 1)
    )
    return DataPreview(
        config, processor.specs, microbatches, all_samples, details, sizes, read, passed
    )


def _source_sizes(source: Source, config: ExperimentConfig) -> dict[str, int]:
    """Number of samples of every source."""
    if isinstance(source, SourceMixture):
        return {name: len(member) for name, member in source.members.items()}
    return {config.data.source.kind: len(source)}


def _list_samples(
    microbatches: Sequence[Microbatch], source: Source, config: ExperimentConfig
) -> Iterator[PreviewSample]:
    """Samples of microbatch after microbatch, row by row."""
    number = 0
    for at, microbatch in enumerate(microbatches):
        faults = dict(microbatch.skipped)
        for placement in sorted(microbatch.stats.placements, key=lambda p: (p.row, p.segment)):
            name, index = source.name(placement.index), placement.index
            member = _member_name(source, index, config)
            text, weights = microbatch.batch.text_name, targets_of(microbatch).weights
            learnt = int(_slice_sample(weights, placement, text).sum())
            yield PreviewSample(number, name, member, at, placement, learnt, text, faults.get(name))
            number += 1


def _member_name(source: Source, index: int, config: ExperimentConfig) -> str:
    """The source of a sample."""
    return (
        source.member_name(index) if isinstance(source, SourceMixture) else config.data.source.kind
    )


def targets_of(microbatch: Microbatch) -> NextTokenTargets:
    """The decoder's next-token targets in a microbatch; zeros if it does not learn to write."""
    decoder = microbatch.batch.text_rows
    if NEXT_TOKEN in decoder.targets:
        return decoder.next_token
    return NextTokenTargets(
        np.zeros_like(decoder.inputs), np.zeros(decoder.inputs.shape, np.float32)
    )


def _slice_sample(array: NDArray[Any], placement: SamplePlacement, text: str) -> NDArray[Any]:
    """An array of the module `text`, `[rows, tokens]`, at the positions of a sample."""
    start = placement.start
    return array[placement.row, start : start + placement.lengths.total(text)]


def _sample_detail(
    sample: PreviewSample, microbatch: Microbatch, source: Source, processor: Processor
) -> SampleDetail:
    """Tokens and media of a sample; nothing of one that is unusable."""
    if sample.fault is not None:
        return SampleDetail(sample, (), ())
    tokens = tuple(_list_tokens(sample.placement, microbatch, processor))
    return SampleDetail(
        sample, tokens, tuple(_list_media(sample.placement, microbatch, source, processor))
    )


def _list_tokens(
    placement: SamplePlacement, microbatch: Microbatch, processor: Processor
) -> Iterator[PreviewToken]:
    """The tokens of a sample; the last one is a target alone."""
    learning = targets_of(microbatch)
    arrays = microbatch.batch.text_rows.inputs, learning.labels, learning.weights
    text = microbatch.batch.text_name
    ids, targets, weight = (_slice_sample(array, placement, text) for array in arrays)
    all_ids = [*ids.tolist(), int(targets[-1])]
    learnt = [False, *(weight > 0).tolist()]
    spans, at = _media_spans(placement, processor), 0
    while at < len(all_ids):
        end = next((begin for begin in sorted(spans) if begin >= at), len(all_ids))
        for offset, text in enumerate(processor.token_texts(all_ids[at:end])):
            yield PreviewToken(at + offset, text, all_ids[at + offset], learnt[at + offset])
        if end < len(all_ids):
            names, count = spans[end]
            yield PreviewToken(end, " + ".join(names), all_ids[end], False, count, medium=True)
            end += count
        at = end


def _media_spans(
    placement: SamplePlacement, processor: Processor
) -> dict[int, tuple[list[str], int]]:
    """Tokens of media: by the first one, buckets whose outputs are merged there, and the count."""
    spans: dict[int, tuple[list[str], int]] = {}
    for bucket, starts in placement.lengths.starts.items():
        spec = processor.media[processor.specs[bucket].module]
        for start, medium in zip(starts, placement.lengths.of(bucket), strict=True):
            names, _ = spans.get(start, ([], 0))
            spans[start] = [*names, bucket], len(spec.in_text(medium, 0))
    return {start: span for start, span in spans.items() if span[1]}


def _list_media(
    placement: SamplePlacement, microbatch: Microbatch, source: Source, processor: Processor
) -> Iterator[PreviewMedium]:
    """The media of a sample, with their positions in the rows of their buckets."""
    sample = source[placement.key]
    for bucket, places in placement.media.items():
        spec = processor.media[processor.specs[bucket].module]
        rows, media = microbatch.batch.rows[bucket], placement.lengths.of(bucket)
        for number, ((row, start, _), measured) in enumerate(zip(places, media, strict=True)):
            offsets = placement.offsets[bucket][number] if spec.axes else ()
            content = read_medium(rows, spec, row, start, measured, offsets)
            position = number_of(placement.lengths, bucket, number)
            look = processor.preview_medium(sample, spec.module, position, content)
            yield PreviewMedium(
                bucket, row, start, measured.count, spec.merged_outputs(measured), look
            )


def find_quantiles(values: Sequence[int]) -> tuple[int, float, int]:
    """Least, median and largest of some numbers; zeros without any."""
    return (min(values), float(np.median(values)), max(values)) if values else (0, 0.0, 0)


def range_width(values: Sequence[int], parts: int) -> int:
    """Width of about `parts` ranges that hold `values`: 1, 2 or 5 times a power of ten."""
    rough = max(1.0, max(values, default=1) / parts)
    power = 10 ** math.floor(math.log10(rough))
    return next(power * n for n in (1, 2, 5, 10) if power * n >= rough)

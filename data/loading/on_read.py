"""Microbatches of samples whose lengths are known once they are read (`data.lengths: on_read`).

Each host reads every n-th sample of the stream, ahead of its turn. The hosts send each other the
lengths of new samples, make the same plan from them, and send each other only the parts in rows of
others. With `data.balance_group` all of that is among the hosts of a group, for its own samples::

    read (Grain) -> lengths to all hosts -> plan -> parts to the hosts of their rows -> arrays

The parts of a microbatch are on their way while the microbatch before it is taken.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count, islice
from typing import Any, Protocol

import grain
import numpy as np
from numpy.typing import NDArray

from data.config import DataConfig
from data.faults import FaultKind, SampleFault
from data.loading.assemble import BatchArrays, RowNumbers, capacity_of, check_rows
from data.loading.loader import (
    Microbatch,
    MicrobatchLoader,
    initial_state,
    microbatch_stats,
    with_places,
)
from data.loading.prefetch import PrefetchIterator, SlicedDataset, UnseekableIterator
from data.planning.buckets import number_of
from data.planning.groups.group import WHOLE, HostGroupSpec
from data.planning.layout import SamplePlacement
from data.planning.lengths import check_records
from data.planning.stream import BatchPlanner, LoaderState, MicrobatchPlan, TrainingDemand, stream
from data.processing.processor import Processor
from data.rows.pack import WORD, Words, medium_of, medium_words, words_of
from data.rows.spec import MediaRowSpec, RowSpec
from data.rows.tokens import media_of, text_of
from data.sample import DataError, Example, Grid, Lengths, MediumLengths, SampleError
from data.sources.order import SampleOrder, StreamPlace
from data.sources.source import Source

_KINDS = list(FaultKind)


class HostGroup(Protocol):
    """The hosts of a run, or of a group. All must call the same methods in the same order."""

    @property
    def index(self) -> int:
        """Number of this host."""

    @property
    def count(self) -> int:
        """Number of hosts."""

    def gather(self, numbers: Words) -> Callable[[], list[Words]]:
        """Begin to send `numbers` to all hosts; the result waits for the numbers of each host."""

    def exchange(
        self, parts: Sequence[Words], sizes: NDArray[np.int64]
    ) -> Callable[[], list[Words]]:
        """Begin to send `parts[j]` to host j; the result waits for the parts from each host.

        Args:
            parts: parts for every host; empty for this one.
            sizes: `[i, j]`: number of words from host i to host j, the same on all hosts.
        """


class SingleHost:
    """A run on a single host."""

    index, count = 0, 1

    def gather(self, numbers: Words) -> Callable[[], list[Words]]:
        """The host's own numbers."""
        return lambda: [numbers]

    def exchange(
        self, parts: Sequence[Words], sizes: NDArray[np.int64]
    ) -> Callable[[], list[Words]]:
        """See `HostGroup.exchange`; a single host sends nothing."""
        return lambda: list(parts)


# ---- reading -------------------------------------------------------------------------------------


class _PlaceIterator(UnseekableIterator):
    """Stream position, index and epoch of the samples that one worker reads."""

    def __init__(self, order: SampleOrder, positions: Iterator[int]) -> None:
        super().__init__()
        self._order, self._positions = order, positions

    def make_element(self) -> StreamPlace:
        position = next(self._positions)
        return position, *self._order[position]


class _PlaceStream(SlicedDataset):
    """Places of the samples that one host reads: its share of carried samples, then of new ones.

    The first `consumed` places have been read.
    """

    def __init__(
        self,
        source: Source,
        state: LoaderState,
        index: int,
        hosts: int,
        consumed: int = 0,
        group: HostGroupSpec = WHOLE,
    ) -> None:
        super().__init__()
        self._order, self._state, self._consumed = stream(source, state.seed), state, consumed
        self._index, self._hosts, self._group = index, hosts, group

    def __iter__(self) -> _PlaceIterator:
        first = self._consumed + self.offset
        return _PlaceIterator(self._order, islice(self._read_positions(), first, None, self.stride))

    def _read_positions(self) -> Iterator[int]:
        group = self._group
        (first,) = group.positions(self._state.position, 1)
        for position in chain(
            filter(group.has_position, self._state.carry), count(first, group.count)
        ):
            if group.reader_of(position, self._hosts) == self._index:
                yield position


@dataclass(frozen=True)
class _ReadSample:
    """A sample that has been read, or the reason why it cannot be used."""

    position: int
    result: Example | SampleFault


class _SampleReader:
    """The map of the pipeline: a place of the stream to its sample."""

    def __init__(self, source: Source, processor: Processor) -> None:
        self._source, self._processor = source, processor

    def __call__(self, place: StreamPlace) -> _ReadSample:
        position, index, epoch = place
        try:
            return _ReadSample(
                position, self._processor.process_unchecked(self._source[index, epoch])
            )
        except SampleError as error:
            return _ReadSample(position, error.fault)


class _WaitingSamples:
    """Samples that this host has read and that wait to be placed; sends their lengths to the other
    hosts."""

    def __init__(
        self,
        reads: Iterator[_ReadSample],
        cluster: HostGroup,
        specs: Sequence[RowSpec],
        group: HostGroupSpec,
    ) -> None:
        self._reads, self._cluster, self._specs = reads, cluster, specs
        self._group = group
        self._asked: tuple[list[int], Callable[[], list[Words]]] = ([], list)
        self.examples: dict[int, Example] = {}

    def request_lengths(self, positions: Sequence[int]) -> None:
        """Begin to exchange the lengths at `positions`, which are needed next."""
        self._asked = list(positions), self._begin_gather(positions)

    def at(self, places: Sequence[StreamPlace]) -> list[Lengths | SampleFault]:
        """Lengths of samples, from the hosts that have read them."""
        positions = [position for position, _, _ in places]
        asked, answer = self._asked
        self._asked = ([], list)
        answers = (answer if asked == positions else self._begin_gather(positions))()
        words = [iter(numbers.tolist()) for numbers in answers]
        # Each host has sent the lengths of its samples in their order.
        return [_decode_lengths(words[self._reader_of(p)], self._specs) for p in positions]

    def _reader_of(self, position: int) -> int:
        return self._group.reader_of(position, self._cluster.count)

    def _begin_gather(self, positions: Sequence[int]) -> Callable[[], list[Words]]:
        if not positions:
            return list
        words: list[int] = []
        for position in positions:
            if self._reader_of(position) != self._cluster.index:
                continue
            read = next(self._reads)
            if read.position != position:
                raise RuntimeError(f"read sample {read.position} of the stream, not {position}")
            words += _encode_lengths(read.result, self._specs)
            if isinstance(read.result, Example):
                self.examples[position] = read.result
        return self._cluster.gather(np.array(words, np.int32))


def _encode_lengths(result: Example | SampleFault, specs: Sequence[RowSpec]) -> list[int]:
    """Lengths as numbers, or a reason."""
    if isinstance(result, SampleFault):
        text = result.text.encode()
        return [-1, _KINDS.index(result.kind), len(text), *text]
    return numbers_of(result.lengths, specs)


def numbers_of(lengths: Lengths, specs: Sequence[RowSpec]) -> list[int]:
    """The numbers that send lengths to other hosts: tokens, and for every encoder a count, lengths,
    starts and, if its media have them, grids and entries on further axes.
    """
    words = [lengths.total(text_of(specs).name)]
    for spec in media_of(specs):
        media = lengths.of(spec.name)
        words += [len(media), *lengths.counts(spec.name), *lengths.starts.get(spec.name, ())]
        if spec.is_gridded:
            words += chain.from_iterable(_grid_words(spec.grid_of(medium)) for medium in media)
        words += chain.from_iterable(medium.entries for medium in media)
    return words


def _decode_lengths(words: Iterator[int], specs: Sequence[RowSpec]) -> Lengths | SampleFault:
    """The inverse of `_encode_lengths`."""
    tokens = next(words)
    if tokens < 0:
        kind = _KINDS[next(words)]
        return SampleFault(kind, bytes(next(words) for _ in range(next(words))).decode())
    name = text_of(specs).name
    modules: dict[str, tuple[MediumLengths, ...]] = {name: (MediumLengths(tokens),)}
    starts = {}
    for spec in media_of(specs):
        name, number = spec.name, next(words)
        if number:
            counts = [next(words) for _ in range(number)]
            starts[name] = tuple(next(words) for _ in range(number))
            grids = [_grid_of(words) if spec.is_gridded else None for _ in counts]
            entries = [tuple(next(words) for _ in spec.axes) for _ in counts]
            modules[name] = tuple(map(MediumLengths, counts, grids, entries))
    return Lengths(modules, starts)


def _grid_words(grid: Grid) -> tuple[int, int, int, int]:
    """A grid as words of four bytes."""
    return grid.t, grid.h, grid.w, int(np.float32(grid.interval).view(np.int32))


def _grid_of(words: Iterator[int]) -> Grid:
    """The inverse of `_grid_words`."""
    t, h, w, interval = (next(words) for _ in range(4))
    return Grid(t, h, w, float(np.int32(interval).view(np.float32)))


# ---- sending -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _SamplePart:
    """The text (no bucket) or one medium of a sample, and from which host to which it goes."""

    placement: SamplePlacement
    bucket: str | None
    number: int
    sender: int
    receiver: int


class _PartExchange:
    """The parts that hosts send each other for a plan.

    Args:
        rows: rows of every host.
        processor: processor, which knows the shapes of media.
        group: the hosts among which the samples are read.
    """

    def __init__(
        self, rows: Sequence[RowNumbers], processor: Processor, group: HostGroupSpec
    ) -> None:
        self._processor, self._hosts, self._group = processor, len(rows), group
        self._owners: dict[tuple[str, int], list[int]] = defaultdict(list)
        for host, host_rows in enumerate(rows):
            for module, numbers in host_rows.items():
                for row in numbers:
                    self._owners[module, row].append(host)

    def parts_of(self, plan: MicrobatchPlan) -> Iterator[_SamplePart]:
        """All parts of a plan, also those that stay on their host."""
        for p in plan.placements:
            sender = self._group.reader_of(p.position, self._hosts)
            for host in self._owners[self._processor.text.module, p.row]:
                yield _SamplePart(p, None, 0, sender, host)
            for name, media in p.media.items():
                for number, (row, _, _) in enumerate(media):
                    for host in self._owners[name, row]:
                        yield _SamplePart(p, name, number, sender, host)

    def part_arrays(self, part: _SamplePart, example: Example) -> list[NDArray[Any]]:
        """The arrays of a part, of words of four bytes."""
        if part.bucket is None:
            return [example.tokens, example.targets, example.loss_weight]
        spec, _ = self._medium_spec(part)
        number = number_of(part.placement.lengths, part.bucket, part.number)
        return [medium_words(spec, example.media[spec.module][number])]

    def word_count(self, part: _SamplePart) -> int:
        """Words of a part."""
        lengths = part.placement.lengths
        if part.bucket is None:
            return 3 * lengths.total(self._processor.text.name)
        return words_of(*self._medium_spec(part))

    def _medium_spec(self, part: _SamplePart) -> tuple[MediaRowSpec, MediumLengths]:
        """The description of a medium's rows, and the medium's lengths."""
        assert part.bucket is not None
        spec = self._processor.media[self._processor.specs[part.bucket].module]
        return spec, part.placement.lengths.of(part.bucket)[part.number]

    def write_part(self, arrays: BatchArrays, part: _SamplePart, words: Words) -> None:
        """Write a part that has been sent as `words`."""
        lengths = part.placement.lengths
        if part.bucket is not None:
            spec, measured = self._medium_spec(part)
            medium = medium_of(spec, words, measured)
            arrays.write_medium(part.placement, part.bucket, part.number, medium)
            return
        name = self._processor.text.name
        tokens, targets, weight = words.reshape(3, lengths.total(name))
        example = Example(tokens, targets, weight.view(np.float32), {}, lengths.starts, name)
        arrays.write_text(part.placement, example)


# ---- the loader ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _SentMicrobatch:
    """A microbatch whose parts are on their way: those of this host, and those that others send.

    size: bytes that all hosts send.
    """

    plan: MicrobatchPlan
    examples: Mapping[int, Example]
    parts: Sequence[_SamplePart]
    received: Callable[[], list[Words]]
    size: int


class MeasuringDataLoader(MicrobatchLoader):
    """Microbatches of samples measured when they are read; resumable on any number of hosts.

    Its batches are those of `DataLoader`, but for samples that turn out bad when they are read:
    here that happens before they are planned, so that they leave no hole.

    Args:
        source, processor, config, seed, state, consumer: as in `DataLoader`.
        rows: rows of every host of `cluster`.
        cluster: the hosts, or those of `consumer.group`.

    Raises:
        DataError, ValueError, SampleError: as `DataLoader`.
    """

    def __init__(
        self,
        source: Source,
        processor: Processor,
        config: DataConfig,
        seed: int,
        rows: Sequence[RowNumbers],
        state: LoaderState | None,
        consumer: TrainingDemand,
        cluster: HostGroup,
    ) -> None:
        state = initial_state(state, seed)
        if not len(source):
            raise DataError("data.source has no samples; valid: at least one")
        check_records(source)
        for host_rows in rows:
            check_rows(host_rows, list(processor.specs), config.rows)
        self._config, self._processor, self._cluster = config, processor, cluster
        group = consumer.group
        self._rows, self._parts = rows[cluster.index], _PartExchange(rows, processor, group)

        def list_reads(consumed: int) -> grain.IterDataset:
            places = _PlaceStream(source, state, cluster.index, cluster.count, consumed, group)
            return places.map(_SampleReader(source, processor))

        # A step holds many samples: `data.prefetch` counts steps, Grain's buffer samples.
        samples = config.prefetch * group.share_of(config).pool_size(consumer.microbatches)
        per_worker = samples // (cluster.count * max(1, config.workers)) + 1
        self._reads = PrefetchIterator(list_reads, config.workers, per_worker)
        self._waiting = _WaitingSamples(self._reads, cluster, processor.module_specs, group)
        capacity = capacity_of(config, processor)
        begin = replace(state, done=0)
        self._planner = BatchPlanner(source, self._waiting, config, capacity, begin, consumer)
        self._sent: _SentMicrobatch | None = None
        for _ in range(state.done):
            self._take_examples(self._planner.plan())

    def __next__(self) -> Microbatch:
        sent = self._sent or self._send_parts(self._planner.plan())
        self._sent = self._send_parts(self._planner.plan())
        return self._receive_parts(sent)

    def close(self) -> None:
        """Stop workers and threads; idempotent. After it, `next` raises StopIteration."""
        self._reads.close()
        self._sent = None

    def _send_parts(self, plan: MicrobatchPlan) -> _SentMicrobatch:
        """Begin to send the parts that others need, and to exchange the next samples' lengths."""
        index, hosts = self._cluster.index, self._cluster.count
        parts, examples = list(self._parts.parts_of(plan)), self._take_examples(plan)
        sizes = np.zeros((hosts, hosts), np.int64)
        words: list[list[Words]] = [[] for _ in range(hosts)]
        for part in parts:
            if part.sender == part.receiver:
                continue
            sizes[part.sender, part.receiver] += self._parts.word_count(part)
            if part.sender == index:
                words[part.receiver].append(self._part_words(part, examples))
        together = [np.concatenate([*chunks, np.zeros(0, np.int32)]) for chunks in words]
        received = self._cluster.exchange(together, sizes)
        self._waiting.request_lengths(self._planner.missing_positions)
        mine = [part for part in parts if part.receiver == index]
        return _SentMicrobatch(plan, examples, mine, received, WORD * int(sizes.sum()))

    def _part_words(self, part: _SamplePart, examples: Mapping[int, Example]) -> Words:
        arrays = self._parts.part_arrays(part, examples[part.placement.position])
        return np.concatenate([array.ravel().view(np.int32) for array in arrays])

    def _take_examples(self, plan: MicrobatchPlan) -> dict[int, Example]:
        """Samples of a plan that this host has stored until now."""
        positions = [p.position for p in plan.placements]
        waiting, planned = self._waiting.examples, self._planner.waiting_positions
        examples = {n: waiting.pop(n) for n in positions if n in waiting}
        # Samples that fit in no row are dropped.
        for position in [p for p in waiting if p < self._planner.state.position]:
            if position not in planned:
                del waiting[position]
        return examples

    def _receive_parts(self, sent: _SentMicrobatch) -> Microbatch:
        """The microbatch of parts that have arrived."""
        plan, words = sent.plan, sent.received()
        arrays = BatchArrays(self._rows, plan.capacity)
        offsets = [0] * self._cluster.count
        for part in sent.parts:
            if part.sender == part.receiver:
                part_words = self._part_words(part, sent.examples)
            else:
                start = offsets[part.sender]
                offsets[part.sender] = end = start + self._parts.word_count(part)
                part_words = words[part.sender][start:end]
            self._parts.write_part(arrays, part, part_words)
        batch = arrays.batch
        if self._config.balance == "per_phase":
            batch = with_places(batch, plan)
        return Microbatch(
            batch, microbatch_stats(plan, self._config.rows, sent.size), plan.skipped, plan.state
        )

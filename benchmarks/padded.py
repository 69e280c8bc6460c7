"""Padded batches by plain pipelines of Grain and of torch, which our loader is compared with.

No jax here: worker processes load this module. They get the lengths of all samples beforehand, so
that a baseline does nothing for a sample but read it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import count, takewhile
from threading import Event
from typing import Any, cast

import grain
import numpy as np
from absl import flags

from data.processing.processor import Processor
from data.sample import Example, Lengths, ProcessedMedium
from data.sources.order import SampleOrder, shuffle_samples
from data.sources.source import Source

#: A batch of a plain pipeline: arrays by name, as `pad` says. Grain shares those of dicts alone.
Padded = dict[str, Any]


@dataclass(frozen=True)
class ExampleReader:
    """The example of sample `index`: a Grain map, and a torch data set."""

    source: Source
    processor: Processor
    lengths: tuple[Lengths, ...]

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, index: int) -> Example:
        return self.processor.process(self.source[index, 0], self.lengths[index])

    def __call__(self, index: int) -> Example:
        return self[index]


@dataclass(frozen=True)
class PaddedBatches:
    """Which samples make which batch.

    Attributes:
        samples: number of samples in the source.
        seed: seed of the shuffle, which is that of our loader.
        batch: number of samples of a batch.
    """

    samples: int
    seed: int
    batch: int

    @cached_property
    def order(self) -> SampleOrder:
        """Indices, shuffled anew every epoch, without end."""
        return shuffle_samples(self.samples, self.seed)

    def index_at(self, place: int) -> int:
        """The index of the sample at a place of the order."""
        return self.order[place][0]

    def __iter__(self) -> Iterator[list[int]]:
        for number in count():
            yield [self.index_at(number * self.batch + i) for i in range(self.batch)]


@contextmanager
def grain_batches(
    reader: ExampleReader, batches: PaddedBatches, workers: int, prefetch: int
) -> Iterator[Iterator[Padded]]:
    """Plain Grain: map, batch; a thread, or each worker, makes `ahead` batches early."""
    indices = grain.MapDataset.range(sys.maxsize).map(batches.index_at)
    padded = indices.map(reader).batch(batches.batch, batch_fn=pad_examples)
    if workers:
        # Grain's worker processes read absl flags, which nobody parses in this program.
        if not flags.FLAGS.is_parsed():
            flags.FLAGS.mark_as_parsed()
        alone = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)
        options = grain.MultiprocessingOptions(num_workers=workers, per_worker_buffer_size=prefetch)
        iterator = padded.to_iter_dataset(alone).mp_prefetch(options).__iter__()
    else:
        thread = grain.ReadOptions(num_threads=1, prefetch_buffer_size=prefetch)
        iterator = padded.to_iter_dataset(thread).__iter__()
    try:
        yield iterator
    finally:
        iterator.close()


@contextmanager
def torch_batches(
    reader: ExampleReader, batches: PaddedBatches, workers: int, prefetch: int
) -> Iterator[Iterator[Any]]:
    """torch's `DataLoader`: the same batches as tensors; without workers it makes none early.

    Workers are spawned: JAX runs threads, whose locks a forked process would inherit in whatever
    state they are. Grain spawns its workers as well, so both start at the same cost.

    Raises:
        ImportError: torch is not installed.
    """
    from torch.utils.data import DataLoader

    ended = Event()
    asked = takewhile(lambda _: not ended.is_set(), batches)
    options: dict[str, Any] = {"batch_sampler": asked, "collate_fn": pad_tensors}
    if workers:
        options |= {"num_workers": workers, "prefetch_factor": prefetch}
        options |= {"multiprocessing_context": "spawn"}
    iterator = iter(DataLoader(cast(Any, reader), **options))
    try:
        yield iterator
    finally:
        # Take what has been asked for: a worker that ends while it hands tensors on may abort.
        ended.set()
        for _ in iterator:
            pass


def pad_examples(examples: Sequence[Example]) -> Padded:
    """Every array padded with zeros to the longest of the batch.

        {"decoder": {tokens, targets, loss_weight, segment_ids: [B, T]},
         "encoders": {encoder: {inputs [M, Te, F], positions [M, Te, 2] or [M, Te],
                                segment_ids [M, Te], sizes [M, 2] (images)}}}

    M are the media of the batch, so that a sample without any takes no room; an encoder without any
    is left out. Segment 0 is padding.
    """
    decoder = {
        key: _pad_arrays([getattr(example, key) for example in examples])
        for key in ("tokens", "targets", "loss_weight")
    }
    decoder["segment_ids"] = _length_mask([len(example.tokens) for example in examples])
    names = dict.fromkeys(name for example in examples for name in example.media)
    media = {
        name: [medium for example in examples for medium in example.media.get(name, ())]
        for name in names
    }
    return {"decoder": decoder, "encoders": {k: _padded_media(v) for k, v in media.items() if v}}


def pad_tensors(examples: Sequence[Example]) -> Padded:
    """The batch of `pad` as torch tensors, which torch shares between processes without a copy."""
    import torch

    return _convert_arrays(pad_examples(examples), torch.from_numpy)


def _convert_arrays(batch: Padded, convert: Any) -> Padded:
    return {
        k: _convert_arrays(v, convert) if isinstance(v, dict) else convert(v)
        for k, v in batch.items()
    }


def _padded_media(media: Sequence[ProcessedMedium]) -> Padded:
    arrays = {
        "inputs": _pad_arrays([medium.inputs for medium in media]),
        "positions": _pad_arrays([medium.positions for medium in media]),
        "segment_ids": _length_mask([len(medium.inputs) for medium in media]),
    }
    more = {name: np.stack([medium.more[name] for medium in media]) for name in media[0].more}
    return arrays | more


def _pad_arrays(arrays: Sequence[np.ndarray]) -> np.ndarray:
    longest = max(map(len, arrays))
    batch = np.zeros((len(arrays), longest, *arrays[0].shape[1:]), arrays[0].dtype)
    for row, array in zip(batch, arrays, strict=True):
        row[: len(array)] = array
    return batch


def _length_mask(lengths: Sequence[int]) -> np.ndarray:
    return (np.arange(max(lengths)) < np.array(lengths)[:, None]).astype(np.int32)


def padded_share(batches: Sequence[Sequence[Lengths]]) -> float:
    """Share of padding in the positions of all modules, with batches padded as `pad` does.

    Example: samples of 2 and 4 tokens, the second with clips of 1 and 3 frames, are 10 positions in
    2 x 4 + 2 x 3 = 14: 2/7.
    """
    used = total = 0
    for batch in batches:
        names = {name for sample in batch for name in sample.modules}
        for numbers in ([n for sample in batch for n in sample.counts(name)] for name in names):
            used += sum(numbers)
            total += len(numbers) * max(numbers, default=0)
    return 1 - used / total

"""Batches of prompts, each in a row of its own, hardly longer than the longest needs.

Rows come in a few lengths, so that few programs are compiled: multiples of a unit, and above eight
units of ever larger steps, by at most a quarter more than is needed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from data.config import DataConfig
from data.loading.assemble import BatchAssembler, RowNumbers, capacity_of
from data.loading.evaluation import PromptBatch, rebucket_samples, slot_of
from data.planning.layout import lay_out
from data.planning.packing import Capacity
from data.processing.processor import Processor
from data.sample import Lengths
from data.sources.source import Source

#: Positions of which rows have whole numbers: kernels of accelerators take them in such blocks.
BLOCK = 128


def prompt_rows(
    source: Source,
    processor: Processor,
    config: DataConfig,
    rows: RowNumbers,
    prompts: Sequence[tuple[int, Lengths]],
    units: Mapping[str, int],
) -> PromptBatch:
    """Read prompts, each into a row of its own.

    Args:
        source: source of the prompts.
        processor: makes them.
        config: configuration of the data; `rows` is the number of rows of the batch.
        rows: global rows of each module that this process holds.
        prompts: index and measured lengths of at most as many prompts.
        units: by budget, the positions of which a row must have whole numbers.

    Raises:
        SampleError: a prompt cannot be read, with `data.on_error: raise`.
    """
    capacity = capacity_of(config, processor)
    buckets = [(index, capacity.by_bucket(lengths)) for index, lengths in prompts]
    buckets = rebucket_samples(buckets, capacity, config.rows)
    fitting = _fitting_capacity(capacity, [lengths for _, lengths in buckets], units)
    placements = lay_out(buckets, range(len(buckets)), fitting.specs)
    assemble = BatchAssembler(source, processor, config, rows)
    batch, skipped = assemble(placements, fitting, prompts=True)
    bad = {name for name, _ in skipped}
    good = [placement for placement in placements if source.name(placement.index) not in bad]
    return PromptBatch(batch, tuple(slot_of(placement, processor) for placement in good), skipped)


def _fitting_capacity(
    capacity: Capacity, prompts: Sequence[Lengths], units: Mapping[str, int]
) -> Capacity:
    """The capacity of rows that hold the prompts, one in each."""
    needs = zip(*map(capacity.needs, prompts), strict=True)
    most = dict(zip(capacity.resources, map(max, needs), strict=True))
    limits = {
        name: rounded_up(need, math.lcm(BLOCK, units[name])) if name in units else max(1, need)
        for name, need in most.items()
    }
    return capacity.with_limits(limits)


def rounded_up(need: int, unit: int) -> int:
    """The length of rows for so many positions; `rounded_up(1100, 128) == 1280`."""
    count = max(1, -(-need // unit))
    step = 2 ** max(0, (count - 1).bit_length() - 3)
    return -(-count // step) * step * unit

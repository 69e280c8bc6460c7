"""A finite pass over a split with room for generated answers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from data.assemble import Assembler, Batch, Rows
from data.config import DataConfig
from data.packing import Capacity, make_capacity, pack
from data.plan import Placement, Skip, lay_out
from data.processor import Processor
from data.sample import Lengths, SampleError
from data.sources import Source


@dataclass(frozen=True)
class Slot:
    """Where the answer of sample `index` goes: positions `start` to `start + reserve` of `row`.

    The logits at `start - 1` predict the answer's first token. encoders: those that the sample has
    media for.
    """

    index: int
    row: int
    start: int
    encoders: tuple[str, ...]


@dataclass(frozen=True)
class PromptBatch:
    """A batch as in `data.assemble`, its slots (of all rows), and the samples skipped in it."""

    batch: Batch
    slots: tuple[Slot, ...]
    skipped: tuple[Skip, ...]


def prompt_batches(
    source: Source,
    processor: Processor,
    config: DataConfig,
    rows: Rows,
    reserve: int,
    limit: int | None = None,
) -> Iterator[PromptBatch]:
    """Prompts of samples 0..limit-1, each exactly once, oldest first; the last batch is padded.

    A segment is a prompt followed by `reserve` free positions, which have its segment id and
    running positions but padding tokens; they are behind the prompt, so causal attention does not
    see them until they are filled.

    Raises:
        ValueError: `reserve` below 1. DataError, SampleError: as `Loader`.
    """
    if reserve < 1:
        raise ValueError(f"reserve {reserve} leaves no position for an answer")
    capacity = make_capacity(config.budgets, tuple(processor.modalities.values()))
    assemble = Assembler(source, processor, config, rows)
    count = len(source) if limit is None else min(limit, len(source))
    waiting, skipped = _measured(source, processor, config, capacity, reserve, count)
    while waiting or skipped:
        chosen = waiting[: config.lookahead]
        placed = pack([capacity.needs(n) for _, n in chosen], config.rows, capacity.limits)
        placements = lay_out(chosen, placed, capacity.modalities)
        batch, bad = assemble(placements, capacity, reserve)
        names = {name for name, _ in bad}
        good = [p for p in placements if source.name(p.index) not in names]
        yield PromptBatch(batch, tuple(_slot(p, reserve) for p in good), skipped + bad)
        kept = [item for item, row in zip(chosen, placed, strict=True) if row is None]
        waiting, skipped = kept + waiting[config.lookahead :], ()


def _measured(
    source: Source,
    processor: Processor,
    config: DataConfig,
    capacity: Capacity,
    reserve: int,
    count: int,
) -> tuple[list[tuple[int, Lengths]], tuple[Skip, ...]]:
    """(index, lengths with `reserve`) of usable samples, and the others with their reasons."""
    usable, skipped = [], []
    for index in range(count):
        try:
            usable.append((index, _measure(source, processor, capacity, reserve, index)))
        except SampleError as error:
            if config.on_error == "raise":
                raise
            skipped.append((error.name, error.reason))
    return usable, tuple(skipped)


def _measure(
    source: Source, processor: Processor, capacity: Capacity, reserve: int, index: int
) -> Lengths:
    lengths = processor.measure_prompt(source[index])
    lengths = replace(lengths, tokens=lengths.tokens + reserve)
    misfit = capacity.misfit(lengths)
    if misfit:
        raise SampleError(source.name(index), f"with {reserve} reserved positions {misfit}")
    return lengths


def _slot(placement: Placement, reserve: int) -> Slot:
    start = placement.start + placement.lengths.tokens - reserve
    encoders = tuple(name for name, media in placement.media.items() if media)
    return Slot(placement.index, placement.row, start, encoders)

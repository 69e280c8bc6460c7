"""Budgets that fit a source: padding is least when all budgets run out together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import ceil

import numpy as np

from data.faults import SampleFault
from data.planning.buckets import by_bucket
from data.planning.lengths import LengthTable
from data.planning.packing import entries_by_axis, longer_than, spans_of
from data.rows.spec import RowSpec
from data.rows.tokens import media_of, text_of
from data.sample import DataError, Lengths
from data.sources.order import SampleOrder

#: Outputs (tokens) of which budgets are multiples.
MULTIPLE = 8  # accelerators and sequence-sharded plans like multiples of 8


def suggest_budgets(
    lengths: LengthTable,
    specs: Sequence[RowSpec],
    rows: int,
    samples_per_step: int,
    probe: int = 2048,
    order: SampleOrder | None = None,
    longest: int | None = None,
) -> dict[str, int]:
    """`data.budgets` for about `samples_per_step` samples in `rows` rows.

    The means of the stream fix the ratio of the budgets: the scarcest budget limits the samples,
    and any excess of the others over the ratio is padding. Budgets are multiples of 8 encoder
    outputs (8 tokens), or of a tile's outputs, so among the scales within 15 % of
    `samples_per_step` the one that rounds best is taken, of several the nearest. Lengths come from
    `probe` random samples of the source, or from the first samples of `order`, in which some come
    up more often than others; samples of more than `longest` tokens are left out.

    Raises:
        DataError: none of the probed samples is usable.
    """
    needs, segments = _probe_needs(
        lengths, specs, _choose_samples(len(lengths), probe, order), longest
    )
    names = [name for name, (values, _) in needs.items() if values.any()]
    means = np.array([needs[name][0].mean() for name in names])
    largest = np.array([needs[name][0].max() for name in names])
    units = np.array([needs[name][1] for name in names])
    factors = np.array(sorted(np.linspace(0.85, 1.15, 61), key=lambda factor: abs(factor - 1)))
    scales = samples_per_step / rows * factors
    tables = np.maximum(scales[:, None] * means, largest) / units
    ratios = np.ceil(tables) * units / (scales[:, None] * means)
    best = int(np.argmin(ratios.max(1) / ratios.min(1)))
    chosen = (np.ceil(tables[best]) * units).astype(int).tolist()
    unused = {name: int(unit) for name, (_, unit) in needs.items() if name not in names}
    most = max(2, ceil(2 * scales[best] * segments))
    return dict(zip(names, chosen, strict=True)) | unused | {"segments": most}


def _choose_samples(size: int, probe: int, order: SampleOrder | None) -> list[int]:
    if order is not None:
        return [order[position][0] for position in range(probe)]
    # At random: a regular grid would see a pattern such as "every other sample has an image".
    chosen: list[int] = np.random.default_rng(0).permutation(size)[:probe].tolist()
    return chosen


def needs_of(
    lengths: LengthTable,
    specs: Sequence[RowSpec],
    probe: int = 2048,
    order: SampleOrder | None = None,
    longest: int | None = None,
) -> np.ndarray:
    """`[samples, budgets]`: what `probe` usable samples need of every budget but `segments`.

    See `suggest_budgets`.

    Raises:
        DataError: none of the probed samples is usable.
    """
    needs, _ = _probe_needs(lengths, specs, _choose_samples(len(lengths), probe, order), longest)
    return np.stack([values for values, _ in needs.values()], axis=1)


def _probe_needs(
    lengths: LengthTable,
    specs: Sequence[RowSpec],
    chosen: Sequence[int],
    longest: int | None,
) -> tuple[dict[str, tuple[np.ndarray, int]], float]:
    """Needs of samples per budget with its rounding unit, and segments per sample."""
    text, *others = text_of(specs), *media_of(specs)
    specs, rows = [text, *others], list[list[int]]()
    media: list[int] = []
    faults: list[SampleFault] = []
    for index in chosen:
        sample = lengths[index]
        if isinstance(sample, Lengths):
            sample = longer_than(longest, sample.total(text.module), text.module) or sample
        if isinstance(sample, SampleFault):  # the loader will count and report it
            faults.append(sample)
            continue
        laid = by_bucket(sample, specs)
        spans = [spans_of(m, laid.counts(m.name)) for m in specs]
        entries = [sum(axis) for m in specs for axis in entries_by_axis(m, laid)]
        rows.append([*map(sum, spans), *entries])
        own_media = [len(of) for m, of in zip(specs, spans, strict=True) if m is not text]
        media.append(max(own_media, default=1))
    if not rows:
        raise DataError(_describe_faults(faults))
    table = np.array(rows)
    units = {m.positions_budget: m.reduction * (m.unit or MULTIPLE) for m in specs}
    units |= {m.budgets[axis]: MULTIPLE for m in specs for axis in m.axes}
    needs = {name: (table[:, i], unit) for i, (name, unit) in enumerate(units.items())}
    return needs, max(1.0, float(np.mean(media)))


def _describe_faults(faults: Sequence[SampleFault]) -> str:
    """Why there is no sample from which to suggest budgets."""
    summary = f"data.source has no usable sample from which to suggest budgets, of {len(faults)}"
    firsts = {fault.kind: fault for fault in reversed(faults)}
    counts = Counter(fault.kind for fault in faults)
    return "; ".join([summary, *(f"{kind}, {n}: {firsts[kind]}" for kind, n in counts.items())])

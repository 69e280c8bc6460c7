"""Dealing: which rows the samples of a step and their media go to.

`none` and `decoder` keep a sample's media in its own row, as far as the row goes; `per_phase` deals
the decoder's samples and every encoder's media each for themselves, so that every phase of the step
is balanced over the rows, and so over the ranks that hold them. First everything is packed, oldest
first, so that what waits does not depend on costs; then the rows are balanced.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import numpy as np

from data.balance import Ints, Problem, Work, deal, refine
from data.packing import Capacity, FreeRows, pack, spans_of
from data.placement import place
from data.sample import Lengths

Balance = Literal["none", "decoder", "per_phase"]
NO_WORK: Mapping[str, Work] = MappingProxyType({})
#: By tower, the host of every row.
Hosts = Mapping[str, Sequence[int]]
NO_HOSTS: Hosts = MappingProxyType({})
MediaRows = Mapping[str, tuple[int, ...]]
#: By sample, its row or None, and the rows of its media.
Arrangement = tuple[Sequence[int | None], Sequence[MediaRows]]


@dataclass(frozen=True)
class Loads:
    """Work of the rows of one phase, in its forward FLOPs, `[rows]`.

    Attributes:
        before: as packed.
        after: as balanced.
        dearest: work of the dearest item, the sample that it belongs to, and its row; of no item
            0, 0 and 0.
    """

    before: np.ndarray
    after: np.ndarray
    dearest: tuple[float, int, int]


@dataclass(frozen=True)
class Dealt:
    """Rows of the samples of a step.

    Attributes:
        rows: of the decoder, None for a sample that waits.
        media: by sample and encoder, the encoder's row of every medium.
        loads: by phase: `decoder` and the encoders.
        crossing: by encoder, outputs whose tokens are on another host.
    """

    rows: tuple[int | None, ...]
    media: tuple[MediaRows, ...]
    loads: Mapping[str, Loads]
    crossing: Mapping[str, int]


class Dealer:
    """Deals the samples of step after step.

    Args:
        balance: what is balanced.
        rows: of a batch.
        capacity: of a row.
        work: of the towers, by `decoder` and the encoders' names.
        hosts: of the rows of every tower, likewise; none if there is but one.

    Raises:
        ValueError: the work of a tower is missing.
    """

    def __init__(
        self,
        balance: Balance,
        rows: int,
        capacity: Capacity,
        work: Mapping[str, Work],
        hosts: Hosts = NO_HOSTS,
    ) -> None:
        self._balance, self._rows, self._capacity = balance, rows, capacity
        towers = ["decoder", *(m.name for m in capacity.modalities)]
        needed = {"none": [], "decoder": towers[:1], "per_phase": towers}[balance]
        missing = [name for name in needed if name not in work]
        if missing:
            raise ValueError(f"data.balance: {balance} must know the work of {', '.join(missing)}")
        self._work, self._hosts = work, hosts
        self._limits = dict(zip(capacity.resources, capacity.limits, strict=True))

    def __call__(self, samples: Sequence[Lengths]) -> Dealt:
        """Rows of `samples`, which are oldest first."""
        if self._balance == "per_phase":
            return self._per_phase(samples)
        needs = [self._capacity.needs(lengths) for lengths in samples]
        packed = pack(needs, self._rows, self._capacity.limits)
        here = [i for i, row in enumerate(packed) if row is not None]
        before = np.array([packed[i] for i in here], np.int64)
        after = before
        if self._balance == "decoder":
            tokens = [samples[i].tokens for i in here]
            chosen = np.array([needs[i] for i in here], np.int64)
            after = self._balanced("decoder", tokens, chosen, self._capacity.limits, before)
        rows = _spread(after, here, len(samples))
        media = tuple(_in_row(lengths, row) for lengths, row in zip(samples, rows, strict=True))
        packed_media = [_in_row(n, row) for n, row in zip(samples, packed, strict=True)]
        loads = self._loads(samples, (packed, packed_media), (rows, media))
        return Dealt(rows, media, loads, self._crossing(samples, rows, media))

    # ---- every phase by itself -------------------------------------------------------------------

    def _per_phase(self, samples: Sequence[Lengths]) -> Dealt:
        packed, packed_media = self._pack_parts(samples)
        here = [i for i, row in enumerate(packed) if row is not None]
        tokens = [samples[i].tokens for i in here]
        needs = np.array([(n, 1) for n in tokens], np.int64).reshape(-1, 2)
        before = np.array([packed[i] for i in here], np.int64)
        limits = self._part_limits("tokens", "segments")
        rows = _spread(self._balanced("decoder", tokens, needs, limits, before), here, len(samples))
        media: list[dict[str, tuple[int, ...]]] = [{} for _ in samples]
        for modality in self._capacity.modalities:
            name = modality.name
            owners = [i for i in here for _ in packed_media[i].get(name, ())]
            lengths = [n for i in here for n in samples[i].media.get(name, ())]
            spans = spans_of(modality, lengths)
            needs = np.array([(span, 1) for span in spans], np.int64).reshape(-1, 2)
            before = np.array([r for i in here for r in packed_media[i].get(name, ())], np.int64)
            limits = self._part_limits(name, f"{name} segments")
            dealt = self._balanced(name, lengths, needs, limits, before)
            outputs = np.array(spans, np.int64) // modality.reduction
            dealt = self._placed(
                name, dealt, np.array([rows[i] for i in owners], np.int64), outputs
            )
            for owner, row in zip(owners, dealt.tolist(), strict=True):
                media[owner][name] = (*media[owner].get(name, ()), row)
        loads = self._loads(samples, (packed, packed_media), (rows, media))
        return Dealt(rows, tuple(media), loads, self._crossing(samples, rows, media))

    def _pack_parts(self, samples: Sequence[Lengths]) -> tuple[list[int | None], list[MediaRows]]:
        """Each sample to the fullest row that takes it, each of its media likewise, or it waits."""
        free = {"decoder": FreeRows(self._rows, self._part_limits("tokens", "segments"))}
        for modality in self._capacity.modalities:
            limits = self._part_limits(modality.name, f"{modality.name} segments")
            free[modality.name] = FreeRows(self._rows, limits)
        rows: list[int | None] = []
        media: list[MediaRows] = []
        for lengths in samples:
            parts = self._parts(lengths)
            taken = _take_all(free, parts)
            rows.append(taken[0] if taken else None)
            inner: dict[str, tuple[int, ...]] = {}
            for (name, _), row in zip(parts[1:], taken[1:], strict=False):
                inner[name] = (*inner.get(name, ()), row)
            media.append(inner)
        return rows, media

    def _part_limits(self, *resources: str) -> tuple[int, ...]:
        return tuple(self._limits[name] for name in resources)

    def _parts(self, lengths: Lengths) -> list[tuple[str, int]]:
        """Tower and positions of a sample's tokens and of each of its media."""
        parts = [("decoder", lengths.tokens)]
        for modality in self._capacity.modalities:
            own = spans_of(modality, lengths.media.get(modality.name, ()))
            parts += [(modality.name, span) for span in own]
        return parts

    # ---- balancing and loads ---------------------------------------------------------------------

    def _balanced(
        self,
        phase: str,
        lengths: Sequence[int],
        needs: Ints,
        limits: tuple[int, ...],
        packed: Ints,
    ) -> Ints:
        """A deal whose heaviest row is no heavier than that of `packed`, and all of it placed."""
        problem = Problem(
            np.array(lengths, np.int64), self._rows, self._work[phase], "packed", needs, limits
        )
        found = [refine(problem, packed)]
        dealt = deal(problem)
        if dealt.min(initial=0) >= 0:
            found.append(dealt)
        return min(found, key=lambda rank: int(problem.loads(rank).max()))

    def _placed(self, encoder: str, dealt: Ints, wanted: Ints, outputs: Ints) -> Ints:
        """Rows of an encoder's media, renumbered so that few outputs go to another host.

        Args:
            encoder: its name.
            dealt: row of every medium.
            wanted: decoder row of every medium.
            outputs: of every medium.
        """
        sources, targets = (self._hosts.get(name, ()) for name in (encoder, "decoder"))
        if len({*sources, *targets}) < 2 or not len(dealt):
            return dealt
        volumes = np.zeros((self._rows, 1 + max(*sources, *targets)), np.int64)
        np.add.at(volumes, (dealt, np.asarray(targets)[wanted]), outputs)
        return place(volumes, sources)[dealt]

    def _loads(
        self, samples: Sequence[Lengths], packed: Arrangement, balanced: Arrangement
    ) -> dict[str, Loads]:
        """Work of the rows of every phase whose work is known."""
        loads = {}
        for name in ("decoder", *(m.name for m in self._capacity.modalities)):
            if name in self._work:
                _, where, work = self._items(name, samples, *packed)
                before = np.bincount(where, work, minlength=self._rows)
                owners, where, work = self._items(name, samples, *balanced)
                after = np.bincount(where, work, minlength=self._rows)
                loads[name] = Loads(before, after, _dearest(owners, where, work))
        return loads

    def _items(
        self,
        name: str,
        samples: Sequence[Lengths],
        rows: Sequence[int | None],
        media: Sequence[MediaRows],
    ) -> tuple[Ints, Ints, np.ndarray]:
        """Sample, row and forward FLOPs of every item of one phase."""
        items = [
            (number, row, n)
            for number, (lengths, own, inner) in enumerate(zip(samples, rows, media, strict=True))
            if own is not None
            for row, n in (
                [(own, lengths.tokens)]
                if name == "decoder"
                else zip(inner.get(name, ()), lengths.media.get(name, ()), strict=True)
            )
        ]
        owners, where, lengths_ = np.array(items, np.int64).reshape(-1, 3).T
        n, work = lengths_.astype(np.float64), self._work[name]
        return owners, where, work.linear * n + work.quadratic * n * n

    def _crossing(
        self,
        samples: Sequence[Lengths],
        rows: Sequence[int | None],
        media: Sequence[MediaRows],
    ) -> dict[str, int]:
        """Outputs of every encoder whose tokens are on another host."""
        crossing = {}
        targets = self._hosts.get("decoder", ())
        for modality in self._capacity.modalities:
            name = modality.name
            sources = self._hosts.get(name, ())
            crossing[name] = sum(
                modality.outputs(n)
                for lengths, row, inner in zip(samples, rows, media, strict=True)
                if row is not None and targets and sources
                for n, own in zip(lengths.media.get(name, ()), inner.get(name, ()), strict=True)
                if sources[own] != targets[row]
            )
        return crossing


def _take_all(free: Mapping[str, FreeRows], parts: Sequence[tuple[str, int]]) -> list[int]:
    """Rows of all parts, or of none: then nothing is taken."""
    taken: list[int] = []
    for name, span in parts:
        row = free[name].take((span, 1))
        if row is None:
            for (other, size), where in zip(parts, taken, strict=False):
                free[other].give_back(where, (size, 1))
            return []
        taken.append(row)
    return taken


def _dearest(owners: Ints, rows: Ints, work: np.ndarray) -> tuple[float, int, int]:
    """Work, sample and row of the dearest item."""
    if not len(work):
        return 0.0, 0, 0
    most = int(work.argmax())
    return float(work[most]), int(owners[most]), int(rows[most])


def _spread(rows: Ints, here: Sequence[int], count: int) -> tuple[int | None, ...]:
    """Rows of the samples `here` among `count`, None for the others."""
    spread: list[int | None] = [None] * count
    for i, row in zip(here, rows.tolist(), strict=True):
        spread[i] = row
    return tuple(spread)


def _in_row(lengths: Lengths, row: int | None) -> MediaRows:
    """All media in the row of their sample."""
    if row is None:
        return {}
    return {name: (row,) * len(own) for name, own in lengths.media.items()}

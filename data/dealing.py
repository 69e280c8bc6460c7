"""Dealing: which rows the samples of a step and their media go to.

`none` and `decoder` keep a sample's media in its own row, as far as the row goes; `per_phase` deals
the decoder's samples and every encoder's media each for themselves, so that every phase of the step
is balanced over the rows, and so over the ranks that hold them. First everything is packed, oldest
first, so that what waits does not depend on costs; then the rows are balanced.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from data.balance import SHIPPED, check_balancing, deal, refine
from data.config import DataConfig, TowerBalancing
from data.ladder import Ladder
from data.microbatches import in_turn
from data.modality import Modality
from data.packing import Capacity, FreeSpans, pack, spans_of
from data.placement import place
from data.problem import Ints, Problem, Work
from data.sample import DataError, Lengths

#: By tower, the host of every row.
Hosts = Mapping[str, Sequence[int]]
MediaRows = Mapping[str, tuple[int, ...]]
#: By sample, its row or None, and the rows of its media.
Arrangement = tuple[Sequence[int | None], Sequence[MediaRows]]


@dataclass(frozen=True)
class Loads:
    """Work of the rows of one phase, in its forward FLOPs, `[rows]`.

    Attributes:
        before: as packed; with `data.batch: samples` as they come, as many in every row.
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
        limits: by resource, positions of a row that hold the fullest.
    """

    rows: tuple[int | None, ...]
    media: tuple[MediaRows, ...]
    loads: Mapping[str, Loads]
    crossing: Mapping[str, int]
    limits: Mapping[str, int]


@dataclass(frozen=True)
class _Items:
    """What one phase deals over the rows.

    Attributes:
        phase: `decoder` or an encoder.
        owners: sample of every item.
        lengths: of the items, in input positions.
        needs, limits: of an item, `[items, resources]`, and of a row; positions come first.
        packed: rows that keep the limits.
    """

    phase: str
    owners: Sequence[int]
    lengths: Sequence[int]
    needs: Ints
    limits: tuple[int, ...]
    packed: Sequence[int]


@dataclass(frozen=True)
class _Offer:
    """Samples of a step, oldest first, what messages call them, and the hosts that have them."""

    samples: Sequence[Lengths]
    name: Callable[[int], str]
    readers: Ints | None

    def read(self, owners: Sequence[int], amounts: Ints) -> list[tuple[Ints, Ints]]:
        """Where items of the samples `owners` are, if that is settled, and how much they are."""
        return [] if self.readers is None else [(self.readers[np.array(owners, int)], amounts)]


class Dealer:
    """Deals the samples of step after step.

    Args:
        config: rows, what a step has as many of, what is balanced and how.
        capacity: of a row.
        ladder: budgets of rows, of which the lowest that serve are taken.
        work: of the towers, by `decoder` and the encoders' names.
        hosts: of the rows of every tower, likewise; none if there is but one.

    Raises:
        ValueError: the work of a tower is missing.
        DataError: an algorithm is of an unknown tower, or unknown.
    """

    def __init__(
        self,
        config: DataConfig,
        capacity: Capacity,
        ladder: Ladder,
        work: Mapping[str, Work],
        hosts: Hosts,
    ) -> None:
        self._balance, self._rows, self._capacity = config.balance, config.rows, capacity
        self._in_turn = config.batch == "samples"
        self._ladder, self._balancing = ladder, config.balancing
        towers = ["decoder", *(m.name for m in capacity.modalities)]
        needed = {"none": [], "decoder": towers[:1], "per_phase": towers}[config.balance]
        missing = [name for name in needed if name not in work]
        if missing:
            raise ValueError(
                f"data.balance: {config.balance} must know the work of {', '.join(missing)}"
            )
        self._work, self._hosts = work, hosts
        check_balancing(config, towers)

    def __call__(
        self,
        samples: Sequence[Lengths],
        name: Callable[[int], str] = "sample {}".format,
        readers: Sequence[int] | None = None,
    ) -> Dealt:
        """Rows of samples.

        Args:
            samples: oldest first.
            name: what messages call one.
            readers: host that has read each of them, if that is settled before their rows are.

        Raises:
            DataError: a user's algorithm drops or repeats a sample.
        """
        deal_all = {"none": self._none, "decoder": self._decoder, "per_phase": self._per_phase}
        hosts = None if readers is None else np.array(readers, np.int64)
        packed, balanced = deal_all[self._balance](_Offer(samples, name, hosts))
        before = self._as_they_come(packed[0], samples) if self._in_turn else packed
        loads = self._loads(samples, before, balanced)
        limits = self._limits(samples, *balanced)
        rows, media = balanced
        crossing = self._crossing(samples, rows, media)
        return Dealt(tuple(rows), tuple(media), loads, crossing, limits)

    def _none(self, offer: _Offer) -> tuple[Arrangement, Arrangement]:
        """As packed; samples of a fixed number as they come, as many in every row."""
        samples = offer.samples
        if self._in_turn:
            packed = self._room_for(samples, in_turn(len(samples), self._rows))
        else:
            packed = self._packed(samples)
        return packed, packed

    def _decoder(self, offer: _Offer) -> tuple[Arrangement, Arrangement]:
        """Samples by the decoder's work, their media in their rows."""
        samples = offer.samples
        packed = self._packed(samples)
        here = [i for i, row in enumerate(packed[0]) if row is not None]
        needs = [self._capacity.needs(samples[i]) for i in here]
        items = _Items(
            "decoder",
            here,
            [samples[i].tokens for i in here],
            np.array(needs, np.int64).reshape(len(here), len(self._capacity.limits)),
            self._capacity.limits,
            [row for row in packed[0] if row is not None],
        )
        dealt = self._balanced(items, offer.name)
        dealt = self._placed("decoder", dealt, offer.read(here, items.needs[:, 0]))
        return packed, _with_media(samples, _spread(dealt, here, len(samples)))

    def _per_phase(self, offer: _Offer) -> tuple[Arrangement, Arrangement]:
        """Samples by the decoder's work, the media of every encoder by its own."""
        samples = offer.samples
        packed, packed_media = self._pack_parts(samples)
        here = [i for i, row in enumerate(packed) if row is not None]
        tokens = [samples[i].tokens for i in here]
        needs = np.array([(n, 1) for n in tokens], np.int64).reshape(-1, 2)
        limits = self._part_limits("tokens", "segments")
        first = [row for row in packed if row is not None]
        items = _Items("decoder", here, tokens, needs, limits, first)
        dealt = self._balanced(items, offer.name)
        dealt = self._placed("decoder", dealt, offer.read(here, needs[:, 0]))
        rows = _spread(dealt, here, len(samples))
        media: list[dict[str, tuple[int, ...]]] = [{} for _ in samples]
        targets = self._hosts.get("decoder", ())
        for modality in self._capacity.modalities:
            items = self._media_items(modality, samples, here, packed_media)
            flows = offer.read(items.owners, items.needs[:, 0])
            if targets:
                wanted = np.array([targets[rows[i] or 0] for i in items.owners], np.int64)
                flows.append((wanted, items.needs[:, 0] // modality.reduction))
            dealt = self._placed(modality.name, self._balanced(items, offer.name), flows)
            for owner, row in zip(items.owners, dealt.tolist(), strict=True):
                media[owner][modality.name] = (*media[owner].get(modality.name, ()), row)
        return (packed, packed_media), (rows, media)

    def _media_items(
        self,
        modality: Modality,
        samples: Sequence[Lengths],
        here: Sequence[int],
        packed: Sequence[MediaRows],
    ) -> _Items:
        """Media of one encoder, of the samples `here`."""
        name = modality.name
        owners = [i for i in here for _ in packed[i].get(name, ())]
        lengths = [n for i in here for n in samples[i].media.get(name, ())]
        spans = spans_of(modality, lengths)
        needs = np.array([(span, 1) for span in spans], np.int64).reshape(-1, 2)
        first = [row for i in here for row in packed[i].get(name, ())]
        limits = self._part_limits(name, f"{name} segments")
        return _Items(name, owners, lengths, needs, limits, first)

    # ---- rooms -----------------------------------------------------------------------------------

    def _packed(self, samples: Sequence[Lengths]) -> Arrangement:
        """Each sample, with all its media, to the fullest row that takes it, or it waits."""
        needs = [self._capacity.needs(lengths) for lengths in samples]
        return _with_media(samples, pack(needs, self._rows, self._capacity.limits))

    def _room_for(self, samples: Sequence[Lengths], rows: Sequence[int]) -> Arrangement:
        """Each sample in its row, or it waits if that is full."""
        left = np.tile(np.array(self._capacity.limits), (self._rows, 1))
        found: list[int | None] = []
        for lengths, row in zip(samples, rows, strict=True):
            need = np.array(self._capacity.needs(lengths))
            fits = bool((left[row] >= need).all())
            left[row] -= need * fits
            found.append(row if fits else None)
        return _with_media(samples, found)

    def _as_they_come(
        self, packed: Sequence[int | None], samples: Sequence[Lengths]
    ) -> Arrangement:
        """As many of the samples that are `packed` in every row, whatever its room."""
        here = [i for i, row in enumerate(packed) if row is not None]
        rows = np.array(in_turn(len(here), self._rows), np.int64)
        return _with_media(samples, _spread(rows, here, len(samples)))

    def _pack_parts(self, samples: Sequence[Lengths]) -> tuple[list[int | None], list[MediaRows]]:
        """Each sample to the fullest row that takes it, each of its media likewise, or it waits."""
        free = {"decoder": FreeSpans(self._rows, *self._part_limits("tokens", "segments"))}
        for modality in self._capacity.modalities:
            limits = self._part_limits(modality.name, f"{modality.name} segments")
            free[modality.name] = FreeSpans(self._rows, *limits)
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

    def _part_limits(self, positions: str, segments: str) -> tuple[int, int]:
        return self._capacity.limit(positions), self._capacity.limit(segments)

    def _parts(self, lengths: Lengths) -> list[tuple[str, int]]:
        """Tower and positions of a sample's tokens and of each of its media."""
        parts = [("decoder", lengths.tokens)]
        for modality in self._capacity.modalities:
            own = spans_of(modality, lengths.media.get(modality.name, ()))
            parts += [(modality.name, span) for span in own]
        return parts

    def _limits(
        self,
        samples: Sequence[Lengths],
        rows: Sequence[int | None],
        media: Sequence[MediaRows],
    ) -> dict[str, int]:
        """The lowest rungs that hold the fullest row of every tower."""
        used = {name: np.zeros(self._rows, np.int64) for name in self._ladder.rungs}
        for lengths, row, inner in zip(samples, rows, media, strict=True):
            if row is None:
                continue
            used["tokens"][row] += lengths.tokens
            for modality in self._capacity.modalities:
                own = spans_of(modality, lengths.media.get(modality.name, ()))
                for where, span in zip(inner.get(modality.name, ()), own, strict=True):
                    used[modality.name][where] += span
        return {name: self._ladder.lowest(name, int(own.max())) for name, own in used.items()}

    # ---- balancing and loads ---------------------------------------------------------------------

    def _balanced(self, items: _Items, name: Callable[[int], str]) -> Ints:
        """Rows of all items, under the lowest rung of budgets that has a deal.

        Under the top rung, where there is always that of `packed`, the heaviest row is no heavier
        than it is there, but for a deal by a user's algorithm.

        Raises:
            DataError: a user's algorithm finds no room for an item under the top rung.
        """
        algorithm = self._how(items.phase).algorithm
        *lower, top = self._problems(items, name)
        for problem in lower:
            dealt = deal(problem, algorithm)
            if dealt.min(initial=0) >= 0:
                return dealt
        dealt = deal(top, algorithm)
        if algorithm is not None and algorithm not in SHIPPED:
            for item in np.flatnonzero(dealt < 0)[:1]:
                raise DataError(f"{algorithm} finds no room for item {top.name(item)}; there is")
            return dealt
        found = [refine(top, np.array(items.packed, np.int64))]
        if dealt.min(initial=0) >= 0:
            found.append(dealt)
        return min(found, key=lambda rank: int(top.loads(rank).max()))

    def _problems(self, items: _Items, name: Callable[[int], str]) -> list[Problem]:
        """The deal under every rung that may have one, and under the top one."""
        how, lengths = self._how(items.phase), np.array(items.lengths, np.int64)
        names = [name(i) for i in items.owners] if how.algorithm else None
        *lower, top = self._ladder.rungs["tokens" if items.phase == "decoder" else items.phase]
        positions = items.needs[:, 0] if len(items.needs) else np.zeros(1, np.int64)
        least = max(int(positions.max()), -(-int(positions.sum()) // self._rows))
        work, rungs = self._work[items.phase], [*(n for n in lower if n >= least), top]
        needs = items.needs.reshape(len(lengths), len(items.limits))
        return [
            Problem(lengths, self._rows, work, how.cost, needs, (n, *items.limits[1:]), names)
            for n in rungs
        ]

    def _how(self, phase: str) -> TowerBalancing:
        return self._balancing.get(phase, TowerBalancing())

    def _placed(self, tower: str, dealt: Ints, flows: Sequence[tuple[Ints, Ints]]) -> Ints:
        """Rows of a tower's items, renumbered so that little goes from host to host.

        Args:
            tower: `decoder` or an encoder.
            dealt: row of every item.
            flows: what comes and goes: a host for every item, and how much that has of the item, or
                needs of it, in positions.
        """
        sources = self._hosts.get(tower, ())
        if len(set(sources)) < 2 or not len(dealt) or not flows:
            return dealt
        most = max(*sources, *(int(hosts.max()) for hosts, _ in flows))
        volumes = np.zeros((self._rows, 1 + most), np.int64)
        for hosts, amounts in flows:
            np.add.at(volumes, (dealt, hosts), amounts)
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
                modality.landed(n, grid)
                for lengths, row, inner in zip(samples, rows, media, strict=True)
                if row is not None and targets and sources
                for n, grid, own in zip(
                    lengths.media.get(name, ()),
                    modality.grids(lengths),
                    inner.get(name, ()),
                    strict=True,
                )
                if sources[own] != targets[row]
            )
        return crossing


def _take_all(free: Mapping[str, FreeSpans], parts: Sequence[tuple[str, int]]) -> list[int]:
    """Rows of all parts, or of none: then nothing is taken."""
    taken: list[int] = []
    for name, span in parts:
        row = free[name].take(span)
        if row is None:
            for (other, size), where in zip(parts, taken, strict=False):
                free[other].give_back(where, size)
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


def _with_media(samples: Sequence[Lengths], rows: Sequence[int | None]) -> Arrangement:
    """All media in the rows of their samples."""
    media: list[MediaRows] = [
        {} if row is None else {name: (row,) * len(own) for name, own in lengths.media.items()}
        for lengths, row in zip(samples, rows, strict=True)
    ]
    return rows, media

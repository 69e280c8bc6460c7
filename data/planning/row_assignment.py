"""Which rows the samples of a microbatch and their media go to.

`none` and `backbone` keep a sample's media in its own row; `per_phase` distributes the backbone's
samples and every encoder's media independently, so that every phase of the step is balanced over
the rows, and so over the ranks that hold them. The samples of a microbatch are chosen before
(`data.planning.steps`), so that the choice does not depend on costs; here rows are balanced.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from data.config import DataConfig, ModuleBalancing
from data.planning.balance import SHIPPED, assign_items, check_balancing, lpt, refine
from data.planning.groups.placement import place
from data.planning.ladder import Ladder
from data.planning.microbatches import in_turn
from data.planning.packing import Capacity, FreeSpans, in_few_rows, needs_of_media, pack
from data.planning.problem import BalanceProblem, Ints, WorkModel
from data.planning.steps import MediaRows, Packed, by_module_rows
from data.rows.spec import MediaRowSpec
from data.sample import Lengths

#: Host of every row, by module.
Hosts = Mapping[str, Sequence[int]]
#: Row of every sample, and rows of its media.
Arrangement = tuple[Sequence[int], Sequence[MediaRows]]


@dataclass(frozen=True)
class Loads:
    """Work of the rows of one phase, in its forward FLOPs, `[rows]`.

    Attributes:
        before: work of the rows as packed; with `data.batch: samples` with equally many samples in
            every row, in their order.
        after: work of the rows after balancing.
        most_expensive: work of that item, the sample that it belongs to, and its row; 0, 0 and 0
            without items.
    """

    before: np.ndarray
    after: np.ndarray
    most_expensive: tuple[float, int, int]


@dataclass(frozen=True)
class RowAssignment:
    """Rows of the samples of a microbatch.

    Attributes:
        rows: row of the text of every sample.
        media: by sample and bucket, the bucket's row of every medium.
        loads: work of the rows by phase: that of the text, and those of the buckets.
        crossing: by bucket, number of outputs whose tokens are on another host.
        limits: by resource, budget of a row in positions that holds the fullest row.
    """

    rows: tuple[int, ...]
    media: tuple[MediaRows, ...]
    loads: Mapping[str, Loads]
    crossing: Mapping[str, int]
    limits: Mapping[str, int]


@dataclass(frozen=True)
class _Items:
    """The items that one phase distributes over the rows.

    Attributes:
        phase: that of the text, or a bucket.
        owners: sample of every item.
        lengths: lengths of the items, in input positions.
        needs, limits: needs of the items, `[items, resources]`, and limits of a row; positions come
            first.
        packed: row of every item in an assignment that keeps the limits.
    """

    phase: str
    owners: Sequence[int]
    lengths: Sequence[int]
    needs: Ints
    limits: tuple[int, ...]
    packed: Sequence[int]


@dataclass(frozen=True)
class _Offer:
    """Samples of a microbatch, rows that hold them, their names, and the hosts that read them."""

    samples: Sequence[Lengths]
    packed: Arrangement
    name: Callable[[int], str]
    readers: Ints | None

    def hosts_of(self, owners: Sequence[int], amounts: Ints) -> list[tuple[Ints, Ints]]:
        """Hosts of the items of samples `owners`, if they are known, with the items' amounts."""
        return [] if self.readers is None else [(self.readers[np.array(owners, int)], amounts)]


class RowAssigner:
    """Distributes the samples of microbatch after microbatch.

    Args:
        config: configuration of the data.
        capacity: capacity of a row.
        ladder: budgets of rows; the lowest sufficient ones are taken.
        work: work of the modules, by the names of their buckets.
        hosts: host of every row, by module; empty if there is only one host.

    Raises:
        ValueError: the work of a module is missing.
        DataError: an algorithm is of an unknown module, or unknown.
    """

    def __init__(
        self,
        config: DataConfig,
        capacity: Capacity,
        ladder: Ladder,
        work: Mapping[str, WorkModel],
        hosts: Hosts,
    ) -> None:
        self._balance, self._rows = config.balance, config.rows
        self._capacity, self._specs = capacity, capacity.media
        self._limits_of = capacity.limits_of_parts()
        self._budget_of = {spec.name: spec.positions_budget for spec in capacity.specs}
        self._in_turn = config.batch == "samples"
        self._ladder, self._balancing = ladder, config.balancing
        self._text = capacity.text.name
        modules = [spec.name for spec in capacity.specs]
        needed = {"none": [], "backbone": modules[:1], "per_phase": modules}[config.balance]
        missing = [name for name in needed if name not in work]
        if missing:
            raise ValueError(
                f"data.balance: {config.balance} must know the work of {', '.join(missing)}"
            )
        self._work, self._hosts = work, hosts
        check_balancing(config, modules)

    def __call__(
        self,
        samples: Sequence[Lengths],
        packed: Packed,
        name: Callable[[int], str] = "sample {}".format,
        readers: Sequence[int] | None = None,
    ) -> RowAssignment:
        """Rows of samples.

        Args:
            samples: oldest first.
            packed: rows that hold them; no sample waits.
            name: name of a sample for messages.
            readers: host that has read each sample, if samples are read before they are
                distributed.

        Raises:
            DataError: a user's algorithm drops or repeats a sample.
        """
        assigners = {
            "none": self._keep_packed_rows,
            "backbone": self._balance_texts,
            "per_phase": self._balance_phases,
        }
        hosts = None if readers is None else np.array(readers, np.int64)
        first = [row for row in packed.rows if row is not None], packed.media
        balanced = assigners[self._balance](_Offer(samples, first, name, hosts))
        before = self._as_they_come(samples) if self._in_turn else first
        loads = self._loads_by_phase(samples, before, balanced)
        limits = self._lowest_limits(samples, *balanced)
        crossing = self._count_crossing(samples, *balanced)
        return RowAssignment(tuple(balanced[0]), tuple(balanced[1]), loads, crossing, limits)

    def _keep_packed_rows(self, offer: _Offer) -> Arrangement:
        """Rows as packed."""
        return offer.packed

    def _balance_texts(self, offer: _Offer) -> Arrangement:
        """Rows of samples balanced by the backbone's work; media stay in their samples' rows."""
        samples = offer.samples
        needs = [self._capacity.needs(lengths) for lengths in samples]
        here = range(len(samples))
        items = _Items(
            self._text,
            here,
            [lengths.total(self._text) for lengths in samples],
            np.array(needs, np.int64).reshape(len(here), len(self._capacity.limits)),
            self._capacity.limits,
            offer.packed[0],
        )
        assigned = self._balance_items(items, offer.name)
        assigned = self._renumber_rows(
            self._text, assigned, offer.hosts_of(here, items.needs[:, 0])
        )
        return self._with_media(samples, assigned.tolist())

    def _balance_phases(self, offer: _Offer) -> Arrangement:
        """Rows of samples balanced by the backbone's work, rows of media by their encoder's."""
        samples, here = offer.samples, range(len(offer.samples))
        tokens = [lengths.total(self._text) for lengths in samples]
        needs = np.array([(n, 1) for n in tokens], np.int64).reshape(-1, 2)
        limits = self._limits_of[self._text]
        items = _Items(self._text, here, tokens, needs, limits, offer.packed[0])
        assigned = self._balance_items(items, offer.name)
        rows = self._renumber_rows(self._text, assigned, offer.hosts_of(here, needs[:, 0]))
        media: list[dict[str, tuple[int, ...]]] = [{} for _ in samples]
        targets = np.array(self._hosts.get(self._text, ()), np.int64)
        for spec in self._specs:
            items = self._media_items(spec, samples, offer.packed[1])
            flows = offer.hosts_of(items.owners, items.needs[:, 0])
            if len(targets):
                nearest = targets[rows[np.array(items.owners, np.int64)]]
                flows.append((nearest, items.needs[:, 0] // spec.reduction))
            grouped = self._in_groups(spec, items)
            if grouped is None:
                assigned = self._renumber_rows(
                    spec.name, self._balance_items(items, offer.name), flows
                )
            else:
                assigned = grouped
            for owner, row in zip(items.owners, assigned.tolist(), strict=True):
                media[owner][spec.name] = (*media[owner].get(spec.name, ()), row)
        return rows.tolist(), media

    def _media_items(
        self,
        spec: MediaRowSpec,
        samples: Sequence[Lengths],
        packed: Sequence[MediaRows],
    ) -> _Items:
        """Media of one encoder."""
        name = spec.name
        owners = [i for i, sample in enumerate(packed) for _ in sample.get(name, ())]
        lengths = [n for sample in samples for n in sample.counts(name)]
        limits = self._limits_of[name]
        listed = [needs for sample in samples for needs in needs_of_media(spec, sample)]
        needs = np.array(listed, np.int64).reshape(-1, len(limits))
        first = [row for sample in packed for row in sample.get(name, ())]
        return _Items(name, owners, lengths, needs, limits, first)

    def _in_groups(self, spec: MediaRowSpec, items: _Items) -> Ints | None:
        """Rows of the media of a bucket by cost, each group of whose devices has several rows.

        A group's media fill as few of its rows as they can, as a row without media is not computed;
        groups are even, in their rows if these are computed whole. None for other buckets, for
        media with further axes, or if media find no room that way.
        """
        cost = spec.bucket.cost if spec.bucket else None
        if cost is None or spec.axes or self._balancing_of(items.phase).algorithm:
            return None
        if self._rows <= cost.groups:
            return None
        each = self._rows // cost.groups
        if cost.row:
            bins = in_few_rows(items.needs[:, 0], *items.limits)
            number, owner = np.divmod(bins, cost.groups)
            return owner * each + number if bins.max(initial=-1) < self._rows else None
        limits = tuple(each * limit for limit in items.limits)
        needs, lengths = items.needs.reshape(-1, len(limits)), np.array(items.lengths, np.int64)
        kind = self._balancing_of(items.phase).cost
        group = lpt(BalanceProblem(lengths, cost.groups, cost, kind, needs, limits))
        free = [FreeSpans(each, *self._limits_of[spec.name]) for _ in range(cost.groups)]
        rows = group.copy()
        for item in np.argsort(-needs[:, 0], kind="stable").tolist():
            row = free[group[item]].take(int(needs[item, 0])) if group[item] >= 0 else None
            if row is None:
                return None
            rows[item] = group[item] * each + row
        return rows

    # ---- rooms -----------------------------------------------------------------------------------

    def pack_rows(self, samples: Sequence[Lengths]) -> Packed | None:
        """Rows for the samples of a microbatch that need not be full; None if one would wait."""
        if self._balance == "none":
            packed = self._room_for(samples, in_turn(len(samples), self._rows))
        elif self._balance == "backbone":
            needs = [self._capacity.needs(lengths) for lengths in samples]
            rows = pack(needs, self._rows, self._capacity.limits)
            together = Packed.with_media(samples, rows, self._specs)
            packed = None if None in rows else together
        else:
            packed = self._pack_parts(samples)
        return packed

    def _room_for(self, samples: Sequence[Lengths], rows: Sequence[int]) -> Packed | None:
        """Each sample in its given row, or None if a row has no room."""
        used = np.zeros((self._rows, len(self._capacity.limits)), np.int64)
        for lengths, row in zip(samples, rows, strict=True):
            used[row] += self._capacity.needs(lengths)
        together = Packed.with_media(samples, rows, self._specs)
        return together if (used <= self._capacity.limits).all() else None

    def _as_they_come(self, samples: Sequence[Lengths]) -> Arrangement:
        """Equally many samples in every row, whatever its room."""
        return self._with_media(samples, in_turn(len(samples), self._rows))

    def _pack_parts(self, samples: Sequence[Lengths]) -> Packed | None:
        """Each sample and each medium in the fullest row that has room; None if there is none."""
        free = {name: FreeSpans(self._rows, *limits) for name, limits in self._limits_of.items()}
        packed = []
        for lengths in samples:
            parts = [list(needs.items()) for needs in self._capacity.needs_of_parts(lengths)]
            numbers = [
                free[name].take(span, *(amount for _, amount in entries))
                for name, ((_, span), _, *entries) in zip(
                    self._buckets_of_parts(lengths), parts, strict=True
                )
            ]
            rows = [row for row in numbers if row is not None]
            if len(rows) < len(numbers):
                return None
            packed.append(by_module_rows(self._capacity, lengths, rows))
        return Packed([row for row, _ in packed], [media for _, media in packed])

    def _lowest_limits(
        self,
        samples: Sequence[Lengths],
        rows: Sequence[int],
        media: Sequence[MediaRows],
    ) -> dict[str, int]:
        """The lowest rung of each resource that holds the fullest row."""
        used = {name: np.zeros(self._rows, np.int64) for name in self._ladder.rungs}
        for lengths, row, inner in zip(samples, rows, media, strict=True):
            used[self._capacity.text.positions_budget][row] += lengths.total(self._text)
            for spec in self._specs:
                rows_of_media = inner.get(spec.name, ())
                for media_row, needs in zip(
                    rows_of_media, needs_of_media(spec, lengths), strict=True
                ):
                    for name, need in zip(self._capacity.resources_of(spec), needs, strict=True):
                        if name in used:
                            used[name][media_row] += need
        return {
            name: self._ladder.lowest(name, int(amounts.max())) for name, amounts in used.items()
        }

    def _with_media(self, samples: Sequence[Lengths], rows: Sequence[int]) -> Arrangement:
        """Rows of samples, with all media in the rows of their samples."""
        return rows, Packed.with_media(samples, rows, self._specs).media

    def _buckets_of_parts(self, lengths: Lengths) -> list[str]:
        """The bucket of each of `Capacity.parts`."""
        return [name for name in self._limits_of for _ in lengths.of(name)]

    # ---- balancing and loads ---------------------------------------------------------------------

    def _balance_items(self, items: _Items, name: Callable[[int], str]) -> Ints:
        """Rows of all items, under the lowest rung of budgets that has an assignment.

        The top rung always has the assignment of `packed`. Under it the heaviest row is no heavier
        than in that assignment, except by a user's algorithm that finds room for all items.
        """
        algorithm = self._balancing_of(items.phase).algorithm
        *lower, top = self._problems_by_rung(items, name)
        for problem in lower:
            assigned = assign_items(problem, algorithm)
            if assigned.min(initial=0) >= 0:
                return assigned
        assigned = assign_items(top, algorithm)
        packed = refine(top, np.array(items.packed, np.int64))
        if assigned.min(initial=0) < 0:
            return packed
        if algorithm is not None and algorithm not in SHIPPED:
            return assigned
        return min(packed, assigned, key=lambda rank: int(top.loads(rank).max()))

    def _problems_by_rung(self, items: _Items, name: Callable[[int], str]) -> list[BalanceProblem]:
        """The problem under every rung that may have an assignment, and under the top one."""
        how, lengths = self._balancing_of(items.phase), np.array(items.lengths, np.int64)
        names = [name(i) for i in items.owners] if how.algorithm else None
        *lower, top = self._ladder.rungs[self._budget_of[items.phase]]
        positions = items.needs[:, 0] if len(items.needs) else np.zeros(1, np.int64)
        least = max(int(positions.max()), -(-int(positions.sum()) // self._rows))
        work, rungs = self._work[items.phase], [*(n for n in lower if n >= least), top]
        needs = items.needs.reshape(len(lengths), len(items.limits))
        return [
            BalanceProblem(
                lengths, self._rows, work, how.cost, needs, (n, *items.limits[1:]), names
            )
            for n in rungs
        ]

    def _balancing_of(self, phase: str) -> ModuleBalancing:
        return self._balancing.get(phase, ModuleBalancing())

    def _renumber_rows(
        self, module: str, assigned: Ints, flows: Sequence[tuple[Ints, Ints]]
    ) -> Ints:
        """Rows of a module's items, renumbered so that little is sent from host to host.

        Args:
            module: that of the text, or a bucket.
            assigned: row of every item.
            flows: for inputs and outputs, a host for every item, and the number of positions of the
                item that this host has or needs.
        """
        sources = self._hosts.get(module, ())
        if len(set(sources)) < 2 or not len(assigned) or not flows:
            return assigned
        most = max(*sources, *(int(hosts.max()) for hosts, _ in flows))
        volumes = np.zeros((self._rows, 1 + most), np.int64)
        for hosts, amounts in flows:
            np.add.at(volumes, (assigned, hosts), amounts)
        return place(volumes, sources)[assigned]

    def _loads_by_phase(
        self, samples: Sequence[Lengths], packed: Arrangement, balanced: Arrangement
    ) -> dict[str, Loads]:
        """Work of the rows of every phase whose work is known."""
        loads = {}
        for name in self._limits_of:
            if name in self._work:
                _, where, work = self._items_of_phase(name, samples, *packed)
                before = np.bincount(where, work, minlength=self._rows)
                owners, where, work = self._items_of_phase(name, samples, *balanced)
                after = np.bincount(where, work, minlength=self._rows)
                loads[name] = Loads(before, after, _most_expensive(owners, where, work))
        return loads

    def _items_of_phase(
        self,
        name: str,
        samples: Sequence[Lengths],
        rows: Sequence[int],
        media: Sequence[MediaRows],
    ) -> tuple[Ints, Ints, np.ndarray]:
        """Sample, row and forward FLOPs of every item of one phase."""
        items = [
            (number, row, n)
            for number, (lengths, row_of_text, inner) in enumerate(
                zip(samples, rows, media, strict=True)
            )
            for row, n in (
                zip(
                    (row_of_text,) if name == self._text else inner.get(name, ()),
                    lengths.counts(name),
                    strict=True,
                )
            )
        ]
        owners, where, lengths_ = np.array(items, np.int64).reshape(-1, 3).T
        n, work = lengths_.astype(np.float64), self._work[name]
        return owners, where, work.linear * n + work.attention(n)

    def _count_crossing(
        self,
        samples: Sequence[Lengths],
        rows: Sequence[int],
        media: Sequence[MediaRows],
    ) -> dict[str, int]:
        """Number of outputs of every encoder whose tokens are on another host."""
        crossing = {}
        targets = self._hosts.get(self._text, ())
        for spec in self._specs:
            name = spec.name
            sources = self._hosts.get(name, ())
            crossing[name] = sum(
                spec.merged_outputs(medium)
                for lengths, row, inner in zip(samples, rows, media, strict=True)
                if targets and sources
                for medium, media_row in zip(lengths.of(name), inner.get(name, ()), strict=True)
                if sources[media_row] != targets[row]
            )
        return crossing


def _most_expensive(owners: Ints, rows: Ints, work: np.ndarray) -> tuple[float, int, int]:
    """Work, sample and row of the most expensive item."""
    if not len(work):
        return 0.0, 0, 0
    most = int(work.argmax())
    return float(work[most]), int(owners[most]), int(rows[most])

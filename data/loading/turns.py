"""The microbatches of a group of hosts, of which some steps are padding while others go on.

`data.planning.groups.turns` says which groups take part in a step. A step that waits stays as it
is: it is the group's next one as soon as the group takes part.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

from data.batch import PackedBatch
from data.loading.loader import Microbatch, MicrobatchLoader
from data.planning.groups.group import HostGroupSpec
from data.planning.groups.turns import GroupOffer, contested, of_oldest_epoch, without_repeats
from data.planning.row_assignment import Loads
from data.planning.stream import LoaderState
from data.rows.pack import empty_like

#: Gathers a value (JSON) from every group, in the order of their numbers; the name is for messages.
GatherFromGroups = Callable[[str, Any], list[Any]]


class GroupTurnLoader(MicrobatchLoader):
    """The microbatches of a group, of which no step has a sample that another group has in it.

    All processes must take their microbatches in the same steps.

    Args:
        loader: the group's own microbatches from `state` on, but from the begin of its step.
        state: the state to continue from.
        group: the group.
        microbatches: number of microbatches of a step.
        mixed: whether the source is a mixture.
        gather: gathers a value from all groups.
    """

    def __init__(
        self,
        loader: MicrobatchLoader,
        state: LoaderState,
        group: HostGroupSpec,
        microbatches: int,
        mixed: bool,
        gather: GatherFromGroups,
    ) -> None:
        self._loader, self._count, self._mixed, self._gather = loader, microbatches, mixed, gather
        self._state = replace(state, carry=tuple(filter(group.has_position, state.carry)), done=0)
        self._done = state.done
        self._waits: Microbatch | None = None
        self._ready: deque[Microbatch] = deque()

    def __next__(self) -> Microbatch:
        if not self._ready:
            self._ready.extend(self._next_step())
            for _ in range(self._done):
                self._ready.popleft()
            self._done = 0
        microbatch = self._ready.popleft()
        self._state = microbatch.state
        return microbatch

    def close(self) -> None:
        """Stop workers and threads; idempotent. After it, `next` raises StopIteration."""
        self._ready.clear()
        self._waits = None
        self._loader.close()

    def _next_step(self) -> list[Microbatch]:
        """The microbatches of the next step."""
        first = self._waits or next(self._loader)
        before = self._state
        if self._takes_part(first):
            self._waits = None
            every = [first, *islice(self._loader, self._count - 1)]
            return [_with_step(microbatch, microbatch.state, before.step) for microbatch in every]
        self._waits = first
        states = [replace(before, done=done) for done in (*range(1, self._count), 0)]
        return [_with_step(padding_of(first), state, before.step) for state in states]

    def _takes_part(self, first: Microbatch) -> bool:
        """Whether this group takes part in the next step with the samples that it has for it."""
        samples = first.stats.step_samples
        offer = GroupOffer.for_samples(samples)
        answers = self._gather("epochs of the samples", [offer.first, [*offer.epochs.items()]])
        offers = [GroupOffer(begin, dict(map(tuple, epochs))) for begin, epochs in answers]
        number, several = first.stats.group.number, contested(offers)
        if not several:
            return True
        if not self._mixed:
            return of_oldest_epoch(offers)[number]
        indices = [sample.index for sample in samples if sample.member in several]
        return without_repeats(offers, self._gather("samples of a step", indices))[number]


def _with_step(microbatch: Microbatch, state: LoaderState, step: int) -> Microbatch:
    """A microbatch of step `step` of the run, which may not be that of the group's own samples."""
    return replace(microbatch, state=replace(state, step=step if state.done else step + 1))


def padding_of(microbatch: Microbatch) -> Microbatch:
    """A microbatch like `microbatch`, without a sample."""
    stats = microbatch.stats
    loads = {
        name: Loads(np.zeros_like(load.before), np.zeros_like(load.after), (0.0, 0, 0))
        for name, load in stats.loads.items()
    }
    empty = replace(
        stats,
        samples=0,
        used=dict.fromkeys(stats.used, 0),
        lengths={name: lengths[:0] for name, lengths in stats.lengths.items()},
        loads=loads,
        most_expensive=dict.fromkeys(stats.most_expensive, (0.0, "", 0)),
        crossing=dict.fromkeys(stats.crossing, 0),
        seconds=0.0,
        sent=0,
        placements=(),
        offered=0,
        step_samples=(),
    )
    return Microbatch(_padding_batch(microbatch.batch), empty, (), microbatch.state)


def _padding_batch(batch: PackedBatch) -> PackedBatch:
    """A batch of the same shapes, without a sample; see `data.rows.pack`."""
    rows = {name: empty_like(module_rows) for name, module_rows in batch.rows.items()}
    runs, places = (
        listed and {name: entries[:0] for name, entries in listed.items()}
        for listed in (batch.runs, batch.places)
    )
    return PackedBatch(rows, runs, places)

"""The endless stream of step plans, a pure function of (source, lengths, seed).

Stream position p is sample shuffle(p) of epoch p // len(source). A step fills a pool of
`lookahead` samples (those carried over first, then new ones), packs what fits and carries the
rest. Plans come from measurements alone, so that all hosts and workers make the same ones.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import grain
import numpy as np

from data.balance import Work
from data.config import DataConfig
from data.dealing import NO_HOSTS, NO_WORK, Dealer, Hosts, Loads
from data.modality import Modality
from data.packing import Capacity, spans_of
from data.processor import Processor
from data.sample import DataError, Lengths, SampleError
from data.sources import Source

Skip = tuple[str, str]  # (sample name, reason)
_REMEMBERED = 1 << 20  # measurements kept, some hundred bytes each


@dataclass(frozen=True)
class LoaderState:
    """All that is needed to continue: independent of hosts, workers and budgets.

    step: the next step; position: the next stream position to read; carry: stream positions of
    samples read before but not yet placed, oldest first.
    """

    seed: int
    step: int = 0
    position: int = 0
    carry: tuple[int, ...] = ()

    def to_json(self) -> dict[str, int | list[int]]:
        """A JSON-able dict."""
        return {
            "seed": self.seed,
            "step": self.step,
            "position": self.position,
            "carry": list(self.carry),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, object]) -> LoaderState:
        """Inverse of `to_json`.

        Raises:
            DataError: a key is missing or unknown, or a value is not an integer (list).
        """
        numbers = [value.get(key) for key in ("seed", "step", "position")]
        carry = value.get("carry")
        whole = all(type(n) is int for n in numbers)
        if not whole or not isinstance(carry, list | tuple) or len(value) != 4:
            raise DataError(f"not a loader state: {json.dumps(value, default=str)[:200]}")
        seed, step, position = numbers
        return cls(seed, step, position, tuple(int(p) for p in carry))  # type: ignore[arg-type]


@dataclass(frozen=True)
class Placement:
    """Where a sample goes.

    index: in the source; row: global row of the decoder; start: first decoder position; segment:
    its number in the decoder row, from 1; media: encoder -> ((global row of the encoder, first
    input position, segment number), ...).
    """

    index: int
    row: int
    start: int
    segment: int
    lengths: Lengths
    media: dict[str, tuple[tuple[int, int, int], ...]]


@dataclass(frozen=True)
class StepPlan:
    """One step: placements in the order of age, samples found unusable, state after the step.

    loads: work of the rows of every phase, as packed and as balanced; dearest: by phase, the
    dearest item: its work, the name of its sample and its row; crossing: by encoder, outputs whose
    tokens are on another host; seconds: that planning took.
    """

    placements: tuple[Placement, ...]
    skipped: tuple[Skip, ...]
    state: LoaderState
    loads: Mapping[str, Loads]
    dearest: Mapping[str, tuple[float, str, int]]
    crossing: Mapping[str, int]
    seconds: float = field(compare=False)


def lay_out(
    samples: list[tuple[int, Lengths]],
    rows: Sequence[int | None],
    modalities: tuple[Modality, ...],
    media_rows: Sequence[Mapping[str, Sequence[int]]] | None = None,
) -> tuple[Placement, ...]:
    """Positions of packed samples (index, lengths) in their rows, each row filled from the left.

    Args:
        samples: index in the source, and lengths.
        rows: of the decoder, None for a sample that waits.
        modalities: of the encoders.
        media_rows: by sample and encoder, the encoder's row of every medium; by default the row of
            the sample.
    """
    cursors: dict[tuple[str, int], list[int]] = {}  # next position, next segment

    def advance(tower: str, row: int, span: int) -> tuple[int, int]:
        cursor = cursors.setdefault((tower, row), [0, 1])
        start, segment = cursor
        cursor[:] = start + span, segment + 1
        return start, segment

    placements = []
    for number, ((index, lengths), row) in enumerate(zip(samples, rows, strict=True)):
        if row is None:
            continue
        media = {}
        for modality in modalities:
            name = modality.name
            spans = spans_of(modality, lengths.media.get(name, ()))
            own = media_rows[number].get(name, ()) if media_rows else [row] * len(spans)
            media[name] = tuple(
                (r, *advance(name, r, span)) for r, span in zip(own, spans, strict=True)
            )
        start, segment = advance("decoder", row, lengths.tokens)
        placements.append(Placement(index, row, start, segment, lengths, media))
    return tuple(placements)


Measured = tuple[int, Lengths]  # index in the source, lengths


class Measurer:
    """Memoised lengths of a source's samples: measured once in a process, not once an epoch.

    What is remembered of an unusable sample is the reason.
    """

    def __init__(
        self, source: Source, processor: Processor, capacity: Capacity, apart: bool
    ) -> None:
        self._source, self._processor, self._capacity = source, processor, capacity
        self._apart = apart
        self._remembered = lru_cache(maxsize=_REMEMBERED)(self._measure)

    def __call__(self, index: int) -> Measured:
        """Lengths of sample `index`.

        Raises:
            SampleError: it is unusable or fits in no row.
        """
        result = self._remembered(index)
        if isinstance(result, SampleError):
            raise SampleError(result.name, result.reason)
        return result

    def _measure(self, index: int) -> Measured | SampleError:
        try:
            lengths = self._processor.measure(self._source[index])
        except SampleError as error:
            return error
        misfit = self._capacity.misfit(lengths, self._apart)
        if misfit:
            return SampleError(self._source.name(index), misfit)
        return index, lengths


class Planner:
    """Makes the plan of step after step; `state` is where it stands.

    Raises (from `plan`):
        SampleError: an unusable sample, with `data.on_error: raise`.
        DataError: the source is empty, or a whole epoch has no usable sample.
    """

    def __init__(
        self,
        source: Source,
        processor: Processor,
        config: DataConfig,
        capacity: Capacity,
        state: LoaderState,
        work: Mapping[str, Work] = NO_WORK,
        hosts: Hosts = NO_HOSTS,
    ) -> None:
        if not len(source):
            raise DataError("the data source is empty")
        self.state = state
        self._config = config
        self._capacity = capacity
        self._size, self._name = len(source), source.name
        self._measure = Measurer(source, processor, capacity, config.balance == "per_phase")
        self._deal = Dealer(config.balance, config.rows, capacity, work, hosts)
        # Of indices, not of samples: planning must not read them again on every look.
        self._stream = grain.MapDataset.range(self._size).shuffle(seed=state.seed).repeat()
        self._pool: list[tuple[int, Measured]] = []  # with their stream positions
        self._skipped: list[Skip] = []
        for position in state.carry:
            self._take(position)

    def plan(self) -> StepPlan:
        """The plan of step `state.step`; advances the state."""
        began = time.perf_counter()
        position = self._fill()
        dealt = self._deal([lengths for _, (_, lengths) in self._pool])
        samples, rows = [measured for _, measured in self._pool], dealt.rows
        placements = lay_out(samples, rows, self._capacity.modalities, dealt.media)
        self._pool = [item for item, row in zip(self._pool, rows, strict=True) if row is None]
        carry = tuple(position for position, _ in self._pool)
        self.state = LoaderState(self.state.seed, self.state.step + 1, position, carry)
        skipped, self._skipped = tuple(self._skipped), []
        dearest = {
            phase: (load.dearest[0], self._name(samples[load.dearest[1]][0]), load.dearest[2])
            for phase, load in dealt.loads.items()
        }
        seconds = time.perf_counter() - began
        return StepPlan(
            placements, skipped, self.state, dealt.loads, dearest, dealt.crossing, seconds
        )

    def _fill(self) -> int:
        """Read into the pool up to the look-ahead; the next position."""
        position, failed = self.state.position, 0
        while len(self._pool) < self._config.lookahead and failed < self._size:
            failed = 0 if self._take(position) else failed + 1
            position += 1
        if not self._pool:
            name, reason = self._skipped[-1]
            raise DataError(f"no sample of {self._size} is usable; the last: {name}: {reason}")
        return position

    def _take(self, position: int) -> bool:
        """Measure the sample at a stream position into the pool, or note it as skipped."""
        index = int(self._stream[position])
        try:
            self._pool.append((position, self._measure(index)))
        except SampleError as error:
            if self._config.on_error == "raise":
                raise
            self._skipped.append((error.name, error.reason))
            return False
        return True


def used_lengths(
    placements: tuple[Placement, ...], modalities: tuple[Modality, ...]
) -> dict[str, np.ndarray]:
    """Segment lengths per tower: "decoder" and every encoder, int64."""
    lengths = {"decoder": [p.lengths.tokens for p in placements]}
    for modality in modalities:
        media = [p.lengths.media.get(modality.name, ()) for p in placements]
        lengths[modality.name] = [n for item in media for n in item]
    return {name: np.array(values, np.int64) for name, values in lengths.items()}


def runs_of_plan(
    placements: Sequence[Placement], modalities: tuple[Modality, ...]
) -> dict[str, np.ndarray]:
    """By encoder, where the outputs of every medium land, `[media, 5]` int64.

    Columns: encoder row, first output, decoder row, first token, number of outputs.
    """
    runs: dict[str, list[tuple[int, int, int, int, int]]] = {m.name: [] for m in modalities}
    for p in placements:
        for modality in modalities:
            name = modality.name
            lengths, starts = (part.get(name, ()) for part in (p.lengths.media, p.lengths.starts))
            for (row, start, _), length, at in zip(p.media[name], lengths, starts, strict=True):
                first, count = start // modality.reduction, modality.outputs(length)
                runs[name].append((row, first, p.row, p.start + at, count))
    return {name: np.array(rows, np.int64).reshape(-1, 5) for name, rows in runs.items()}

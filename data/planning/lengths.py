"""Lengths of all samples: measured once, kept in `data.cache`, and mapped by every process.

Plans are made from lengths alone, so every host and worker needs those of every sample that it
meets, although it reads only its own. They are measured from text and from the headers of media and
kept in a folder whose name is a fingerprint of the data and of the processor::

    tokens.npy                [samples] int32, -1 for an unusable one
    <encoder>.offsets.npy     [samples + 1] int64: media of sample i are offsets[i] to offsets[i+1]
    <encoder>.lengths.npy     [media] int32, input positions
    <encoder>.entries.npy     [media, axes] int32, entries on further axes
    <encoder>.starts.npy      [media] int32, the token at which its outputs begin
    <encoder>.grids.npy       [media, 3] int32, times, rows and columns of outputs
    <encoder>.intervals.npy   [media] float32, seconds from one of these times to the next
    unusable.json             {sample: [kind, reason]}
    checksums.json            {file: CRC-32}; lengths that a disk has damaged are measured again

Each source has a folder of its own for those of its last few settings; of older ones, which no
process uses, the lengths are removed.

Media that are drawn anew in every epoch have other lengths in each: those are measured when a step
is planned (`DrawnLengths`).

Media files whose contents change under the same name do not change the fingerprint; when such a
sample is read, its length no longer agrees (`data.loading.assemble`).
"""

from __future__ import annotations

import hashlib
import json
import logging
import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import repeat, starmap
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from data.config import DataConfig
from data.faults import SampleFault
from data.folders import FolderLock, drop_damaged, put_folder
from data.processing.processor import Processor
from data.rows.spec import MediaRowSpec, RowSpec
from data.rows.tokens import media_of, text_of
from data.sample import DataError, Grid, Lengths, MediumLengths, SampleError
from data.sources.cache import keep_last, unwritable_error
from data.sources.mixture import SourceMixture
from data.sources.order import StreamPlace
from data.sources.source import SampleKey, Source
from data.workers import end_with_parent

logger = logging.getLogger(__name__)

Ints = NDArray[np.integer]

_VERSION = 3  # version of the folder's contents
#: Number of samples that one process measures before others are started to help.
SAMPLES_A_PROCESS = 1 << 14
_CHUNK = 1 << 10  # samples measured between two looks at the clock
_SECONDS = 5.0  # between two messages
_TOKENS, _UNUSABLE, _PARTS = "tokens.npy", "unusable.json", ("offsets", "lengths", "starts")
#: Further parts of the media of an encoder that have grids.
_GRID_PARTS = ("grids", "intervals")
#: A further part of the media of an encoder that have further axes than positions.
_ENTRY_PARTS = ("entries",)
_EVERY_PART = (*_PARTS, *_GRID_PARTS, *_ENTRY_PARTS)
_PREFIX = "lengths-"
#: Samples of which one must be a whole record before all are measured.
_LOOKED_AT = 64


@dataclass(frozen=True, eq=False)
class MediaLengths:
    """Lengths of the media of one encoder, sample after sample; see the module."""

    offsets: Ints
    lengths: Ints
    starts: Ints
    grids: Ints | None = None
    intervals: NDArray[np.float32] | None = None
    entries: Ints | None = None

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """Arrays by the names of their files."""
        every = {name: getattr(self, name) for name in _EVERY_PART}
        return {name: array for name, array in every.items() if array is not None}

    def select_range(self, first: int, end: int) -> tuple[MediumLengths, ...]:
        """Lengths of the media from number `first` up to `end`."""
        counts = self.lengths[first:end].tolist()
        grids: Iterable[Grid | None] = repeat(None, len(counts))
        entries: Iterable[tuple[int, ...]] = repeat((), len(counts))
        if self.grids is not None and self.intervals is not None:
            intervals = self.intervals[first:end].tolist()
            grids = starmap(Grid, zip(*self.grids[first:end].T.tolist(), intervals, strict=True))
        if self.entries is not None:
            entries = map(tuple, self.entries[first:end].tolist())
        return tuple(MediumLengths(*medium) for medium in zip(counts, grids, entries, strict=True))


@dataclass(frozen=True, eq=False)
class LengthTable:
    """Lengths of the samples of a source.

    Attributes:
        text: name of the module that takes texts.
        tokens: `[samples]`: number of tokens, -1 for an unusable sample.
        media: lengths of media by encoder.
        unusable: by sample, the reason why it cannot be used.
        folder: folder that stores the table, if it is stored.
        lock: keeps the folder from being removed as long as the table is there.
    """

    text: str
    tokens: Ints
    media: Mapping[str, MediaLengths]
    unusable: Mapping[int, SampleFault]
    folder: Path | None = None
    lock: FolderLock | None = field(default=None, repr=False)

    def __reduce__(self) -> tuple[object, ...]:
        # A worker process maps the folder itself: nothing large is pickled.
        if self.folder is None:
            return LengthTable, (self.text, self.tokens, self.media, self.unusable)
        parts = {name: list(lengths.arrays) for name, lengths in self.media.items()}
        return _load_table, (self.folder, len(self), self.text, parts)

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, index: int) -> Lengths | SampleFault:
        """Lengths of sample `index`, or the reason why it cannot be used."""
        tokens = int(self.tokens[index])
        if tokens < 0:
            return self.unusable[index]
        modules: dict[str, tuple[MediumLengths, ...]] = {self.text: (MediumLengths(tokens),)}
        starts = {}
        for name, lengths in self.media.items():
            first, end = lengths.offsets[index : index + 2].tolist()
            if end > first:
                modules[name] = lengths.select_range(first, end)
                starts[name] = tuple(lengths.starts[first:end].tolist())
        return Lengths(modules, starts)

    @property
    def digest(self) -> int:
        """A checksum of the lengths, of 31 bits."""
        digest = hashlib.sha256(self.tokens.tobytes())
        for lengths in self.media.values():
            for part in lengths.arrays.values():
                digest.update(np.ascontiguousarray(part).tobytes())
        return int.from_bytes(digest.digest()[:4], "big") >> 1

    def at(self, places: Sequence[StreamPlace]) -> list[Lengths | SampleFault]:
        """See `data.planning.stream.Measurements`; lengths are the same in every epoch."""
        return [self[index] for _, index, _ in places]

    @classmethod
    def from_lengths(
        cls, samples: Sequence[Lengths | SampleFault], specs: Sequence[RowSpec]
    ) -> LengthTable:
        """The table of given lengths, and of reasons why samples cannot be used.

        Args:
            samples: length or reason of every sample, in the order of the source.
            specs: descriptions of the rows of all modules.
        """
        measured = [sample if isinstance(sample, Lengths) else None for sample in samples]
        text = text_of(specs).module
        tokens = [-1 if lengths is None else lengths.total(text) for lengths in measured]
        usable = [lengths or Lengths() for lengths in measured]
        media = {spec.module: _media_lengths(usable, spec) for spec in media_of(specs)}
        unusable = {i: s for i, s in enumerate(samples) if isinstance(s, SampleFault)}
        return cls(text, np.array(tokens, np.int32), media, unusable)


def _media_lengths(samples: Sequence[Lengths], spec: MediaRowSpec) -> MediaLengths:
    """Lengths of the media of one module."""
    counts = [sample.counts(spec.module) for sample in samples]
    starts = [sample.starts.get(spec.module, ()) for sample in samples]
    media = [medium for sample in samples for medium in sample.of(spec.module)]
    grids, intervals = None, None
    if spec.is_gridded:
        grids, intervals = _grid_arrays([spec.grid_of(medium) for medium in media])
    entries = [medium.entries for medium in media]
    return MediaLengths(
        np.cumsum([0, *map(len, counts)]),
        _flatten(counts),
        _flatten(starts),
        grids,
        intervals,
        np.array(entries, np.int32).reshape(-1, len(spec.axes)) if spec.axes else None,
    )


def _flatten(values: Sequence[Sequence[int]]) -> NDArray[np.int32]:
    return np.array([n for numbers in values for n in numbers], np.int32)


def _grid_arrays(grids: Sequence[Grid]) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Numbers of times, rows and columns, `[media, 3]`, and intervals, `[media]`."""
    shapes = np.array([grid[:3] for grid in grids], np.int32).reshape(-1, 3)
    return shapes, np.array([grid.interval for grid in grids], np.float32)


# ---- measuring -----------------------------------------------------------------------------------


def measure(source: Source, processor: Processor, known: Sequence[LengthTable] = ()) -> LengthTable:
    """Measure every sample, in several processes if there are many samples and cores.

    known: for a mixture, the lengths of its members.

    Raises:
        DataError: there seems to be no whole record at all.
    """
    check_records(source)
    samples: list[Lengths | SampleFault] = []
    logged = time.monotonic()
    for part in _known_parts(source, known) or _measured_parts(source, processor):
        samples += part
        if time.monotonic() - logged > _SECONDS:
            logged = time.monotonic()
            logger.info("measured %d of %d samples", len(samples), len(source))
    return LengthTable.from_lengths(samples, processor.module_specs)


def check_records(source: Source) -> None:
    """Check that a source has readable records: of some at even distances one must be complete.

    Raises:
        DataError: none of them can be.
    """
    size = len(source)
    first: SampleError | None = None
    looked = sorted({*np.linspace(0, size - 1, min(size, _LOOKED_AT)).astype(int).tolist()})
    for index in looked:
        try:
            source[index, 0]
        except SampleError as error:
            first = first or error
            continue
        return
    if first is not None and size > 1:  # a single one is named alone
        which = f"{size}" if len(looked) == size else f"{len(looked)} of {size} that were looked at"
        raise DataError(
            f"data.source: no sample is usable ({which}); the first, {first.name}: {first.fault}"
        ) from first


def _known_parts(
    source: Source, known: Sequence[LengthTable]
) -> Iterator[list[Lengths | SampleFault]] | None:
    """Known lengths of the samples of a mixture; None for another source."""
    if not known or not isinstance(source, SourceMixture):
        return None
    places = map(source.member_place, range(len(source)))
    return ([known[member][index]] for member, index in places)


def _measured_parts(source: Source, processor: Processor) -> Iterator[list[Lengths | SampleFault]]:
    """Lengths of all samples in their order, in parts."""
    size = len(source)
    parts = [range(at, min(at + _CHUNK, size)) for at in range(0, size, _CHUNK)]
    processes = min(len(os.sched_getaffinity(0)), size // SAMPLES_A_PROCESS)
    if processes < 2:
        yield from map(partial(_measure_part, source, processor), parts)
        return
    # Spawned, as JAX's threads do not survive a fork.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, context, _start_worker, (source, processor)) as pool:
        yield from pool.map(_measure_own, parts)


def _measure_part(source: Source, processor: Processor, part: range) -> list[Lengths | SampleFault]:
    return [measure_sample(source, processor, (index, 0)) for index in part]


def measure_sample(source: Source, processor: Processor, key: SampleKey) -> Lengths | SampleFault:
    """Lengths of the sample at (index, epoch), or the reason why it cannot be used."""
    try:
        return processor.measure(source[key])
    except SampleError as error:
        return error.fault


class DrawnLengths:
    """Lengths of samples whose media are drawn anew in every epoch: drawn when they are planned.

    All hosts and workers draw the same, so that nobody keeps or sends such lengths.
    """

    def __init__(self, source: Source, processor: Processor) -> None:
        self._source, self._processor = source, processor

    def at(self, places: Sequence[StreamPlace]) -> list[Lengths | SampleFault]:
        """See `data.planning.stream.Measurements`."""
        return [
            measure_sample(self._source, self._processor, (index, epoch))
            for _, index, epoch in places
        ]


_own: dict[str, Callable[[range], list[Lengths | SampleFault]]] = {}


def _start_worker(source: Source, processor: Processor) -> None:
    """Set up a process of the pool: source and processor are sent once, not with every part."""
    end_with_parent()
    _own["measure"] = partial(_measure_part, source, processor)


def _measure_own(part: range) -> list[Lengths | SampleFault]:
    return _own["measure"](part)


# ---- keeping -------------------------------------------------------------------------------------


def open_lengths(source: Source, processor: Processor, config: DataConfig) -> LengthTable:
    """The lengths kept of the data; they are measured and kept if there are none yet.

    Sources that have no fingerprint are measured every time. Of media that are drawn anew in every
    epoch the lengths are those of the first one (`DrawnLengths` has those of all).

    Raises:
        DataError: the folder cannot be read or written. UnreachableError: its disk is full, or
            does not answer.
    """
    folder = lengths_folder(source, processor, config)
    if folder is None or processor.is_drawn:
        return measure(source, processor)
    size, modules = len(source), processor.module_specs
    parts = {spec.module: _parts_of(spec) for spec in media_of(modules)}
    text = text_of(modules).module
    with _name_write_errors(folder):
        drop_damaged(folder, "measured lengths")
    if folder.is_dir():
        table = _load_table(folder, size, text, parts)
        again = _measured_again(table, source, processor)
        if again == table.unusable:
            keep_last(folder, _PREFIX, _TOKENS)
            return table
        logger.info("%d of %d unusable samples have changed", *_list_changes(table, again))
        samples = [again.get(i, table[i]) for i in range(size)]
        table = LengthTable.from_lengths(samples, modules)
    else:
        # Logged before measuring, which may take long.
        with _name_write_errors(folder):
            folder.parent.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryDirectory(dir=folder.parent).cleanup()
        known = list(source.members.values()) if isinstance(source, SourceMixture) else []
        doing = "joining the lengths of" if known else "measuring"
        logger.info("%s %d samples, once, into %s", doing, size, folder)
        table = measure(source, processor, [open_lengths(m, processor, config) for m in known])
    with _name_write_errors(folder):
        _save_table(table, folder)
    table = _load_table(folder, size, text, parts)
    keep_last(folder, _PREFIX, _TOKENS)
    return table


@contextmanager
def _name_write_errors(folder: Path) -> Iterator[None]:
    """Raise the error of a folder that cannot be written, with its name, as of
    `unwritable_error`."""
    try:
        yield
    except OSError as error:
        message = f"measured lengths cannot be kept in {folder}: {error.strerror}; choose another "
        raise unwritable_error(message + "folder with data.lengths_folder", error) from error


def _measured_again(
    table: LengthTable, source: Source, processor: Processor
) -> dict[int, Lengths | SampleFault]:
    """The table after measuring unusable samples again: their files may have been repaired."""
    return {index: measure_sample(source, processor, (index, 0)) for index in table.unusable}


def _list_changes(
    table: LengthTable, again: Mapping[int, Lengths | SampleFault]
) -> tuple[int, int]:
    changed = sum(again[index] != reason for index, reason in table.unusable.items())
    return changed, len(again)


def lengths_folder(source: Source, processor: Processor, config: DataConfig) -> Path | None:
    """Folder of the lengths of `source`; None for a source without a fingerprint."""
    if source.fingerprint is None:
        return None
    parts = json.dumps([_VERSION, source.fingerprint, processor.fingerprint])
    name = hashlib.sha256(parts.encode()).hexdigest()[:16]
    home = source.home
    place = config.lengths_folder / home.name if config.lengths_folder else home
    return place / f"{_PREFIX}{name}"


def _save_table(table: LengthTable, folder: Path) -> None:
    def write_arrays(draft: Path) -> None:
        np.save(draft / _TOKENS, table.tokens)
        for name, lengths in table.media.items():
            for part, values in lengths.arrays.items():
                np.save(draft / f"{name}.{part}.npy", values)
        (draft / _UNUSABLE).write_text(
            json.dumps({i: f.to_json() for i, f in table.unusable.items()})
        )

    put_folder(folder, write_arrays, replace=True, seal=True)


def _parts_of(spec: MediaRowSpec) -> list[str]:
    """Names of the arrays of the media of a module."""
    further = (*(_GRID_PARTS if spec.is_gridded else ()), *(_ENTRY_PARTS if spec.axes else ()))
    return [*_PARTS, *further]


def _load_table(
    folder: Path, size: int, text: str, parts: Mapping[str, Sequence[str]]
) -> LengthTable:
    """A table whose arrays are mapped, so that the processes of a host share them.

    Args:
        text: name of the module that takes texts.
        parts: by module that takes media, the names of its arrays.

    Raises:
        DataError: a file is missing or damaged, or the lengths are not of `size` samples.
    """
    tokens = folder / _TOKENS
    try:
        lock = FolderLock(tokens)
        media = {
            name: MediaLengths(
                **{part: _map_array(folder / f"{name}.{part}.npy") for part in names}
            )
            for name, names in parts.items()
        }
        listed = json.loads((folder / _UNUSABLE).read_text())
        unusable = {int(i): SampleFault.from_json(fault) for i, fault in listed.items()}
        table = LengthTable(text, _map_array(tokens), media, unusable, folder, lock)
        _check_whole(table, size)
    except (OSError, EOFError, ValueError, AttributeError) as error:
        raise DataError(f"measured lengths in {folder} are damaged: {error}; delete it") from error
    return table


def _check_whole(table: LengthTable, size: int) -> None:
    """Raise ValueError unless the parts of a table fit each other and `size` samples."""
    if table.tokens.shape != (size,):
        raise ValueError(f"tokens of {len(table.tokens)} samples, not of {size}")
    if set(np.flatnonzero(table.tokens < 0).tolist()) != set(table.unusable):
        raise ValueError("reasons are not those of the unusable samples")
    for name, lengths in table.media.items():
        by_medium = {len(part) for name, part in lengths.arrays.items() if name != "offsets"}
        if lengths.offsets.shape != (size + 1,) or by_medium != {int(lengths.offsets[-1])}:
            raise ValueError(f"media of {name} do not fit each other")
        if len(lengths.lengths) and (
            lengths.lengths.min() < 1 or (np.diff(lengths.offsets) < 0).any()
        ):
            raise ValueError(f"media of {name} of impossible lengths")


def _map_array(path: Path) -> NDArray[Any]:
    # An empty array cannot be mapped.
    mode: Literal["r"] | None = "r" if path.stat().st_size > 128 else None
    array: NDArray[Any] = np.load(path, mmap_mode=mode)
    return array

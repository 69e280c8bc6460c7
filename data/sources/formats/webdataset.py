"""Records in WebDataset shards: tar files whose members with one key make one sample.

    000017.json   the record, or 000017.txt, a caption
    000017.jpg    its image; several are 000017.0.jpg, 000017.1.jpg, in the order of their numbers
    000017.flac   its clip

The key is a member's path up to the first dot in its name, and all after that dot is its ending:
`000017.seg.png` is of another type than `000017.png`, and an image only of a record that names it.
Every member of a sample is read, listed here as harmless, named in `data.source.ignore`, or makes a
bad sample.

An index, made by reading the headers once, says where every member of every sample is. Nothing is
ever unpacked, and what could reach out of an archive or bring code with it (links, devices, paths
with "..", pickles) refuses it whole.
"""

from __future__ import annotations

import logging
import tarfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import PurePosixPath
from typing import BinaryIO

import numpy as np

from data.config import DataConfig, WebDatasetSource
from data.faults import FaultKind, SampleFault
from data.media.file_bytes import FileBytes
from data.media.registry import MEDIA_TYPES
from data.quotes import enumerated, printable, quoted
from data.rows.spec import Kind
from data.sample import DataError, MediaError, SampleError
from data.sources.formats.conversations import ConversationSet, RecordList, fingerprint_of, form_of
from data.sources.formats.file_bytes import FilePart
from data.sources.formats.index import Arrays, RecordIndex, open_index
from data.sources.formats.records.json_text import load_json
from data.sources.formats.records.keys import MetKeys, ShapeError
from data.sources.formats.records.record import CaptionRecord, RecordForm
from data.sources.formats.records.turns import Media, describe_type
from data.sources.formats.storage import SourceFile, find_files, home_of_files

logger = logging.getLogger(__name__)

_NAMES = ("ends", "firsts", "offsets", "sizes", "name_ends", "names")
_KIND_OF: Mapping[str, Kind] = {
    end: name for name, kind in MEDIA_TYPES.items() for end in kind.endings
}
_PICKLES = ("pickle", "pkl", "pyd", "pth", "pt", "joblib")
_CAPTION, _RECORD = "txt", "json"
#: Endings of members that decide nothing; docs/how-to/formats.md lists them.
HARMLESS = frozenset(
    ("id", "cls", "key", "url", "md5", "sha256", "index", "meta.json", "metadata.json")
) | {"__key__", "__url__", "__local_path__"}
_HEADERS = 1 << 18  # bytes fetched at once where headers are looked for
_BLOCK = 512
_MOST_DIGITS = 19  # of the number of a member
_MOST_PADDING = 1 << 20  # zeros at the end of an archive
_SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst")
_PACKED = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"\x28\xb5\x2f\xfd": "zstd"}


@dataclass(frozen=True)
class _TarMember:
    name: str
    offset: int
    size: int

    @property
    def is_of_sample(self) -> bool:
        """Whether its name has a key and an ending."""
        name = PurePosixPath(self.name).name
        return "." in name and not name.startswith(".")

    @property
    def sample_key(self) -> str:
        """Up to the first dot of its name."""
        path = PurePosixPath(self.name)
        return str(path.with_name(path.name.split(".")[0]))

    @property
    def ending(self) -> str:
        """The name after the key, such as `0.jpg`."""
        return PurePosixPath(self.name).name.partition(".")[2].lower()

    @property
    def file_type(self) -> str:
        """The ending of the name, after its last dot."""
        return self.ending.rpartition(".")[2]

    @property
    def media_kind(self) -> Kind | None:
        """The kind of media that the type says; None for another type."""
        return _KIND_OF.get(self.file_type)

    @property
    def is_plain(self) -> bool:
        """Whether the ending is nothing but a type, or a number and a type."""
        return self.ending == self.file_type or self.medium_number >= 0

    @property
    def record_names(self) -> tuple[str, str, str]:
        """What records may call it: the whole name, its last part, or the ending."""
        return self.name, PurePosixPath(self.name).name, self.ending

    @property
    def medium_number(self) -> int:
        """The number between the key and the type; -1 if there is none."""
        text = self.ending.rpartition(".")[0]
        return int(text) if text.isdecimal() and len(text) < _MOST_DIGITS else -1


def open_webdataset(config: DataConfig, options: WebDatasetSource, path: str) -> ConversationSet:
    """The samples of the shards at `path`.

    Raises:
        DataError: no such file, one that is compressed, damaged or no tar file, or a member that
            no data set should have.
    """
    files, form = (
        find_files(path, _SUFFIXES, options.retry_seconds),
        form_of(options, config),
    )
    what = f"webdataset {fingerprint_of(files)}"
    home = home_of_files(config.cache, files)
    index = open_index(home, what, _NAMES, lambda: _build_index(files))
    return ConversationSet(TarRecords(files, index, form), form, config)


class TarRecords(RecordList):
    """Samples of tar files.

    index: `firsts` of the members of every sample, and of what follows the last, `[samples + 1]`;
    of every member `offsets`, `sizes` and `name_ends` in `names`; `ends` as of `RecordList`.
    """

    def __init__(self, files: Sequence[SourceFile], index: RecordIndex, form: RecordForm) -> None:
        super().__init__(files, index["ends"], None)
        self._index, self._form = index, form

    def name(self, index: int) -> str:
        """`shard-000003.tar:000017`."""
        file, member = self.record_place(index)[0], self._list_members(index)[0]
        return f"{self.relative_name(file)}:{printable(member.sample_key)}"

    def read_record(self, index: int) -> tuple[object, Media | None]:
        """See `RecordList.read_record`."""
        file, members = self.record_place(index)[0], self._used_members(index)
        texts = {m.ending: m for m in members if m.ending in (_RECORD, _CAPTION)}
        if not texts:
            has = enumerated(sorted(m.ending for m in members)) or "none that is not ignored"
            raise self._record_error(index, f"has no member .json or .txt; it has {has}")
        for member in members:
            self._check_ending(index, member)
        attached = _AttachedMedia(lambda kind: self._list_media(index, kind))
        caption = texts.get(_CAPTION)
        if _RECORD in texts:
            record = self._read_json(index, file, texts[_RECORD])
            if caption is None:
                return record, attached
            self._check_metadata(index, texts[_RECORD].name, caption.name, record)
        return CaptionRecord(self._read_text(index, file, texts[_CAPTION])), attached

    def close_record(self, index: int, contents: Collection[FileBytes]) -> MetKeys:
        """See `RecordList.close_record`."""
        met, used = (
            MetKeys(),
            {content.name for content in contents if isinstance(content, FilePart)},
        )
        for member in self._list_members(index):
            path = f".{member.ending}"
            if self._is_ignored(member) or member.ending in HARMLESS:
                met.passed[path] = None
            elif member.name in used or member.media_kind is None:
                met.read[path] = None
            else:
                reason = (
                    f"the record names the {member.media_kind} media of the sample, and not this "
                    "one"
                )
                raise self._unread_error(index, member, f"{reason}; valid: name it, too")
        return met

    def _used_members(self, index: int) -> list[_TarMember]:
        """The members of a sample but those that are ignored."""
        return [member for member in self._list_members(index) if not self._is_ignored(member)]

    def _is_ignored(self, member: _TarMember) -> bool:
        ignored = {path.lower() for path in self._form.allowed.ignored}
        return bool({f".{member.ending}", f".{member.file_type}"} & ignored)

    def _list_media(self, index: int, kind: Kind) -> list[FileBytes]:
        """The media of a kind where the record names none: `7.png`, `7.0.png`, `7.1.png`, ...

        Raises:
            SampleError: a member is of this kind by another name, two have the same number, or a
                number is left out.
        """
        every = sorted(
            (member for member in self._list_members(index) if member.media_kind == kind),
            key=lambda member: member.medium_number,
        )
        members = [member for member in every if not self._is_ignored(member)]
        for member in members:
            if not member.is_plain:
                raise self._unread_error(
                    index,
                    member,
                    f"its ending is {quoted(member.ending)}; valid: .{member.file_type}, of "
                    f"several .0.{member.file_type}, or a record that names it",
                )
        for one, other in pairwise(members):
            if one.medium_number == other.medium_number:
                raise self._unread_error(
                    index,
                    other,
                    f"it and {quoted(one.name)} have the same place among the {kind} media of the "
                    f"sample; valid: numbers, as in .0.{one.file_type} and .1.{other.file_type}, "
                    "or a record that names both",
                )
        self._check_numbers(index, kind, members, every)
        file = self.record_place(index)[0]
        return [self._member_part(file, member) for member in members]

    def _check_numbers(
        self, index: int, kind: Kind, members: Sequence[_TarMember], every: Sequence[_TarMember]
    ) -> None:
        """Check that numbers go on from 0 or 1, as that of a member which is lost would be missing.

        Args:
            index: index of the sample.
            kind: kind of the media.
            members: those that are read.
            every: also those that are ignored, whose numbers are not missing.
        """
        numbers = {member.medium_number for member in every}
        for member in members:
            lost = member.medium_number - 1
            if lost > 0 and lost not in numbers:
                raise self._record_error(
                    index,
                    f"{quoted(member.name)} has number {member.medium_number} among the {kind} "
                    f"media of the sample, and none has number {lost}; valid: numbers without a "
                    "gap from 0 or 1, or a record that names the media in order",
                )

    def _check_ending(self, index: int, member: _TarMember) -> None:
        """Raise SampleError for a member that is of no type that is read or known as harmless."""
        read = (_RECORD, _CAPTION)
        if member.ending in (*read, *HARMLESS) or member.media_kind is not None:
            return
        valid = ", ".join(f".{ending}" for ending in (*read, *sorted(_KIND_OF)))
        reason = f"no text and no medium has the ending {quoted(member.ending)}; valid: {valid}"
        raise self._unread_error(index, member, reason)

    def _check_metadata(self, index: int, name: str, caption: str, record: object) -> None:
        """Check that what lies next to a caption decides nothing about what is learnt."""
        either = f"data.source.ignore: ['.{_RECORD}'] or ['.{_CAPTION}']"
        members = f"{quoted(name)} beside {quoted(caption)}"
        if not isinstance(record, Mapping):
            valid = f"valid: a mapping of metadata, or {either}"
            raise self._record_error(index, f"{members} is {describe_type(record)}; {valid}")
        try:
            if self._form.has_texts(record):
                wrong = "it is a record by itself, so that the caption would not be read"
                raise ShapeError(f"{wrong}; valid: one of them")
            self._form.check_metadata(record)
        except ShapeError as error:
            raise self._record_error(
                index, f"{members}: {error}; or, if one decides nothing, {either}"
            ) from error

    def _unread_error(self, index: int, member: _TarMember, reason: str) -> SampleError:
        """The error of a member that nothing reads."""
        drop = self._form.reading_of({}).ignore_path(f".{member.ending}")
        others = (other for other in self._list_members(index) if other.name != member.name)
        if drop is None or any(
            member.ending in (other.ending, other.file_type) for other in others
        ):
            drop = "leave it out"  # others that are read would be ignored with it
        reason = f"{reason}; if it decides nothing, {drop}"
        return self._record_error(index, f"{quoted(member.name)} is not read: {reason}")

    def _record_error(self, index: int, reason: str) -> SampleError:
        return SampleError(self.name(index), SampleFault(FaultKind.RECORD, reason))

    def find_medium(self, index: int, path: str) -> FileBytes:
        """The member of the sample that has this name, or this ending."""
        file, members = self.record_place(index)[0], self._list_members(index)
        matches = [member for member in members if path in member.record_names]
        if not matches:
            has = enumerated(member.name for member in members)
            reason = f"{quoted(path)} is no member of this sample, which has {has}"
            raise MediaError(FaultKind.MISSING, reason)
        member = min(matches, key=lambda member: member.record_names.index(path))
        if self._is_ignored(member):
            reason = f"the record names {quoted(path)}, which data.source.ignore leaves out"
            raise MediaError(FaultKind.MISSING, reason)
        return self._member_part(file, member)

    def _list_members(self, index: int) -> list[_TarMember]:
        first, end = self._index["firsts"][index : index + 2].tolist()
        offsets, sizes = (self._index[name][first:end].tolist() for name in ("offsets", "sizes"))
        bounds = self._index["name_ends"][first : end + 1].tolist()
        names = [
            self._index["names"][a:b].tobytes().decode(errors="surrogateescape")
            for a, b in pairwise(bounds)
        ]
        return [_TarMember(*member) for member in zip(names, offsets, sizes, strict=True)]

    def _member_part(self, file: SourceFile, member: _TarMember) -> FilePart:
        return FilePart(member.name, file, member.offset, member.size)

    def _read_text(self, index: int, file: SourceFile, member: _TarMember) -> str:
        try:
            return file.read(member.offset, member.size).decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise self._record_error(
                index, f"{quoted(member.name)} is not UTF-8: {error}"
            ) from error

    def _read_json(self, index: int, file: SourceFile, member: _TarMember) -> object:
        try:
            return load_json(self._read_text(index, file, member))
        except (ValueError, RecursionError) as error:
            raise self._record_error(
                index, f"{quoted(member.name)} is not JSON: {error}"
            ) from error


class _AttachedMedia(Mapping[Kind, Sequence[FileBytes]]):
    """The media of a sample, of which each kind is looked for when a record names none of it."""

    def __init__(self, find: Callable[[Kind], list[FileBytes]]) -> None:
        self._find = find

    def __getitem__(self, kind: Kind) -> list[FileBytes]:
        return self._find(kind)

    def __iter__(self) -> Iterator[Kind]:
        return iter(MEDIA_TYPES)

    def __len__(self) -> int:
        return len(MEDIA_TYPES)


# ---- the index -----------------------------------------------------------------------------------


def _build_index(files: Sequence[SourceFile]) -> Arrays:
    logger.info("indexing %d tar files, once", len(files))
    with ThreadPoolExecutor(8) as pool:
        shards = list(pool.map(_read_shard, files))
    others = [name for shard in shards for name in shard.others]
    if others:
        logger.warning(
            "%d files in the tar files belong to no sample, as their names have no ending or begin "
            "with a dot: %s",
            len(others),
            enumerated(others, 3),
        )
    counts, offsets, sizes, lengths = (
        np.concatenate([getattr(shard, name) for shard in shards])
        for name in ("counts", "offsets", "sizes", "lengths")
    )
    return {
        "ends": np.cumsum([len(shard.counts) for shard in shards], dtype=np.int64),
        "firsts": np.cumsum([0, *counts], dtype=np.int64),
        "offsets": offsets,
        "sizes": sizes,
        "name_ends": np.cumsum([0, *lengths], dtype=np.int64),
        "names": np.frombuffer(b"".join(shard.names for shard in shards), np.uint8),
    }


class _ShardIndex:
    """The members of each sample of a tar file, the place of every one, and files of no sample."""

    def __init__(self, groups: Sequence[Sequence[_TarMember]], others: Sequence[str]) -> None:
        self.others = others
        members = [member for group in groups for member in group]
        names = [member.name.encode(errors="surrogateescape") for member in members]
        self.counts = np.array([len(group) for group in groups], np.int64)
        self.offsets = np.array([member.offset for member in members], np.int64)
        self.sizes = np.array([member.size for member in members], np.int64)
        self.lengths = np.array([len(name) for name in names], np.int64)
        self.names = b"".join(names)


def _read_shard(file: SourceFile) -> _ShardIndex:
    """Raises DataError, see `open_webdataset`."""
    groups: list[list[_TarMember]] = []
    keys: set[str] = set()
    others: list[str] = []
    for member in _members_of(file):
        if not member.is_of_sample:
            others.append(member.name)
            continue
        if not groups or groups[-1][0].sample_key != member.sample_key:
            if member.sample_key in keys:
                raise _refused_error(
                    file, member.name, "is separated from the others of its sample"
                )
            keys.add(member.sample_key)
            groups.append([])
        if any(member.ending == other.ending for other in groups[-1]):
            raise _refused_error(file, member.name, "is there twice")
        groups[-1].append(member)
    return _ShardIndex(groups, others)


def _refused_error(file: SourceFile, name: str, reason: str) -> DataError:
    return DataError(f"data.source: {file.path}: member {quoted(name)} {reason}")


def _members_of(file: SourceFile) -> Iterator[_TarMember]:
    """Files of an archive, without their contents."""
    with file.open(_HEADERS) as stream:
        _check_plain(file, stream)
        try:
            with tarfile.open(fileobj=stream, mode="r:") as archive:
                while (info := archive.next()) is not None:
                    if not info.isdir():
                        yield _check_member(file, info)
                _check_end(file, stream, archive.offset)
        # Broken numbers in headers lead tarfile to these.
        except (tarfile.TarError, OSError, ValueError, OverflowError, EOFError) as error:
            raise DataError(f"data.source: {file.path} is no whole tar file: {error}") from error


def _check_plain(file: SourceFile, stream: BinaryIO) -> None:
    head = stream.read(6)
    for magic, kind in _PACKED.items():
        if head.startswith(magic):
            raise DataError(
                f"data.source: {file.path} is compressed ({kind}), so that its members cannot be "
                "read in any order; valid: plain .tar files (images and clips gain nothing from it)"
            )
    stream.seek(0)


def _check_member(file: SourceFile, info: tarfile.TarInfo) -> _TarMember:
    """A member of an archive. Raises DataError for one that none should have."""
    if not info.isreg() or info.issparse():
        raise _refused_error(file, info.name, f"is no regular file (type {info.type!r})")
    path = PurePosixPath(info.name)
    if path.is_absolute() or ".." in path.parts or "\\" in info.name:
        raise _refused_error(file, info.name, "has a path that leads out of the archive")
    member = _TarMember(info.name, info.offset_data, info.size)
    if member.file_type in _PICKLES:
        raise _refused_error(
            file, info.name, "is a pickle, which is never read: it could run any code"
        )
    if info.offset_data + info.size > file.size:
        raise _refused_error(file, info.name, "goes on after the end of the file")
    return member


def _check_end(file: SourceFile, stream: BinaryIO, at: int) -> None:
    """Check that an archive ends with blocks of zeros, and that nothing follows them.

    Raises:
        DataError: the archive has no end; tarfile stops silently at a header that it cannot read.
    """
    stream.seek(at)
    block = stream.read(_BLOCK)
    if len(block) < _BLOCK:
        raise DataError(f"data.source: {file.path} is cut off at byte {file.size}")
    if any(block):
        raise DataError(f"data.source: {file.path} is damaged: no header at byte {at}")
    if file.size - at > _MOST_PADDING or any(stream.read()):
        raise DataError(
            f"data.source: {file.path} goes on after its end at byte {at}, as archives do that "
            "were written one after the other"
        )

"""Clips in the encodings of files: lengths from their headers, samples when needed."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import soundfile
from numpy.typing import NDArray

from data.faults import FaultKind
from data.media.audio.frames import check_finite
from data.media.audio.row_spec import LazyAudio
from data.media.file_bytes import HEADER, STREAM, FileBytes
from data.sample import MediaError

#: Errors of libsndfile and its Python half for files that they cannot read.
_SOUND_ERRORS = (soundfile.SoundFileError, RuntimeError, OSError, TypeError, ValueError)
_BLOCK = 1 << 16  # samples decoded at once
#: First bytes of WAV files, and the order of bytes in their numbers.
_WAVES = {b"RIFF": "<", b"RIFX": ">"}
_UNKNOWN = 0x7FF00000  # from here on are sizes of programs that did not know them yet
_CHUNKS = 1 << 10  # of a WAV file, looked at for the samples
#: Forms of samples that can be NaN or infinite, as libsndfile calls them.
_FLOATS = ("FLOAT", "DOUBLE")


class _SeekableFile:
    """A file for libsndfile, whose calls back into Python must not raise.

    Broken headers make it seek to before the beginning, which stands for the beginning here.
    """

    def __init__(self, file: BinaryIO) -> None:
        self.read, self.readinto, self.tell = file.read, file.readinto, file.tell  # type: ignore[attr-defined]
        self._file = file

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """See `io.IOBase.seek`."""
        if whence == os.SEEK_SET:
            return self._file.seek(max(0, offset))
        base = self.tell() if whence == os.SEEK_CUR else self._file.seek(0, os.SEEK_END)
        return self._file.seek(max(0, base + offset))


@dataclass(frozen=True)
class EncodedAudio(LazyAudio):
    """A clip in a format of libsndfile; several channels are averaged into one.

    `max_samples` bounds the decoded samples, whatever the header claims.
    """

    file_bytes: FileBytes
    max_samples: int

    def clip_info(self) -> tuple[int, int]:
        """(samples, rate in Hz) from the header."""
        samples, rate, _ = self._read_header()
        return samples, rate

    def checked_info(self) -> tuple[int, int]:
        """See `LazyAudio.checked_info`; only files of floating-point samples are read."""
        samples, rate, subtype = self._read_header()
        if subtype in _FLOATS:
            check_finite(self.load())
        return samples, rate

    def _read_header(self) -> tuple[int, int, str]:
        """Samples, rate in Hz, and how samples are stored."""
        with self.file_bytes.open(HEADER) as file, self._open_clip(file) as clip:
            return int(clip.frames), int(clip.samplerate), str(clip.subtype)

    def load(self) -> NDArray[np.float32]:
        """Waveform [samples]."""
        with self.file_bytes.open(STREAM) as file, self._open_clip(file) as clip:
            try:
                # Samples that are not finite are refused by the caller.
                with np.errstate(all="ignore"):
                    waves = [block.mean(axis=1) for block in _read_blocks(clip)]
            except _SOUND_ERRORS as error:
                raise MediaError(
                    FaultKind.CLIP,
                    f"{self.file_bytes.name!r} cannot be decoded: {_reason_of(error)}",
                ) from error
            count = sum(map(len, waves))
            if count != clip.frames:
                raise MediaError(
                    FaultKind.CLIP,
                    f"{self.file_bytes.name!r} is cut off, or has a header that is wrong: it says "
                    f"{clip.frames} samples, and there are {count}",
                )
        return np.concatenate(waves) if waves else np.zeros(0, np.float32)

    @contextmanager
    def _open_clip(self, file: BinaryIO) -> Iterator[Any]:
        name = self.file_bytes.name
        self._check_whole(file)
        try:
            clip = soundfile.SoundFile(_SeekableFile(file))
        except _SOUND_ERRORS as error:
            reason = f"{name!r} is not a readable clip: {_reason_of(error)}"
            raise MediaError(FaultKind.CLIP, reason) from error
        with clip:
            if clip.frames > self.max_samples:
                raise MediaError(
                    FaultKind.DURATION,
                    f"{name!r} claims {clip.frames} samples, above data.audio.max_seconds, "
                    f"{self.max_samples} samples",
                )
            yield clip

    def _check_whole(self, file: BinaryIO) -> None:
        """Refuse a WAV file that is cut off, which libsndfile would read without an error."""
        end = file.seek(0, os.SEEK_END)
        for name, begin, size in _list_chunks(file):
            if name == b"data" and size < _UNKNOWN and begin + size > end:
                raise MediaError(
                    FaultKind.CLIP,
                    f"{self.file_bytes.name!r} is cut off: its header says {size} bytes of "
                    f"samples, and there are {end - begin}",
                )
        file.seek(0)


def _reason_of(error: Exception) -> object:
    """An error without what was opened, a place in memory, which libsndfile's begin with."""
    return getattr(error, "error_string", error)


def _read_blocks(clip: soundfile.SoundFile) -> Iterator[NDArray[np.float32]]:
    """Samples [samples, channels], few at a time: a header may claim thousands of channels."""
    left = clip.frames
    while left:
        block = clip.read(min(left, _BLOCK // clip.channels + 1), dtype="float32", always_2d=True)
        if not len(block):
            return
        left -= len(block)
        yield block


def _list_chunks(file: BinaryIO) -> Iterator[tuple[bytes, int, int]]:
    """Chunks of a WAV file up to that of its samples: name, first byte and size."""
    file.seek(0)
    head, at = file.read(12), 12
    order = _WAVES.get(head[:4]) if head[8:] == b"WAVE" else None
    for _ in range(_CHUNKS if order else 0):
        file.seek(at)
        head = file.read(8)
        if len(head) < 8:
            return
        name, size = struct.unpack(f"{order}4sI", head)
        yield name, at + 8, size
        at += 8 + size + size % 2
        if name == b"data":
            return

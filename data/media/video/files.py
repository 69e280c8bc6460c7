"""Videos in the encodings of files: numbers of frames from their headers, frames when needed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import PIL.Image
from numpy.typing import NDArray

from data.faults import FaultKind
from data.media.file_bytes import HEADER, STREAM, FileBytes
from data.media.image.transparency import on_white
from data.sample import DataError, MediaError

#: Seconds that a video lasts at least, whatever its header says.
_BRIEFEST = 1e-3
NO_AV = "videos need PyAV, which is not installed; valid: pip install mllm_jax[video]"


@dataclass(frozen=True)
class FrameTiming:
    """The frames that are taken of a video.

    Attributes:
        count: number of these frames.
        interval: seconds from one of them to the next, more than 0.
    """

    count: int
    interval: float


class LazyVideo(ABC):
    """A video whose frames are read only when needed."""

    @abstractmethod
    def frame_timing(self) -> FrameTiming:
        """Number and distance of the frames that are taken, from metadata alone.

        Raises:
            MediaError: the video cannot be used.
        """

    @abstractmethod
    def load(self) -> Iterator[NDArray[np.uint8]]:
        """Frames [height, width, 3], one after the other. Raises MediaError."""


@dataclass(frozen=True)
class EncodedVideo(LazyVideo):
    """A video in a format of FFmpeg, upright as its display matrix says, over white.

    Frame i of n that are taken, of N that there are, is number floor(i N / n).

    Attributes:
        file_bytes: bytes of the file.
        frames: most frames that are taken.
        max_pixels: most pixels of a frame.
        max_seconds: most seconds of the video.
    """

    file_bytes: FileBytes
    frames: int
    max_pixels: int
    max_seconds: float

    def frame_timing(self) -> FrameTiming:
        """See `LazyVideo.frame_timing`; a video whose header has neither a duration nor a rate is
        taken to
        show a frame a second."""
        with self._open_video(HEADER) as (container, stream):
            every, seconds = (
                self._count_frames(container, stream),
                _video_seconds(container, stream),
            )
            if seconds is None:
                seconds = float(every / (stream.average_rate or 1))
        count = min(self.frames, every)
        # As 32 bits hold it, in which it is kept and sent.
        return FrameTiming(count, float(np.float32(max(seconds, _BRIEFEST) / count)))

    def load(self) -> Iterator[NDArray[np.uint8]]:
        """See `LazyVideo.load`."""
        with self._open_video(STREAM) as (container, stream):
            every = self._count_frames(container, stream)
        frames = min(self.frames, every)
        numbers = iter([number * every // frames for number in range(frames)])
        with self._open_video(STREAM) as (container, stream):
            stream.thread_type = "AUTO"
            following, count = next(numbers, None), 0
            for pixels in self._decode_frames(container, stream):
                if count == following:
                    yield pixels()
                    following = next(numbers, None)
                    if following is None:
                        return
                count += 1
        raise MediaError(
            FaultKind.VIDEO,
            f"{self.file_bytes.name!r} is cut off, or has a header that is wrong: it says {every} "
            f"frames, and {count} can be decoded",
        )

    @contextmanager
    def _open_video(self, chunk: int) -> Iterator[tuple[Any, Any]]:
        """The container and its first stream of frames."""
        av = _import_av()
        with self.file_bytes.open(chunk) as file:
            with self._media_errors("is not a readable video"):
                container = av.open(file, metadata_errors="ignore")
            with container:
                if not container.streams.video:
                    raise MediaError(FaultKind.VIDEO, f"{self.file_bytes.name!r} has no frames")
                stream = container.streams.video[0]
                if stream.codec_context is None:
                    raise MediaError(
                        FaultKind.VIDEO,
                        f"{self.file_bytes.name!r} has frames that nothing here decodes; valid: a "
                        "format that the installed PyAV knows",
                    )
                self._check_video(container, stream)
                yield container, stream

    def _check_video(self, container: Any, stream: Any) -> None:
        """Refuse what is too large before anything is decoded."""
        height, width, name = stream.height, stream.width, self.file_bytes.name
        if min(height, width) < 1 or height * width > self.max_pixels:
            raise MediaError(
                FaultKind.PIXELS,
                f"{name!r} has frames of {height} x {width} pixels; valid: at least one, and at "
                f"most data.image.max_pixels {self.max_pixels}",
            )
        seconds = _video_seconds(container, stream)
        if seconds is not None and seconds > self.max_seconds:
            raise MediaError(
                FaultKind.DURATION,
                f"{name!r} lasts {seconds:.1f} s, above data.video.max_seconds {self.max_seconds}",
            )
        if _hides_alpha(stream):
            raise MediaError(
                FaultKind.VIDEO,
                f"{name!r} has transparency in a form of {stream.codec_context.name} that is not "
                "read, and its transparent pixels would have their hidden colours; valid: a video "
                "without transparency, or one whose pixels themselves have alpha",
            )

    def _count_frames(self, container: Any, stream: Any) -> int:
        """Frames that are shown: by the header, or where it does not say, by the packets.

        A video that was cut without being encoded again holds frames that are decoded only for
        others.
        """
        with self._media_errors("cannot be read"):
            count = stream.frames - sum(entry.is_discard for entry in stream.index_entries)
            if not stream.frames:
                packets = container.demux(stream)
                count = sum(packet.size > 0 and not packet.is_discard for packet in packets)
        if count < 1:
            raise MediaError(FaultKind.VIDEO, f"{self.file_bytes.name!r} has no frames")
        return int(count)

    def _decode_frames(
        self, container: Any, stream: Any
    ) -> Iterator[Callable[[], NDArray[np.uint8]]]:
        """The frames, each as what makes its pixels."""
        frames = container.decode(stream)
        while True:
            with self._media_errors("cannot be decoded"):
                frame = next(frames, None)
            if frame is None:
                return
            yield partial(self._frame_pixels, frame)

    def _frame_pixels(self, frame: Any) -> NDArray[np.uint8]:
        """The pixels [height, width, 3] of a decoded frame, upright."""
        with self._media_errors("cannot be decoded"):
            pixels = _over_white(frame) if _has_alpha(frame) else frame.to_ndarray(format="rgb24")
            return np.ascontiguousarray(np.rot90(pixels, round(frame.rotation / 90)))

    @contextmanager
    def _media_errors(self, what: str) -> Iterator[None]:
        """Turn whatever a broken file provokes into MediaError, but not what concerns all files."""
        try:
            yield
        except (DataError, MediaError):
            raise
        except Exception as error:
            # An error of FFmpeg ends with what was opened, a place in memory.
            reason = getattr(error, "strerror", None) or error
            raise MediaError(
                FaultKind.VIDEO, f"{self.file_bytes.name!r} {what}: {reason}"
            ) from error


def _video_seconds(container: Any, stream: Any) -> float | None:
    """Duration of a video by its header; None where that does not say it."""
    if stream.duration is not None and stream.time_base is not None:
        return float(stream.duration * stream.time_base)
    return None if container.duration is None else container.duration / 1e6


def _has_alpha(frame: Any) -> bool:
    """Whether the pixels of a frame have alpha, or may have it by a palette."""
    return frame.format.has_palette or any(
        component.is_alpha for component in frame.format.components
    )


def _over_white(frame: Any) -> NDArray[np.uint8]:
    """The pixels [height, width, 3] of a frame, shown over white as those of images are."""
    shown = on_white(PIL.Image.fromarray(frame.to_ndarray(format="rgba")))
    return np.asarray(shown.convert("RGB"))


def _hides_alpha(stream: Any) -> bool:
    """Whether alpha is stored next to the frames, where FFmpeg's own decoders of VP8 and VP9 leave
    it."""
    components = stream.format.components if stream.format else ()
    is_alpha = any(component.is_alpha for component in components)
    return stream.metadata.get("alpha_mode") == "1" and not is_alpha


def _import_av() -> Any:
    """PyAV, which not everybody needs.

    Raises:
        DataError: it is not installed, for which no single video is to blame.
    """
    try:
        import av
    except ImportError as error:
        raise DataError(NO_AV) from error
    return av

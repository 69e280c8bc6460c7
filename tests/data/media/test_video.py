"""Videos: frames from files, and what an encoder of tiles gets of them."""

from __future__ import annotations

import builtins
import io
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import av
import numpy as np
import pytest
from numpy.typing import NDArray

from data.faults import FaultKind
from data.media.file_bytes import FileBytes
from data.media.image.tiles import (
    ImageTiling,
    interpolation_of_frames,
    newlines_of,
    runs_of,
    tokens_of,
)
from data.media.video.files import EncodedVideo
from data.sample import DataError, Grid, MediaError

HIGH, WIDE = 32, 48


@dataclass(frozen=True)
class Bytes(FileBytes):
    content: bytes
    name: str = "a.mp4"
    opened: list[int] = field(default_factory=list)

    @contextmanager
    def open(self, chunk: int) -> Iterator[BinaryIO]:
        self.opened.append(chunk)
        yield io.BytesIO(self.content)


def written(folder: Path, count: int, name: str = "a.mp4", codec: str = "mpeg4") -> bytes:
    """A video of grey frames, frame n of level 10 n, the upper left quarter white."""
    path = folder / name
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream(codec, rate=10)
        stream.width, stream.height, stream.pix_fmt = WIDE, HIGH, "yuv420p"
        for number in range(count):
            pixels = np.full((HIGH, WIDE, 3), 10 * number, np.uint8)
            pixels[: HIGH // 2, : WIDE // 2] = 255
            for packet in stream.encode(av.VideoFrame.from_ndarray(pixels)):
                container.mux(packet)
        for packet in stream.encode():
            container.mux(packet)
    return path.read_bytes()


def video(content: bytes, **changes: Any) -> EncodedVideo:
    options = {"frames": 4, "max_pixels": HIGH * WIDE, "max_seconds": 60.0} | changes
    return EncodedVideo(Bytes(content), **options)


def levels(frames: list[NDArray[np.uint8]]) -> list[int]:
    """The numbers of the frames, by their lower halves."""
    return [round(frame[HIGH // 2 :].mean() / 10) for frame in frames]


def transparent(folder: Path, name: str, codec: str, form: str) -> bytes:
    """A video of black on a transparent ground whose hidden colour is black."""
    pixels = np.zeros((HIGH, WIDE, 4), np.uint8)
    pixels[: HIGH // 2, :, 3], pixels[HIGH // 2 : 24, :, 3] = 255, 128
    path = folder / name
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream(codec, rate=10)
        stream.width, stream.height, stream.pix_fmt = WIDE, HIGH, form
        frame = av.VideoFrame.from_ndarray(pixels, format="rgba").reformat(format=form)
        for packet in (*stream.encode(frame), *stream.encode()):
            container.mux(packet)
    return path.read_bytes()


@pytest.mark.parametrize(
    ("codec", "form", "most"),
    [("qtrle", "argb", 1), ("png", "rgba", 1), ("ffv1", "yuva444p", 4), ("ffv1", "bgra", 1)],
)
def test_transparent_pixels_are_shown_over_white(
    codec: str, form: str, most: int, tmp_path: Path
) -> None:
    content = transparent(tmp_path, "a.mov" if codec in ("qtrle", "png") else "a.mkv", codec, form)
    (frame,) = video(content).load()
    expected = np.repeat([0, 127, 255], [HIGH // 2, 8, 8])[:, None, None]
    assert np.abs(frame.astype(int) - expected).max() <= most


def test_transparency_beside_the_frames_is_told(tmp_path: Path) -> None:
    clip = video(transparent(tmp_path, "a.webm", "libvpx-vp9", "yuva420p"))
    for look in (clip.frame_timing, lambda: list(clip.load())):
        with pytest.raises(MediaError, match="has transparency in a form of vp9 that is"):
            look()


@pytest.mark.parametrize(
    ("count", "consumed"), [(20, [0, 5, 10, 15]), (7, [0, 1, 3, 5]), (3, [0, 1, 2])]
)
def test_frames_are_evenly_spaced(tmp_path: Path, count: int, consumed: list[int]) -> None:
    clip = video(written(tmp_path, count))
    frames = list(clip.load())
    assert clip.frame_timing().count == len(frames) == len(consumed)
    assert clip.frame_timing().interval == pytest.approx(count / 10 / len(consumed))
    assert levels(frames) == consumed
    assert {frame.shape for frame in frames} == {(HIGH, WIDE, 3)}


@pytest.mark.parametrize(("name", "codec"), [("a.mkv", "mpeg4"), ("a.webm", "libvpx")])
def test_frames_are_counted_where_no_header_says_how_many(
    tmp_path: Path, name: str, codec: str
) -> None:
    clip = video(written(tmp_path, 9, name, codec), frames=3)
    assert clip.frame_timing().count == 3
    assert clip.frame_timing().interval == pytest.approx(0.3, rel=0.05)
    assert levels(list(clip.load())) == [0, 3, 6]


def test_a_video_that_was_filmed_on_its_side_stands_upright(tmp_path: Path) -> None:
    content = bytearray(written(tmp_path, 2))
    at = content.index(b"tkhd") + 4 + 40  # the matrix of the track
    turned = np.array([0, 1 << 16, 0, -(1 << 16), 0, 0, 0, 0, 1 << 30], ">i4")  # clockwise
    content[at : at + 36] = turned.tobytes()
    (first, _) = video(bytes(content)).load()
    assert first.shape == (WIDE, HIGH, 3)
    assert first[: WIDE // 2 - 4, HIGH // 2 + 4 :].min() > 200  # white was on the left, above
    assert first[WIDE // 2 + 4 :].max() < 50


def test_a_video_that_was_cut_without_being_encoded_again_has_what_is_shown(tmp_path: Path) -> None:
    """Frames before the cut are there for others to be decoded, and are not shown."""
    content, cut = io.BytesIO(written(tmp_path, 24, codec="libx264")), tmp_path / "cut.mp4"
    source: Any = av.open(content)
    with source, av.open(str(cut), "w") as container:
        options: Any = source.streams.video[0]
        stream = container.add_stream_from_template(options)
        packet: Any
        for packet in source.demux(options):
            if packet.dts is not None:
                packet.pts -= int(1 / options.time_base)
                packet.dts -= int(1 / options.time_base)
                packet.stream = stream
                container.mux(packet)
    clip = video(cut.read_bytes(), frames=100)
    assert clip.frame_timing().count == 14
    assert levels(list(clip.load())) == [*range(10, 24)]


@pytest.mark.parametrize("seed", range(8))
def test_a_file_with_other_bytes_is_read_or_named(tmp_path: Path, seed: int) -> None:
    """Whatever FFmpeg makes of it, only this sample is lost."""
    good, rng = written(tmp_path, 6), np.random.default_rng(seed)
    for _ in range(25):
        content = bytearray(good)
        for at in rng.integers(0, len(content), 3):
            content[at] = rng.integers(256)
        with suppress(MediaError):
            clip = video(bytes(content))
            assert len(list(clip.load())) == clip.frame_timing().count


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        (lambda own: own[: len(own) // 4] + own[-len(own) // 2 :], FaultKind.VIDEO, "'a.mp4' "),
        (lambda own: b"no video at all", FaultKind.VIDEO, "'a.mp4' is not a readable video"),
        (lambda own: b"", FaultKind.VIDEO, "'a.mp4' is not a readable video"),
    ],
    ids=["damaged", "text", "empty"],
)
def test_broken_files_are_named(tmp_path: Path, change: Any, kind: FaultKind, message: str) -> None:
    with pytest.raises(MediaError) as caught:
        list(video(change(written(tmp_path, 20)), frames=20).load())
    assert caught.value.fault.kind == kind
    assert str(caught.value).startswith(message)


def test_what_is_too_large_is_refused_before_it_is_decoded(tmp_path: Path) -> None:
    content = written(tmp_path, 20)
    with pytest.raises(MediaError, match=r"of 32 x 48 pixels; valid: .*most .*max_pixels 1535"):
        video(content, max_pixels=HIGH * WIDE - 1).frame_timing()
    with pytest.raises(MediaError, match=r"lasts 2\.0 s, above data\.video\.max_seconds 1\.9"):
        next(video(content, max_seconds=1.9).load())
    assert video(content, max_seconds=2.0).frame_timing().count == 4


def test_sounds_alone_are_no_video(tmp_path: Path) -> None:
    path = tmp_path / "a.mp4"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("aac", rate=16000)
        sound = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), "fltp", "mono")
        sound.sample_rate = 16000
        for packet in [*stream.encode(sound), *stream.encode()]:
            container.mux(packet)
    with pytest.raises(MediaError, match=r"'a\.mp4' has no frames"):
        video(path.read_bytes()).frame_timing()


def test_without_pyav_nothing_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    known = builtins.__import__

    def without(name: str, *others: Any, **options: Any) -> Any:
        if name == "av":
            raise ImportError(name)
        return known(name, *others, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(DataError, match=r"pip install mllm_jax\[video\]"):
        video(b"").frame_timing()


# ---- outputs -------------------------------------------------------------------------------------


@pytest.mark.parametrize("outputs", [(4, 4), (3, 5), (1, 2)])
def test_outputs_of_frames_are_halved(outputs: tuple[int, int]) -> None:
    """A plane over the outputs of a frame stays one; the frames do not mix."""
    tiling = ImageTiling(((8, 8),), (8, 8), outputs, 1)
    rows, columns = np.indices(outputs)
    halved = tiling.frame_outputs
    frames = np.stack([100 * n + 3 * rows + 7 * columns for n in range(3)]).reshape(3, -1)
    indices, weights = interpolation_of_frames(3, tiling)
    result = (frames.reshape(-1)[indices] * weights).sum(axis=1).reshape(3, *halved)

    def at(count: int, expected: int) -> NDArray[np.float64]:
        return np.clip((np.arange(expected) + 0.5) * count / expected - 0.5, 0, count - 1)

    down, across = (at(n, m) for n, m in zip(outputs, halved, strict=True))
    plane = 3 * down[:, None] + 7 * across
    np.testing.assert_allclose(result, 100 * np.arange(3)[:, None, None] + plane, atol=1e-5)


def test_a_video_has_one_newline_after_it() -> None:
    grid = Grid(3, 2, 2, 0.5)
    assert (newlines_of(grid), tokens_of(16, grid)) == (1, 13)
    assert list(runs_of(16, grid)) == [(0, 0, 12)]

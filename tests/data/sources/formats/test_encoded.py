"""Images and clips from untrusted bytes, wherever these are."""

from __future__ import annotations

import base64
import io
import random
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import PIL.ExifTags
import PIL.Image
import PIL.ImageFile
import PIL.ImageOps
import PIL.PngImagePlugin
import PIL.TiffImagePlugin
import PIL.TiffTags
import pytest
import soundfile

from data.media.audio.files import EncodedAudio
from data.media.file_bytes import FileBytes
from data.media.image.files import EncodedImage
from data.sample import MediaError, StorageError
from data.sources.formats.file_bytes import (
    FilePart,
    LoadedBytes,
    bare_base64,
    data_uri,
    media_folder,
)
from data.sources.formats.patience import PatientFileSystem
from data.sources.formats.storage import SourceFile, local_file
from tests.data.sources.formats.writers import encoded_clip, encoded_image

LONGEST = 20_000


PNG = encoded_image()


def places(data: bytes, folder: Path) -> list[FileBytes]:
    """Places of the same bytes: in memory, in a file, in part of a file, and through fsspec."""
    (folder / "file").write_bytes(data)
    (folder / "larger").write_bytes(b"before" + data + b"after")
    with fsspec.open(f"memory://{folder.name}/file", "wb") as file:
        file.write(data)
    return [
        LoadedBytes("x", data),
        media_folder(str(folder)).find_file("file"),
        media_folder(f"file://{folder}").find_file("file"),
        FilePart("x", local_file(folder / "larger"), 6, len(data)),
        media_folder(f"memory://{folder.name}").find_file("file"),
    ]


@pytest.mark.parametrize("form", ["PNG", "JPEG", "WEBP", "BMP", "TIFF", "GIF"])
def test_an_image_is_the_same_wherever_its_bytes_are(form: str, tmp_path: Path) -> None:
    images = [
        EncodedImage(content, 10**6) for content in places(encoded_image(form=form), tmp_path)
    ]
    expected = images[0].load(3)
    assert expected.shape == (16, 40, 3)
    for image in images:
        assert image.image_size() == (16, 40)
        np.testing.assert_array_equal(image.load(3), expected)


@pytest.mark.parametrize("form", ["PNG", "JPEG", "WEBP", "TIFF"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_images_are_upright(form: str, orientation: int) -> None:
    exif = PIL.Image.Exif()
    exif[PIL.ExifTags.Base.Orientation] = orientation
    file = io.BytesIO()
    PIL.Image.open(io.BytesIO(encoded_image(form=form))).save(file, form, exif=exif)
    image = EncodedImage(LoadedBytes("x", file.getvalue()), 10**6)
    upright = PIL.ImageOps.exif_transpose(PIL.Image.open(file)).convert("RGB")
    np.testing.assert_array_equal(image.load(3), np.asarray(upright))
    assert image.image_size() == ((40, 16) if orientation > 4 else (16, 40))


def _moved_after_the_pixels(data: bytes, kind: bytes) -> bytes:
    """A PNG file whose chunk of a kind stands after its pixels."""
    begin = data.index(kind) - 4
    end = begin + 12 + int.from_bytes(data[begin : begin + 4], "big")
    last = data.rindex(b"IEND") - 4
    return data[:begin] + data[end:last] + data[begin:end] + data[last:]


def _xmp(orientation: object, as_element: bool = False) -> bytes:
    """XMP with an orientation, as an attribute or as an element."""
    attribute = f'tiff:Orientation="{orientation}"', ""
    if as_element:
        attribute = "", f"<tiff:Orientation>{orientation}</tiff:Orientation>"
    return (
        '<x:xmpmeta xmlns:x="adobe:ns:meta/">'
        '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">'
        f'<rdf:Description xmlns:tiff="http://ns.adobe.com/tiff/1.0/" {attribute[0]}>{attribute[1]}'
        "</rdf:Description></rdf:RDF></x:xmpmeta>"
    ).encode()


def _with_xmp(form: str, xmp: bytes, exif: int | None = None, side: int = 40) -> bytes:
    """A file with XMP, and perhaps with an orientation in EXIF."""
    options: dict[str, Any] = {"xmp": xmp}
    if form == "PNG":
        text = PIL.PngImagePlugin.PngInfo()
        text.add_itxt("XML:com.adobe.xmp", xmp.decode())
        options = {"pnginfo": text}
    if exif is not None:
        options["exif"] = PIL.Image.Exif()
        options["exif"][PIL.ExifTags.Base.Orientation] = exif
    if form == "TIFF":  # PIL writes XMP as a tag among others
        tags = PIL.TiffImagePlugin.ImageFileDirectory_v2()
        tags[700] = options.pop("xmp")
        tags.tagtype[700] = PIL.TiffTags.BYTE
        if exif is not None:
            tags[PIL.ExifTags.Base.Orientation] = exif
        options = {"tiffinfo": tags}
    file = io.BytesIO()
    pixels = np.arange(16 * side * 3, dtype=np.uint8).reshape(16, side, 3)
    PIL.Image.fromarray(pixels).save(file, form, **options)
    return file.getvalue()


def _upright(data: bytes) -> np.ndarray:
    """Pixels as transformers loads them."""
    with PIL.Image.open(io.BytesIO(data)) as image:
        return np.asarray(PIL.ImageOps.exif_transpose(image).convert("RGB"))


@pytest.mark.parametrize("form", ["PNG", "JPEG", "WEBP", "TIFF"])
def test_an_orientation_in_xmp_turns_an_image_unless_exif_has_one(form: str) -> None:
    orders = [(n, None) for n in range(10)] + [(6, 1), (1, 6), (6, 3), (3, 8), (6, 9), (9, 6)]
    for number, (xmp, exif) in enumerate(orders):
        data = _with_xmp(form, _xmp(xmp, as_element=bool(number % 2)), exif)
        image, upright = EncodedImage(LoadedBytes("x", data), 10**6), _upright(data)
        assert image.image_size() == upright.shape[:2], (xmp, exif)
        np.testing.assert_array_equal(image.load(3), upright)
        if exif is None:
            assert upright.shape[0] == (40 if 5 <= xmp <= 8 else 16)


@pytest.mark.parametrize("kind", [b"eXIf", b"iTXt"])
@pytest.mark.parametrize("orientation", [1, 3, 6])
def test_an_orientation_after_the_pixels_is_refused_where_it_changes_the_size(
    kind: bytes, orientation: int
) -> None:
    xmp, exif = (_xmp(1), orientation) if kind == b"eXIf" else (_xmp(orientation), None)
    for side in (16, 40):
        data = _moved_after_the_pixels(_with_xmp("PNG", xmp, exif, side), kind)
        image = EncodedImage(LoadedBytes("x.png", data), 10**6)
        assert image.image_size() == (16, side)
        if orientation == 6 and side == 40:
            with pytest.raises(MediaError, match=r"'x.png' has its orientation after its"):
                image.load(3)
        else:
            np.testing.assert_array_equal(image.load(3), _upright(data))


def test_the_size_of_an_image_needs_no_decoding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PIL.ImageFile.ImageFile, "load", None)
    for form in ("PNG", "JPEG", "WEBP", "TIFF"):
        assert EncodedImage(LoadedBytes("x", encoded_image(form=form)), 10**6).image_size() == (
            16,
            40,
        )


@pytest.mark.parametrize("filters", ["default", "error"])
def test_max_pixels_decides_of_what_pil_warns_of(
    filters: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PIL.Image, "MAX_IMAGE_PIXELS", 500)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter(filters)
        for form in ("PNG", "JPEG", "WEBP", "BMP", "TIFF", "GIF", "PPM"):
            image = EncodedImage(LoadedBytes("x", encoded_image(form=form)), 640)
            assert image.image_size() == (16, 40)
            assert image.load(3).shape == (16, 40, 3)
            with pytest.raises(MediaError, match=r"'x' is above data.image.max_pixels 639"):
                EncodedImage(LoadedBytes("x", encoded_image(form=form)), 639).load(3)
    assert not caught


@pytest.mark.parametrize("form", ["WAV", "FLAC", "OGG", "MP3"])
@pytest.mark.parametrize("channels", [1, 2])
def test_a_clip_is_the_same_wherever_its_bytes_are(
    form: str, channels: int, tmp_path: Path
) -> None:
    data = encoded_clip(9000, form, channels)
    clips = [EncodedAudio(content, LONGEST) for content in places(data, tmp_path)]
    content, rate = soundfile.read(io.BytesIO(data), dtype="float32", always_2d=True)
    for clip in clips:
        assert clip.clip_info() == (len(content), rate)
        np.testing.assert_allclose(clip.load(), content.mean(axis=1), atol=1e-6)


def test_many_channels_are_averaged_block_by_block() -> None:
    data = encoded_clip(samples=300, channels=1000)
    content, _ = soundfile.read(io.BytesIO(data), dtype="float32")
    np.testing.assert_allclose(
        EncodedAudio(LoadedBytes("x", data), LONGEST).load(), content.mean(axis=1), atol=1e-6
    )


def test_a_header_that_claims_too_much_is_refused_before_anything_is_decoded() -> None:
    data = bytearray(encoded_clip(form="FLAC"))
    # STREAMINFO: the lowest 36 bits before the checksum are the number of samples.
    data[22:26] = b"\xff\xff\xff\xff"
    clip = EncodedAudio(LoadedBytes("x.flac", bytes(data)), LONGEST)
    for read in (clip.clip_info, clip.load):
        with pytest.raises(MediaError, match=r"claims \d+ samples, above data.audio.max_seconds"):
            read()
    with pytest.raises(MediaError, match=r"above data.image.max_pixels 600"):
        EncodedImage(LoadedBytes("x.png", PNG), 600).load(3)


@pytest.mark.parametrize("order", ["LITTLE", "BIG"])
def test_a_wave_that_is_cut_off_is_refused(order: str) -> None:
    file = io.BytesIO()
    soundfile.write(file, np.zeros(8000), 16_000, format="WAV", endian=order)
    content = file.getvalue()
    assert len(EncodedAudio(LoadedBytes("x", content), LONGEST).load()) == 8000
    assert len(EncodedAudio(LoadedBytes("x", content + b"LIST"), LONGEST).load()) == 8000
    clip = EncodedAudio(LoadedBytes("x.wav", content[:5000]), LONGEST)
    for read in (clip.clip_info, clip.load):
        with pytest.raises(MediaError, match=r"'x.wav' is cut off: .* 16000 bytes .* are 4956"):
            read()
    size = content.index(b"data") + 4
    for unknown in (0xFFFFFFFF, 0x7FFFF000):
        mark = unknown.to_bytes(4, order.lower())  # type: ignore[arg-type]
        streamed = content[:size] + mark + content[size + 4 :]
        assert len(EncodedAudio(LoadedBytes("x", streamed), LONGEST).load()) == 8000


@pytest.mark.parametrize("channels", [1, 2])
def test_fewer_samples_than_a_header_says_are_refused(channels: int) -> None:
    # libsndfile says so by a short read alone; what was not read must not be heard.
    content = encoded_clip(12_000, "MP3", channels)
    assert EncodedAudio(LoadedBytes("x", content), LONGEST).load().shape == (12_000,)
    clip = EncodedAudio(LoadedBytes("x.mp3", content[: len(content) // 2]), LONGEST)
    with pytest.raises(MediaError, match=r"'x.mp3' is cut off, .*: it says 12000 samples, and the"):
        clip.load()


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("form", ["WAV", "FLAC", "OGG", "MP3", "AIFF"])
def test_broken_clips_are_bad_media_and_nothing_else(form: str) -> None:
    """libsndfile calls back into Python, where an exception would be lost."""
    rng, content = random.Random(0), encoded_clip(8000, form)
    for number in range(200):
        data = bytearray(content if number % 2 else content[: rng.randrange(len(content))])
        for _ in range(rng.randrange(1, 4)):
            if data:
                data[rng.randrange(min(len(data), 200))] = rng.randrange(256)
        with suppress(MediaError):
            assert EncodedAudio(LoadedBytes("x", bytes(data)), LONGEST).load().ndim == 1


@pytest.mark.parametrize("form", ["PNG", "JPEG", "WEBP", "BMP", "TIFF", "GIF"])
def test_broken_images_are_bad_media_and_nothing_else(form: str) -> None:
    rng, content = random.Random(0), encoded_image(form=form)
    for number in range(200):
        data = bytearray(content if number % 2 else content[: rng.randrange(len(content))])
        for _ in range(rng.randrange(1, 4)):
            if data:
                data[rng.randrange(len(data))] = rng.randrange(256)
        with suppress(MediaError):
            assert EncodedImage(LoadedBytes("x", bytes(data)), 10**5).load(1).ndim == 3


# ---- names ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "subtype"), [("WAV", "FLOAT"), ("WAV", "DOUBLE"), ("AIFF", "FLOAT"), ("AU", "DOUBLE")]
)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e300, -1e20])
def test_samples_that_are_not_finite_are_found_when_a_clip_is_measured(
    form: str, subtype: str, bad: float
) -> None:
    wave = np.zeros((90_000, 2))
    clips = []
    for sample in (bad, 1.5):
        file, wave[-1, 1] = io.BytesIO(), sample
        soundfile.write(file, wave, 8000, format=form, subtype=subtype)
        clips.append(EncodedAudio(LoadedBytes("x", file.getvalue()), 100_000))
    broken, complete = clips
    assert broken.clip_info() == complete.clip_info() == complete.checked_info() == (90_000, 8000)
    with pytest.raises(MediaError, match="1 samples that are NaN or infinite, or larger"):
        broken.checked_info()


def test_clips_whose_samples_are_always_finite_are_measured_by_their_headers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(EncodedAudio, "load", None)
    for form in ("WAV", "FLAC", "OGG", "MP3"):
        clip = EncodedAudio(LoadedBytes("x", encoded_clip(9000, form)), LONGEST)
        assert clip.checked_info() == clip.clip_info()


def test_what_is_no_clip_is_told_without_places_in_memory() -> None:
    with pytest.raises(MediaError, match=r"'x' is not a readable clip: Format not recogni[sz]ed"):
        EncodedAudio(LoadedBytes("x", PNG), LONGEST).clip_info()


@pytest.mark.parametrize("form", ["WAV", "FLAC", "OGG", "AIFF", "CAF", "AU"])
def test_clips_in_bare_base64_are_known_by_their_first_bytes(form: str) -> None:
    content = encoded_clip(900, form)
    result = bare_base64(base64.b64encode(content).decode(), "x")
    assert result == LoadedBytes("x", content)


def test_data_uris_hold_media() -> None:
    uri = "data:image/png;base64," + base64.b64encode(PNG).decode()
    content = data_uri(uri)
    assert content is not None
    assert EncodedImage(content, 10**6).image_size() == (16, 40)
    assert data_uri("a.png") is None


@pytest.mark.parametrize("uri", ["data:image/png,abc", "data:;base64", "data:;base64,a*b"])
def test_data_uris_of_another_kind_are_refused(uri: str) -> None:
    with pytest.raises(MediaError, match="base64"):
        data_uri(uri)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("x.png", "'x.png' is missing in the media folder"),
        ("deep", "'deep' is not a regular file"),
        ("", "'' is not a usable path"),
        ("a\0b", "is not a usable path"),
        ("../secret.png", "is outside of the media folder"),
        ("deep/../../secret.png", "is outside of the media folder"),
        ("/secret.png", "is outside of the media folder"),
        ("..\\secret.png", "is outside of the media folder"),
        (
            "file:///etc/passwd",
            "is a URL; media are read from the folder of media alone; valid: a path within it",
        ),
    ],
)
def test_names_that_lead_nowhere_or_out_of_a_remote_folder(
    name: str, message: str, tmp_path: Path
) -> None:
    for path in (f"{tmp_path.name}/media/deep/a.png", f"{tmp_path.name}/secret.png", "secret.png"):
        with fsspec.open(f"memory://{path}", "wb") as file:
            file.write(PNG)
    content = media_folder(f"memory://{tmp_path.name}/media").find_file(name)
    with pytest.raises(MediaError, match=message):
        EncodedImage(content, 10**6).image_size()


class Offline:
    """A file system whose network is gone."""

    def info(self, path: str) -> Any:
        raise PermissionError(path)

    isdir = info

    def cat_file(self, path: str, start: int, end: int) -> bytes:
        raise PermissionError(path)


def test_a_network_that_is_gone_is_no_bad_sample() -> None:
    part = FilePart("x", SourceFile("x", 5000, "", PatientFileSystem(Offline(), 0)), 0, 5000)
    folder = media_folder("memory://a")
    object.__setattr__(folder, "system", PatientFileSystem(Offline(), 0))
    for content in (part, folder.find_file("x")):
        for read in (EncodedImage(content, 10**6).image_size, EncodedAudio(content, LONGEST).load):
            with pytest.raises(StorageError, match=r"cannot (read|reach) .*PermissionError"):
                read()

"""Transparent pixels are white, in every form of image that has them, by the forms' definitions."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import PIL.ExifTags
import PIL.Image
import pytest
from numpy.typing import NDArray

from data.media.image.files import EncodedImage
from data.sample import MediaError
from data.sources.formats.file_bytes import LoadedBytes

Samples = NDArray[np.integer[Any]]  # [height, width, samples of a pixel]
GREY, COLOUR, PALETTE, GREY_ALPHA, COLOUR_ALPHA = 0, 2, 3, 4, 6
#: First column and row of the passes of Adam7, and the steps to the next ones.
PASSES = (
    *((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4)),
    *((1, 0, 2, 2), (0, 1, 1, 2)),
)


def png(samples: Samples, depth: int, kind: int, chunks: dict[bytes, bytes], adam7: bool) -> bytes:
    """A PNG of `depth` bits a sample."""
    height, width, _ = samples.shape
    passes = PASSES if adam7 else ((0, 0, 1, 1),)
    parts = [samples[y::down, x::right] for x, y, right, down in passes]
    lines = b"".join(b"\0" + _packed(row, depth) for part in parts if part.size for row in part)
    header = struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, adam7)
    every = {b"IHDR": header, **chunks, b"IDAT": zlib.compress(lines), b"IEND": b""}
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(part)) + name + part + struct.pack(">I", zlib.crc32(name + part))
        for name, part in every.items()
    )


def _packed(row: Samples, depth: int) -> bytes:
    if depth == 16:
        return row.astype(">u2").tobytes()
    bits = np.unpackbits(row.astype(np.uint8).reshape(-1, 1), axis=1)[:, 8 - depth :]
    return np.packbits(bits).tobytes()


def over_white(colours: Samples, alpha: Samples) -> NDArray[np.float64]:
    """Pixels [height, width, 3] by the definition, of colours and alpha up to 255."""
    share = alpha.astype(np.float64)[..., None] / 255
    shown = np.broadcast_to(colours, (*colours.shape[:2], 3))
    return shown * share + 255 * (1 - share)


def eight(samples: Samples, depth: int) -> Samples:
    return samples >> 8 if depth == 16 else samples * 255 // (2**depth - 1)


def shown(data: bytes, channels: int = 3) -> NDArray[np.float64]:
    return EncodedImage(LoadedBytes("x", data), 10**6).load(channels).astype(np.float64)


def drawn(colours: list[tuple[int, ...]]) -> Samples:
    """An image of some colours, each many times."""
    return np.array(colours)[np.random.default_rng(0).integers(len(colours), size=(13, 19))]


#: Depths, colours of which the first is transparent, and what the file says that it is.
CLEAR: dict[str, tuple[int, int, list[tuple[int, ...]], tuple[int, ...]]] = {
    **{
        f"grey of {depth} bits, {clear} is clear": (
            depth,
            GREY,
            [(clear,), *((own,) for own in range(2**depth) if own != clear)],
            (clear,),
        )
        for depth in (1, 2, 4)
        for clear in range(2**depth)
    },
    "grey of 8 bits": (8, GREY, [(85,), (1,), (84,), (255,)], (85,)),
    "grey of 2 bits, more bits in the file": (2, GREY, [(1,), (0,), (2,), (3,)], (0x105,)),
    "grey of 8 bits, more bits in the file": (8, GREY, [(5,), (1,)], (0x105,)),
    "colours of 8 bits": (8, COLOUR, [(9, 8, 7), (9, 8, 6), (9, 9, 7), (0, 0, 0)], (9, 8, 7)),
    "colours of 8 bits, more bits in the file": (8, COLOUR, [(9, 8, 7), (9, 8, 6)], (0x109, 8, 7)),
    "colours of 16 bits": (
        16,
        COLOUR,
        [(0x1234, 0xFF, 0), (0x1235, 0xFF, 0), (0x1234, 0xFE, 0), (0x1234, 0xFF, 1), (18, 0, 0)],
        (0x1234, 0xFF, 0),
    ),
    "black of 16 bits": (16, COLOUR, [(0, 0, 0), (0, 0, 0xFF), (1, 0, 0)], (0, 0, 0)),
}


@pytest.mark.parametrize("adam7", [False, True])
@pytest.mark.parametrize("name", CLEAR)
def test_a_colour_of_a_png_that_is_transparent_is_white(name: str, adam7: bool) -> None:
    depth, kind, colours, clear = CLEAR[name]
    samples = drawn(colours)
    alpha = np.where((samples == colours[0]).all(axis=2), 0, 255)
    assert alpha.min() < alpha.max()
    data = png(samples, depth, kind, {b"tRNS": struct.pack(f">{len(clear)}H", *clear)}, adam7)
    np.testing.assert_array_equal(shown(data), over_white(eight(samples, depth), alpha))
    assert (shown(data, channels=1)[alpha == 0] == 255).all()


@pytest.mark.parametrize("adam7", [False, True])
@pytest.mark.parametrize("depth", [1, 2, 4, 8])
@pytest.mark.parametrize("alpha", [(0,), (0, 255), (255, 0), (128, 0), (255, 255, 0, 7)])
def test_colours_of_a_palette_that_are_transparent_are_white(
    alpha: tuple[int, ...], depth: int, adam7: bool
) -> None:
    size = min(2**depth, 20)
    alpha = alpha[:size]
    palette = np.random.default_rng(1).integers(0, 200, (size, 3))
    samples = drawn([(colour,) for colour in range(size)])
    every = np.array([*alpha, *[255] * (size - len(alpha))])
    chunks = {b"PLTE": palette.astype(np.uint8).tobytes(), b"tRNS": bytes(alpha)}
    data = png(samples, depth, PALETTE, chunks, adam7)
    places = samples[..., 0]
    np.testing.assert_allclose(shown(data), over_white(palette[places], every[places]), atol=1)


@pytest.mark.parametrize("adam7", [False, True])
@pytest.mark.parametrize("depth", [8, 16])
@pytest.mark.parametrize("kind", [GREY_ALPHA, COLOUR_ALPHA])
def test_alpha_of_a_png_is_shown_over_white(kind: int, depth: int, adam7: bool) -> None:
    colour = (3, 4, 5) if kind == COLOUR_ALPHA else (3,)
    scale = 1 if depth == 8 else 257
    samples = drawn([(*colour, 0), (*colour, 255), (*colour, 128), (*colour, 40)]) * scale
    data = png(samples, depth, kind, {}, adam7)
    pixels = eight(samples, depth)
    expected = over_white(pixels[..., :-1], pixels[..., -1])
    np.testing.assert_allclose(shown(data), expected, atol=1)


def test_a_colour_of_a_png_without_transparency_is_as_it_is() -> None:
    for depth, kind, colours, _ in CLEAR.values():
        samples = drawn(colours)
        expected = over_white(eight(samples, depth), np.full((13, 19), 255))
        np.testing.assert_array_equal(shown(png(samples, depth, kind, {}, False)), expected)


def test_grey_of_16_bits_is_refused() -> None:
    data = png(drawn([(1,), (70,)]), 16, GREY, {b"tRNS": b"\0\1"}, False)
    with pytest.raises(MediaError, match="'x' has pixel mode I;16; valid: "):
        shown(data)


def test_a_transparent_colour_of_16_bits_is_turned_with_its_image() -> None:
    samples = drawn([(0x1234, 2, 3), (0x1235, 2, 3), (0xFFFF, 0, 0)])
    exif = PIL.Image.Exif()
    exif[PIL.ExifTags.Base.Orientation] = 6
    chunks = {b"tRNS": struct.pack(">3H", 0x1234, 2, 3), b"eXIf": exif.tobytes()[6:]}
    turned = shown(png(samples, 16, COLOUR, chunks, False))
    alpha = np.where((samples == (0x1234, 2, 3)).all(axis=2), 0, 255)
    expected = over_white(samples >> 8, alpha)
    np.testing.assert_array_equal(turned, np.rot90(expected, -1))


# ---- TIFF ----------------------------------------------------------------------------------------

ASSOCIATED, UNASSOCIATED = 1, 2  # colours that are multiplied by alpha, and that are not


def tiff(samples: Samples, depth: int, alpha: int) -> bytes:
    """A TIFF of one strip, whose last sample of a pixel is alpha of some kind."""
    height, width, count = samples.shape
    pixels = samples.astype("<u2" if depth == 16 else np.uint8).tobytes()
    fields = [(256, width), (257, height), (258, 0), (259, 1), (262, 2 if count > 2 else 1)]
    fields += [(273, 0), (277, count), (278, height), (279, len(pixels)), (338, alpha)]
    after = 8 + 2 + 12 * len(fields) + 4
    return b"".join(
        [
            b"II*\0" + struct.pack("<IH", 8, len(fields)),
            *_entries(fields, after, count, depth),
            struct.pack(f"<I{count}H", 0, *[depth] * count),
            pixels,
        ]
    )


def _entries(fields: list[tuple[int, int]], after: int, count: int, depth: int) -> Iterator[bytes]:
    for tag, value in fields:
        if tag == 258 and count > 2:
            yield struct.pack("<HHII", tag, 3, count, after)
        elif tag == 258:
            yield struct.pack("<HHIHH", tag, 3, count, depth, depth)
        else:
            place = after + 2 * count if tag == 273 else value
            yield struct.pack("<HHII", tag, 4 if tag in (273, 279) else 3, 1, place)


@pytest.mark.parametrize(
    ("depth", "alpha", "colour"),
    [
        *((depth, alpha, (30, 40, 50)) for depth in (8, 16) for alpha in (ASSOCIATED, 2)),
        (8, UNASSOCIATED, (30,)),
    ],
)
def test_alpha_of_a_tiff_is_shown_over_white(
    depth: int, alpha: int, colour: tuple[int, ...]
) -> None:
    plain = drawn([(*colour, own) for own in (0, 255, 128, 40)])
    expected = over_white(plain[..., :-1], plain[..., -1])
    stored = plain.copy()
    if alpha == ASSOCIATED:
        stored[..., :-1] = np.rint(plain[..., :-1] * plain[..., -1:] / 255)
    data = tiff(stored * (257 if depth == 16 else 1), depth, alpha)
    np.testing.assert_allclose(shown(data), expected, atol=2)


# ---- all that Pillow writes ----------------------------------------------------------------------


def _cut_out(mode: str) -> PIL.Image.Image:
    """Black strokes on a ground that is clear over black, and some half clear pixels."""
    alpha = np.zeros((16, 40), np.uint8)
    alpha[4:8], alpha[8:12, :20] = 255, 128 if "A" in mode else 255
    colours = np.zeros((16, 40, 3), np.uint8)
    colours[alpha > 0] = (200, 10, 60)
    image = PIL.Image.fromarray(np.dstack([colours, alpha]))
    if mode in ("RGBA", "LA"):
        return image.convert(mode)
    return image.convert("RGB").convert(mode)


@pytest.mark.parametrize(
    ("form", "mode"),
    [
        *((form, "RGBA") for form in ("PNG", "WEBP", "TIFF", "GIF")),
        *((form, "LA") for form in ("PNG", "TIFF")),
        *(("PNG", mode) for mode in ("L", "RGB", "P")),
        ("GIF", "P"),
    ],
)
def test_transparent_images_are_shown_over_white(form: str, mode: str) -> None:
    image = _cut_out(mode)
    options: dict[str, Any] = {"lossless": True} if form == "WEBP" else {}
    clear = {"L": 0, "RGB": (0, 0, 0), "P": image.getpixel((0, 0))}.get(mode)
    if clear is not None:
        options["transparency"] = clear
    file = io.BytesIO()
    image.save(file, form, **options)
    with PIL.Image.open(file) as saved:
        own = np.asarray(saved.convert("RGBA"), np.float64)
    result = EncodedImage(LoadedBytes("x", file.getvalue()), 10**6).load(3).astype(np.float64)
    alpha = own[..., 3:] / 255
    np.testing.assert_allclose(result, own[..., :3] * alpha + 255 * (1 - alpha), atol=1)
    assert alpha.min() == 0 < alpha.max()
    grey = EncodedImage(LoadedBytes("x", file.getvalue()), 10**6).load(1)
    for pixels in (result, grey):
        assert (pixels[0] == 255).all()
        assert pixels[5].max() < 255

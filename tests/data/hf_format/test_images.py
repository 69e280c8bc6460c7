from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from data.hf_format.images import (
    ExactSize,
    ImageTransforms,
    ReleasedImages,
    Resize,
    ShortestEdge,
    crop_pixels,
    padded_to_square,
)
from data.media.image.row_spec import ImageRowSpec
from data.media.image.tiles import ImageTiling
from data.sample import NO_TILES, DataError, MediaError, ProcessedMedium, Size
from mllm_jax.families.siglip.processor import PatchBudget
from tests.data.hf_format.stored import (
    ROOT,
    arrays,
    changed,
    composed,
    image,
    read_folder,
    read_json,
)

NAMES = ("wide", "tall", "square", "large", "tiny")
MOST = 10_000_000
PLAIN = ImageTransforms(False, None, 3, None, 1 / 255, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
PINPOINTS = tuple(map(tuple, read_json("llava_onevision", "config.json")["image_grid_pinpoints"]))
TILING = ImageTiling(PINPOINTS, (18, 18), (4, 4), 2)
VISION = ImageRowSpec("vision", patch=(4, 4))
TILED = replace(VISION, tiling=TILING, newline=288)


def transforms_of(folder: Path) -> ImageTransforms:
    transforms = read_folder(folder).media["image"].recipe
    assert isinstance(transforms, ImageTransforms)
    return transforms


def patches_of(pixels: NDArray[np.float32]) -> NDArray[np.float32]:
    """Patches of 4 x 4 of pixels [3, height, width]."""
    rows, columns = pixels.shape[1] // 4, pixels.shape[2] // 4
    complete = pixels[:, : rows * 4, : columns * 4].reshape(3, rows, 4, columns, 4)
    return complete.transpose(1, 3, 2, 4, 0).reshape(rows * columns, -1)


def close(result: NDArray[np.float32], expected: NDArray[np.float32]) -> None:
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, expected, atol=1e-5)


# ---- as released ---------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["clip", "siglip", "siglip2"])
def test_images_of_a_fixed_size_are_as_released(family: str, tmp_path: Path) -> None:
    transforms, stored = transforms_of(composed(tmp_path, family)), arrays(family, "inputs.npz")
    reader = ReleasedImages(transforms, VISION, MOST)
    for name, expected in zip(NAMES, stored["pixel_values"], strict=True):
        close(transforms.transform_pixels(image(name)).transpose(2, 0, 1), expected)
        medium = reader.read(image(name), alone=True)
        close(medium.inputs, patches_of(expected))
        assert medium.more["sizes"].tolist() == [4, 4]
        assert medium.positions.tolist() == [[row, col] for row in range(4) for col in range(4)]


def test_naflex_is_as_released(tmp_path: Path) -> None:
    stored = arrays("siglip2_naflex", "inputs.npz")
    reader = ReleasedImages(transforms_of(composed(tmp_path, "siglip2_naflex")), VISION, MOST)
    for number, name in enumerate(NAMES):
        medium = reader.read(image(name), alone=False)
        count = stored["pixel_attention_mask"][number].sum()
        assert medium.more["sizes"].tolist() == stored["spatial_shapes"][number].tolist()
        assert len(medium.inputs) == count
        close(medium.inputs, stored["pixel_values"][number, :count])


def test_llava_is_as_released() -> None:
    reader = ReleasedImages(
        transforms_of(ROOT / "llava"), replace(VISION, class_token="dropped"), MOST
    )
    stored = arrays("llava", "inputs.npz")["two.pixel_values"]
    for name, expected in zip(("tall", "large"), stored, strict=True):
        medium = reader.read(image(name), alone=False)
        close(medium.inputs, np.pad(patches_of(expected), ((0, 1), (0, 0))))
        assert medium.positions[-1].tolist() == [-1, -1]


@pytest.mark.parametrize("name", ["wide", "large", "tall", "tiny"])
def test_tiles_are_as_released(name: str) -> None:
    reader = ReleasedImages(transforms_of(ROOT / "llava_onevision"), TILED, MOST)
    stored = arrays("llava_onevision", "inputs.npz")
    medium = reader.read(image(name), alone=True)
    expected = [patches_of(tile) for tile in stored[f"{name}.pixel_values"][0]]
    close(medium.inputs, np.concatenate(expected))
    assert medium.more["sizes"].tolist() == [4, 4]
    tokens = TILED.in_text(medium.lengths, 283)
    assert len(tokens) == np.count_nonzero(stored[f"{name}.input_ids"] == 283)


def test_several_images_are_padded_to_squares() -> None:
    reader = ReleasedImages(transforms_of(ROOT / "llava_onevision"), TILED, MOST)
    stored = arrays("llava_onevision", "inputs.npz")["two.pixel_values"]
    for name, (expected,) in zip(("square", "wide"), stored, strict=True):
        medium = reader.read(image(name), alone=False)
        close(medium.inputs, patches_of(expected))
        assert medium.grid == NO_TILES


# ---- metadata ------------------------------------------------------------------------------------

SIZES = st.tuples(st.integers(1, 90), st.integers(1, 90))
RESIZES = st.one_of(
    st.none(),
    st.builds(ShortestEdge, st.integers(4, 40)),
    st.builds(ExactSize, st.tuples(st.integers(4, 40), st.integers(4, 40))),
    st.builds(PatchBudget, st.just(4), st.integers(1, 40)),
)
CROPS = st.one_of(st.none(), st.tuples(st.integers(4, 40), st.integers(4, 40)))


def agrees(reader: ReleasedImages, size: tuple[int, int], alone: bool) -> None:
    """Measuring gives what reading gives, or both refuse the image alike."""
    pixels = np.full((*size, 3), 7, np.uint8)
    try:
        length, grid = reader.measure(size, alone)
    except MediaError as error:
        with pytest.raises(MediaError, match=re.escape(str(error))):
            reader.read(pixels, alone)
        return
    medium = reader.read(pixels, alone)
    assert len(medium.inputs) == len(medium.positions) == length
    assert medium.grid == grid


@given(SIZES, RESIZES, CROPS, st.booleans(), st.booleans())
@settings(deadline=None)
def test_measured_is_read(
    size: Size, resize: Resize | None, crop: Size | None, square: bool, token: bool
) -> None:
    transforms = replace(PLAIN, resize=resize, crop=crop, square=square)
    spec = replace(VISION, class_token="kept" if token else "none")
    agrees(ReleasedImages(transforms, spec, MOST), size, alone=True)


@given(st.tuples(st.integers(1, 400), st.integers(1, 400)), st.booleans())
@settings(deadline=None)
def test_measured_is_read_of_tiles(size: tuple[int, int], alone: bool) -> None:
    transforms = replace(PLAIN, resize=ExactSize((18, 18)), pinpoints=PINPOINTS)
    agrees(ReleasedImages(transforms, TILED, MOST), size, alone)


@given(SIZES, st.integers(1, 60))
def test_a_patch_budget_is_used_and_kept(size: tuple[int, int], most: int) -> None:
    budget = PatchBudget(4, most)
    rows, columns = (side // 4 for side in budget.target_size(size))
    assert 1 <= rows * columns <= most
    # One more row and column, and it would be too many.
    assert (rows + 1) * (columns + 1) > most


@given(SIZES, st.tuples(st.integers(1, 90), st.integers(1, 90)))
def test_a_crop_is_the_centre(size: tuple[int, int], crop: tuple[int, int]) -> None:
    pixels = np.arange(1, 1 + size[0] * size[1], dtype=np.uint32).reshape(*size, 1)
    result = crop_pixels(pixels, crop)
    assert result.shape == (*crop, 1)
    remaining = np.argwhere(result[..., 0])
    assert len(remaining) == min(size[0], crop[0]) * min(size[1], crop[1])
    shifts = {
        tuple(np.argwhere(pixels[..., 0] == result[y, x, 0])[0] - (y, x)) for y, x in remaining
    }
    assert shifts == {tuple((s - c) // 2 for s, c in zip(size, crop, strict=True))}


def test_a_square_has_the_image_in_its_middle() -> None:
    result = padded_to_square(np.full((2, 5, 3), 9, np.uint8), (1, 2, 3))
    assert result.shape == (5, 5, 3)
    assert result[:, 0].tolist() == [[1, 2, 3], [9] * 3, [9] * 3, [1, 2, 3], [1, 2, 3]]


def test_flags_leave_transforms_out(tmp_path: Path) -> None:
    flags = ("do_resize", "do_center_crop", "do_rescale", "do_normalize")
    changed(composed(tmp_path, "clip"), "preprocessor_config.json", **dict.fromkeys(flags, False))
    pixels = image("tall")
    close(transforms_of(tmp_path).transform_pixels(pixels), pixels.astype(np.float32))


def test_borders_have_the_colour_of_the_mean_even_where_nothing_is_normalised(
    tmp_path: Path,
) -> None:
    values = {"image_processor_type": "LlavaImageProcessor", "do_pad": True, "do_normalize": False}
    changed(
        composed(tmp_path, "clip"), "preprocessor_config.json", **values, image_mean=[1, 0.5, 0]
    )
    assert transforms_of(tmp_path).border == (255, 127, 0)
    result = replace(transforms_of(tmp_path), resize=None, crop=None).transform_pixels(
        image("wide")
    )
    close(result[0, 0], np.array([1, 127 / 255, 0], np.float32))


def test_every_resampling_filter_is_pils() -> None:
    for kind in PIL.Image.Resampling:
        transforms = replace(PLAIN, resize=ExactSize((8, 8)), resample=int(kind))
        expected = PIL.Image.fromarray(image("large")).resize((8, 8), kind)
        close(
            transforms.transform_pixels(image("large")),
            np.asarray(expected, np.float32) / 127.5 - 1,
        )


# ---- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("transforms", "size", "reason"),
    [
        (PLAIN, (0, 5), "0 x 5 pixels is empty"),
        (PLAIN, (200, 100), "image of 200 x 100 pixels is above data.image.max_pixels 10000"),
        (replace(PLAIN, square=True), (10, 900), "padded to a square, of 900 x 900 pixels"),
        (replace(PLAIN, resize=ShortestEdge(20)), (1, 900), "resized, of 20 x 18000 pixels"),
        (PLAIN, (3, 9), "image becomes 3 x 9 pixels, 0 x 2 patches"),
    ],
)  # fmt: skip
def test_bad_images(transforms: ImageTransforms, size: tuple[int, int], reason: str) -> None:
    with pytest.raises(MediaError, match=reason):
        ReleasedImages(transforms, VISION, 10_000).measure(size, alone=True)


def test_blocks_must_be_whole() -> None:
    transforms = replace(PLAIN, resize=ExactSize((12, 20)))
    with pytest.raises(MediaError, match="3 x 5 patches, which are no whole blocks of 2 x 2"):
        ReleasedImages(transforms, replace(VISION, block=(2, 2)), MOST).measure((9, 9), alone=True)


TILES = replace(PLAIN, resize=ExactSize((18, 18)), pinpoints=PINPOINTS)


@pytest.mark.parametrize(
    ("transforms", "spec", "reason"),
    [
        (PLAIN, replace(VISION, channels=1), "3 channels, but the encoder 'vision' has channels 1"),
        (replace(PLAIN, resize=PatchBudget(16, 9)), VISION, "patch_size 16, but the encoder"),
        (replace(PLAIN, resize=PatchBudget(4, 9)), replace(VISION, block=(2, 2)), "stack"),
        (TILES, VISION, "cuts images into tiles, but the encoder 'vision' has none"),
        (replace(PLAIN, resize=ExactSize((18, 18))), TILED, "cuts no images into tiles"),
        (replace(TILES, resize=ExactSize((20, 20))), TILED, "has tiles by ExactSize"),
        (replace(TILES, pinpoints=((18, 36),)), TILED, "has pinpoints"),
        (TILES, replace(TILED, patch=(9, 9)), r"tiles of \(2, 2\) outputs"),
    ],
)  # fmt: skip
def test_a_processor_of_another_encoder_is_refused(
    transforms: ImageTransforms, spec: ImageRowSpec, reason: str
) -> None:
    with pytest.raises(DataError, match=reason):
        ReleasedImages(transforms, spec, MOST)


def test_media_are_what_the_loader_takes() -> None:
    reader = ReleasedImages(replace(PLAIN, resize=PatchBudget(4, 9)), VISION, MOST)
    medium = reader.read(image("wide"), alone=False)
    assert isinstance(medium, ProcessedMedium)
    assert medium.inputs.flags.c_contiguous
    assert medium.positions.dtype == np.int32

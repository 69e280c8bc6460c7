"""Videos as a released processor of videos makes them, where its folder has one."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from data.hf_format.images import ExactSize
from data.sample import DataError, Sample, Turn
from tests.data.hf_format.stored import (
    ROOT,
    arrays,
    changed,
    composed,
    make_processor,
    read_folder,
    read_json,
)
from tests.data.hf_format.test_images import close, patches_of
from tests.data.hf_format.test_processor import TILED, config_of
from tests.data.samples import TEXT, Frames

VIDEOS, CLASS = "video_preprocessor_config.json", "LlavaOnevisionVideoProcessor"
FRAMES = read_json("llava_onevision", "frames.json")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return composed(tmp_path, "siglip")


def test_frames_have_settings_of_their_own(folder: Path) -> None:
    """In transformers 5 as a part of processor_config.json, which comes first."""
    assert read_folder(folder).media.get("video") is None
    before = read_folder(folder).fingerprint
    changed(folder, VIDEOS, **FRAMES)
    assert read_folder(folder).fingerprint != before
    files = read_folder(folder).media["video"].recipe
    transforms = files.transforms
    assert (files.frames, transforms.resize, transforms.resample) == (5, ExactSize((18, 18)), 2)
    assert list(transforms.mean) == FRAMES["image_mean"]
    changed(folder, VIDEOS, do_sample_frames=None, video_processor_type=...)
    changed(folder, VIDEOS, image_processor_type=CLASS)
    assert read_folder(folder).media["video"].recipe.frames is None
    changed(folder, "processor_config.json", video_processor={"video_processor_type": CLASS})
    transforms = read_folder(folder).media["video"].recipe.transforms
    assert (transforms.resize, transforms.resample, transforms.mean[0]) == (
        ExactSize((384, 384)),
        3,
        0.48145466,
    )


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"video_processor_type": "X"}, f"has video_processor_type X; valid: {CLASS}"),
        ({"video_processor_type": ...}, f"has no video_processor_type; valid: {CLASS}"),
        ({"size": {"shortest_edge": 18}}, r"of videos; valid: \{height, width\}, with do_resize"),
        ({"do_resize": False}, r"of videos; valid: \{height, width\}, with do_resize, of a tile"),
        ({"do_center_crop": True}, "do_center_crop True of videos; valid: false, where videos"),
        ({"num_frames": 0}, f"{VIDEOS}: num_frames: Input should be greater than 0, got 0"),
        ({"fps": 2, "num_frames": None}, "fps 2.0 of videos; valid: num_frames, or data.video.fra"),
    ],
)
def test_bad_settings_of_videos(changes: dict[str, Any], reason: str, folder: Path) -> None:
    changed(folder, VIDEOS, **FRAMES | changes)
    with pytest.raises(DataError, match=reason):
        read_folder(folder)


def test_frames_are_as_released(tmp_path: Path) -> None:
    folder = tmp_path / "own"
    shutil.copytree(ROOT / "llava_onevision", folder)
    shutil.copy(ROOT / "llava_onevision" / "frames.json", folder / VIDEOS)
    stored = arrays("llava_onevision", "videos.npz")
    video = Frames(stored["video.frames"])
    config = config_of("llava_onevision", processor=folder, video={"frames": 5})
    processor = make_processor(config, [TEXT, TILED])
    sample = Sample("s", (Turn("user", "<video>?"), Turn("assistant", "so")), {"video": (video,)})
    medium = processor.read_medium(sample, "vision", 0, processor.measure(sample))
    close(
        medium.inputs,
        np.concatenate([patches_of(frame_pixels) for frame_pixels in stored["video.pixels"]]),
    )
    # What people see of the frames has their mean, not that of images.
    (seen,) = processor.preview_medium(sample, "vision", 0, medium).seen
    transforms = read_folder(folder).media["video"].recipe.transforms
    for picture, frame in zip(seen, video.load(), strict=True):
        levels = transforms.grey_levels(transforms.transform_pixels(frame))
        np.testing.assert_array_equal(picture.pixels, levels[:16, :16])


@pytest.mark.parametrize(
    ("changes", "frames", "reason"),
    [
        (
            {},
            32,
            r"takes 5 frames of a video \(num_frames\), but data.video.frames is 32; valid: 5",
        ),
        (
            {"size": {"height": 20, "width": 20}},
            5,
            "has frames by .*, but the encoder 'vision' has",
        ),
    ],
)
def test_videos_of_another_encoder_are_refused(
    changes: dict[str, Any], frames: int, reason: str, tmp_path: Path
) -> None:
    folder = tmp_path / "own"
    shutil.copytree(ROOT / "llava_onevision", folder)
    changed(folder, VIDEOS, **FRAMES | changes)
    config = config_of("llava_onevision", processor=folder, video={"frames": frames})
    with pytest.raises(DataError, match=reason):
        make_processor(config, [TEXT, TILED])

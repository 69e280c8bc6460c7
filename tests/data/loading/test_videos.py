"""Videos beside images in batches: known lengths or not, whatever host reads them."""

from __future__ import annotations

import numpy as np
import pytest

from data.media.image.media_type import NoiseImage
from data.media.video.files import FrameTiming
from data.media.video.media_type import NoiseVideo
from data.sample import LengthError, Sample, SampleError, Turn
from tests.data.hf_format.stored import make_processor
from tests.data.hf_format.test_processor import TILED, VISION, config_of
from tests.data.loading import test_on_read
from tests.data.loading.test_loader import assert_same_microbatch, take
from tests.data.loading.test_on_read import read
from tests.data.samples import TEXT, ListSource


def sample(number: int) -> Sample:
    """A conversation with up to two videos and up to two images, in any order."""
    rng = np.random.default_rng(number)
    videos, images = rng.integers(0, 3, 2).tolist()
    marks = rng.permutation(["<video>\n"] * videos + ["<image>\n"] * images).tolist()
    turns = (Turn("user", "".join(marks) + "cat?"), Turn("assistant", f"so {number}"))
    media = {
        "video": tuple(
            NoiseVideo(int(rng.integers(1, 5)), (9, 14), int(rng.integers(100)))
            for _ in range(videos)
        ),
        "image": tuple(NoiseImage((20, 30), int(rng.integers(100))) for _ in range(images)),
    }
    return Sample(f"sample {number}", turns, media)


@pytest.mark.parametrize("hosts", [1, 2])
def test_batches_do_not_depend_on_who_reads(hosts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        {module: host_rows[module] for module in ("decoder", "vision")}
        for host_rows in test_on_read.HOSTS[hosts]
    ]
    monkeypatch.setitem(test_on_read.HOSTS, hosts, rows)
    config = config_of("llava_onevision", rows=4, lookahead=24, balance="per_phase")
    processor = make_processor(config, [TEXT, TILED])
    source = ListSource([sample(number) for number in range(40)])
    expected = [take(4, source, processor, config, rows=host_rows) for host_rows in rows]
    for actual, target in zip(read(4, source, processor, config, hosts), expected, strict=True):
        for microbatch, host_rows in zip(actual, target, strict=True):
            assert_same_microbatch(microbatch, host_rows)


def test_videos_follow_the_images_of_an_encoder() -> None:
    processor = make_processor(config_of("llava_onevision"), [TEXT, TILED])
    media = {"video": (NoiseVideo(3, (9, 9), 0),), "image": (NoiseImage((20, 30), 1),)}
    turns = (Turn("user", "<video>\n<image>\ncat?"), Turn("assistant", "so"))
    lengths = processor.measure(Sample("s", turns, media))
    (image, video), tile = lengths.counts("vision"), TILED.tiling.tile_outputs  # type: ignore[union-attr]
    assert (video, lengths.of("vision")[1].grid) == (3 * tile, (3, 2, 2, 1.0))
    assert image > tile
    example = processor.process(Sample("s", turns, media), lengths)
    starts = lengths.starts["vision"]
    # The template writes images first.
    assert starts[0] < starts[1]
    ids = [processor.chat.placeholder_id(kind) for kind in ("image", "video")]
    assert example.tokens[[*starts]].tolist() == ids


def test_a_video_of_other_frames_than_its_header_says_is_refused() -> None:
    class Lying(NoiseVideo):
        def frame_timing(self) -> FrameTiming:
            return FrameTiming(self.frames + 1, 1.0)

    processor = make_processor(config_of("llava_onevision"), [TEXT, TILED])
    turns = (Turn("user", "<video>\ncat?"), Turn("assistant", "so"))
    with pytest.raises(LengthError, match="sample s: was measured as"):
        processor.process(Sample("s", turns, {"video": (Lying(2, (9, 9), 0),)}))


def test_models_without_videos_take_the_word_as_text() -> None:
    processor = make_processor(config_of("llava"), [TEXT, VISION])
    turns = (Turn("user", "Is <video> a tag?"), Turn("assistant", "so"))
    assert processor.measure(Sample("s", turns)).modules.keys() == {"decoder"}
    with pytest.raises(SampleError, match="no encoder takes video; valid: image"):
        processor.measure(Sample("s", turns, {"video": (NoiseVideo(2, (9, 9), 0),)}))

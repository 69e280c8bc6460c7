"""How samples of released processors look: pieces of their texts, tiles of their images."""

from __future__ import annotations

import numpy as np
import PIL.Image
import pytest

from data.hf_format.images import tiles_of
from data.media.image.tiles import layout_of
from tests.data.hf_format.stored import CHATTING
from tests.data.hf_format.test_processor import TILED, processor_of, stored_samples

#: Number of the filter that the processor of LLaVA-OneVision names.
CUBIC = int(PIL.Image.Resampling.BICUBIC)


@pytest.mark.parametrize("family", CHATTING)
def test_pieces_make_up_the_text(family: str) -> None:
    processor = processor_of(family)
    for sample in stored_samples(family).values():
        text = sample.turns[-1].text.strip()
        assert "".join(processor.token_texts(processor.encode(text))).strip() == text
    (end,) = processor.token_texts([processor.end_ids[0]])
    assert end.startswith("<")


def test_tiles_are_seen_as_they_lie_in_the_image() -> None:
    processor, compared = processor_of("llava_onevision"), 0
    for sample in stored_samples("llava_onevision").values():
        lengths, images = processor.measure(sample), sample.of("image")
        for number, image in enumerate(images):
            medium = processor.read_medium(sample, "vision", number, lengths)
            look = processor.preview_medium(sample, "vision", number, medium)
            assert look.original is not None
            np.testing.assert_array_equal(look.original.pixels, image.load(3))
            (complete,), *tiles = look.seen
            assert complete.pixels.shape == (16, 16, 3)
            if len(images) == 1:
                # Of tiles of 18 pixels and patches of 4, the last two pixels are not seen.
                assert TILED.tiling is not None
                layout = layout_of(image.image_size(), TILED.tiling)
                cut = tiles_of(image.load(3), layout, TILED.tiling.tile, CUBIC)
                result = [complete.pixels, *(tile.pixels for row in tiles for tile in row)]
                np.testing.assert_array_equal(result, [tile[:16, :16] for tile in cut])
                assert [len(row) for row in tiles] == [layout.tiles[1]] * layout.tiles[0]
                compared += 1
    assert compared

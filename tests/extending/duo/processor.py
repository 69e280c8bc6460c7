"""The released processor of images, and the positions of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pydantic import PositiveInt

from data.hf_format.images import Resize
from data.hf_format.media import SettingsSource
from data.media.image.row_spec import ImageRowSpec
from data.rows.tokens import TextSpan
from data.sample import Size
from mllm_jax.families.siglip.processor import SiglipImages


@dataclass(frozen=True)
class PatchMultiple(Resize):
    """Resize both sides to the nearest multiple of a patch."""

    patch: int

    def target_size(self, size: Size) -> Size:
        """See `Resize`."""
        high, wide = (max(1, round(side / self.patch)) * self.patch for side in size)
        return high, wide

    def find_misfit(self, spec: ImageRowSpec) -> tuple[str, str] | None:
        """See `Resize`."""
        if spec.patch == (self.patch, self.patch):
            return None
        return f"has patch_size {self.patch}", f"patch {spec.patch}"


class DuoImages(SiglipImages):
    """Settings of `DuoImageProcessor`: an image keeps its resolution."""

    patch_size: PositiveInt = 16

    def resize_rule(self, source: SettingsSource) -> Resize:
        """Resizing to multiples of a patch; `size` has no effect."""
        del source
        return PatchMultiple(self.patch_size)


def write_positions(tokens: int, spans: Sequence[TextSpan]) -> NDArray[np.int32]:
    """Time, row and column of every token.

    Text counts on all axes at once, from one more than the largest position before it.
    """
    positions, done, following = np.zeros((tokens, 3), np.int32), 0, 0
    for span in spans:
        texts, end = span.start - done, span.start + span.count
        positions[done : span.start] = following + np.arange(texts)[:, None]
        outputs = np.indices(span.grid[:3]).reshape(3, -1).T
        positions[span.start : end] = following + texts + outputs
        done, following = end, following + texts + max(span.grid[:3])
    positions[done:] = following + np.arange(tokens - done)[:, None]
    return positions

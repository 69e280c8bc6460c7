"""What makes an encoder's inputs of the media of one kind."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from data.media.preview import MediaPreview, draw_levels
from data.sample import MediumLengths, ProcessedMedium


@dataclass(frozen=True)
class TextLayout:
    """Where a medium lies in the text.

    Attributes:
        tokens: its tokens: the placeholder where an output is merged, and newlines.
        runs: runs of merged outputs: (first output, first token, number) of each.
    """

    tokens: list[int]
    runs: tuple[tuple[int, int, int], ...]


class MediaProcessor(ABC):
    """Measures and processes the media of one kind for one encoder; picklable.

    `process` must return a medium of the lengths that `measure` returned: a sample on which they
    disagree is refused by name, because every host plans from measurements.

    Args:
        spec: row spec of the encoder.
    """

    def __init__(self, spec: Any) -> None:
        self.spec = spec

    @abstractmethod
    def measure(self, medium: Any, alone: bool) -> MediumLengths:
        """Lengths of a medium, from metadata alone, or by drawing it.

        Args:
            medium: medium as returned by `MediaType.draw`.
            alone: whether the medium is the only one of its kind in its conversation.

        Raises:
            MediaError: the medium cannot be used.
        """

    @abstractmethod
    def process(self, medium: Any, alone: bool) -> ProcessedMedium:
        """A medium as encoder input; see `measure`. Raises MediaError."""

    def layout(self, lengths: MediumLengths, placeholder: int) -> TextLayout:
        """The tokens of a medium of such lengths, and where its outputs are merged."""
        tokens = self.spec.in_text(lengths, placeholder)
        return TextLayout(tokens, tuple(self.spec.merge_runs(lengths)))

    def preview_medium(self, medium: Any, processed: ProcessedMedium) -> MediaPreview:
        """A medium to look at; by default the numbers that its encoder gets, position by position.

        Args:
            medium: medium as returned by `MediaType.open`.
            processed: the medium as encoder input.

        Raises:
            MediaError: the medium cannot be used.
        """
        caption = f"{len(processed.inputs)} positions of {self.spec.features} numbers"
        return MediaPreview(caption, ((draw_levels(processed.inputs.T, caption),),))

"""Mixtures of media and text: shares of the decoder's tokens."""

from __future__ import annotations

from typing import NamedTuple


class TokenMixture(NamedTuple):
    """Media tokens to text tokens of the decoder's rows, such as 1:9.

    Attributes:
        media, text: parts, both above 0.
    """

    media: int
    text: int

    def __str__(self) -> str:
        return f"{self.media}:{self.text}"

    @property
    def share(self) -> float:
        """Share of the tokens at which outputs of encoders are merged."""
        return self.media / (self.media + self.text)


def parse_mixtures(text: str) -> tuple[TokenMixture, ...]:
    """The mixtures of a text such as `1:9,5:5,9:1`.

    Raises:
        ValueError: one of them is no two integers above 0.
    """
    return tuple(_parse_mixture(part) for part in text.split(","))


def _parse_mixture(text: str) -> TokenMixture:
    media, colon, text_part = text.partition(":")
    parts = [int(part) for part in (media, text_part) if part.isdecimal() and len(part) < 10]
    if not colon or len(parts) < 2 or min(parts) < 1:
        raise ValueError(
            f"{text or 'nothing'} is not I:T, media tokens to text tokens; valid: two whole "
            "numbers above 0, e.g. 1:9, and several with commas between them"
        )
    return TokenMixture(*parts)

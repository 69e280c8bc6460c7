"""Conversations to tokens: what `Processor` asks of a tokenizer and its chat template."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from data.modality import Kind
from data.sample import Turn


@dataclass(frozen=True)
class Told:
    """A conversation as tokens, in which one token stands for each medium.

    Attributes:
        ids: of the tokens.
        learnt: whether each of them is one that is learnt.
        media: the tokens that stand for media, and their kinds.
    """

    ids: Sequence[int]
    learnt: Sequence[bool]
    media: Sequence[tuple[int, Kind]]


class Chat(Protocol):
    """A tokenizer and its chat template; it must be picklable."""

    @property
    def fingerprint(self) -> str:
        """Of all that decides the tokens of a conversation."""

    @property
    def vocab_size(self) -> int:
        """One more than the largest id, added special tokens included."""

    @property
    def end_id(self) -> int:
        """The token that ends an answer, at which generation stops."""

    def placeholder_id(self, kind: Kind) -> int:
        """The token at which outputs of the encoder of `kind` land."""

    def tell(self, turns: Sequence[Turn], opened: bool = False) -> Told:
        """Tokens of a conversation; with `opened`, an assistant's turn is begun at its end.

        Raises:
            ConversationError: it cannot be told.
        """

    def encode(self, text: str) -> Sequence[int]:
        """Tokens of a text, in which nothing is a special token."""

    def decode(self, ids: list[int]) -> str:
        """Text of `ids` without special tokens."""

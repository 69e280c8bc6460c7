"""Conversations to tokens: the interface of a tokenizer and its chat template for `Processor`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from data.config import DataConfig
from data.rows.spec import Kind
from data.sample import Turn, pattern_of
from data.text.tokenizer import ChatTokenizer

PAD_ID = 0  # fills unused positions; it is never attended to, so any id works


@dataclass(frozen=True)
class RenderedChat:
    """A conversation as tokens, in which one token stands for each medium.

    Attributes:
        ids: ids of the tokens.
        learnt: whether each token is learnt.
        media: indices of the tokens that stand for media, and their kinds.
    """

    ids: Sequence[int]
    learnt: Sequence[bool]
    media: Sequence[tuple[int, Kind]]


class ConversationTokenizer(Protocol):
    """A tokenizer and its chat template; it must be picklable."""

    @property
    def fingerprint(self) -> str:
        """Fingerprint of all that decides the tokens of a conversation."""

    @property
    def vocab_size(self) -> int:
        """The largest id plus one, added special tokens included."""

    @property
    def end_ids(self) -> tuple[int, ...]:
        """The tokens at which generation stops, first of all the one that ends an answer."""

    def check_training(self) -> tuple[str, ...]:
        """Check that answers can be learnt.

        Returns:
            What of answers is not learnt, for people.

        Raises:
            DataError: answers cannot be learnt.
        """

    def placeholder_id(self, kind: Kind) -> int:
        """The token at which outputs of the encoder of `kind` are merged."""

    def tokenize_turns(self, turns: Sequence[Turn], opened: bool = False) -> RenderedChat:
        """Tokens of a conversation; with `opened`, those after which the next answer is written.

        The first learnt token of an answer follows the tokens that `tokenize_turns(turns,
        opened=True)` has for the turns before it, and the last learnt one is one of `end_ids`, if
        the template writes one there.

        Raises:
            ConversationError: the conversation cannot be tokenized.
        """

    def encode(self, text: str) -> Sequence[int]:
        """Tokens of a text, in which nothing is a special token."""

    def decode(self, ids: list[int]) -> str:
        """Text of `ids` without special tokens."""

    def token_texts(self, ids: Sequence[int]) -> list[str]:
        """The text that each token of `ids` adds, see `data.text.pieces`."""


class ConfiguredChat:
    """A `ConversationTokenizer` by `data.tokenizer` and `data.chat`.

    Args:
        config: configuration of the data.
        marks: placeholders of media in the text of samples.

    Raises:
        DataError: the tokenizer cannot be used.
    """

    def __init__(self, config: DataConfig, marks: Mapping[Kind, str]) -> None:
        self._tokenizer = ChatTokenizer(config.tokenizer, config.chat, tuple(marks.values()))
        self._kinds = {mark: kind for kind, mark in marks.items()}
        self._marks = dict(marks)
        self._mark = pattern_of(self._kinds)

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the tokenizer and the chat template."""
        return self._tokenizer.fingerprint

    @property
    def vocab_size(self) -> int:
        """The largest id plus one, added special tokens included."""
        return self._tokenizer.vocab_size

    @property
    def end_ids(self) -> tuple[int, ...]:
        """The token at the end of every turn."""
        return (self._tokenizer.end_id,)

    def check_training(self) -> tuple[str, ...]:
        """Every answer is learnt with its end."""
        return ()

    def placeholder_id(self, kind: Kind) -> int:
        """The token at which outputs of the encoder of `kind` are merged."""
        return self._tokenizer.placeholder_ids[self._marks[kind]]

    def tokenize_turns(self, turns: Sequence[Turn], opened: bool = False) -> RenderedChat:
        """Tokens of a conversation; with `opened`, an assistant's turn is begun at its end."""
        pieces = self._tokenize_pieces(turns, opened)
        ids, learnt, media = list[int](), list[bool](), list[tuple[int, Kind]]()
        for piece_ids, is_learnt, kind in pieces:
            media += [] if kind is None else [(len(ids), kind)]
            ids += piece_ids
            learnt += [is_learnt] * len(piece_ids)
        return RenderedChat(ids, learnt, media)

    def _tokenize_pieces(
        self, turns: Sequence[Turn], opened: bool
    ) -> Iterator[tuple[Sequence[int], bool, Kind | None]]:
        """Tokens, whether each is learnt, and the kind of the medium that it stands for."""
        mark = self._tokenizer.template_ids
        for number, turn in enumerate(turns):
            yield (*(mark("separator") if number else ()), *mark(turn.role)), False, None
            for piece, is_mark in _strip_turn(turn.split_at(self._mark)):
                kind = self._kinds[piece] if is_mark else None
                ids = self.encode(piece) if kind is None else [self.placeholder_id(kind)]
                yield ids, turn.is_learnt and kind is None, kind
            yield self.end_ids, turn.is_learnt, None
        if opened:
            yield (*(mark("separator") if turns else ()), *mark("assistant")), False, None

    def encode(self, text: str) -> Sequence[int]:
        """Tokens of a text, in which nothing is a special token."""
        return self._tokenizer.encode(text)

    def decode(self, ids: list[int]) -> str:
        """Text of `ids` without special tokens."""
        return self._tokenizer.decode(ids)

    def token_texts(self, ids: Sequence[int]) -> list[str]:
        """The text that each token adds."""
        return self._tokenizer.token_texts(ids)


def _strip_turn(pieces: list[tuple[str, bool]]) -> list[tuple[str, bool]]:
    """Pieces of a turn without the white space around it."""
    last = len(pieces) - 1
    front = [(text if n else text.lstrip(), is_mark) for n, (text, is_mark) in enumerate(pieces)]
    return [
        (text if n < last else text.rstrip(), is_mark) for n, (text, is_mark) in enumerate(front)
    ]


def marks_of(config: DataConfig) -> dict[Kind, str]:
    """Placeholders of media in the text of samples, by kind."""
    return {kind: section.placeholder for kind, section in config.media.items()}

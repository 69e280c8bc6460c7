"""Released tokenizers: from text to ids, with the places of tokens in the text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray
from tokenizers import AddedToken, Encoding, Tokenizer, processors

from data.hf_format.files import ReleasedFiles
from data.hf_format.marks import Span
from data.sample import DataError
from data.text.pieces import token_texts

#: A token before a piece of a text: some tokenizers put a blank before the first piece alone.
_BEHIND = "\ufdd4"


@dataclass(frozen=True)
class TokenizedText:
    """A tokenized text.

    Attributes:
        ids: `[tokens]` int32.
        spans: `[tokens, 2]`, first character of a token and one after its last.
        special: `[tokens]`, whether it is a special token.
    """

    ids: NDArray[np.int32]
    spans: NDArray[np.int64]
    special: NDArray[np.bool_]

    def in_span(self, span: Span) -> NDArray[np.bool_]:
        """`[tokens]`, whether a token has characters of `span`."""
        return (self.spans[:, 0] < span[1]) & (self.spans[:, 1] > span[0])

    def without_end(self) -> TokenizedText:
        """Without the special tokens that a tokenizer adds after a text (`</s>`)."""
        inside = np.flatnonzero(self.spans[:, 0] < self.spans[:, 1])
        text = slice(0, int(inside[-1]) + 1 if inside.size else None)
        return TokenizedText(self.ids[text], self.spans[text], self.special[text])


class ReleasedTokenizer:
    """tokenizer.json with the special tokens of tokenizer_config.json.

    Args:
        files: files of the folder.
        added: special tokens besides those of the files, only for splitting texts.

    Raises:
        DataError: tokenizer.json is none, or tokenizer_config.json contradicts it.
    """

    def __init__(self, files: ReleasedFiles, added: Sequence[str] = ()) -> None:
        self._files = files
        self.tokens = {name: token.content for name, token in files.settings.tokens.items()}
        self._tokenizer = self._load_tokenizer()
        #: One more than the largest id, added special tokens included.
        self.vocab_size = 1 + max(self._tokenizer.get_vocab(with_added_tokens=True).values())
        self._tokenizer.add_special_tokens(
            [AddedToken(text, special=True, normalized=False) for text in added]
        )
        decoder = self._tokenizer.get_added_tokens_decoder()
        #: Whether an id is that of a special token, `[ids]`.
        self.is_special = np.zeros(1 + max([self.vocab_size, *decoder]), bool)
        self.is_special[[number for number, token in decoder.items() if token.special]] = True
        texts = [token.content for token in decoder.values() if token.special]
        self._spelled = re.compile("|".join(map(re.escape, texts)) or "(?!)")

    def _load_tokenizer(self) -> Tokenizer:
        try:
            tokenizer = Tokenizer.from_str(self._files.tokenizer.decode())
        except Exception as error:  # the Rust binding raises plain Exception
            path = self._files.folder / "tokenizer.json"
            raise DataError(f"data.processor: {path} is not a tokenizer.json: {error}") from error
        tokenizer.no_truncation()
        tokenizer.no_padding()
        _keep_blanks(tokenizer)
        self._add_tokens(tokenizer)
        self._set_ends(tokenizer)
        return tokenizer

    def _add_tokens(self, tokenizer: Tokenizer) -> None:
        """Add tokens that the configuration has and tokenizer.json lacks, as transformers does."""
        settings = self._files.settings
        named = (*settings.tokens.values(), *settings.extra)
        for number, token in sorted(settings.added_tokens_decoder.items()):
            tokenizer.add_tokens([AddedToken(token.content, **token.flags)])
            self._check_number(tokenizer, token.content, number, "tokenizer_config.json")
        known = {token.content for token in tokenizer.get_added_tokens_decoder().values()}
        for text, number in sorted(settings.added_tokens.items(), key=itemgetter(1)):
            if text not in known:
                special = text in {token.content for token in named}
                tokenizer.add_tokens([AddedToken(text, special=special, normalized=not special)])
            self._check_number(tokenizer, text, number, "added_tokens.json")
        tokenizer.add_special_tokens(
            [AddedToken(t.content, **t.flags | {"special": True}) for t in named]
        )

    def _check_number(self, tokenizer: Tokenizer, text: str, number: int, file: str) -> None:
        if (actual := tokenizer.token_to_id(text)) != number:
            raise DataError(
                f"data.processor: {self._files.folder}: {file} has {text!r} as token {number}, "
                f"tokenizer.json as {actual}"
            )

    def _set_ends(self, tokenizer: Tokenizer) -> None:
        """Set the tokens added at the start and the end of a text, if the configuration has any."""
        settings = self._files.settings
        if settings.add_bos_token is None and settings.add_eos_token is None:
            return
        begin = self.tokens.get("bos_token") if settings.add_bos_token else None
        end = self.tokens.get("eos_token") if settings.add_eos_token else None
        ends = [token for token in (begin, end) if token is not None]
        single = [*([begin] if begin else []), "$A", *([end] if end else [])]
        tokenizer.post_processor = processors.TemplateProcessing(
            single=single,
            pair=[*single, "$B:1"],
            special_tokens=[(token, tokenizer.token_to_id(token)) for token in ends],
        )

    @cached_property
    def _plain_tokenizer(self) -> Tokenizer:
        """The same tokenizer, for which no text is a special token."""
        tokenizer = self._load_tokenizer()
        tokenizer.encode_special_tokens = True
        # Not a special one, so that it is a token all the same.
        tokenizer.add_tokens([AddedToken(_BEHIND, normalized=False)])
        return tokenizer

    def id_of(self, token: str) -> int | None:
        """The id of a special token."""
        number: int | None = self._tokenizer.token_to_id(token)
        return number if number is not None and self.is_special[number] else None

    def text_ids_from(self, first: int) -> int:
        """How many ids from `first` on are those of texts, and not of tokens that were added."""
        added = self._tokenizer.get_added_tokens_decoder()
        every = self._tokenizer.get_vocab(with_added_tokens=True).values()
        return sum(number >= first and number not in added for number in every)

    def spells_special(self, text: str) -> bool:
        """Whether a text spells a special token."""
        return self._spelled.search(text) is not None

    def encode_plain(self, text: str) -> list[int]:
        """Ids of a text in which nothing is a special token."""
        ids: list[int] = self._plain_tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """Text of `ids` without special tokens."""
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=True))

    def token_texts(self, ids: Sequence[int]) -> list[str]:
        """The text that each token adds."""
        return token_texts(self._tokenizer, ids)

    def encode(
        self, text: str, begins: bool, text_spans: Sequence[Span], borders: Sequence[int] = ()
    ) -> TokenizedText:
        """Tokens of a rendered conversation.

        Args:
            text: text of the conversation.
            begins: whether to add the tokens that the tokenizer adds to a text (`<s>`).
            text_spans: places of the texts of samples, in which no special token is recognised.
            borders: characters before which a token must begin.
        """
        tokens = self._to_tokens(self._tokenizer.encode(text, add_special_tokens=begins))
        spelled = np.zeros_like(tokens.special)
        for span in text_spans:
            spelled |= tokens.special & tokens.in_span(span)
        if not borders and not spelled.any():
            return tokens
        return self._split_tokens(text, tokens, spelled, borders)

    def is_parted(
        self, text: str, tokens: TokenizedText, text_spans: Sequence[Span], at: int
    ) -> bool:
        """Whether the tokens before character `at` are those of the text before it by itself.

        Args:
            text: a text.
            tokens: its tokens.
            text_spans: as of `encode`.
            at: number of a character.
        """
        real = tokens.spans[:, 0] < tokens.spans[:, 1]
        before = np.flatnonzero(real & (tokens.spans[:, 0] < at))
        if (tokens.spans[before, 1] > at)[~tokens.special[before]].any():
            return False
        # Special tokens part a text, so that what is before the last one changes nothing.
        special = before[tokens.special[before]]
        first = special[-1] if special.size else np.flatnonzero(~tokens.special)[:1].sum()
        begin = int(tokens.spans[first, 0]) if before.size else at
        inner_spans = [
            (max(a - begin, 0), min(b, at) - begin) for a, b in text_spans if a < at and b > begin
        ]
        alone = self.encode(text[begin:at], begins=False, text_spans=inner_spans)
        return np.array_equal(alone.ids, tokens.ids[first : before[-1] + 1] if before.size else [])

    def same_text(self, one: TokenizedText, other: TokenizedText) -> bool:
        """Whether two lists of tokens stand for the same text."""
        decode = self._tokenizer.decode
        texts = {decode(n.ids.tolist(), skip_special_tokens=False) for n in (one, other)}
        return len(texts) == 1

    def _to_tokens(self, encoding: Encoding, first: int = 0) -> TokenizedText:
        """Tokens of a piece of text that begins at character `first`."""
        ids = np.array(encoding.ids, np.int32)
        spans = np.array(encoding.offsets, np.int64).reshape(-1, 2) + first
        known = np.minimum(ids, len(self.is_special) - 1)
        return TokenizedText(ids, spans, self.is_special[known] & (ids == known))

    def _split_tokens(
        self,
        text: str,
        tokens: TokenizedText,
        spelled: NDArray[np.bool_],
        borders: Sequence[int] = (),
    ) -> TokenizedText:
        """Tokens if the `spelled` ones are text: the pieces between all others, one by one.

        The pieces are cut at `borders` as well.
        """
        spans = tokens.spans.copy()
        # Tokens added after the text have no place in it.
        spans[1 + np.flatnonzero(spans[:, 0] < spans[:, 1])[-1] :] = len(text)
        parts, done = list[TokenizedText](), 0
        for number in np.flatnonzero(tokens.special & ~spelled).tolist():
            begin, end = spans[number].tolist()
            single = slice(number, number + 1)
            parts += self._encode_pieces(text, done, begin, borders)
            parts.append(TokenizedText(tokens.ids[single], spans[single], tokens.special[single]))
            done = end
        parts += self._encode_pieces(text, done, len(text), borders)
        return TokenizedText(
            np.concatenate([part.ids for part in parts]),
            np.concatenate([part.spans for part in parts]),
            np.concatenate([part.special for part in parts]),
        )

    def _encode_pieces(
        self, text: str, begin: int, end: int, borders: Sequence[int]
    ) -> Iterator[TokenizedText]:
        """Tokens of a text without special tokens, in pieces."""
        cuts = [begin, *sorted({at for at in borders if begin < at < end}), end]
        for first, last in pairwise(cuts):
            yield self._encode_piece(text, first, last)

    def _encode_piece(self, text: str, begin: int, end: int) -> TokenizedText:
        """Tokens of a piece, which unless it begins the text is after another token."""
        front = _BEHIND if begin else ""
        encoding = self._plain_tokenizer.encode(front + text[begin:end], add_special_tokens=False)
        tokens = self._to_tokens(encoding, begin - len(front))
        ids, spans = tokens.ids[len(front) :], tokens.spans[len(front) :]
        return TokenizedText(ids, spans, np.zeros(len(ids), bool))


def _keep_blanks(tokenizer: Tokenizer) -> None:
    """Let the places of tokens have the white space in them, which some tokenizers leave out."""
    processor = tokenizer.post_processor
    if processor is None:
        return
    state = processor.__getstate__()  # JSON, as in tokenizer.json
    changed = re.sub(rb'"trim_offsets"\s*:\s*true', b'"trim_offsets":false', state)
    if changed != state:
        processor.__setstate__(changed)
        tokenizer.post_processor = processor

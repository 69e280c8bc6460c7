"""Text to ids: the demo's word-level tokenizer, a byte-level one, or any tokenizer.json."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

from data.config import ChatConfig
from data.sample import DataError
from data.text.pieces import token_texts

DEMO_CHAT = ChatConfig(
    system="<system>", user="<user>", assistant="<assistant>", end="<end>", separator=""
)
_LOOK = "which digits do you see read both images the number what is written here in image"
_HEAR = "hear transcribe clip listen and write down does speaker say"
DEMO_WORDS = (*"0123456789", "?", ",", *f"{_LOOK} {_HEAR}".split())


def _demo_tokenizer() -> Tokenizer:
    words = list(dict.fromkeys(("<pad>", "<unk>", *DEMO_WORDS)))
    model = models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>")
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.Split(
        Regex(r"\d|[A-Za-z]+|\S"), "removed", invert=True
    )
    tokenizer.add_special_tokens([AddedToken(t, special=True) for t in ("<pad>", "<unk>")])
    return tokenizer


def _byte_tokenizer() -> Tokenizer:
    # The 256 printable stand-ins of byte-level BPE, without a single merge.
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    model = models.BPE({c: i for i, c in enumerate(alphabet)}, merges=[])
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


#: Tokenizers that need no file, by the values of `data.tokenizer`.
BUILT_IN = {"demo": _demo_tokenizer, "bytes": _byte_tokenizer}


def _from_file(path: Path) -> Tokenizer:
    if not path.is_file():
        raise DataError(f'data.tokenizer: {path} is not a file; valid: "demo", "bytes", a path')
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # the Rust binding raises plain Exception
        raise DataError(f"data.tokenizer: {path} is not a tokenizer.json: {error}") from error


class ChatTokenizer:
    """A tokenizer with its chat template and media placeholders.

    Template: `<user>text<end><assistant>answer<end>`; only answers and their `end` are learnt.
    Text of a data set never yields a special token: `<end>` inside an answer is plain characters.
    """

    def __init__(self, kind: str, chat: ChatConfig | None, placeholders: tuple[str, ...]) -> None:
        self._arguments = (kind, chat, placeholders)
        builtin = kind in BUILT_IN
        self.chat = chat or (DEMO_CHAT if builtin else ChatConfig())
        self._tokenizer = BUILT_IN[kind]() if builtin else _from_file(Path(kind))
        marks = (*placeholders, *(self._template_marks() if builtin else ()))
        self._tokenizer.add_special_tokens([AddedToken(t, special=True) for t in marks])
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self.placeholder_ids = {text: self._single_token(text) for text in placeholders}
        self.end_id = self._single_token(self.chat.end)
        self._template = self._encode_template()
        # From here on the text of samples is plain text, even if it spells a special token.
        self._tokenizer.encode_special_tokens = True
        self.encode = lru_cache(maxsize=65536)(self._encode_text)

    def _template_marks(self) -> tuple[str, ...]:
        chat = self.chat
        return tuple(t for t in (chat.system, chat.user, chat.assistant, chat.end) if t)

    def _single_token(self, text: str) -> int:
        ids = self._encode_text(text)
        if len(ids) != 1:
            raise DataError(
                f"data.chat: {text!r} must be one token of the tokenizer, but is {len(ids)} "
                "tokens; set data.chat.end (or the placeholder) to one of its special tokens"
            )
        return ids[0]

    def _encode_template(self) -> dict[str, tuple[int, ...]]:
        names = ("system", "user", "assistant", "separator")
        return {name: self._encode_text(getattr(self.chat, name)) for name in names}

    def _encode_text(self, text: str) -> tuple[int, ...]:
        return tuple(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def __reduce__(self) -> tuple[type[ChatTokenizer], tuple[object, ...]]:
        # A worker process builds its own: neither the cache nor the Rust object is pickled.
        return ChatTokenizer, self._arguments

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the tokenizer and the chat template."""
        contents = self._tokenizer.to_str() + self.chat.model_dump_json()
        return hashlib.sha256(contents.encode()).hexdigest()

    @property
    def vocab_size(self) -> int:
        """The largest id plus one, added special tokens included."""
        return 1 + max(self._tokenizer.get_vocab(with_added_tokens=True).values())

    def template_ids(self, name: str) -> tuple[int, ...]:
        """Ids of the template part `system`, `user`, `assistant` or `separator`."""
        return self._template[name]

    def decode(self, ids: list[int]) -> str:
        """Text of `ids` without special tokens."""
        return str(self._tokenizer.decode(ids, skip_special_tokens=True)).strip()

    def token_texts(self, ids: Sequence[int]) -> list[str]:
        """The text that each token adds."""
        return token_texts(self._tokenizer, ids)

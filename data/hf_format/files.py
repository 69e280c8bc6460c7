"""The files of a released processor's folder: JSON and text, typed and checked, nothing run.

    tokenizer.json, tokenizer_config.json, special_tokens_map.json, added_tokens.json
    chat_template.jinja, or chat_template.json, or in processor_config.json or tokenizer_config.json
    generation_config.json, of which only the tokens count that end an answer

`data.hf_format.media` reads how media are processed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from data.config import DataConfig
from data.hf_format.media import (
    PREPROCESSOR,
    PROCESSOR,
    VIDEOS,
    MediaReader,
    ReleasedMedia,
    ReleasedProcessors,
)
from data.hf_format.typed import TYPED, T, parse_settings, stated_values
from data.rows.spec import Kind, MediaRowSpec
from data.sample import DataError

#: May name more tokens which end an answer than the tokenizer does.
GENERATION = "generation_config.json"
#: Files of a tokenizer and of its conversations.
TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "chat_template.json",
)
_NAMES = (*TOKENIZER_FILES, PROCESSOR, PREPROCESSOR, VIDEOS)


class _File(BaseModel):
    model_config = TYPED


class AddedToken(_File):
    """A token as tokenizer_config.json writes it."""

    content: str
    single_word: bool = False
    lstrip: bool = False
    rstrip: bool = False
    normalized: bool = False
    special: bool = True

    @property
    def flags(self) -> dict[str, bool]:
        """All fields but the content."""
        return self.model_dump(exclude={"content"})


class _NamedTemplate(_File):
    name: str
    template: str


class TokenizerSettings(_File):
    """tokenizer_config.json; special tokens by name are in `tokens`.

    What added_tokens.json says is in `added_tokens`, if `added_tokens_decoder` is not there.
    """

    tokens: dict[str, AddedToken] = {}
    extra: tuple[AddedToken, ...] = ()
    added_tokens_decoder: dict[int, AddedToken] = {}
    added_tokens: dict[str, int] = {}
    add_bos_token: bool | None = None
    add_eos_token: bool | None = None
    chat_template: str | list[_NamedTemplate] | None = None
    processor_class: str | None = None


class _ProcessorSettings(_File):
    processor_class: str | None = None
    chat_template: str | None = None


class _TemplateFile(_File):
    chat_template: str


@dataclass(frozen=True)
class ReleasedFiles:
    """A processor's folder.

    Attributes:
        folder: path of the folder.
        tokenizer: tokenizer.json.
        settings: settings of the tokenizer.
        template: template of conversations.
        multimodal: whether the folder holds more than a tokenizer.
        placeholders: the special tokens that the files name, by what they stand for: `image` for
            `image_token`, and so for every kind of media that has one.
        media: media by kind, of which the files say how they are processed.
        stops: ids of tokens at which generation stops by the release's own word.
        fingerprint: fingerprint of all files that decide tokens and media.
        released: classes of processors that the files were read with.
    """

    folder: Path
    tokenizer: bytes
    settings: TokenizerSettings
    template: str
    multimodal: bool
    placeholders: Mapping[Kind, str]
    media: Mapping[Kind, ReleasedMedia]
    stops: tuple[int, ...]
    fingerprint: str
    released: ReleasedProcessors

    def __reduce__(self) -> tuple[object, ...]:
        # A worker process reads the folder itself.
        return read_folder, (self.folder, self.released)

    def make_reader(self, config: DataConfig, spec: MediaRowSpec) -> Any:
        """The reader of media for one encoder; None if the folder does not describe them.

        Raises:
            DataError: as of `MediaSettings.make_reader`.
        """
        if spec.kind not in self.media:
            return None
        recipes = {kind: media.recipe for kind, media in self.media.items()}
        return self.media[spec.kind].settings.make_reader(recipes, config, spec)


def read_folder(folder: Path, released: ReleasedProcessors) -> ReleasedFiles:
    """Read a processor's folder.

    Args:
        released: classes of processors.

    Raises:
        DataError: a file is missing, unreadable or holds what is not supported; the message says
            which, why and what would be valid.
    """
    files = _read_texts(folder)
    contents = {
        name: _parse_object(folder / name, text)
        for name, text in files.items()
        if name.endswith(".json") and name != "tokenizer.json"
    }
    return _FolderReader(folder, files, contents, released).read_files()


def fingerprint_folder(folder: Path) -> str:
    """Fingerprint of all files of a folder that decide tokens and media.

    Raises:
        DataError: the folder or a file cannot be read.
    """
    return _fingerprint(_read_texts(folder))


def _fingerprint(files: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256()
    for name, text in files.items():
        digest.update(f"{name} {len(text)} ".encode() + text)
    return digest.hexdigest()


def _read_texts(folder: Path) -> dict[str, bytes]:
    if not folder.is_dir():
        raise DataError(f"data.processor: {folder} is not a folder")
    files = {name: _read_bytes(folder / name) for name in _NAMES if (folder / name).is_file()}
    if "tokenizer.json" not in files:
        raise DataError(f"data.processor: {folder} has no tokenizer.json")
    return files


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"data.processor: cannot read {path}: {error.strerror}") from error


def _parse_object(path: Path, text: bytes) -> dict[str, Any]:
    """A JSON object as `stated_values` gives it."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"data.processor: {path} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise DataError(f"data.processor: {path} holds a {type(value).__name__}, not an object")
    return stated_values(value)


class _FolderReader:
    """Reads parsed files into types."""

    def __init__(
        self,
        folder: Path,
        files: Mapping[str, bytes],
        contents: Mapping[str, dict[str, Any]],
        released: ReleasedProcessors,
    ) -> None:
        self._folder, self._files, self._contents = folder, files, contents
        self._released = released
        self._processor = self._parse_as(_ProcessorSettings, PROCESSOR)
        self._tokenizer = self._tokenizer_settings()

    def read_files(self) -> ReleasedFiles:
        return ReleasedFiles(
            self._folder,
            self._files["tokenizer.json"],
            self._tokenizer,
            self._chat_template(),
            not {PROCESSOR, PREPROCESSOR}.isdisjoint(self._files),
            self._placeholder_tokens(),
            MediaReader(self._folder, self._contents, self._released).read_media(),
            _stop_tokens(self._folder / GENERATION),
            _fingerprint(self._files),
            self._released,
        )

    def _parse_as(self, kind: type[T], name: str) -> T:
        """The contents of the file `name` as `kind`."""
        return parse_settings(kind, self._folder / name, self._contents.get(name, {}))

    # ---- text ------------------------------------------------------------------------------------

    def _tokenizer_settings(self) -> TokenizerSettings:
        name = "tokenizer_config.json"
        both = self._contents.get("special_tokens_map.json", {}) | self._contents.get(name, {})
        listed = self._token_list("additional_special_tokens", both)
        extra = both.get("extra_special_tokens", {})
        tokens = {k: v for k, v in both.items() if k.endswith("_token") and not _is_flag(v)}
        if isinstance(extra, dict):
            tokens |= extra
        else:
            listed += self._token_list("extra_special_tokens", both)
        typed_fields = {
            "tokens": {k: _as_token(v) for k, v in tokens.items() if v is not None},
            "extra": [_as_token(value) for value in listed],
            "added_tokens": {},
        }
        if "added_tokens_decoder" not in both:
            typed_fields["added_tokens"] = self._contents.get("added_tokens.json", {})
        return parse_settings(TokenizerSettings, self._folder / name, both | typed_fields)

    def _token_list(self, key: str, values: Mapping[str, Any]) -> list[Any]:
        """The tokens under `key`."""
        tokens = values.get(key, [])
        if not isinstance(tokens, list):
            raise DataError(
                f"data.processor: {self._folder}: {key} {tokens!r:.80} of the tokenizer; valid: a "
                "list of tokens"
            )
        return [*tokens]

    def _chat_template(self) -> str:
        """The first existing template; among several in one file, the one named `default`."""
        if self._processor.chat_template is not None:
            return str(self._processor.chat_template)
        if "chat_template.json" in self._contents:
            return self._parse_as(_TemplateFile, "chat_template.json").chat_template
        if "chat_template.jinja" in self._files:
            return self._decode_file("chat_template.jinja")
        template = self._tokenizer.chat_template
        if isinstance(template, str):
            return template
        named = {each.name: each.template for each in template or ()}
        if "default" not in named:
            has = f"none named default, but {', '.join(named)}" if named else "none"
            raise DataError(
                f"data.processor: {self._folder} has no chat template; valid: chat_template.jinja, "
                f"chat_template.json, or chat_template in tokenizer_config.json; there is {has}"
            )
        return named["default"]

    def _decode_file(self, name: str) -> str:
        try:
            return self._files[name].decode()
        except UnicodeDecodeError as error:
            raise DataError(f"data.processor: {self._folder / name} is not UTF-8") from error

    def _placeholder_tokens(self) -> dict[Kind, str]:
        """Tokens by the part of their names before `_token`; those of the tokenizer come first."""
        processor = self._contents.get(PROCESSOR, {})
        tokens = {
            k: v for k, v in processor.items() if k.endswith("_token") and v and not _is_flag(v)
        }
        for name, value in tokens.items():
            if not isinstance(value, str):
                raise DataError(
                    f"data.processor: {self._folder / PROCESSOR}: {name}: Input should be a valid "
                    f"string, got {value!r:.80}"
                )
        tokens |= {name: token.content for name, token in self._tokenizer.tokens.items()}
        named = {k.removesuffix("_token"): v for k, v in tokens.items() if k.endswith("_token")}
        return {**self._released.placeholders.get(self._class_name or "", {}), **named}

    @property
    def _class_name(self) -> str | None:
        """Class of the processor."""
        for name in (PROCESSOR, PREPROCESSOR, "tokenizer_config.json"):
            class_name = self._contents.get(name, {}).get("processor_class")
            if isinstance(class_name, str):
                return class_name
        return None


def _stop_tokens(path: Path) -> tuple[int, ...]:
    """Tokens that end an answer by generation_config.json. Raises DataError."""
    value = _parse_object(path, _read_bytes(path)).get("eos_token_id") if path.is_file() else None
    stops = value if isinstance(value, list) else [] if value is None else [value]
    if not all(type(stop) is int and stop >= 0 for stop in stops):
        raise DataError(
            f"data.processor: {path}: eos_token_id: {value!r:.80} is no token, nor a list of tokens"
        )
    return tuple(stops)


def _is_flag(value: object) -> bool:
    """Whether a key that ends in `_token` is one such as add_bos_token."""
    return isinstance(value, bool)


def _as_token(value: object) -> object:
    return {"content": value} if isinstance(value, str) else value

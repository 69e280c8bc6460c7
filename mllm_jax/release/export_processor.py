"""The processor of an exported model: tokenizer, placeholders, and how media are made."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer

from data.config import AnswersBegin
from data.hf_format.chat import ReleasedChat
from data.hf_format.files import GENERATION, ReleasedFiles, read_folder
from data.hf_format.media import PREPROCESSOR, VIDEOS
from data.hf_format.tokens import ReleasedTokenizer
from data.processing.configured_chat import TODAY
from mllm_jax.families.processors import released_processors
from mllm_jax.hf_format.files import PretrainedError

TOKENIZER, SETTINGS = "tokenizer.json", "tokenizer_config.json"
PROCESSOR = "processor_config.json"
TEMPLATE, OLD_TEMPLATE = "chat_template.jinja", "chat_template.json"
#: Files of texts, and of whole processors.
TEXTS = (
    *(TOKENIZER, SETTINGS, "special_tokens_map.json", "added_tokens.json"),
    *("vocab.json", "merges.txt", TEMPLATE, OLD_TEMPLATE),
)
#: Files of these that say nothing but what tokenizer.json says.
REPEATED = ("vocab.json", "merges.txt")
FILES = (*TEXTS, PREPROCESSOR, VIDEOS, PROCESSOR)
#: Tokens that end, begin and pad a text, by their keys in `config.json` and in the tokenizer.
ENDS = {f"{name}_token_id": f"{name}_token" for name in ("bos", "eos", "pad")}


@dataclass(frozen=True)
class TrainedProcessor:
    """The processor that a run was trained with.

    Attributes:
        files: files of the folder `data.processor`.
        placeholders: by kind of medium, its placeholder in the texts of samples.
        begin: where answers begin in training.
    """

    files: ReleasedFiles
    placeholders: Mapping[str, str]
    begin: AnswersBegin = "text"

    @classmethod
    def from_config(cls, data: Mapping[str, Any]) -> TrainedProcessor | None:
        """The processor of the section `data`; None if its tokenizer is no released one.

        Raises:
            DataError: the folder cannot be read.
        """
        if data.get("processor") is None:
            return None
        marks = {
            kind: section["placeholder"]
            for kind, section in data.items()
            if isinstance(section, Mapping) and "placeholder" in section
        }
        begin = data.get("answers_begin", "text")
        return cls(read_folder(Path(data["processor"]), released_processors()), marks, begin)

    @property
    def folder(self) -> Path:
        """The folder of the processor."""
        return self.files.folder

    @cached_property
    def chat(self) -> ReleasedChat:
        """Tokenizer and chat template, for texts alone."""
        return ReleasedChat(self.files, {}, TODAY, self.begin)

    def template_files(self, written: Mapping[str, Path | str]) -> dict[str, str]:
        """Files with the template by which others ask as this training did, if `written` has
        another.

        Args:
            written: the files that are written, or where they are copied from.

        Raises:
            DataError: there is no such template.
        """
        other = self.chat.template_for_others()
        where = {name: self._read_json(name) for name in (SETTINGS, PROCESSOR)}
        lost = "chat_template" in where[PROCESSOR] and PROCESSOR not in written
        if other is None and not lost:
            return {}
        files = {TEMPLATE: other or self.files.template}
        for name, values in where.items():
            if "chat_template" in values and name in written:
                source = written[name]
                text = source.read_text(encoding="utf-8") if isinstance(source, Path) else source
                files[name] = without_template(text)
        return files

    def placeholder(self, kind: str) -> str:
        """The placeholder of a kind of media."""
        return self.files.placeholders.get(kind, self.placeholders[kind])

    def id_of(self, kind: str, vocab: int) -> int:
        """The id of the placeholder; one that the tokenizer lacks gets the next that is free.

        Raises:
            PretrainedError: no token is among the `vocab` ids that the decoder knows.
        """
        token = self.placeholder(kind)
        number = ReleasedTokenizer(self.files, [token]).id_of(token)
        if number is None or number >= vocab:
            raise PretrainedError(
                f"{self.folder / TOKENIZER} has no special token {token!r}, at which an {kind} "
                f"is merged, and the model's vocab {vocab} has no room for a new token; write "
                f'"{kind}_token": "TOKEN" into {SETTINGS}, where TOKEN is a special token of the '
                "tokenizer that no text has"
            )
        return number

    @cached_property
    def end_ids(self) -> dict[str, int]:
        """Ids of the tokenizer's `ENDS`."""
        tokenizer = ReleasedTokenizer(self.files)
        named = {key: tokenizer.tokens.get(name) for key, name in ENDS.items()}
        numbers = {key: tokenizer.id_of(token) for key, token in named.items() if token}
        return {key: number for key, number in numbers.items() if number is not None}

    def check_media(self, kind: str) -> None:
        """Check that the folder says how media are made.

        Raises:
            PretrainedError: the folder does not say how.
        """
        if kind not in self.files.media:
            raise PretrainedError(
                f"data.processor: {self.folder} has no {PREPROCESSOR} for what the run took in by "
                f"data.{kind}; put that of the encoder's release there, or export parts (--part)"
            )

    def generated_files(self, values: Mapping[str, Any], kinds: Sequence[str]) -> dict[str, str]:
        """Files that are not copied.

        Args:
            values: contents of processor_config.json, without placeholders.
            kinds: kinds of media.
        """
        tokens = {kind: self.placeholder(kind) for kind in kinds}
        placeholders = {f"{kind}_token": token for kind, token in tokens.items()}
        files = {PROCESSOR: _json_text(self._read_json(PROCESSOR) | dict(values) | placeholders)}
        if preprocessor := self._read_json(PREPROCESSOR):
            files[PREPROCESSOR] = _json_text(
                preprocessor | {"processor_class": values["processor_class"]}
            )
        return files | {TOKENIZER: self._tokenizer_with([*tokens.values()])}

    def _read_json(self, name: str) -> dict[str, Any]:
        path = self.folder / name
        values: dict[str, Any] = json.loads(path.read_bytes()) if path.is_file() else {}
        return values

    def _tokenizer_with(self, added: list[str]) -> str:
        """tokenizer.json with more tokens, after those of its configuration as in training."""
        text = self.files.tokenizer.decode()
        tokenizer, settings = Tokenizer.from_str(text), self.files.settings
        if all(tokenizer.token_to_id(token) is not None for token in added):
            return text
        added_tokens = [token for _, token in sorted(settings.added_tokens_decoder.items())]
        named = [*settings.tokens.values(), *settings.extra]
        tokenizer.add_tokens([AddedToken(token.content, **token.flags) for token in added_tokens])
        tokenizer.add_special_tokens(
            [AddedToken(token.content, **token.flags | {"special": True}) for token in named]
        )
        tokenizer.add_special_tokens([AddedToken(token, normalized=False) for token in added])
        return str(tokenizer.to_str(pretty=True))


def release_ends(folder: Path, values: Mapping[str, Any]) -> dict[str, Any]:
    """`ENDS` as a release says in `config.json`, of which `values` are, or how texts are made."""
    path = folder / GENERATION
    generation = json.loads(path.read_bytes()) if path.is_file() else {}
    end_ids: dict[str, Any] = {}
    for stated in (generation, values, values.get("text_config") or {}):
        for key in ENDS:
            if stated.get(key) is not None:
                end_ids.setdefault(key, stated[key])
    return end_ids


def without_template(text: str) -> str:
    """A configuration of a tokenizer or processor whose chat template lies in a file of its own."""
    values = json.loads(text)
    values.pop("chat_template", None)
    return _json_text(values)


def with_ends(values: Mapping[str, Any], ends: Sequence[int]) -> dict[str, Any]:
    """A configuration in which more tokens end an answer, if it says any that do."""
    values_with_ends = dict(values)
    if values_with_ends.get("eos_token_id") is not None:
        values_with_ends["eos_token_id"] = join_ends(values_with_ends["eos_token_id"], ends)
    if isinstance(values_with_ends.get("text_config"), Mapping):
        values_with_ends["text_config"] = with_ends(values_with_ends["text_config"], ends)
    return values_with_ends


def join_ends(stated: Any, ends: Sequence[int]) -> Any:
    """The value of `eos_token_id` with more tokens; `stated` itself if it has them all."""
    stated_ids = stated if isinstance(stated, list) else [] if stated is None else [stated]
    more = [end for end in ends if end not in stated_ids]
    if not more:
        return stated
    return [*stated_ids, *more] if stated_ids or len(more) > 1 else more[0]


def _json_text(values: Mapping[str, Any]) -> str:
    return json.dumps(values, indent=2, ensure_ascii=False) + "\n"

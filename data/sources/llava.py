"""LLaVA-style conversations in a JSON or JSON Lines file, media in a folder.

    {"id": "7", "image": "a.png" or ["a.png", "b.png"], "audio": "c.wav" or [...],
     "conversations": [{"from": "human", "value": "<image>\\nWhat is this?"},
                       {"from": "gpt", "value": "A cat."}]}

`image` and `audio` may be absent; other keys are ignored. Media belong to the placeholders in
order. A malformed record is one unusable sample; a file that is no list of records is an error.
"""

from __future__ import annotations

import hashlib
import json
from functools import cached_property
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from data.config import DataConfig, LlavaSource
from data.sample import DataError, Role, Sample, SampleError, Turn
from data.sources import Split
from data.sources.files import AudioFile, ImageFile

_ROLES: dict[str, Role] = {"human": "user", "gpt": "assistant", "system": "system"}


class _Utterance(BaseModel):
    model_config = ConfigDict(strict=True)

    speaker: Literal["human", "gpt", "system"] = Field(alias="from")
    value: str


class _Record(BaseModel):
    model_config = ConfigDict(strict=True)

    image: str | list[str] = []
    audio: str | list[str] = []
    conversations: list[_Utterance] = Field(min_length=1)


class LlavaSet:
    """One split; see the module.

    Raises:
        DataError: no file for the split, an unreadable one, or one that is no list of records.
    """

    def __init__(self, config: DataConfig, split: Split) -> None:
        if not isinstance(config.source, LlavaSource):
            raise DataError(f"data.source is of kind {config.source.kind}, not llava")
        path = config.source.path if split == "train" else config.source.heldout
        if path is None:
            raise DataError(f"data.source has no file for the split {split!r}")
        self._arguments = (config, split)
        self._path = path
        self._root = config.source.media or path.parent
        if not self._root.is_dir():
            raise DataError(f"data.source.media: {self._root} is not a folder")
        self._max_pixels = config.image.max_pixels
        self._records = _read(path)

    def __reduce__(self) -> tuple[type[LlavaSet], tuple[DataConfig, Split]]:
        # A worker process reads the file itself.
        return LlavaSet, self._arguments

    def __len__(self) -> int:
        return len(self._records)

    @cached_property
    def fingerprint(self) -> str:
        """Of the records and of where their media are."""
        with self._path.open("rb") as file:
            records = hashlib.file_digest(file, "sha256").hexdigest()
        return f"{records} {self._root.resolve()}"

    @property
    def home(self) -> Path:
        """The folder of the records."""
        return self._path.parent

    def name(self, index: int) -> str:
        """`train.json[17]`."""
        return f"{self._path.name}[{index}]"

    def __getitem__(self, index: int) -> Sample:
        record = self._parse(index)
        images = [record.image] if isinstance(record.image, str) else record.image
        audios = [record.audio] if isinstance(record.audio, str) else record.audio
        return Sample(
            self.name(index),
            tuple(Turn(_ROLES[turn.speaker], turn.value) for turn in record.conversations),
            images=tuple(ImageFile(self._root, name, self._max_pixels) for name in images),
            audios=tuple(AudioFile(self._root, name) for name in audios),
        )

    def _parse(self, index: int) -> _Record:
        record = self._records[index]
        try:
            return _Record.model_validate(json.loads(record) if type(record) is str else record)
        except ValidationError as error:
            raise SampleError(self.name(index), _explain(error)) from error
        except json.JSONDecodeError as error:
            raise SampleError(self.name(index), f"not JSON: {error}") from error


def _explain(error: ValidationError) -> str:
    """`conversations.1.from: Input should be 'human', 'gpt' or 'system'` and so on."""
    first = error.errors(include_url=False, include_input=False)[0]
    key = ".".join(map(str, first["loc"]))
    return f"record of wrong shape: {key or 'record'}: {first['msg']}"


def _read(path: Path) -> list[object]:
    """Records of a JSON list, or unparsed lines of a JSON Lines file."""
    try:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".jsonl":
            return [line for line in text.splitlines() if line.strip()]
        records = json.loads(text)
    except (OSError, ValueError) as error:
        raise DataError(f"data.source: cannot read {path}: {error}") from error
    if not isinstance(records, list):
        raise DataError(f"{path} holds a {type(records).__name__}, not a list of records")
    return records

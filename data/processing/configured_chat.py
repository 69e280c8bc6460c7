"""Tokenizer and chat template as configured, which need no media: they size the vocabulary."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from data.config import DataConfig
from data.kinds.modality import Kind
from data.released.chat import ReleasedChat
from data.released.files import ReleasedFiles, read_folder
from data.text.chat import Chat, ConfiguredChat, marks_of

#: What chat templates are told is today, so that runs can be repeated; as Llama's own have it.
TODAY = date(2024, 7, 26)


def read_files(config: DataConfig) -> ReleasedFiles | None:
    """What is read of the folder `data.processor`. Raises DataError."""
    return None if config.processor is None else read_folder(config.processor)


def make_chat(config: DataConfig, kinds: Sequence[Kind], files: ReleasedFiles | None) -> Chat:
    """The configured tokenizer and chat template, for encoders of `kinds`. Raises DataError."""
    marks = marks_of(config)
    if files is None:
        return ConfiguredChat(config, marks)
    return ReleasedChat(files, {kind: marks[kind] for kind in kinds}, TODAY)

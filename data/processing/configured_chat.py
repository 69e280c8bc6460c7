"""The configured tokenizer and chat template, which need no media: they size the vocabulary."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from data.config import DataConfig, counts
from data.hf_format.chat import ReleasedChat
from data.hf_format.files import ReleasedFiles, read_folder
from data.hf_format.media import ReleasedProcessors
from data.rows.spec import Kind
from data.text.chat import ConfiguredChat, ConversationTokenizer, marks_of

#: Date that chat templates use as today's, so that runs can be repeated; Llama's own default.
TODAY = date(2024, 7, 26)


def read_files(config: DataConfig, released: ReleasedProcessors) -> ReleasedFiles | None:
    """The files of the folder `data.processor`, or None. Raises DataError."""
    return None if config.processor is None else read_folder(config.processor, released)


def make_chat(
    config: DataConfig, kinds: Sequence[Kind], files: ReleasedFiles | None
) -> ConversationTokenizer:
    """The configured tokenizer and chat template, for encoders of `kinds`. Raises DataError."""
    marks = marks_of(config)
    if files is None:
        return ConfiguredChat(config, {k: mark for k, mark in marks.items() if counts(k, kinds)})
    used = {kind: marks[kind] for kind in kinds}
    return ReleasedChat(files, used, TODAY, config.answers_begin, config.embeddings)

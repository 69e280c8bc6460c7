"""Conversations, their rendering and tokens, and which of the tokens an assistant answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from tests.parity.checkpoint import write_arrays, write_json
from tests.parity.texts import TextFiles

Message = dict[str, Any]
Chats = dict[str, list[Message]]

TEXT_CHATS: Chats = {
    "plain": [
        {"role": "system", "content": "You answer in one word."},
        {"role": "user", "content": "What is the cat doing at 12345?"},
        {"role": "assistant", "content": "Sleeping."},
    ],
    "turns": [
        {"role": "user", "content": "Naïve café, isn't it?"},
        {"role": "assistant", "content": "It is:\n\n  quite   so."},
        {"role": "user", "content": " And the café? "},
        {"role": "assistant", "content": "Also 東京, 42%!"},
    ],
}


def save_texts(folder: Path, files: TextFiles) -> PreTrainedTokenizerFast:
    """Write the tokenizer and the chat template; returns the tokenizer as transformers has it."""
    files.tokenizer().save(str(folder / "tokenizer.json"))
    write_json(folder / "tokenizer_config.json", files.config)
    (folder / "chat_template.jinja").write_text(files.template)
    config = {key: value for key, value in files.config.items() if key != "tokenizer_class"}
    return PreTrainedTokenizerFast(
        tokenizer_file=str(folder / "tokenizer.json"), chat_template=files.template, **config
    )


def save_text_chats(folder: Path, files: TextFiles) -> None:
    """Write tokenizer, template, `chats.json` and `processed.npz` of a text-only family."""
    tokenizer = save_texts(folder, files)
    arrays: dict[str, Any] = {}
    for name, messages in TEXT_CHATS.items():
        rendered, prompt = renderings(tokenizer, messages)
        arrays[f"{name}.input_ids"] = ids = tokenizer.encode(rendered, add_special_tokens=False)
        arrays[f"{name}.prompt_ids"] = tokenizer.encode(prompt, add_special_tokens=False)
        again = tokenizer.apply_chat_template(messages, return_dict=False)
        found, mask = answer_mask(tokenizer.backend_tokenizer, rendered, messages, files.begins)
        if not ids == again == found:
            raise ValueError(f"{folder.name} {name}: {ids} {again} {found}")
        arrays[f"{name}.answer_mask"] = mask
    write_chats(folder, tokenizer, TEXT_CHATS)
    write_arrays(folder / "processed.npz", arrays)


def renderings(tokenizer: Any, messages: list[Message]) -> tuple[str, str]:
    """The conversation, and without its last answer but with the prompt for it."""
    whole = tokenizer.apply_chat_template(messages, tokenize=False)
    prompt = tokenizer.apply_chat_template(
        messages[:-1], tokenize=False, add_generation_prompt=True
    )
    return whole, prompt


def write_chats(folder: Path, tokenizer: Any, chats: Chats) -> None:
    """`chats.json`: messages with their two renderings."""
    entries = {}
    for name, messages in chats.items():
        rendered, prompt = renderings(tokenizer, messages)
        entries[name] = {"messages": messages, "rendered": rendered, "prompt": prompt}
    write_json(folder / "chats.json", entries)


def answer_mask(
    tokenizer: Tokenizer, rendered: str, messages: list[Message], begins: bool
) -> tuple[list[int], np.ndarray]:
    """Tokens of a rendered conversation, and which are an assistant's.

    Those are the tokens of its text, stripped, and a special token right after them.
    """
    encoding = tokenizer.encode(rendered, add_special_tokens=begins)
    special = {number for number, token in tokenizer.get_added_tokens_decoder().items() if token}
    mask = np.zeros(len(encoding.ids), bool)
    for begin, end in _answers(rendered, messages):
        inside = [n for n, (a, b) in enumerate(encoding.offsets) if a < end and b > begin]
        mask[inside] = True
        after = inside[-1] + 1
        if after < len(mask) and encoding.ids[after] in special:
            mask[after] = True
    return encoding.ids, mask


def _answers(rendered: str, messages: list[Message]) -> list[tuple[int, int]]:
    """The places of the assistant's texts in the rendering, in characters."""
    spans, cursor = [], 0
    for message in messages:
        for text in _texts(message):
            begin = rendered.index(text, cursor)
            cursor = begin + len(text)
            if message["role"] == "assistant":
                spans.append((begin, cursor))
    return spans


def _texts(message: Message) -> list[str]:
    content = message["content"]
    if isinstance(content, str):
        return [content.strip()]
    return [part["text"].strip() for part in content if part["type"] == "text"]

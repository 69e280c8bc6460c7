"""Tiny tokenizers with the families' special tokens, and chat templates that say what theirs do."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

CORPUS = (
    "the cat sees the other cat in the window and the dog hears the sound of the rain",
    "what is shown in the image and what is heard in the audio clip",
    "you are a helpful assistant that answers what the user asks",
    "there are 12 trees, 345 birds and 6789 stars: isn't that what you're thinking?",
)
_WORDS = r"[^\r\n\p{L}\p{N}]?\p{L}+|"
_REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_CLITICS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|"
QWEN_SPLIT = _CLITICS + _WORDS + r"\p{N}" + _REST
LLAMA3_SPLIT = _CLITICS + _WORDS + r"\p{N}{1,3}" + _REST


@dataclass(frozen=True)
class TextFiles:
    """The text side of a checkpoint.

    Attributes:
        tokenizer: makes what `tokenizer.json` holds.
        config: `tokenizer_config.json`.
        template: `chat_template.jinja`.
        begins: whether tokenizing adds the first token; otherwise the template writes it.
    """

    tokenizer: Callable[[], Tokenizer]
    config: dict[str, Any]
    template: str
    begins: bool = False


def _special(tokenizer: Tokenizer, tokens: Sequence[str]) -> Tokenizer:
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in tokens])
    return tokenizer


def _byte_level(split: str) -> Tokenizer:
    """Byte-level BPE: 256 bytes, then 24 merges."""
    tokenizer = Tokenizer(models.BPE(ignore_merges=False))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(split), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(vocab_size=280, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer


def qwen_tokenizer(media: Sequence[str] = ()) -> Tokenizer:
    """A tokenizer like Qwen2's and Qwen2.5's: NFC, single digits, no token at the beginning."""
    tokenizer = _byte_level(QWEN_SPLIT)
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return _special(tokenizer, ("<|endoftext|>", "<|im_start|>", "<|im_end|>", *media))


def llama3_tokenizer() -> Tokenizer:
    """A tokenizer like Llama 3's: digits by threes, `<|begin_of_text|>` added in front."""
    begin = "<|begin_of_text|>"
    headers = ("<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>")
    tokenizer = _special(_byte_level(LLAMA3_SPLIT), (begin, "<|end_of_text|>", *headers))
    tokenizer.post_processor = processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=False),
            processors.TemplateProcessing(
                single=f"{begin} $A",
                pair=f"{begin} $A {begin}:1 $B:1",
                special_tokens=[(begin, tokenizer.token_to_id(begin))],
            ),
        ]
    )
    return tokenizer


def llama2_tokenizer() -> Tokenizer:
    """A tokenizer like Vicuna's: BPE over "▁" words, bytes for unknown text, `<s>` in front."""
    trained = Tokenizer(models.BPE())
    trained.normalizer = _spaces()
    trained.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
    trained.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=56, show_progress=False))
    first = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    learnt = sorted(trained.get_vocab(), key=trained.get_vocab().__getitem__)
    vocab = {token: number for number, token in enumerate([*first, *learnt])}
    tokenizer = Tokenizer(
        models.BPE(vocab, _merges(trained), unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    )
    tokenizer.normalizer = _spaces()
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", vocab["<s>"])]
    )
    return _special(tokenizer, ("<unk>", "<s>", "</s>", "<image>", "<pad>"))


def _spaces() -> normalizers.Normalizer:
    return normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])


def _merges(tokenizer: Tokenizer) -> list[tuple[str, str]]:
    return [(first, second) for first, second in json.loads(tokenizer.to_str())["model"]["merges"]]


# ---------------------------------------------------------------------------- chat templates

_QWEN = """\
{%- if messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- else %}
    {{- '<|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role not in ('system', 'user', 'assistant') %}
        {{- raise_exception('unknown role ' + message.role) }}
    {%- elif not (loop.first and message.role == 'system') %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""
_LLAMA3 = """\
{{- bos_token }}
{%- for message in messages %}
    {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' }}
    {{- message['content'] | trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""
# These two leave no white space only where blocks are trimmed, as they are in transformers.
_LLAVA = """\
{% for message in messages %}
    {% if message['role'] != 'system' %}
{{ message['role'].upper() + ': ' }}
    {%- endif %}
    {% for part in message['content'] | selectattr('type', 'equalto', 'image') %}
{{ '<image>\\n' }}
    {%- endfor %}
    {% for part in message['content'] | selectattr('type', 'equalto', 'text') %}
        {% if message['role'] == 'assistant' %}
            {% generation %}
{{ part['text'] + ' ' }}
            {%- endgeneration %}
        {% else %}
{{ part['text'] + ' ' }}
        {%- endif %}
    {% endfor %}
{% endfor %}
{% if add_generation_prompt %}
{{ 'ASSISTANT:' }}
{%- endif %}
"""
_ONEVISION = """\
{% for message in messages %}
{{ '<|im_start|>' + message['role'] + ' ' }}
    {%- for part in message['content'] | selectattr('type', 'equalto', 'image') %}
{{ '<image>' }}
    {%- endfor %}
    {% for part in message['content'] | selectattr('type', 'equalto', 'text') %}
        {% if message['role'] == 'assistant' %}
            {% generation %}
{{ '\\n' + part['text'] }}
            {%- endgeneration %}
        {% else %}
{{ '\\n' + part['text'] }}
        {%- endif %}
    {% endfor %}
{{ '<|im_end|>' }}
{%- endfor %}
{% if add_generation_prompt %}
{{ '<|im_start|>assistant\\n' }}
{%- endif %}
"""
_QWEN2_AUDIO = """\
{%- set clips = namespace(count=0) %}
{%- for message in messages %}
    {%- if loop.first and message['role'] != 'system' %}
        {{- '<|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n' }}
    {%- endif %}
    {{- '<|im_start|>' + message['role'] + '\\n' }}
    {%- if message['content'] is string %}
        {{- message['content'] }}
    {%- else %}
        {%- for part in message['content'] %}
            {%- if part['type'] == 'audio' %}
                {%- set clips.count = clips.count + 1 %}
                {{- 'Audio %d: <|audio_bos|><|AUDIO|><|audio_eos|>\\n' % clips.count }}
            {%- else %}
                {{- part['text'] }}
            {%- endif %}
        {%- endfor %}
    {%- endif %}
    {{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""

# ---------------------------------------------------------------------------- families

_QWEN_CONFIG = {
    "bos_token": None,
    "eos_token": "<|im_end|>",
    "model_max_length": 32768,
    "pad_token": "<|endoftext|>",
    "tokenizer_class": "Qwen2Tokenizer",
    "unk_token": None,
}
QWEN_TEXT = TextFiles(qwen_tokenizer, _QWEN_CONFIG, _QWEN)
ONEVISION_TEXT = TextFiles(lambda: qwen_tokenizer(("<image>", "<video>")), _QWEN_CONFIG, _ONEVISION)
QWEN2_AUDIO_TEXT = TextFiles(
    lambda: qwen_tokenizer(("<|AUDIO|>", "<|audio_bos|>", "<|audio_eos|>")),
    {**_QWEN_CONFIG, "eos_token": "<|endoftext|>"},
    _QWEN2_AUDIO,
)
LLAMA3_TEXT = TextFiles(
    llama3_tokenizer,
    {
        "bos_token": "<|begin_of_text|>",
        "eos_token": "<|eot_id|>",
        "model_max_length": 131072,
        "tokenizer_class": "PreTrainedTokenizerFast",
    },
    _LLAMA3,
)
LLAVA_TEXT = TextFiles(
    llama2_tokenizer,
    {
        "add_bos_token": True,
        "add_eos_token": False,
        "bos_token": "<s>",
        "eos_token": "</s>",
        "legacy": False,
        "model_max_length": 4096,
        "pad_token": "<pad>",
        "padding_side": "left",
        "tokenizer_class": "LlamaTokenizer",
        "unk_token": "<unk>",
    },
    _LLAVA,
    begins=True,
)

"""Qwen2-Audio: Whisper's encoder with an average over pairs, one linear layer, Qwen2."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import (
    Qwen2AudioForConditionalGeneration,
    Qwen2AudioProcessor,
    WhisperFeatureExtractor,
)

from tests.parity.audio import EXTRACTOR
from tests.parity.checkpoint import Checkpoint
from tests.parity.media import RATE, clip, wave
from tests.parity.multimodal import Multimodal, answers, asks
from tests.parity.texts import QWEN2_AUDIO_TEXT

CONFIG = {
    "architectures": ["Qwen2AudioForConditionalGeneration"],
    "audio_config": {
        "activation_function": "gelu",
        "d_model": 32,
        "encoder_attention_heads": 4,
        "encoder_ffn_dim": 32,
        "encoder_layerdrop": 0.0,
        "encoder_layers": 2,
        "max_source_positions": 50,
        "model_type": "qwen2_audio_encoder",
        "num_mel_bins": 16,
        "scale_embedding": False,
    },
    "audio_token_index": 283,
    "ignore_index": -100,
    "model_type": "qwen2_audio",
    "text_config": {
        "bos_token_id": 280,
        "eos_token_id": 282,
        "hidden_size": 32,
        "intermediate_size": 64,
        "max_position_embeddings": 2048,
        "model_type": "qwen2",
        "num_attention_heads": 4,
        "num_hidden_layers": 2,
        "num_key_value_heads": 4,
        "rms_norm_eps": 1e-05,
        "rope_theta": 10000,
        "sliding_window": 2048,
        "torch_dtype": "bfloat16",
        "use_mrope": False,
        "vocab_size": 288,
    },
    "torch_dtype": "bfloat16",
    "transformers_version": "4.45.0.dev0",
    "vocab_size": 288,
}
PREPROCESSOR = {
    **EXTRACTOR,
    "processor_class": "Qwen2AudioProcessor",
    "return_attention_mask": True,
}


def _hear(name: str) -> dict[str, str]:
    return {"type": "audio", "audio": name}


CHATS = {
    "one": [asks(_hear("odd"), text="What do you hear?"), answers("Rain.")],
    "two": [
        {"role": "system", "content": "Listen."},
        asks(_hear("long"), _hear("even"), text="The same?"),
        answers("No, 2 sounds."),
        asks(_hear("blip"), text="And now?"),
        answers("A dog."),
    ],
    "text": [asks(text="What are stars?"), answers("Other suns.")],
}
_DECODER = "language_model.model."


def _processor(folder: Path, tokenizer: Any) -> Qwen2AudioProcessor:
    extractor = WhisperFeatureExtractor.from_pretrained(folder)
    return Qwen2AudioProcessor(extractor, tokenizer, chat_template=tokenizer.chat_template)


def _call(media: list[list[str]]) -> dict[str, Any]:
    clips = [wave(clip(name)) for names in media for name in names]
    return {"audio": clips, "sampling_rate": RATE}


QWEN2_AUDIO = Multimodal(
    checkpoint=Checkpoint(
        "qwen2_audio", Qwen2AudioForConditionalGeneration, CONFIG, torch.bfloat16
    ),
    texts=QWEN2_AUDIO_TEXT,
    files={"preprocessor_config.json": PREPROCESSOR},
    processor=_processor,
    call=_call,
    placeholder="<|AUDIO|>",
    chats=CHATS,
    gradients=(
        "audio_tower.conv1.weight",
        "audio_tower.layer_norm.weight",
        *(f"audio_tower.layers.0.self_attn.{name}_proj.weight" for name in "qkv"),
        f"{_DECODER}layers.0.self_attn.k_proj.weight",
        "multi_modal_projector.linear.weight",
    ),
)

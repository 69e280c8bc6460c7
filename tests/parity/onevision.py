"""LLaVA-OneVision: SigLIP over tiles of any resolution, two linear layers, Qwen2."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import (
    LlavaOnevisionForConditionalGeneration,
    LlavaOnevisionImageProcessorPil,
    LlavaOnevisionProcessor,
)

from tests.parity.checkpoint import Checkpoint
from tests.parity.media import image
from tests.parity.multimodal import Multimodal, answers, asks
from tests.parity.texts import ONEVISION_TEXT
from tests.parity.vision import SIGLIP_PROCESSOR

#: Height and width in pixels of what an image is resized into; released up to 6 x 6 tiles of 384.
PINPOINTS = [[18, 18], [18, 36], [18, 54], [36, 18], [36, 36], [54, 18]]
CONFIG = {
    "architectures": ["LlavaOnevisionForConditionalGeneration"],
    "ignore_index": -100,
    "image_grid_pinpoints": PINPOINTS,
    "image_token_index": 283,
    "model_type": "llava_onevision",
    "projector_hidden_act": "gelu",
    "text_config": {
        "architectures": ["Qwen2ForCausalLM"],
        "attention_dropout": 0.0,
        "bos_token_id": 280,
        "eos_token_id": 282,
        "hidden_act": "silu",
        "hidden_size": 32,
        "initializer_range": 0.02,
        "intermediate_size": 64,
        "max_position_embeddings": 2048,
        "max_window_layers": 24,
        "model_type": "qwen2",
        "num_attention_heads": 4,
        "num_hidden_layers": 2,
        "num_key_value_heads": 2,
        "rms_norm_eps": 1e-06,
        "rope_theta": 1000000.0,
        "sliding_window": 2048,
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
        "use_cache": True,
        "use_sliding_window": False,
        "vocab_size": 288,
    },
    "tie_word_embeddings": False,
    "torch_dtype": "float16",
    "transformers_version": "4.45.0.dev0",
    "use_image_newline_parameter": True,
    "video_token_index": 284,
    "vision_aspect_ratio": "anyres_max_2",
    "vision_config": {
        "hidden_size": 32,
        "image_size": 18,
        "intermediate_size": 64,
        "model_type": "siglip_vision_model",
        "num_attention_heads": 4,
        "num_hidden_layers": 2,
        "patch_size": 4,
        "vision_use_head": False,
    },
    "vision_feature_layer": -1,
    "vision_feature_select_strategy": "full",
}
PREPROCESSOR = {
    **SIGLIP_PROCESSOR,
    "do_convert_rgb": True,
    "do_pad": True,
    "image_grid_pinpoints": PINPOINTS,
    "image_processor_type": "LlavaOnevisionImageProcessor",
    "processor_class": "LlavaOnevisionProcessor",
}
PROCESSOR = {
    "image_token": "<image>",
    "num_image_tokens": 16,
    "processor_class": "LlavaOnevisionProcessor",
    "video_token": "<video>",
    "vision_aspect_ratio": "anyres_max_2",
    "vision_feature_select_strategy": "full",
}
_ASKED = {
    "wide": ("What is it?", "A cat."),
    "large": ("And this?", "The other one."),
    "tall": ("What else?", "Rain."),
    "tiny": ("So small?", "Yes."),
}
CHATS = {
    **{
        name: [asks({"type": "image", "image": name}, text=question), answers(answer)]
        for name, (question, answer) in _ASKED.items()
    },
    "two": [
        asks(
            {"type": "image", "image": "square"},
            {"type": "image", "image": "wide"},
            text="Which one shows rain?",
        ),
        answers("The first."),
        asks(text="And the dog?"),
        answers("Neither 1 nor 2."),
    ],
    "text": [asks(text="What are stars?"), answers("Other suns.")],
}
_DECODER = "language_model.model."
_VISION = "vision_tower.vision_model."


class _Processor(LlavaOnevisionProcessor):
    """Without a processor of videos, which would need torchvision."""

    def check_argument_for_proper_class(self, argument_name: str, argument: Any) -> None:
        """Let the missing part pass."""
        if argument is not None:
            super().check_argument_for_proper_class(argument_name, argument)


def processor_of(folder: Path, tokenizer: Any) -> LlavaOnevisionProcessor:
    """The processor of a folder, for texts and images."""
    images = LlavaOnevisionImageProcessorPil.from_pretrained(folder)
    options = {key: value for key, value in PROCESSOR.items() if key != "processor_class"}
    template = tokenizer.chat_template
    return _Processor(images, tokenizer, None, chat_template=template, **options)


ONEVISION = Multimodal(
    checkpoint=Checkpoint(
        "llava_onevision",
        LlavaOnevisionForConditionalGeneration,
        CONFIG,
        torch.float16,
        renames=((r"^vision_tower\.", _VISION),),
    ),
    texts=ONEVISION_TEXT,
    files={"preprocessor_config.json": PREPROCESSOR, "processor_config.json": PROCESSOR},
    processor=processor_of,
    call=lambda media: {"images": [[image(name) for name in names] for names in media]},
    placeholder="<image>",
    chats=CHATS,
    gradients=(
        "image_newline",
        f"{_DECODER}embed_tokens.weight",
        f"{_DECODER}norm.weight",
        *(f"{_DECODER}layers.0.self_attn.{name}_proj.weight" for name in "qkv"),
        f"{_VISION}embeddings.position_embedding.weight",
        *(f"{_VISION}encoder.layers.0.self_attn.{name}_proj.weight" for name in "qk"),
        "multi_modal_projector.linear_1.weight",
        "multi_modal_projector.linear_2.bias",
    ),
)

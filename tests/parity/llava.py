"""LLaVA-1.5: CLIP, two linear layers, Vicuna."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import CLIPImageProcessorPil, LlavaForConditionalGeneration, LlavaProcessor

from tests.parity.checkpoint import ROOT, Checkpoint, write_arrays
from tests.parity.language import last_logits, outputs
from tests.parity.media import image
from tests.parity.multimodal import Multimodal, answers, asks
from tests.parity.texts import LLAVA_TEXT
from tests.parity.vision import CLIP_MEAN, CLIP_STD

CONFIG = {
    "architectures": ["LlavaForConditionalGeneration"],
    "ignore_index": -100,
    "image_seq_length": 16,
    "image_token_index": 315,
    "model_type": "llava",
    "pad_token_id": 316,
    "projector_hidden_act": "gelu",
    "text_config": {
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": 32,
        "intermediate_size": 64,
        "max_position_embeddings": 4096,
        "model_type": "llama",
        "num_attention_heads": 4,
        "num_hidden_layers": 2,
        "rms_norm_eps": 1e-05,
        "torch_dtype": "float16",
        "vocab_size": 320,
    },
    "tie_word_embeddings": False,
    "torch_dtype": "float16",
    "transformers_version": "4.36.0.dev0",
    "vision_config": {
        "hidden_size": 32,
        "image_size": 16,
        "intermediate_size": 32,
        "model_type": "clip_vision_model",
        "num_attention_heads": 4,
        "num_hidden_layers": 3,
        "patch_size": 4,
        "projection_dim": 8,
        "vocab_size": 16,
    },
    "vision_feature_layer": -2,
    "vision_feature_select_strategy": "default",
}
PREPROCESSOR = {
    "crop_size": {"height": 16, "width": 16},
    "do_center_crop": True,
    "do_convert_rgb": True,
    "do_normalize": True,
    "do_rescale": True,
    "do_resize": True,
    "image_mean": CLIP_MEAN,
    "image_processor_type": "CLIPImageProcessor",
    "image_std": CLIP_STD,
    "processor_class": "LlavaProcessor",
    "resample": 3,
    "rescale_factor": 0.00392156862745098,
    "size": {"shortest_edge": 16},
}
PROCESSOR = {
    "image_token": "<image>",
    "num_additional_image_tokens": 1,
    "patch_size": 4,
    "processor_class": "LlavaProcessor",
    "vision_feature_select_strategy": "default",
}
CHATS = {
    "one": [
        asks({"type": "image", "image": "wide"}, text="What is in the image?"),
        answers("The cat."),
    ],
    "two": [
        asks(
            {"type": "image", "image": "tall"},
            {"type": "image", "image": "large"},
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


def _processor(folder: Path, tokenizer: Any) -> LlavaProcessor:
    images = CLIPImageProcessorPil.from_pretrained(folder)
    options = {key: value for key, value in PROCESSOR.items() if key != "processor_class"}
    return LlavaProcessor(images, tokenizer, chat_template=tokenizer.chat_template, **options)


LLAVA = Multimodal(
    checkpoint=Checkpoint(
        "llava",
        LlavaForConditionalGeneration,
        CONFIG,
        torch.float16,
        renames=((r"^vision_tower\.", _VISION),),
        shard="60KB",
    ),
    texts=LLAVA_TEXT,
    files={"preprocessor_config.json": PREPROCESSOR, "processor_config.json": PROCESSOR},
    processor=_processor,
    call=lambda media: {"images": [image(name) for names in media for name in names]},
    placeholder="<image>",
    chats=CHATS,
    gradients=(
        f"{_DECODER}layers.0.input_layernorm.weight",
        f"{_VISION}embeddings.class_embedding",
        f"{_VISION}pre_layrnorm.weight",
        "multi_modal_projector.linear_1.bias",
    ),
)

LORA_NAME = "llava_lora"
_RANK, _ALPHA = 3, 5.0
_TARGETS = (
    r"model\.language_model\.layers\.\d+\.(self_attn\.(q|v)_proj|mlp\.down_proj)",
    r"model\.vision_tower\.encoder\.layers\.[01]\.(self_attn\.out_proj|mlp\.fc1)",
    r"model\.multi_modal_projector\.linear_1",
)


def make_lora() -> None:
    """Write adapters in PEFT's format, and what LLaVA computes with them; needs peft."""
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(0)
    config = LoraConfig(
        r=_RANK,
        lora_alpha=_ALPHA,
        use_rslora=True,
        target_modules="|".join(_TARGETS),
        init_lora_weights=False,
    )
    model = get_peft_model(LLAVA.checkpoint.build(), config)
    folder = ROOT / LORA_NAME
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder)
    (folder / "README.md").unlink()
    stored = np.load(ROOT / LLAVA.name / "inputs.npz")
    arrays: dict[str, Any] = {}
    for chat in LLAVA.chats:
        states = outputs(model, stored_inputs(stored, chat), stored_mask(stored, chat))
        arrays[f"{chat}.logits"] = last_logits(states, [states["nll"].shape[1]], count=2)
        arrays[f"{chat}.loss"] = states["nll"].sum()
    write_arrays(folder / "expected.npz", arrays)


def stored_inputs(stored: Any, chat: str) -> dict[str, torch.Tensor]:
    """Arguments of the model for a conversation."""
    named = {name: f"{chat}.{name}" for name in ("input_ids", "pixel_values")}
    found = {n: torch.from_numpy(stored[own]) for n, own in named.items() if own in stored.files}
    return {**found, "attention_mask": torch.ones_like(found["input_ids"])}


def stored_mask(stored: Any, chat: str) -> torch.Tensor:
    """Which tokens of a conversation are learnt."""
    return torch.from_numpy(stored[f"{chat}.answer_mask"])

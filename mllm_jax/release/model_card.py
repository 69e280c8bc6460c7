"""The model card of an exported model."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import yaml

from mllm_jax.release.export_processor import TOKENIZER

#: Classes of transformers that load model and inputs, by `model_type`.
_CLASSES = {
    **dict.fromkeys(("llama", "qwen2", "qwen3"), ("AutoModelForCausalLM", "AutoTokenizer")),
    **dict.fromkeys(("llava", "llava_onevision"), ("AutoModelForImageTextToText", "AutoProcessor")),
    "qwen2_audio": ("Qwen2AudioForConditionalGeneration", "AutoProcessor"),
}
#: Requirements of these classes besides torch and transformers.
_NEEDS = {
    "llava_onevision": "`AutoProcessor` of this type has a processor of videos, too, and so needs "
    "torchvision, of the same build as torch.\n\n"
}


def card(
    model_type: str,
    step: int,
    config: Mapping[str, Any],
    sources: Mapping[str, str | None],
    files: Collection[str],
) -> str:
    """The card: use and origin of the model, and the configuration of its training.

    Args:
        model_type: type of the exported model.
        step: step of the checkpoint.
        config: JSON of the run's configuration.
        sources: releases of initial weights, by the part of the model that began with them.
        files: names of the files beside the weights.
    """
    parts = {part: folder for part, folder in sources.items() if folder}
    began = "\n".join(f"- {part}: `{folder}`" for part, folder in parts.items())
    text = yaml.safe_dump(dict(config), sort_keys=False)
    return (
        f"---\nlibrary_name: transformers\ntags: [mllm_jax]\n---\n\n"
        f"# {config['run']['name']}\n\n"
        f"A model of type `{model_type}` after {step} training steps with "
        f"mllm_jax.\n\n{use(model_type, TOKENIZER in files)}"
        f"## What it began with\n\n{began or 'Random values.'}\n\n"
        f"## Configuration of the training\n\n```yaml\n{text}```\n"
    )


def adapters_card(step: int, config: Mapping[str, Any], base: str | None) -> str:
    """The card of adapters.

    Args:
        step, config: as of `card`.
        base: the release that they belong to.
    """
    text = yaml.safe_dump(dict(config), sort_keys=False)
    told = f"`{base}`" if base else "the weights that the run began with"
    dtype = config["train"]["frozen_dtype"] or "bfloat16"
    return (
        f"---\nlibrary_name: peft\ntags: [mllm_jax, lora]\n---\n\n"
        f"# {config['run']['name']}\n\n"
        f"Adapters (LoRA) for {told} after {step} training steps with mllm_jax.\n\n"
        "## Use\n\n```python\nfrom peft import PeftModel\n\n"
        f"# `model` has been loaded from these weights with dtype=torch.{dtype}, as in training;\n"
        "# model.float() then computes in float32.\n"
        'model = PeftModel.from_pretrained(model, ".")  # folder of this file\n```\n\n'
        f"## Configuration of the training\n\n```yaml\n{text}```\n"
    )


def use(model_type: str, has_texts: bool) -> str:
    """How a model with a processor is loaded; empty for other models."""
    if not has_texts or model_type not in _CLASSES:
        return ""
    model, inputs = _CLASSES[model_type]
    name = "processor" if inputs == "AutoProcessor" else "tokenizer"
    return (
        f"## Use\n\n{_NEEDS.get(model_type, '')}```python\n"
        f"from transformers import {inputs}, {model}\n\n"
        f'folder = "."  # of this file\n'
        f"model = {model}.from_pretrained(folder)\n"
        f"{name} = {inputs}.from_pretrained(folder)\n```\n\n"
    )

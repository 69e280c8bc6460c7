"""Checks after all values have their types: the vocabulary, and the agreement of sections."""

from __future__ import annotations

from data.processing.configured_chat import make_chat, read_files
from data.sample import DataError
from data.text.chat import ConversationTokenizer
from mllm_jax.config.checks.checks import check_unplanned, find_problems
from mllm_jax.config.inputs import released_of, standing_in
from mllm_jax.config.sections import ExperimentConfig
from mllm_jax.config.strict_yaml import shorten_repr
from mllm_jax.layers.config.adapters import AdapterError


def resolve_agreement(
    config: ExperimentConfig, *, planned: bool
) -> tuple[ExperimentConfig, list[str]]:
    """The configuration with its vocabulary, and everything that its sections disagree on."""
    config, problems = _with_vocabulary(config)
    if not problems:
        config, problems = _with_adapters(config)
    return config, problems or [*_find_disagreements(config, planned=planned)]


def _find_disagreements(config: ExperimentConfig, *, planned: bool) -> list[str]:
    """Everything that sections disagree on; budgets that are to be chosen have usual sizes."""
    if config.data.auto_budgets:
        if buckets := _cut_by_seconds(config):
            return [
                f"data.budgets: auto, but the buckets {', '.join(buckets)} are cut by seconds, "
                "which depend on budgets; valid: budgets, which `launch.py budgets` suggests, or "
                "buckets that are cut by a number of positions"
            ]
        config = standing_in(config)
    return find_problems(config) if planned else check_unplanned(config)


def _cut_by_seconds(config: ExperimentConfig) -> list[str]:
    """Buckets of encoders of which one has media below a length that is computed from seconds."""
    every = (encoder.buckets for encoder in config.model.others.values())
    return [name for buckets in every if "auto" in buckets.values() for name in buckets]


def _with_adapters(config: ExperimentConfig) -> tuple[ExperimentConfig, list[str]]:
    """The model with the adapters of `train.lora`."""
    lora = config.train.lora
    if lora is None:
        return config, []
    try:
        model = config.model.with_adapters(lora.targets, lora.rank, lora.scale)
    except AdapterError as error:
        return config, [f"train.lora.targets: {error}"]
    return config.model_copy(update={"model": model}), []


def _with_fewer(
    config: ExperimentConfig, vocab: int, size: int
) -> tuple[ExperimentConfig, list[str]]:
    """A vocabulary of fewer ids than the tokenizer's, which released weights may have.

    Tokens that were added after it are no problem as long as no text has them.
    """
    key = f"{config.model_key(config.model.backbone)}.vocab"
    few = f"{key}: {vocab} is less than the tokenizer's {size} ids; valid: "
    if config.model.sources[config.model.backbone] is None:
        return config, [f"{few}null, or at least {size}"]
    if config.data.processor is None:
        return config, [
            f"{few}a data.tokenizer (with placeholders and data.chat) of at most {vocab} ids, or "
            "data.processor, of which ids that no text has may be more"
        ]
    config = config.model_copy(update={"data": config.data.with_embeddings(vocab)})
    try:
        _make_chat(config)
    except DataError as error:
        return config, [str(error)]
    return config, []


def _with_vocabulary(config: ExperimentConfig) -> tuple[ExperimentConfig, list[str]]:
    """`model.decoder.vocab: null` becomes the tokenizer's size, rounded up to a multiple of 64.

    Rounded, the head's products are of sizes that accelerators multiply fast; the ids added are
    never targets, and degrees need not divide it. With a vocabulary that is given, `data.processor`
    may be missing yet: whatever reads data refuses that.
    """
    data, vocab = config.data, config.model.backbone_config.vocab
    try:
        if vocab is not None and data.processor is not None and not data.processor.exists():
            return config, []
        size = _make_chat(config).vocab_size
    except DataError as error:
        return config, [str(error)]
    except OSError as error:  # a name that is too long, or a folder that may not be looked into
        where = f"{error.strerror}: {shorten_repr(error.filename)}"
        return config, [f"data.processor, data.tokenizer: cannot be looked for: {where}"]
    if vocab is not None:
        return _with_fewer(config, vocab, size) if vocab < size else (config, [])
    decoder = config.model.backbone_config.model_copy(update={"vocab": -(-size // 64) * 64})
    model = config.model.with_modules({config.model.backbone: decoder})
    return config.model_copy(update={"model": model}), []


def _make_chat(config: ExperimentConfig) -> ConversationTokenizer:
    """The tokenizer and chat template. Raises DataError."""
    kinds = [encoder.media_kind for encoder in config.model.others.values()]
    return make_chat(config.data, kinds, read_files(config.data, released_of(config.data)))

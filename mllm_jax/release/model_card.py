"""The model card of an exported model."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from mllm_jax.families.releases import release_formats
from mllm_jax.models.short_form import BACKBONE, MODULES, OTHERS
from mllm_jax.release.export_processor import TOKENIZER
from mllm_jax.release.origin import ReleaseOrigin, release_name

#: Keys of the configuration that a card shows: what the model is, and what it was trained by. No
#: path is among them.
_SHOWN = {
    "model": (BACKBONE, OTHERS, MODULES, "backbone", "dtype"),
    "data": ("rows", "budgets", "batch", "samples", "image", "audio", "video"),
    "train": (
        *("steps", "accumulate", "learning_rate", "warmup_steps", "final_learning_rate_ratio"),
        *("weight_decay", "clip_norm", "optimizer", "freeze", "frozen_dtype", "groups", "lora"),
    ),
}
#: Keys that hold paths, wherever they are.
_PATHS = ("begin_with",)
#: Keys of a release's own card that a card of what began with it repeats.
_LICENCE = ("license", "license_name", "license_link")


def model_card(
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
        sources: folders of releases, by the part of the model that began with them.
        files: names of the files next to the weights.
    """
    bases = BaseReleases.read_cards(folder for folder in sources.values() if folder)
    began = "\n".join(
        f"- {part}: `{release_name(folder)}`" for part, folder in sources.items() if folder
    )
    return (
        f"{_card_header(bases, library_name='transformers', tags=['mllm_jax'])}"
        f"# {config['run']['name']}\n\n"
        f"A model of type `{model_type}` after {step} training steps with "
        f"mllm_jax.\n\n{usage_text(model_type, TOKENIZER in files)}"
        f"## What it began with\n\n{began or 'Random values.'}\n\n"
        f"{_license_text(bases)}{_configuration_text(config)}"
    )


def adapters_card(step: int, config: Mapping[str, Any], base: str | None) -> str:
    """The card of adapters.

    Args:
        step, config: as of `model_card`.
        base: folder of the release that they belong to.
    """
    bases = BaseReleases.read_cards([base] if base else [])
    origin = f"`{release_name(base)}`" if base else "the weights that the run began with"
    dtype = config["train"]["frozen_dtype"] or "bfloat16"
    return (
        f"{_card_header(bases, library_name='peft', tags=['mllm_jax', 'lora'])}"
        f"# {config['run']['name']}\n\n"
        f"Adapters (LoRA) for {origin} after {step} training steps with mllm_jax.\n\n"
        "## Use\n\n```python\nfrom peft import PeftModel\n\n"
        f"# `model` has been loaded from these weights with dtype=torch.{dtype}, as in training;\n"
        "# model.float() then computes in float32.\n"
        'model = PeftModel.from_pretrained(model, ".")  # folder of this file\n```\n\n'
        f"{_license_text(bases)}{_configuration_text(config)}"
    )


@dataclass(frozen=True)
class BaseReleases:
    """Facts of releases for the head of a card.

    Attributes:
        names: names of the releases on hubs.
        licence: keys of their licence, if all have the same.
    """

    names: tuple[str, ...] = ()
    licence: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read_cards(cls, folders: Iterable[str]) -> BaseReleases:
        """The facts of the releases in `folders`."""
        heads = [_read_head(Path(folder)) for folder in dict.fromkeys(folders)]
        names = [name for head in heads for name in head.get("base_model", [])]
        licences = [{key: head[key] for key in _LICENCE if key in head} for head in heads]
        same = (
            licences[0] if licences and all(licence == licences[0] for licence in licences) else {}
        )
        return cls(tuple(dict.fromkeys(names)), same)


def _read_head(folder: Path) -> dict[str, Any]:
    """The head of a release's own card; `base_model` is the release, if it is one of a hub."""
    head = _front_matter(folder / "README.md")
    licence = {key: head[key] for key in _LICENCE if isinstance(head.get(key), str)}
    stated = head.get("base_model")
    bases = [stated] if isinstance(stated, str) else stated if isinstance(stated, list) else []
    if origin := ReleaseOrigin.read_from(folder):
        bases = [origin.repository]
    return {**licence, "base_model": [base for base in bases if isinstance(base, str)]}


def _front_matter(path: Path) -> dict[str, Any]:
    """The values at the head of a card; none if there is no such card."""
    try:
        text = path.read_text(encoding="utf-8")
        _, head, _ = re.split(r"^---\s*$", text, maxsplit=2, flags=re.MULTILINE)
        values = yaml.safe_load(head)
    except (OSError, ValueError, yaml.YAMLError):
        return {}
    return values if isinstance(values, dict) else {}


def _card_header(bases: BaseReleases, **values: Any) -> str:
    """The head of a card."""
    if len(bases.names) == 1:
        values["base_model"] = bases.names[0]
    elif bases.names:
        values["base_model"] = [*bases.names]
    text = yaml.safe_dump(values | dict(bases.licence), sort_keys=False, allow_unicode=True)
    return f"---\n{text}---\n\n"


def _license_text(bases: BaseReleases) -> str:
    """The text on the licence, where no release names one."""
    if bases.licence:
        return ""
    return (
        "## Licence\n\nNone is known here: whoever publishes these weights chooses one, and writes "
        "it into the head of this file as `license`. Licences of what the training began with, and "
        "of its data, go on to hold.\n\n"
    )


def _configuration_text(config: Mapping[str, Any]) -> str:
    """The text on the model and its training."""
    shown = {
        section: {key: config[section][key] for key in names if key in config.get(section, {})}
        for section, names in _SHOWN.items()
    }
    text = yaml.safe_dump(_drop_empty(shown), sort_keys=False, allow_unicode=True)
    return f"## Configuration of the training\n\n```yaml\n{text}```\n"


def _drop_empty(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values that say something: no path, nothing empty."""
    stated: dict[str, Any] = {}
    for key, value in values.items():
        inner = _drop_empty(value) if isinstance(value, Mapping) else value
        if key not in _PATHS and inner not in (None, {}, [], ()):
            stated[key] = inner
    return stated


def usage_text(model_type: str, has_texts: bool) -> str:
    """The text on loading a model with texts; empty for other models."""
    release = release_formats()[model_type]
    model = release.auto_class
    if not has_texts or model is None:
        return ""
    text_alone = set(release.modules) == {BACKBONE}
    inputs, name = ("AutoTokenizer", "tokenizer") if text_alone else ("AutoProcessor", "processor")
    note = f"{release.note}\n\n" if release.note else ""
    return (
        f"## Use\n\n{note}```python\n"
        f"from transformers import {inputs}, {model}\n\n"
        f'folder = "."  # of this file\n'
        f"model = {model}.from_pretrained(folder)\n"
        f"{name} = {inputs}.from_pretrained(folder)\n```\n\n"
    )

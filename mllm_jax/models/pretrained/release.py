"""A released checkpoint: a folder with `config.json` and safetensors."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from mllm_jax.families.releases import format_named
from mllm_jax.hf_format.configs import CONFIG, read_config
from mllm_jax.hf_format.decoder_rules import EMBEDDING
from mllm_jax.hf_format.files import (
    PretrainedError,
    StoredTensor,
    equal_values,
    list_names,
    open_tensors,
)
from mllm_jax.hf_format.release_format import HEAD, ReleasedModel, ReleaseFormat, Values
from mllm_jax.hf_format.tensor_rules import TensorRule, check_tensors
from mllm_jax.hf_format.transforms import identity_transform
from mllm_jax.models.graph import HEAD as OBJECTIVE_HEAD
from mllm_jax.models.model_config import ModelConfig
from mllm_jax.models.pretrained.heads import head_tensors, rules_of_head

#: Parts of a module, and the prefixes of their parameters in its tree.
CONNECTOR = "connector"
_ENDS = {"connector": f"{CONNECTOR}.", "extra": "extra_embedding."}


@dataclass(frozen=True)
class Release:
    """A release: configurations of a folder, and the places of its tensors.

    Attributes:
        folder: folder of the release.
        values: `config.json`.
        release_format: form of the release.
    """

    folder: Path
    values: Values
    release_format: ReleaseFormat

    @classmethod
    def open(cls, folder: Path) -> Release:
        """The checkpoint of a folder.

        Raises:
            PretrainedError: the folder holds no release, or one of an unknown form.
        """
        if not folder.is_dir():
            raise PretrainedError(f"{folder} is no folder; valid: a folder with config.json in it")
        values = read_config(folder)
        return cls(folder, values, format_named(values.get("model_type")))

    @cached_property
    def released_model(self) -> ReleasedModel:
        """The modules by the released configuration.

        Raises:
            PretrainedError: the release is of another model, or has an invalid value.
        """
        path = self.folder / CONFIG
        try:
            return self.release_format.read(self.values)
        except ValidationError as error:
            raise PretrainedError(f"{path}: {_describe_error(error)}") from error
        except (ArithmeticError, AttributeError, LookupError, TypeError) as error:
            # Values that are read without a type: a text for an object, a patch of no pixels.
            raise PretrainedError(f"{path} holds a value of a wrong kind: {error}") from error

    @cached_property
    def tensors(self) -> Mapping[str, StoredTensor]:
        """Places of all tensors, by their released names.

        Raises:
            PretrainedError: files are missing or damaged.
        """
        return self.release_format.rename_tensors(open_tensors(self.folder))

    @cached_property
    def rules(self) -> Mapping[str, list[TensorRule]]:
        """Rules of every module."""
        return self.release_format.rules(self.released_model)

    @property
    def every_rule(self) -> list[TensorRule]:
        """Rules of all modules together, and of the heads of objectives."""
        return [rule for rules in self.rules.values() for rule in rules] + self.heads

    @cached_property
    def heads(self) -> list[TensorRule]:
        """A rule for each tensor of a head, whatever the objective is called."""
        shapes = {name: self.tensors[name].shape for name in head_tensors(self.tensors)}
        return [TensorRule(n, n, identity_transform(shape)) for n, shape in shapes.items()]

    @property
    def left_over(self) -> list[str]:
        """Tensors that no parameter comes from, and that are known to be there."""
        return self.release_format.unused_tensors(self.values, self.tensors)

    def check_contents(self) -> None:
        """See that the tensors are those that the configuration says.

        Raises:
            PretrainedError: lists what is missing, misshapen, or of no parameter; or a head that
                is tied has other values than the embedding.
        """
        check_tensors(self.tensors, self.every_rule, self.left_over)
        for head in self.left_over:
            if re.fullmatch(HEAD, head) and not equal_values(self.tensors[head], self._embedding):
                raise PretrainedError(
                    f"{self.folder / CONFIG} ties the embeddings, but {head} is another tensor; "
                    "valid: tie_word_embeddings: false, or a head that is the embedding"
                )

    @property
    def _embedding(self) -> StoredTensor:
        rules = {rule.parameter: rule for rule in self.rules["decoder"]}
        return self.tensors[rules[EMBEDDING].released]

    def module_name(self, name: str) -> str:
        """The released name of the encoder that a configuration calls `name`.

        Raises:
            PretrainedError: no encoder has that name, and there are several.
        """
        encoders, has = (
            [*self.released_model.encoders],
            list_names(self.released_model.module_phrases),
        )
        if name == "decoder":
            if self.released_model.decoder is None:
                raise PretrainedError(f"{self.folder} has no decoder; it has {has}")
            return name
        if name in encoders or len(encoders) == 1:
            return name if name in encoders else encoders[0]
        raise PretrainedError(f"{self.folder} has no encoder {name}; it has {has}")

    def part_rules(self, part: str) -> list[TensorRule]:
        """Rules of a part of the model, as `ModelConfig.parts` calls it."""
        name, _, end = part.partition(".")
        if end == CONNECTOR and self.released_model.connector:
            return self.rules[CONNECTOR]
        if end.startswith(OBJECTIVE_HEAD):
            objective = end.removeprefix(OBJECTIVE_HEAD)
            return rules_of_head(self.tensors, self.module_name(name), objective)
        rules = self.rules[self.module_name(name)]
        if end:
            return [rule for rule in rules if rule.parameter.startswith(_ENDS[end])]
        return [rule for rule in rules if not rule.parameter.startswith((*_ENDS.values(),))]


def _describe_error(error: ValidationError) -> str:
    """The first problem of a configuration; its keys are those that they have here."""
    first = error.errors(include_url=False)[0]
    key = ".".join(map(str, first["loc"]))
    if not key:  # of keys that do not go together, which the message names
        return first["msg"].removeprefix("Value error, ")
    return f"{key}: {first['msg']}, got {first['input']!r:.80}"


def compose_model(pretrained: str | Mapping[str, str | None]) -> dict[str, Any]:
    """Values of `decoder` and `encoders` for `model.pretrained`, as the releases say.

    Raises:
        PretrainedError: a release cannot be read, or lacks a requested part.
    """
    if isinstance(pretrained, str):
        release = Release.open(Path(pretrained))
        release.module_name("decoder")
        released = release.released_model
        names = {name: Path(pretrained) for name in ("decoder", *released.encoders)}
    else:
        names = {name: Path(at) for name, at in pretrained.items() if at and "." not in name}
    settings = {
        name: _settings_of_part(Release.open(folder), name) for name, folder in names.items()
    }
    if not isinstance(pretrained, str):
        for part, folder in pretrained.items():
            name, _, end = part.partition(".")
            if folder and end == CONNECTOR:
                connector_settings = _settings_of_part(Release.open(Path(folder)), part)
                settings[name] = settings.get(name, {}) | {CONNECTOR: connector_settings}
    decoder = settings.pop("decoder", None)
    return ({"decoder": decoder} if decoder else {}) | {"encoders": settings}


def _settings_of_part(release: Release, part: str) -> dict[str, Any]:
    """Rules of one module, or of its connector."""
    released, (name, _, end) = release.released_model, part.partition(".")
    if end == CONNECTOR and released.connector:
        return released.connector.config.model_dump(mode="json")
    module = release.module_name(name)
    config = released.decoder if module == "decoder" else released.encoders[module]
    assert config is not None
    values: dict[str, Any] = config.model_dump(mode="json")
    return values[CONNECTOR] if end == CONNECTOR else values


def list_differences(release: Release, model: ModelConfig, part: str) -> Iterator[str]:
    """Differences between the configuration of a module, or of its connector, and the release.

    Shapes that differ are found with the tensors.
    """
    name, _, end = part.partition(".")
    released = _settings_of_part(release, part)
    config = model.backbone_config if name == "decoder" else model.others[name]
    values_here, where = config.model_dump(mode="json"), "decoder"
    if name != "decoder":
        values_here, where = values_here[CONNECTOR] if end else values_here, f"encoders.{part}"
    if not end:
        released, values_here = ({**values, CONNECTOR: None} for values in (released, values_here))
    for key, value in values_here.items():
        if key in released and released[key] != value:
            yield f"model.{where}.{key}: {value}, released with {released[key]}"

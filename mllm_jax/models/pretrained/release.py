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
from mllm_jax.hf_format.release_format import (
    LM_HEAD,
    RELEASED_DECODER,
    ReleasedModel,
    ReleaseFormat,
    Values,
)
from mllm_jax.hf_format.tensor_rules import TensorRule, check_tensors
from mllm_jax.hf_format.transforms import identity_transform
from mllm_jax.layers.config.linear import VOCABULARY_HEAD
from mllm_jax.models.graph import HEAD, learns_to_write
from mllm_jax.models.model_config import ModelConfig
from mllm_jax.models.pretrained.heads import (
    SCORE,
    head_tensors,
    released_objectives,
    rules_of_head,
)
from mllm_jax.models.short_form import BACKBONE, sections_of_modules

#: The kernel of the head of the vocabulary, which only a model that learns to write has.
HEAD_KERNEL = f"{VOCABULARY_HEAD}.kernel"
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
        """Rules of every module, without the head of the vocabulary that classifiers lack."""
        rules = self.release_format.rules(self.released_model)
        objectives = released_objectives(self.values).get("objectives", {})
        if learns_to_write(objectives) and SCORE not in self.tensors:
            return rules
        return {
            module: [
                rule
                for rule in module_rules
                if rule.parameter != HEAD_KERNEL or rule.released in self.tensors
            ]
            for module, module_rules in rules.items()
        }

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
        """Check that the tensors are those that the configuration says.

        Raises:
            PretrainedError: lists what is missing, misshapen, or of no parameter; or a head that
                is tied has other values than the embedding.
        """
        check_tensors(self.tensors, self.every_rule, self.left_over)
        for head in self.left_over:
            if re.fullmatch(LM_HEAD, head) and not equal_values(
                self.tensors[head], self._embedding
            ):
                raise PretrainedError(
                    f"{self.folder / CONFIG} ties the embeddings, but {head} is another tensor; "
                    "valid: tie_word_embeddings: false, or a head that is the embedding"
                )

    @property
    def _embedding(self) -> StoredTensor:
        rules = {rule.parameter: rule for rule in self.rules[RELEASED_DECODER]}
        return self.tensors[rules[EMBEDDING].released]

    def module_name(self, name: str, backbone: str) -> str:
        """The released name of the module that a configuration calls `name`.

        Args:
            name: the name in the configuration.
            backbone: that of the model's backbone, which is the decoder of a release.

        Raises:
            PretrainedError: there is no decoder, or no encoder has that name, and there are
                several.
        """
        encoders, has = (
            [*self.released_model.encoders],
            list_names(self.released_model.module_phrases),
        )
        if name == backbone:
            if self.released_model.decoder is None:
                raise PretrainedError(f"{self.folder} has no decoder; it has {has}")
            return RELEASED_DECODER
        if name in encoders or len(encoders) == 1:
            return name if name in encoders else encoders[0]
        raise PretrainedError(f"{self.folder} has no encoder {name}; it has {has}")

    def part_rules(self, part: str, backbone: str) -> list[TensorRule]:
        """Rules of a part of the model, as `ModelConfig.parts` calls it.

        Args:
            part: name of the part.
            backbone: name of the model's backbone.
        """
        name, _, end = part.partition(".")
        if end == CONNECTOR and self.released_model.connector:
            return self.rules[CONNECTOR]
        if end.startswith(HEAD):
            objective = end.removeprefix(HEAD)
            return rules_of_head(self.tensors, self.module_name(name, backbone), objective)
        rules = self.rules[self.module_name(name, backbone)]
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


def compose_model(
    pretrained: str | Mapping[str, str | None], backbone: str = BACKBONE
) -> dict[str, Any]:
    """Values of the modules in a section `model`, as the releases of `model.pretrained` say.

    Args:
        pretrained: folders, as in `model.pretrained`.
        backbone: name of the model's backbone.

    Raises:
        PretrainedError: a release cannot be read, or lacks a requested part.
    """
    if isinstance(pretrained, str):
        release = Release.open(Path(pretrained))
        release.module_name(backbone, backbone)
        released = release.released_model
        names = {name: Path(pretrained) for name in (backbone, *released.encoders)}
    else:
        names = {name: Path(at) for name, at in pretrained.items() if at and "." not in name}
    settings = {
        name: _settings_of_part(Release.open(folder), name, backbone)
        for name, folder in names.items()
    }
    if not isinstance(pretrained, str):
        for part, folder in pretrained.items():
            name, _, end = part.partition(".")
            if folder and end == CONNECTOR:
                connector_settings = _settings_of_part(Release.open(Path(folder)), part, backbone)
                settings[name] = settings.get(name, {}) | {CONNECTOR: connector_settings}
    return sections_of_modules(settings, backbone)


def _settings_of_part(release: Release, part: str, backbone: str) -> dict[str, Any]:
    """Values of one module with its connector, or of its connector; none if it has none."""
    released, (name, _, end) = release.released_model, part.partition(".")
    if end == CONNECTOR and released.connector:
        return released.connector.config.model_dump(mode="json")
    module = release.module_name(name, backbone)
    connector = released.connectors.get(module)
    connector_values = connector.model_dump(mode="json") if connector else {}
    if end == CONNECTOR:
        return connector_values
    values: dict[str, Any] = released.configs[module].model_dump(mode="json")
    return values | ({CONNECTOR: connector_values} if connector else {})


def list_differences(release: Release, model: ModelConfig, part: str) -> Iterator[str]:
    """Differences between the configuration of a module, or of its connector, and the release.

    Shapes that differ are found with the tensors; extra tokens and heads have nothing else.
    """
    name, _, end = part.partition(".")
    if end not in ("", CONNECTOR):
        return
    config = model.graph.connector(name) if end else model.modules[name]
    released = _settings_of_part(release, part, model.backbone)
    for key, value in config.model_dump(mode="json").items():
        if key in released and released[key] != value:
            yield f"model.{model.key(part)}.{key}: {value}, released with {released[key]}"

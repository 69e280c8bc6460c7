"""The format of a released checkpoint: its modules, and how they become a model here."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from mllm_jax.hf_format.files import OtherModulesError, PretrainedError, list_names
from mllm_jax.hf_format.tensor_rules import TensorRule
from mllm_jax.layers.config.connector import ConnectorConfig
from mllm_jax.layers.config.decoder import DecoderConfig
from mllm_jax.layers.config.encoder import EncoderConfig

Values = Mapping[str, Any]
T = TypeVar("T")
E = TypeVar("E", bound=EncoderConfig)

#: `ReleaseFormat.module_names` of multimodal models.
MODEL_MODULE_NAMES = (
    (r"^language_model\.lm_head\.", "lm_head."),
    (r"^language_model\.model\.", "model.language_model."),
    (r"^vision_tower\.vision_model\.", "model.vision_tower."),
    (r"^(audio_tower|multi_modal_projector)\.", r"model.\1."),
    (r"^image_newline$", "model.image_newline"),
)
#: Buffers of old checkpoints that hold no weights.
_BUFFERS = r"(.*\.)?(position_ids|rotary_emb\.inv_freq)"
#: What a release calls its decoder, whatever the model calls the module.
RELEASED_DECODER = "decoder"
#: The head of a decoder, which some checkpoints have although it is tied to the embedding.
LM_HEAD = r"(.*\.)?lm_head\.weight"


@dataclass(frozen=True)
class ReleasedConnector:
    """A connector without its encoder.

    Attributes:
        config: kind of the connector.
        inputs: input width of its first layer.
        outputs: width of the decoder.
    """

    config: ConnectorConfig
    inputs: int
    outputs: int


@dataclass(frozen=True)
class ReleasedModel:
    """The modules of a released model, with their configurations.

    Attributes:
        decoder: None in a checkpoint of an encoder alone.
        encoders: configurations of encoders by their names here, `vision` or `audio`.
        placeholders: id of the token at which outputs of an encoder are merged, by encoder; of
            multimodal models.
        connectors: connectors of encoders whose outputs are merged, by the encoder's name.
        connector: a connector that is released alone.
    """

    decoder: DecoderConfig | None = None
    encoders: Mapping[str, EncoderConfig] = field(default_factory=dict)
    placeholders: Mapping[str, int] = field(default_factory=dict)
    connectors: Mapping[str, ConnectorConfig] = field(default_factory=dict)
    connector: ReleasedConnector | None = None

    @property
    def configs(self) -> dict[str, Any]:
        """Configurations of all modules, by their names."""
        single = {RELEASED_DECODER: self.decoder, "connector": self.connector}
        return {name: config for name, config in single.items() if config} | {**self.encoders}

    def require_pair(self, name: str, kind: type[E]) -> tuple[DecoderConfig, E]:
        """The decoder and an encoder of a model of both.

        Args:
            name: name of the encoder.
            kind: class of its configuration.

        Raises:
            TypeError: the model has no such modules.
        """
        encoder = self.encoders.get(name)
        if self.decoder is None or not isinstance(encoder, kind):
            modules = ", ".join(self.configs)
            raise TypeError(
                f"a model of {modules}; valid: a decoder, and {name} of {kind.__name__}"
            )
        return self.decoder, encoder

    def require_connector(self, name: str) -> ConnectorConfig:
        """The connector of an encoder of a multimodal model.

        Args:
            name: name of the encoder.

        Raises:
            PretrainedError: its outputs are not merged.
        """
        if name not in self.connectors:
            raise PretrainedError(
                f"outputs of {name} are not merged; valid: encoders with a connector, "
                f"of which there are {list_names([*self.connectors]) or 'none'}"
            )
        return self.connectors[name]

    @property
    def module_phrases(self) -> list[str]:
        """The modules in words, for messages."""
        decoder = ["a decoder"] if self.decoder else []
        return [*decoder, *self.encoders, *(["a connector"] if self.connector else [])]


@dataclass(frozen=True, eq=False)
class ReleaseFormat:
    """A format in which models are released.

    Attributes:
        name: `model_type` of `config.json`.
        modules: modules of a model of this format: `decoder`, encoders by name, or a `connector`
            alone, each with the class of its configuration.
        read: the model that a configuration describes.
        rules: for every module (`decoder`, and encoders with their connectors by name), the
            tensors that the module's parameters come from.
        write: `config.json` for a model of these modules, as the public implementation reads it;
            raises PretrainedError if a module differs from this format.
        unused_patterns: patterns of the names of tensors that no parameter comes from, by
            `config.json`.
        alternative_names: `(pattern, replacement)` from names that the public implementation also
            writes to the released ones.
        filler_tensors: tensors of a model that the public implementation has and does not use, for
            an exported checkpoint that copies none from an imported one.
        processor: `processor_config.json` for a model, but for its placeholders; None if nothing
            but a tokenizer, or the preprocessing of media, goes with the format.
        module_names: `(pattern, replacement)` from released names to those that tensors have in the
            modules of the public implementation, of which the first pattern that matches counts.
        auto_class: class of transformers that loads a model of this format for answers; None if
            there is none.
        note: what a user of that class has to know, in Markdown.
    """

    name: str
    modules: Mapping[str, type]
    read: Callable[[Values], ReleasedModel]
    rules: Callable[[ReleasedModel], Mapping[str, list[TensorRule]]]
    write: Callable[[ReleasedModel], dict[str, Any]]
    unused_patterns: Callable[[Values], tuple[str, ...]] = lambda values: ()
    alternative_names: tuple[tuple[str, str], ...] = ()
    filler_tensors: Callable[[ReleasedModel], Mapping[str, NDArray[np.float32]]] = lambda model: {}
    processor: Callable[[ReleasedModel], dict[str, Any]] | None = None
    module_names: tuple[tuple[str, str], ...] = ()
    auto_class: str | None = None
    note: str = ""

    def module_name(self, released: str) -> str:
        """Name in the modules of the public implementation, from that of a released tensor."""
        return _replace_first(released, self.module_names)

    def write_config(self, model: ReleasedModel) -> dict[str, Any]:
        """A new `config.json` for a model.

        Raises:
            OtherModulesError: the model has other modules than this format.
            PretrainedError: a module differs from this format.
        """
        configs = model.configs
        if configs.keys() != self.modules.keys() or not all(
            isinstance(config, self.modules[name]) for name, config in configs.items()
        ):
            kinds = {name: type(config) for name, config in configs.items()}
            raise OtherModulesError(
                f"{self.name} is made of {_list_modules(self.modules)}; this model is made of "
                f"{_list_modules(kinds)}"
            )
        return self.write(model)

    def config_for(self, model: ReleasedModel, source: Values | None = None) -> dict[str, Any]:
        """`config.json` for a model.

        Args:
            source: the configuration that the model was read from. It is returned if it still
                describes the model; then `copied_tensors` belong to the checkpoint, too.

        Raises:
            PretrainedError: the model cannot be released in this format.
        """
        if source is not None and self.read(source) == model:
            return dict(source)
        return self.write_config(model)

    def unused_tensors(self, values: Values, names: Iterable[str]) -> list[str]:
        """Known tensors of a checkpoint that no parameter comes from."""
        patterns = [_BUFFERS, *self.unused_patterns(values)]
        decoder = self.read(values).decoder
        if decoder is not None and decoder.tie_embeddings:
            patterns.append(LM_HEAD)
        return [name for name in names if any(re.fullmatch(p, name) for p in patterns)]

    def copied_tensors(self, values: Values, names: Iterable[str]) -> list[str]:
        """The `unused_tensors` that an exported checkpoint copies from the imported one.

        A tied head is not: the embedding is written, and has been trained.
        """
        unused = self.unused_tensors(values, names)
        return [name for name in unused if not re.fullmatch(LM_HEAD, name)]

    def rename_tensors(self, tensors: Mapping[str, T]) -> dict[str, T]:
        """Put tensors under their released names.

        Raises:
            PretrainedError: two of them have one name.
        """
        names = {name: self._released_name(name) for name in tensors}
        if len(set(names.values())) < len(names):
            counts = Counter(names.values())
            twice = sorted(name for name, count in counts.items() if count > 1)
            raise PretrainedError(f"tensors under several names: {list_names(twice)}")
        return {names[name]: tensor for name, tensor in tensors.items()}

    def _released_name(self, name: str) -> str:
        for pattern, replacement in self.alternative_names:
            name = re.sub(pattern, replacement, name)
        return name


def _replace_first(name: str, pairs: Iterable[tuple[str, str]]) -> str:
    for pattern, replacement in pairs:
        name, count = re.subn(pattern, replacement, name)
        if count:
            return name
    return name


def _list_modules(modules: Mapping[str, type]) -> str:
    return ", ".join(f"{name} ({kind.__name__})" for name, kind in modules.items())


def identity_norm(name: str, config: EncoderConfig) -> dict[str, NDArray[np.float32]]:
    """A norm after an encoder's layers that changes nothing, named `name`."""
    width = config.d_model
    return {
        f"{name}.weight": np.ones(width, np.float32),
        f"{name}.bias": np.zeros(width, np.float32),
    }


def encoder_format(
    name: str,
    module: str,
    kind: type[Any],
    read: Callable[[Values], EncoderConfig],
    rules: Callable[[Any], list[TensorRule]],
    write: Callable[[Any], dict[str, Any]],
    unused_patterns: tuple[str, ...],
    alternative_names: tuple[tuple[str, str], ...],
    filler_tensors: Callable[[Any], Mapping[str, NDArray[np.float32]]] = lambda config: {},
) -> ReleaseFormat:
    """The format of an encoder alone.

    Args:
        name: `model_type` of `config.json`.
        module: name of the encoder here, `vision` or `audio`.
        kind: class of its configuration.
        read, rules, write: as in `ReleaseFormat`, of the encoder's configuration.
        unused_patterns, alternative_names, filler_tensors: likewise.
    """
    return ReleaseFormat(
        name,
        {module: kind},
        lambda values: ReleasedModel(encoders={module: read(values)}),
        lambda model: {module: rules(model.encoders[module])},
        lambda model: write(model.encoders[module]),
        lambda values: unused_patterns,
        alternative_names,
        lambda model: filler_tensors(model.encoders[module]),
    )

"""The form of a released checkpoint: its modules, and how they become a model here."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from mllm_jax.hf_format.files import OtherModulesError, PretrainedError, listed
from mllm_jax.hf_format.rules import Rule
from mllm_jax.layers.config.decoder import DecoderConfig
from mllm_jax.layers.config.encoder import ConnectorConfig, EncoderConfig

Values = Mapping[str, Any]
T = TypeVar("T")

#: `Family.modules_of` of whole models.
WHOLE_MODULES = (
    (r"^language_model\.lm_head\.", "lm_head."),
    (r"^language_model\.model\.", "model.language_model."),
    (r"^vision_tower\.vision_model\.", "model.vision_tower."),
    (r"^(audio_tower|multi_modal_projector)\.", r"model.\1."),
    (r"^image_newline$", "model.image_newline"),
)
#: Buffers of old checkpoints that hold no weights.
_BUFFERS = r"(.*\.)?(position_ids|rotary_emb\.inv_freq)"
#: The head of a decoder, which some checkpoints hold although it is tied to the embedding.
HEAD = r"(.*\.)?lm_head\.weight"


@dataclass(frozen=True)
class Connector:
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
class Composition:
    """Modules of a model, with their configurations from a release.

    Attributes:
        decoder: None in a checkpoint of an encoder alone.
        encoders: configurations of encoders by their names here, `vision` or `audio`.
        placeholders: id of the token at which outputs of an encoder land, of whole models.
        connector: a connector that is released alone.
    """

    decoder: DecoderConfig | None = None
    encoders: Mapping[str, EncoderConfig] = field(default_factory=dict)
    placeholders: Mapping[str, int] = field(default_factory=dict)
    connector: Connector | None = None

    @property
    def by_name(self) -> dict[str, Any]:
        """Configurations of all that there is."""
        single = {"decoder": self.decoder, "connector": self.connector}
        return {name: own for name, own in single.items() if own} | {**self.encoders}

    @property
    def modules(self) -> list[str]:
        """The modules in words."""
        decoder = ["a decoder"] if self.decoder else []
        return [*decoder, *self.encoders, *(["a connector"] if self.connector else [])]


@dataclass(frozen=True, eq=False)
class Family:
    """A form in which models are released.

    Attributes:
        name: `model_type` of `config.json`.
        modules: modules of a model of this form: `decoder`, encoders by name, or a `connector`
            alone, each with the class of its configuration.
        read: makes the composition that a configuration describes.
        rules: for every module (`decoder`, and encoders with their connectors by name), the
            tensors that the module's parameters come from.
        write: makes `config.json` for a composition of these modules, as the public implementation
            reads it; raises PretrainedError if a module differs from this form.
        unused: makes patterns of the names of tensors that no parameter comes from.
        renames: `(pattern, replacement)` from names that the public implementation also writes to
            the released ones.
        idle: tensors of a composition that the public implementation has and does not use, so that
            an exported checkpoint that takes none from another one is whole.
        processor: `processor_config.json` for a composition, but for its placeholders; None if
            nothing but a tokenizer, or what makes media, goes with the form.
        modules_of: `(pattern, replacement)` from released names to those that tensors have in the
            modules of the public implementation, of which the first pattern that is found counts.
    """

    name: str
    modules: Mapping[str, type]
    read: Callable[[Values], Composition]
    rules: Callable[[Composition], Mapping[str, list[Rule]]]
    write: Callable[[Composition], dict[str, Any]]
    unused: Callable[[Values], tuple[str, ...]] = lambda values: ()
    renames: tuple[tuple[str, str], ...] = ()
    idle: Callable[[Composition], Mapping[str, NDArray[np.float32]]] = lambda composition: {}
    processor: Callable[[Composition], dict[str, Any]] | None = None
    modules_of: tuple[tuple[str, str], ...] = ()

    def module(self, released: str) -> str:
        """Name in the modules of the public implementation, from that of a released tensor."""
        return _replaced(released, self.modules_of)

    def release(self, composition: Composition) -> dict[str, Any]:
        """`config.json` for a composition, made anew.

        Raises:
            OtherModulesError: the composition has other modules than this form.
            PretrainedError: a module differs from this form.
        """
        own = composition.by_name
        if own.keys() != self.modules.keys() or not all(
            isinstance(module, self.modules[name]) for name, module in own.items()
        ):
            kinds = {name: type(module) for name, module in own.items()}
            raise OtherModulesError(
                f"{self.name} is made of {_told(self.modules)}; this model is made of "
                f"{_told(kinds)}"
            )
        return self.write(composition)

    def released(self, composition: Composition, source: Values | None = None) -> dict[str, Any]:
        """`config.json` for a composition.

        Args:
            composition: composition of the model.
            source: the configuration that the model was read from. It is given back if the model
                is still what it says; then the tensors of `kept` belong to the checkpoint, too.

        Raises:
            PretrainedError: the composition cannot be released in this form.
        """
        if source is not None and self.read(source) == composition:
            return dict(source)
        return self.release(composition)

    def left_over(self, values: Values, names: Iterable[str]) -> list[str]:
        """Tensors of a checkpoint that no parameter comes from, and that are known to be there."""
        patterns = [_BUFFERS, *self.unused(values)]
        decoder = self.read(values).decoder
        if decoder is not None and decoder.tie_embeddings:
            patterns.append(HEAD)
        return [name for name in names if any(re.fullmatch(p, name) for p in patterns)]

    def kept(self, values: Values, names: Iterable[str]) -> list[str]:
        """Tensors of `left_over` that an exported checkpoint copies from the imported one.

        A tied head is not: the embedding is written, and has been trained.
        """
        return [name for name in self.left_over(values, names) if not re.fullmatch(HEAD, name)]

    def canonical(self, tensors: Mapping[str, T]) -> dict[str, T]:
        """Tensors under their released names.

        Raises:
            PretrainedError: two of them have one name.
        """
        names = {name: self._renamed(name) for name in tensors}
        if len(set(names.values())) < len(names):
            taken = list(names.values())
            twice = sorted({name for name in taken if taken.count(name) > 1})
            raise PretrainedError(f"tensors under several names: {listed(twice)}")
        return {names[name]: tensor for name, tensor in tensors.items()}

    def _renamed(self, name: str) -> str:
        for pattern, replacement in self.renames:
            name = re.sub(pattern, replacement, name)
        return name


def _replaced(name: str, pairs: Iterable[tuple[str, str]]) -> str:
    for pattern, replacement in pairs:
        name, count = re.subn(pattern, replacement, name)
        if count:
            return name
    return name


def _told(modules: Mapping[str, type]) -> str:
    return ", ".join(f"{name} ({kind.__name__})" for name, kind in modules.items())


def idle_norm(name: str, config: EncoderConfig) -> dict[str, NDArray[np.float32]]:
    """A norm behind an encoder's layers that changes nothing, called `name`."""
    width = config.d_model
    return {
        f"{name}.weight": np.ones(width, np.float32),
        f"{name}.bias": np.zeros(width, np.float32),
    }


def encoder_alone(
    name: str,
    module: str,
    kind: type[Any],
    read: Callable[[Values], EncoderConfig],
    rules: Callable[[Any], list[Rule]],
    write: Callable[[Any], dict[str, Any]],
    unused: tuple[str, ...],
    renames: tuple[tuple[str, str], ...],
    idle: Callable[[Any], Mapping[str, NDArray[np.float32]]] = lambda config: {},
) -> Family:
    """The form of an encoder alone, of class `kind`, which is called `module` here.

    Args:
        read, rules, write, unused, renames, idle: as in `Family`, of the encoder's configuration.
    """
    return Family(
        name,
        {module: kind},
        lambda values: Composition(encoders={module: read(values)}),
        lambda composition: {module: rules(composition.encoders[module])},
        lambda composition: write(composition.encoders[module]),
        lambda values: unused,
        renames,
        lambda composition: idle(composition.encoders[module]),
    )

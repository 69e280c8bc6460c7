"""A run on its way out as a released model: the exported part, its form and its parameters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from mllm_jax.config.sections import LoraConfig
from mllm_jax.hf_format.expert_rules import check_equal_biases
from mllm_jax.hf_format.files import PretrainedError, list_names
from mllm_jax.hf_format.release_format import (
    RELEASED_DECODER,
    ReleasedConnector,
    ReleasedModel,
    ReleaseFormat,
)
from mllm_jax.hf_format.tensor_rules import TensorRule
from mllm_jax.layers.config.encoder import EncoderConfig
from mllm_jax.layers.trainable import ADAPTERS, FIXED, LOAD
from mllm_jax.models.graph import HEAD, OBJECTIVE
from mllm_jax.models.model_config import ModelConfig
from mllm_jax.models.pretrained.forms import form_of
from mllm_jax.models.pretrained.heads import export_rules
from mllm_jax.models.pretrained.release import HEAD_KERNEL, Release
from mllm_jax.release.export_processor import (
    TrainedProcessor,
)
from mllm_jax.release.parts import CONNECTOR, list_parts
from mllm_jax.train.state.saved import SavedParameters
from mllm_jax.train.state.stored_names import StoredNames

#: Keys of an encoder that only configurations of full models have.
_OF_MODEL = ("tiles", "class_token", "lookahead")


@dataclass(frozen=True)
class RunExport:
    """A run on its way out.

    Attributes:
        saved: newest checkpoint of the run.
        part: a module that is exported alone; None for the full model.
        dtype: type of all tensors; None for that of the run's initial release, or else that of the
            activations in training.
    """

    saved: SavedParameters
    part: str | None = None
    dtype: str | None = None

    @cached_property
    def config(self) -> dict[str, Any]:
        """JSON of the run's configuration."""
        return self.saved.config

    @cached_property
    def model(self) -> ModelConfig:
        """The model of the run."""
        model = ModelConfig.model_validate(self.config["model"])
        if self.lora is None:
            return model
        return model.with_adapters(self.lora.targets, self.lora.rank, self.lora.scale)

    @property
    def stored_names(self) -> StoredNames:
        """The names of the model's modules in the checkpoint."""
        return StoredNames.from_model(self.model)

    @cached_property
    def lora(self) -> LoraConfig | None:
        """`train.lora` of the run."""
        values = self.config["train"].get("lora")
        return LoraConfig.model_validate(values) if values else None

    @cached_property
    def releases(self) -> dict[str, Release]:
        """The release that each part of the model was read from, if its folder still exists."""
        sources = self.model.sources
        existing = {folder for folder in sources.values() if folder and Path(folder).is_dir()}
        opened = {folder: Release.open(Path(folder)) for folder in sorted(existing)}
        return {part: opened[folder] for part, folder in sources.items() if folder in opened}

    @cached_property
    def source(self) -> Release | None:
        """The one release of all that is exported, but for parts that began at random."""
        parts = [self.part] if self.part else self.model.parts
        folders = {folder for part in parts if (folder := self.model.sources.get(part))}
        if len(folders) != 1:
            return None
        return next((release for part, release in self.releases.items() if part in parts), None)

    @cached_property
    def processor(self) -> TrainedProcessor | None:
        """The processor that the run was trained with, if it is a released one."""
        return TrainedProcessor.from_config(self.config["data"])

    @cached_property
    def module_places(self) -> dict[str, str]:
        """The place of each module's parameters in the run, by its name in the checkpoint."""
        if self.part and self.part.endswith(CONNECTOR):
            return {"connector": self.stored_names.on_disk(self.part.removesuffix(CONNECTOR))}
        encoders = [self.part] if self.part else [*self.model.others]
        backbone = self.model.backbone
        decoder = (
            {RELEASED_DECODER: self.stored_names.on_disk(backbone)} if self._with_backbone else {}
        )
        return decoder | {
            self.model.others[name].released_name: self.stored_names.on_disk(name)
            for name in encoders
            if name != backbone
        }

    @property
    def _with_backbone(self) -> bool:
        """Whether the backbone is exported, alone or with all else."""
        return self.part in (None, self.model.backbone)

    @property
    def valid_parts(self) -> list[str]:
        """Valid values of `part`."""
        return list_parts(self.model.backbone, self.model.others)

    @cached_property
    def released_model(self) -> ReleasedModel:
        """The exported part.

        Raises:
            PretrainedError: the model has no such part, a placeholder no token, or biases choose
                the decoder's experts.
        """
        decoder, encoders = self.model.backbone_config, self.model.others
        graph = self.model.graph
        if self._with_backbone:
            self._check_biases()
        if self.part is None:
            self._check_kinds()
            self._check_deepstack(encoders)
            names = {name: encoder.released_name for name, encoder in encoders.items()}
            return ReleasedModel(
                decoder,
                {names[name]: encoder for name, encoder in encoders.items()},
                self._placeholder_ids(),
                {names[name]: graph.connector(name) for name in graph.merged},
            )
        if self.part not in self.valid_parts:
            raise PretrainedError(
                f"--part {self.part} is none of the model; valid: {list_names(self.valid_parts)}"
            )
        if self.part == self.model.backbone:
            return ReleasedModel(decoder.model_copy(update={"extra_tokens": 0}))
        name = self.part.removesuffix(CONNECTOR)
        self._check_deepstack([name])
        encoder, connector = encoders[name], graph.connector(name)
        if self.part.endswith(CONNECTOR):
            widths = connector.input_width(encoder.d_model), decoder.d_model
            return ReleasedModel(connector=ReleasedConnector(connector, *widths))
        return ReleasedModel(encoders={encoder.released_name: without_model_keys(encoder)})

    def _check_biases(self) -> None:
        """Raise PretrainedError: biases choose experts, whatever the configuration says by now."""
        decoder = self.model.backbone_config
        if decoder.experts:
            place = self.stored_names.on_disk(self.model.backbone)
            leaf = self.saved[f"{place}.layers.experts.router.{LOAD}"]
            check_equal_biases(decoder, leaf.reshape(-1, leaf.shape[-1])[: decoder.expert_layers])

    def _check_kinds(self) -> None:
        """Raise PretrainedError: no released model has two encoders of one kind of media."""
        kinds = [encoder.media_kind for encoder in self.model.others.values()]
        for name, encoder in self.model.others.items():
            if kinds.count(encoder.media_kind) > 1:
                raise PretrainedError(
                    f"{name} is one of {kinds.count(encoder.media_kind)} encoders of "
                    f"{encoder.media_kind}, of which no released form has more than one; export "
                    f"parts, each by itself: --part {' or '.join(self.valid_parts)}"
                )

    def _check_deepstack(self, names: Iterable[str]) -> None:
        """Raise PretrainedError: no released form has connectors of earlier layers."""
        for name in names:
            if layers := self.model.graph.intermediate_layers(name):
                raise PretrainedError(
                    f"model.{self.model.key(name)}.deepstack: {list(layers)} has no place in a "
                    "released form; valid: parts of the model without it, such as --part "
                    f"{self.model.backbone}"
                )

    def _placeholder_ids(self) -> Mapping[str, int]:
        """Ids of the tokens at which outputs are merged, from the processor or else the release."""
        if self.processor is None:
            return self.source.released_model.placeholders if self.source else {}
        vocab = self.model.backbone_config.vocab_size
        encoders = sorted(self.model.others.values(), key=lambda encoder: encoder.media_kind)
        return {
            encoder.released_name: self.processor.id_of(encoder.media_kind, vocab)
            for encoder in encoders
        }

    @cached_property
    def release_format(self) -> ReleaseFormat:
        """The form: that of the release, or the first that takes the modules.

        Raises:
            PretrainedError: there is none; says why not those of the same modules.
        """
        release_format, composition = (
            self.source.release_format if self.source else None,
            self.released_model,
        )
        if self.is_unchanged and release_format:
            return release_format
        try:
            return form_of(composition, release_format)
        except PretrainedError as error:
            exported = f"--part {self.part}" if self.part else "the model"
            raise PretrainedError(
                f"{exported} has no released form ({error}){self._give_advice()}"
            ) from None

    def _give_advice(self) -> str:
        if self.part:
            return ""
        parts = [RunExport(self.saved, part) for part in self.valid_parts]
        return (
            f"; export parts of it, each by itself: --part {' or '.join(_exportable_parts(parts))}"
        )

    @cached_property
    def rules(self) -> list[tuple[str, TensorRule]]:
        """Every rule with the dotted name of its parameter in the checkpoint.

        Raises:
            PretrainedError: a parameter has none, so that files would lack it.
        """
        modules = self.release_format.rules(self.released_model)
        rules = [
            (f"{self.module_places[module]}.{rule.parameter}", rule)
            for module, rules_of_module in modules.items()
            for rule in rules_of_module
            if self.model.graph.writes or rule.parameter != HEAD_KERNEL
        ]
        heads = export_rules(self.model.graph, self.full_modules, self._shapes)
        self._check_complete({name for name, _ in rules} | heads.keys())
        return [*rules, *heads.items()]

    def _check_complete(self, written: Set[str]) -> None:
        """Raise PretrainedError: the form has no tensor for a parameter of the exported modules."""
        modules = tuple(f"{place}." for place in self.module_places.values())
        missing = [
            name
            for name in self.saved.names
            if name.startswith(modules) and name not in written and not self._is_left_out(name)
        ]
        if missing:
            raise PretrainedError(
                f"{self.release_format.name} has no tensor for {list_names(missing)}; valid: "
                "rules for all parameters in the family's release, or a form that has them"
            )

    def _is_left_out(self, name: str) -> bool:
        """Whether a parameter of an exported module is no tensor of its release by intention."""
        if name.rpartition(".")[2] in (*ADAPTERS, LOAD, FIXED):
            return True
        if name.endswith(f".{HEAD_KERNEL}") and not self.model.graph.writes:
            return True
        if self.part is None:
            return False
        if self.part == self.model.backbone:
            return ".extra_embedding." in name
        is_exported_alone = self.part.endswith(CONNECTOR)
        return name.startswith(self._connector_blocks) != is_exported_alone

    @cached_property
    def _connector_blocks(self) -> tuple[str, ...]:
        """Beginnings of the names of parameters of edges into the backbone."""
        edges = {name: self.model.graph.merge(name) for name in self.model.graph.merged}
        return tuple(
            f"{self.stored_names.on_disk(name)}.{block}."
            for name, edge in edges.items()
            if edge is not None
            for block in edge.blocks
        )

    @property
    def full_modules(self) -> dict[str, str]:
        """`module_places` of full modules, whose heads are exported with them."""
        return {} if self.part and self.part.endswith(CONNECTOR) else self.module_places

    @cached_property
    def _shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the parameters of heads, by dotted name in the checkpoint."""
        graph, shapes = self.model.graph, dict[str, tuple[int, ...]]()
        for module in graph.modules:
            where = self.stored_names.on_disk(module)
            blocks = tuple(f"{where}.{begin}" for begin in (HEAD, OBJECTIVE))
            names = [name for name in self.saved.names if name.startswith(blocks)]
            shapes |= {name: self.saved[name].shape for name in names}
        return shapes

    @property
    def is_unchanged(self) -> bool:
        """Whether the model still agrees with the release's configuration."""
        return self.source is not None and self.source.released_model == self.released_model

    @cached_property
    def unmapped(self) -> list[str]:
        """Tensors of the release that are not the model's, but of its form."""
        if self.source is None or not self.is_unchanged:
            return []
        return self.release_format.copied_tensors(self.source.values, self.source.tensors)

    @cached_property
    def filler_tensors(self) -> dict[str, NDArray[Any]]:
        """Tensors of the form that nothing uses: the release's if it has them."""
        stored = self.source.tensors if self.source else {}
        idle_tensors: dict[str, NDArray[Any]] = {}
        for name, tensor in self.release_format.filler_tensors(self.released_model).items():
            same = (stored_tensor for at, stored_tensor in stored.items() if at.endswith(name))
            candidate = next((weight for weight in same if weight.shape == tensor.shape), None)
            idle_tensors[name] = candidate.map_weights() if candidate else tensor
        return {name: tensor for name, tensor in idle_tensors.items() if name not in self.unmapped}


def without_model_keys(encoder: EncoderConfig) -> EncoderConfig:
    """An encoder without the keys that only configurations of full models have."""
    fields = type(encoder).model_fields
    model_keys = [key for key in _OF_MODEL if key in fields]
    return encoder.model_copy(
        update={key: fields[key].get_default(call_default_factory=True) for key in model_keys}
    )


def _exportable_parts(exports: list[RunExport]) -> Iterator[str]:
    """Parts that have a form."""
    for export in exports:
        with suppress(PretrainedError):
            assert export.release_format
            yield str(export.part)

"""Typed configuration of the whole model: modules, the edges between them, and objectives.

The usual model is written as a decoder and encoders, which is the short form of a graph::

    encoders.vision  --connector-->  decoder  -->  next_token

Edges that end in other objectives are written out::

    objectives: {pairs: {kind: contrastive, dimensions: 64}}
    edges:
      - {source: decoder, target: pairs, select: last}
      - {source: vision, target: pairs, select: class_token}

The classes of a model's configuration refuse impossible values when a configuration is loaded.
`ModuleConfig.requirements` lists the sizes that a parallel plan must divide, so that the caller can
name the valid degrees.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, cast

from pydantic import (
    Field,
    PrivateAttr,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from mllm_jax.families.choice import AnyDecoder, AnyEncoder, AnyModule
from mllm_jax.layers.attention.limits import Backend
from mllm_jax.layers.config.adapters import LoraAdapters
from mllm_jax.layers.config.connector import ConnectorConfig
from mllm_jax.layers.config.decoder import DecoderConfig
from mllm_jax.layers.config.encoder import EncoderConfig
from mllm_jax.layers.config.linear import LinearLayer
from mllm_jax.layers.config.module import ModuleConfig
from mllm_jax.layers.config.parts import LISTED_ABOVE, Section
from mllm_jax.models.graph import (
    HEAD,
    NEXT_TOKEN,
    Edge,
    ModelGraph,
    check_graph,
)
from mllm_jax.models.objectives.config import AnyObjective, NextTokenConfig, ObjectiveConfig
from mllm_jax.models.short_form import (
    BACKBONE,
    MODULES,
    OTHERS,
    in_form,
    module_key,
    sections_of_modules,
)
from mllm_jax.models.written_form import in_graph_form, in_source_form
from sharding.plan import PlanRequirement


def _is_empty(value: Sequence[Edge] | Mapping[str, ObjectiveConfig]) -> bool:
    """Whether a key has its default, with which files are as before there was the key."""
    return not value


class ModelConfig(Section):
    """The whole model.

    Args:
        decoder: the backbone in the short form of a graph, where it is called `decoder`.
        encoders: name of each encoder (chosen freely; it also names the encoder's parallel plan and
            budget, unless the encoder has `buckets`) to its configuration.
        modules: all modules by names that are chosen freely, in place of `decoder` and `encoders`;
            the keys of the backbone are those of `decoder`, of any other module those of an
            encoder.
        backbone: the one of `modules` that reads text, and whose rows hold the samples; its
            microbatches count the step.
        edges: where outputs go, each edge with `source` and `target`; see
            docs/concepts/objectives.md. An edge into the backbone merges outputs into its rows, by
            a `connector`, and perhaps those of more `layers`; in the short form these are keys of
            the encoder, `connector` and `deepstack`. An edge into an objective has, as needed, a
            `connector`, `norm` and `select`. An encoder without an edge has one into the backbone.
        objectives: name of each objective to its configuration; by default `next_token` alone.
        dtype: data type of activations; `auto` = bfloat16 on accelerators, float32 on CPU.
            Parameters, statistics and losses are always float32.
        attention: implementation, see `layers.attention.dispatch`; `auto` picks by platform.
        remat: values that the backward recomputes: `none` nothing, `layer` each layer from its
            input, `full` all layers of a module, or a pipeline stage's chunk of them, from their
            input.
        loss_chunk: number of tokens whose logits exist at a time.
        pretrained: source of the initial parameters, which are random without it: the folder of a
            released checkpoint of the full model; or for each part (`decoder`, `decoder.extra` if
            there are extra tokens, `<encoder>`, `<encoder>.connector`,
            `<module>.head_<objective>`) a folder, or null for random values. Heads are random with
            one folder for the full model. Keys of these modules that the section leaves out come
            from their `config.json`.
    """

    decoder: AnyDecoder = Field(default=cast(Any, None))  # None where modules are written
    encoders: dict[str, AnyEncoder] = Field({})
    written: dict[str, AnyModule] = Field({}, alias=MODULES, json_schema_extra=LISTED_ABOVE)
    backbone: str = BACKBONE
    edges: tuple[Edge, ...] = Field((), exclude_if=_is_empty)
    objectives: dict[str, AnyObjective] = Field({}, exclude_if=_is_empty)
    pretrained: str | dict[str, str | None] | None = None
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    attention: Backend = "auto"
    remat: Literal["none", "layer", "full"] = "layer"
    loss_chunk: int = Field(1024, gt=0)
    _adapters: LoraAdapters | None = PrivateAttr(default=None)

    def __hash__(self) -> int:
        """A hash of the modules' sizes; equality compares the mappings, too, which have none."""
        modules = self.modules.values()
        return hash(frozenset((module.family, module.layers, module.d_model) for module in modules))

    @property
    def backbone_config(self) -> DecoderConfig:
        """Configuration of the backbone."""
        config = self.written[self.backbone] if self.written else self.decoder
        assert isinstance(config, DecoderConfig)
        return config

    @property
    def others(self) -> dict[str, EncoderConfig]:
        """All modules but the backbone, by name, in the order in which they are written."""
        modules = self.written or self.encoders
        return {
            name: config for name, config in modules.items() if isinstance(config, EncoderConfig)
        }

    @property
    def modules(self) -> dict[str, ModuleConfig]:
        """All modules by name, in the order of initial keys and of sums over gradients."""
        others = self.others
        return {
            self.backbone: self.backbone_config,
            **{name: others[name] for name in sorted(others)},
        }

    def key(self, module: str) -> str:
        """The key of a module in this section and in those with an entry for each module."""
        return module_key(module, self.backbone)

    @property
    def graph(self) -> ModelGraph:
        """The graph of which this is the written form."""
        objectives = self.objectives or {NEXT_TOKEN: NextTokenConfig()}
        merged = [edge for edge in self.edges if edge.target == self.backbone]
        others = [edge for edge in self.edges if edge.target != self.backbone]
        reached = {edge.target for edge in others}
        implied = [
            Edge(source=self.backbone, target=name)
            for name, objective in objectives.items()
            if objective.reads_tokens and name not in reached
        ]
        edges = *merged, *implied, *others
        return ModelGraph(self.modules, edges, objectives, self.backbone)

    @model_validator(mode="before")
    @classmethod
    def _in_graph_form(cls, values: Any) -> Any:
        return in_graph_form(values) if isinstance(values, dict) else values

    @model_serializer(mode="wrap")
    def _in_its_form(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        form = in_form(serialize(self), bool(self.written))
        return in_source_form(form, self.backbone)

    @model_validator(mode="after")
    def _sound_modules(self) -> ModelConfig:
        if not self.written and self.decoder is None:
            raise ValueError(
                f"the model has no {BACKBONE}; valid: {BACKBONE}, or {MODULES} with backbone"
            )
        for name, config in self.written.items():
            is_backbone = name == self.backbone
            if config.reads_text != is_backbone:
                raise ValueError(
                    f"{self.key(name)}.family: {config.family} reads "
                    f"{'text' if config.reads_text else 'media'}, and {name} "
                    f"{'is' if is_backbone else 'is not'} the backbone; valid: a family that reads "
                    f"{'text' if is_backbone else 'media'}"
                )
        return self

    @model_validator(mode="after")
    def _sound_graph(self) -> ModelConfig:
        check_graph(self.graph)
        return self

    def with_modules(self, changed: Mapping[str, ModuleConfig]) -> ModelConfig:
        """The same model with other configurations of some modules."""
        if self.written:
            modules = {name: changed.get(name, config) for name, config in self.written.items()}
            return self.model_copy(update={"written": modules})
        modules = {self.backbone: self.decoder, **self.encoders}
        modules = {name: changed.get(name, config) for name, config in modules.items()}
        return self.model_copy(update=sections_of_modules(modules, BACKBONE))

    @property
    def adapters(self) -> LoraAdapters | None:
        """Adapters beside linear layers, which are no keys of this section: see `train.lora`."""
        return self._adapters

    @property
    def adapted(self) -> tuple[str, ...]:
        """Parts of the model of which adapters alone train."""
        return self._adapters.parts if self._adapters else ()

    def with_others(self, others: Mapping[str, EncoderConfig]) -> ModelConfig:
        """The same backbone with these of the other modules, which are not checked again."""
        sources = {self.backbone, *others}
        edges = tuple(edge for edge in self.edges if edge.source in sources)
        if self.written:
            modules = {self.backbone: self.backbone_config, **others}
            return self.model_copy(update={"written": modules, "edges": edges})
        return self.model_copy(update={OTHERS: dict(others), "edges": edges})

    def with_adapters(self, targets: Sequence[str], rank: int, scale: float) -> ModelConfig:
        """The same model with adapters of linear layers; see `LoraAdapters.from_targets`.

        Raises:
            AdapterError: a target matches no layer.
        """
        return self.adapted_like(
            LoraAdapters.from_targets(self.linear_layers, targets, rank, scale)
        )

    def adapted_like(self, adapters: LoraAdapters | None) -> ModelConfig:
        """The same model with these adapters, which are of a model of the same layers."""
        if adapters is not None:
            layers = [layer for layer in self.linear_layers if layer.name in adapters.names]
            adapters = replace(adapters, layers=tuple(layers))
        changed = self.model_copy()
        changed._adapters = adapters
        return changed

    @property
    def linear_layers(self) -> list[LinearLayer]:
        """The linear layers that can have adapters."""
        graph = self.graph
        names = self.backbone, *self.others
        return [layer for name in names for layer in graph.linear_layers(name)]

    @model_validator(mode="after")
    def _with_newline(self) -> ModelConfig:
        for name in self.others:
            if self.tile_inputs(name) and not self.backbone_config.extra_tokens:
                raise ValueError(
                    f"{self.key(name)}.tiles need a newline token: set "
                    f"{self.key(self.backbone)}.extra_tokens to 1"
                )
        return self

    @model_validator(mode="after")
    def _whole_pretrained(self) -> ModelConfig:
        if isinstance(self.pretrained, dict) and {*self.pretrained} != {*self.parts}:
            raise ValueError(
                f"pretrained is given for {', '.join(self.pretrained) or 'nothing'}; valid: a "
                f"folder, or null, for each of {', '.join(self.parts)}"
            )
        return self

    @model_validator(mode="after")
    def _own_names(self) -> ModelConfig:
        names = [self.backbone, *self.others]
        for name, encoder in self.others.items():
            if name == self.backbone or (name == OTHERS and not self.written):
                raise ValueError(f"{self.key(name)}: the name is taken; valid: any other name")
            for bucket in encoder.buckets:
                if bucket in names:
                    raise ValueError(
                        f"{self.key(name)}.buckets.{bucket}: the name is taken; valid: a name "
                        f"other than {', '.join(names)}"
                    )
                names.append(bucket)
        return self

    @property
    def buckets(self) -> dict[str, str]:
        """The encoder whose parameters a bucket uses, by the name of the bucket.

        An encoder without `buckets` has one, of its name.
        """
        others = self.others.items()
        return {bucket: name for name, encoder in others for bucket in encoder.buckets or (name,)}

    @property
    def merged_buckets(self) -> tuple[str, ...]:
        """Buckets whose outputs are merged into the backbone's rows."""
        return tuple(name for name, module in self.buckets.items() if module in self.graph.merged)

    @property
    def remats(self) -> dict[str, Literal["none", "layer", "full"]]:
        """`remat` of the buckets whose encoder has one of its own."""
        by_bucket = {bucket: self.encoder(bucket).remat for bucket in self.buckets}
        return {bucket: remat for bucket, remat in by_bucket.items() if remat is not None}

    def module(self, name: str) -> ModuleConfig:
        """Configuration of the backbone, or of the module that has a bucket with this name."""
        return self.modules[self.buckets.get(name, name)]

    def encoder(self, bucket: str) -> EncoderConfig:
        """Configuration of the encoder that has a bucket."""
        return self.others[self.buckets[bucket]]

    def connector(self, bucket: str) -> ConnectorConfig:
        """See `ModelGraph.connector`; of the module that has a bucket."""
        return self.graph.connector(self.buckets[bucket])

    def reduction(self, name: str) -> int:
        """Input positions per output of the backbone or of a bucket's module."""
        return self.graph.reduction(self.buckets.get(name, name))

    def tile_inputs(self, name: str) -> int:
        """Input positions of a tile of a bucket; 0 for media that are not cut into tiles."""
        return self.graph.tile_inputs(self.buckets.get(name, name))

    def usual_row(self, bucket: str, media: int) -> int:
        """See `EncoderConfig.usual_row`."""
        return self.encoder(bucket).usual_row(media, self.connector(bucket))

    @model_validator(mode="after")
    def _layers_with_inputs(self) -> ModelConfig:
        most, graph = self.backbone_config.layers, self.graph
        for name in graph.merged:
            layers = graph.intermediate_layers(name)
            deepstack = f"{self.key(name)}.deepstack {list(layers)}"
            if len(layers) > most:
                raise ValueError(
                    f"{deepstack} has more layers than the {self.backbone}; valid: at most {most}"
                )
            if layers and self.sources[f"{name}.connector"] is not None:
                raise ValueError(
                    f"{deepstack} has connectors that no released model has; valid: pretrained "
                    f"null for {name}.connector, or deepstack []"
                )
        return self

    @property
    def layer_inputs(self) -> int:
        """First layers of the backbone after which outputs of other modules are added."""
        return self.graph.layer_inputs(self.backbone)

    @property
    def parts(self) -> tuple[str, ...]:
        """The backbone, its extra tokens if any, other modules, connectors, heads of objectives.

        They are called `<backbone>`, `<backbone>.extra`, `<module>`, `<module>.connector` and
        `<module>.head_<objective>`.
        """
        extra = (f"{self.backbone}.extra",) if self.backbone_config.extra_tokens else ()
        merged = self.graph.merged
        connectors = (f"{name}.connector" for name in self.others if name in merged)
        return (self.backbone, *extra, *self.others, *connectors, *self._heads)

    @property
    def _heads(self) -> list[str]:
        """The parts that are heads of objectives."""
        graph = self.graph
        return [f"{name}.{HEAD}{head}" for name in graph.modules for head in graph.heads(name)]

    @property
    def sources(self) -> dict[str, str | None]:
        """Folder of the initial parameters, by part."""
        if isinstance(self.pretrained, dict):
            return self.pretrained
        return dict.fromkeys(self.parts, self.pretrained) | dict.fromkeys(self._heads)

    def dtype_on(self, platform: str) -> str:
        """`dtype`, with `auto` settled for `cpu`, `gpu` or `tpu`."""
        if self.dtype != "auto":
            return self.dtype
        return "float32" if platform == "cpu" else "bfloat16"

    def requirements(self, module: str) -> tuple[PlanRequirement, ...]:
        """Sizes that the plan of `module`, the backbone or a bucket, must divide."""
        return self.graph.requirements(self.buckets.get(module, module))

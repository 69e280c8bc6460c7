"""The modules of a model as pure functions; what moves between them is the caller's.

    forward -> (merge) -> forward -> heads of objectives, or greedy_tokens

All run inside a fully manual `jax.shard_map` on local shards, or outside it with `MeshView()`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp

from mllm_jax.families.family import load_reference
from mllm_jax.families.functions import ModuleFunctions, load_functions
from mllm_jax.layers import transformer as decoder
from mllm_jax.layers import vocabulary
from mllm_jax.layers.adapters import adapt_blocks
from mllm_jax.layers.config.linear import VOCABULARY_HEAD
from mllm_jax.layers.config.module import ModuleConfig
from mllm_jax.layers.connector import (
    Head,
    connect_outputs,
    connector_block,
    norm_block,
)
from mllm_jax.layers.dense import gather_sequence
from mllm_jax.layers.interpolation import interpolate_outputs
from mllm_jax.layers.modules import LayerContext
from mllm_jax.layers.parameters import (
    ModuleBlocks,
    ParameterBlock,
    Params,
    block_axes,
    block_shapes,
    init_blocks,
)
from mllm_jax.layers.varying import vary_like
from mllm_jax.models.freeze import NOTHING_FROZEN, FrozenParameters
from mllm_jax.models.graph import HEAD, LINEAR, OBJECTIVE, Edge, ModelGraph, Select
from mllm_jax.models.model_config import ModelConfig
from mllm_jax.models.module_rows import ModuleRows
from mllm_jax.models.objectives.config import find_kind
from mllm_jax.models.objectives.next_token import TokenOutputs
from mllm_jax.models.objectives.objective import Objective
from mllm_jax.models.objectives.samples import average_segments, keep_first
from mllm_jax.models.work.flops import model_flops, module_work
from sharding.collectives import join_slices, psum
from sharding.grid import MeshView
from sharding.layerstack.prefetch import PrefetchedLayerStack, apply_layers
from sharding.layerstack.spec import Aux, LayerStackSpec
from sharding.traced import traced_platform

__all__ = [
    "ShardedModule",
    "abstract_parameters",
    "compute_dtype",
    "greedy_tokens",
    "init_parameters",
    "load_objective",
    "model_flops",
    "module_work",
    "parameter_axes",
]

#: The functions of all decoders, which share their layers.
DECODER_FUNCTIONS = ModuleFunctions(
    decoder.build_decoder_blocks, decoder.embed_text, decoder.layer_context
)


def init_parameters(config: ModelConfig, key: jax.Array) -> Params:
    """Initial float32 parameters of all modules, by name; independent of any parallel plan."""
    keys = jax.random.split(key, len(config.modules))
    return {
        name: init_blocks(_build_blocks(config, name), module_key)
        for name, module_key in zip(config.modules, keys, strict=True)
    }


def parameter_axes(config: ModelConfig) -> Params:
    """Logical axes of every leaf of `init_parameters`, in the same structure."""
    return {name: block_axes(_build_blocks(config, name)) for name in config.modules}


def abstract_parameters(config: ModelConfig) -> tuple[Params, Params]:
    """Shapes of all parameters, and their logical axes, without computing anything."""
    shapes = {name: block_shapes(_build_blocks(config, name)) for name in config.modules}
    return shapes, parameter_axes(config)


class ShardedModule:
    """A module of the model on the ranks of its view: `sharding.layerstack.module.Module`.

    Batches and views are those of a bucket of lengths, of which a module may have several.

    Args:
        config: configuration of the model.
        bucket: name of the bucket, or of the module, if it has one alone.
        view: ranks of the bucket; each holds its rows of a batch completely. The vocabulary is
            split over their stages, too.
        frozen: parameters without gradients.

    Attributes:
        name: name of the module.
        settings: its configuration.
        blocks: its blocks.
        dtype: type of its activations.
        spec: how layers differ, and what else they take and give.
        aux: auxiliary losses that every layer gives, and their weights in the loss.
        frozen: whether the module is, its connectors and heads aside.
        graph: the modules of the model, and where their outputs go.
    """

    def __init__(
        self,
        config: ModelConfig,
        bucket: str,
        view: MeshView,
        frozen: FrozenParameters = NOTHING_FROZEN,
    ) -> None:
        self.name = config.buckets.get(bucket, bucket)
        self.config, self.view, self.dtype = config, view, compute_dtype(config)
        self.settings, self.blocks = config.modules[self.name], _build_blocks(config, self.name)
        self.graph = config.graph
        self.aux, self.spec = self._describe_layers()
        self.frozen, self._frozen = frozen.is_trunk_frozen(self.name), frozen
        self._family = _load_module_functions(self.settings)
        self._remat = config.remats.get(bucket, config.remat)

    def _describe_layers(self) -> tuple[Mapping[str, float], LayerStackSpec]:
        settings, graph = self.settings, self.graph
        return settings.aux, LayerStackSpec(
            settings.period,
            tuple(settings.aux),
            graph.layer_inputs(self.name),
            graph.intermediate_layers(self.name),
            without=self.blocks["layers"].without,
        )

    def partition_trained(self, params: Params) -> tuple[Params, Params]:
        """Parameters of the module that have gradients, and those that have none."""
        return self._frozen.partition_module(self.name, params)

    def forward(
        self, params: Params, rows: ModuleRows, merged: jax.Array | None = None
    ) -> tuple[jax.Array, Aux]:
        """All parts one after the other: the output, and this rank's part of auxiliary losses.

        Args:
            params: local shards of the module.
            rows: local rows of the bucket.
            merged: `[rows, positions / shards, d_model]`, outputs of other modules where they are
                merged and zero elsewhere, with inputs of the layers after their features.
        """
        x = self.embed(params, rows)
        if merged is not None:
            x = x + merged.astype(self.dtype)
        x, aux = self.run_layers(params["layers"], x, self.context(rows))
        return self.output(params, x, rows), aux

    def embed(self, params: Params, rows: ModuleRows) -> jax.Array:
        """See `Module.embed`; after the features is room for what `spec` says."""
        buckets, unmerged = self.config.buckets, {*self.graph.modules} - {*self.graph.merged}
        merges = {
            name: merge
            for name, merge in rows.merges.items()
            if buckets.get(name, name) not in unmerged
        }
        rows = replace(rows, merges=merges)
        merge = self.blocks, params, rows, self.settings, self.view, self.dtype
        inputs = max(self.spec.side_inputs, len(self.spec.intermediate_layers))
        return _pad_features(self._family.embed(*merge), inputs)

    def context(self, rows: ModuleRows) -> LayerContext:
        """What the layers read of rows besides the activations."""
        return self._family.context(rows, self.settings)

    def run_layers(
        self, params: Params, x: jax.Array, context: LayerContext, remat: str | None = None
    ) -> tuple[jax.Array, Aux]:
        """Apply stacked layers in order.

        Args:
            params: local shards with a leading dimension of layers; it may hold fewer layers than
                the module, but whole periods.
            x: `[rows, positions / shards, d_model]`, with what `spec` says after its features.
            context: of the rows.
            remat: `full`, `layer` or `none`, see `ModelConfig`; None: that of the module.

        Returns:
            The output of the last layer, and this rank's part of the auxiliary losses.
        """
        period, overlap = self.spec.period, self.view.overlap if self.view.fsdp else frozenset()
        everywhere = [name for name in params if len(self.spec.kinds_with(name)) == period]
        trained, constant = self.partition_trained({"layers": params})
        run = PrefetchedLayerStack(
            self.gathered_layer,
            trained.get("layers", {}),
            jax.tree.leaves(params[everywhere[0]])[0].shape[0],
            remat or self._remat,
            (),
            spec=self.spec,
            constant=constant.get("layers", {}),
            gather=self.gather_parameters,
            prefetch="gather" in overlap,
            trailing_scatter="scatter" in overlap,
        )
        return apply_layers(run, vary_like(x, (x, params)), context)

    def layer(
        self, params: Params, x: jax.Array, context: LayerContext, kind: int = 0
    ) -> tuple[jax.Array, Aux]:
        """A layer on activations `[rows, positions / shards, d_model]`, and auxiliary losses."""
        return self.gathered_layer(self.gather_parameters(params), x, context, kind)

    def gather_parameters(self, params: Params) -> Params:
        """A layer's parameters gathered along fsdp, in the type of the activations."""
        return self.blocks["layers"].gathered(params, self.view, self.dtype)

    def bind_layer(self, params: Params, kind: int) -> Any:
        """The layer of gathered parameters."""
        return self.blocks["layers"].bind(params, self.view.gathered_view, kind=kind)

    def gathered_layer(
        self, params: Params, x: jax.Array, context: LayerContext, kind: int = 0
    ) -> tuple[jax.Array, Aux]:
        """`layer` of gathered parameters."""
        outputs: tuple[jax.Array, Aux] = self.bind_layer(params, kind)(x, context, self.view)
        return outputs

    def apply_norm(self, params: Params, x: jax.Array) -> jax.Array:
        """The norm after the layers, for the families that have one."""
        return self.blocks["norm"].bind(params["norm"], self.view)(x) if "norm" in params else x

    def output(self, params: Params, x: jax.Array, rows: ModuleRows) -> jax.Array:
        """The last norm, connectors and, of tiled images, what of them is merged.

        `[rows, positions / stack / shards, width]`. The width is that of the module, or, with a
        connector, of the backbone; after its features are then inputs of the backbone's layers,
        which separate connectors make of earlier layers. After them are the module's
        features again, for each of `selects`.

        Args:
            x: out of the layers.
        """
        if self.settings.reads_text:
            return self.apply_norm(params, x)
        ids, outputs = self.context(rows).segment_ids, list[jax.Array]()
        if self.name in self.graph.merged:
            outputs.append(self._connect(params, x, ids, rows))
        if self.selects:
            normed = self.apply_norm(params, x[..., : self.settings.d_model])
            outputs += [self._select_media(select, normed, ids) for select in self.selects]
        return jnp.concatenate(outputs, axis=-1) if len(outputs) > 1 else outputs[0]

    @property
    def selects(self) -> tuple[Select, ...]:
        """What the edges of an encoder into objectives select, each once."""
        edges = self.graph.heads_of(self.name).values()
        return tuple(dict.fromkeys(edge.select for edge in edges))

    def split_outputs(self, x: jax.Array) -> tuple[jax.Array, dict[Select, jax.Array]]:
        """Outputs that are merged into the backbone's rows, and what edges into objectives select.

        Args:
            x: outputs of an encoder, or these where they are merged.
        """
        parts, width = self.selects, self.settings.d_model
        first = x.shape[-1] - width * len(parts)
        begins = range(first, x.shape[-1], width)
        selected = {
            select: x[..., begin : begin + width]
            for select, begin in zip(parts, begins, strict=True)
        }
        return x[..., :first] if parts else x, selected

    def _connect(self, params: Params, x: jax.Array, ids: jax.Array, rows: ModuleRows) -> jax.Array:
        """Outputs for the backbone's rows; arguments as of `output`, and ids of the positions."""
        edge, connector = self.graph.merge(self.name), self.graph.connector(self.name)
        assert edge is not None

        def connect_layer(
            name: str, x: jax.Array, norm: Callable[[jax.Array], jax.Array]
        ) -> jax.Array:
            return connect_outputs(
                self.blocks[name], params[name], x, ids, connector, norm, self.view
            )

        first, *names = edge.blocks
        last, *earlier = jnp.split(x, 1 + len(names), axis=-1)
        outputs = [connect_layer(first, last, partial(self.apply_norm, params))]
        for name, hidden in zip(names, earlier, strict=True):
            norm = self.blocks[f"{name}_norm"].bind(params[f"{name}_norm"], self.view)
            outputs.append(connect_layer(name, hidden, norm))
        combined = jnp.concatenate(outputs, axis=-1) if names else outputs[0]
        if "resize_indices" in rows.arrays:
            combined = interpolate_outputs(
                combined,
                rows.array("resize_indices"),
                rows.array("resize_weights"),
                self.view,
            )
        return _pad_features(combined, self.config.layer_inputs - len(names), 1 + len(names))

    def _select_media(self, select: Select, x: jax.Array, segment_ids: jax.Array) -> jax.Array:
        """What reaches objectives of every medium, at its first output; zero at its others."""
        select_segments = average_segments if select == "mean" else keep_first
        selected = select_segments(x, segment_ids, self.view)
        rows, positions, width = selected.shape
        stack = self.graph.connector(self.name).joined
        return jnp.sum(selected.reshape(rows, positions // stack, stack, width), axis=2)

    def apply_head(self, objective: str, params: Params, x: jax.Array) -> jax.Array:
        """The features that an edge brings to an objective, `[.., features]` float32.

        Args:
            params: local shards of the module.
            x: `[.., d_model]`, one output of every sample.
        """
        name = f"{HEAD}{objective}"
        output: jax.Array = self.blocks[name].bind(params[name], self.view)(x)
        return output

    def has_inputs(self, rows: ModuleRows) -> jax.Array:
        """Whether these rows have inputs on any rank that weights gathered parameters.

        Ranks that share a row agree by themselves, as each of them has all segments of the row.
        """
        return psum(jnp.count_nonzero(rows.segment_ids), self.view.fsdp) > 0


def load_objective(config: ModelConfig, name: str) -> Objective:
    """The loss of an objective of the model."""
    settings = config.graph.objectives[name]
    objective: Objective = load_reference(find_kind(settings.kind).loss)(settings)
    return objective


def token_outputs(
    params: Params, hidden: jax.Array, config: ModelConfig, view: MeshView
) -> TokenOutputs:
    """What an objective of tokens reads of outputs `[rows, tokens / shards, d_model]`."""
    terms = decoder.head_terms(
        _build_blocks(config, config.backbone), params, _flatten_tokens(hidden, view), view
    )
    return TokenOutputs(terms, config.backbone_config.vocab_size, config.loss_chunk)


def greedy_tokens(
    params: Params, hidden: jax.Array, config: ModelConfig, view: MeshView
) -> jax.Array:
    """Most likely next token at every position, `[rows, tokens]` int32, equal on a row's ranks."""
    token_states = token_outputs(params, hidden, config, view)
    best = vocabulary.argmax(token_states.terms, token_states.vocab, token_states.chunk, view)
    return join_slices(best.reshape(hidden.shape[0], -1), view.context, dim=1)


def compute_dtype(config: ModelConfig) -> jnp.dtype:
    """Type of activations on the platform that is traced for."""
    return jnp.dtype(config.dtype_on(traced_platform()))


def _load_module_functions(settings: ModuleConfig) -> ModuleFunctions:
    shared = DECODER_FUNCTIONS if settings.reads_text else None
    return load_functions(settings, shared)


@lru_cache(maxsize=64)  # Blocks find shapes and axes of their parameters once.
def _build_blocks(config: ModelConfig, name: str) -> ModuleBlocks:
    """The blocks of a module, with those of its connectors."""
    settings, graph = config.modules[name], config.graph
    blocks = dict(_load_module_functions(settings).build_blocks(settings, config.attention))
    if not graph.writes:
        blocks.pop(VOCABULARY_HEAD, None)
    if edge := graph.merge(name):
        blocks |= _connector_blocks(graph, edge)
    for objective, edge in graph.heads_of(name).items():
        width = graph.objectives[objective].width
        blocks[f"{HEAD}{objective}"] = _head_block(settings, edge, width)
    objective_blocks = {
        n: load_objective(config, n).build_block()
        for n in graph.objectives
        if name == graph.backbone
    }
    blocks |= {
        f"{OBJECTIVE}{n}": block for n, block in objective_blocks.items() if block is not None
    }
    return MappingProxyType(adapt_blocks(blocks, name, config.adapters))


def _connector_blocks(graph: ModelGraph, edge: Edge) -> ModuleBlocks:
    """The parameters of an edge into the backbone, by name."""
    source, width = graph.modules[edge.source], graph.modules[edge.target].d_model
    blocks = dict[str, ParameterBlock]()
    for number, name in enumerate(edge.blocks):
        blocks[name] = connector_block(graph.connector(edge.source), source.d_model, width)
        if number:
            blocks[f"{name}_norm"] = norm_block(source.d_model, source.norm_eps)
    return blocks


def _head_block(settings: ModuleConfig, edge: Edge, width: int) -> ParameterBlock:
    """The parameters of an edge into an objective of samples."""
    eps = settings.norm_eps if edge.norm else None
    arguments = settings.d_model, width, edge.connector or LINEAR, eps
    return ParameterBlock(lambda rngs: Head(*arguments, rngs))


def _pad_features(x: jax.Array, count: int, parts: int = 1) -> jax.Array:
    """`x`, of `parts` equal parts, followed by `count` parts of zeros in its features."""
    width = x.shape[-1] // parts
    return jnp.pad(x, ((0, 0), (0, 0), (0, count * width))) if count else x


def _flatten_tokens(hidden: jax.Array, view: MeshView) -> jax.Array:
    """Sequence shards to `[rows * tokens, d_model]`, tokens of the context rank."""
    return gather_sequence(hidden, view).reshape(-1, hidden.shape[-1])

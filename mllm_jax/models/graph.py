"""The modules of a model, the edges between them, and the objectives that edges end in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from mllm_jax.layers.config.connector import ConnectorConfig, LayerNumbers
from mllm_jax.layers.config.encoder import EncoderConfig
from mllm_jax.layers.config.linear import LinearLayer
from mllm_jax.layers.config.module import ModuleConfig
from mllm_jax.layers.config.parts import Section
from mllm_jax.models.objectives.config import ObjectiveConfig
from mllm_jax.models.short_form import module_key
from sharding.plan import PlanRequirement

#: The objective of a language model.
NEXT_TOKEN = "next_token"
#: Begins the name of the parameters of an edge into an objective, in the tree of its source.
HEAD = "head_"
#: Begins the name of an objective's other parameters, in the tree of the backbone.
OBJECTIVE = "objective_"
#: Outputs that an edge brings: of all tokens, or one of every sample or medium.
Select = Literal["tokens", "mean", "last", "class_token"]
#: The connector of an edge into an objective, unless it has another; it joins no outputs.
LINEAR = ConnectorConfig(kind="linear")


class Edge(Section):
    """Outputs of a module, and what they are for.

    Args:
        source: name of a module.
        target: name of the backbone, into whose rows the outputs are merged, or of an objective.
        connector: maps the width of the source to that of the target; its parameters are the
            source's. By default an MLP into the backbone, and a linear layer into an objective.
        norm: whether a LayerNorm stands before the connector of an objective.
        layers: layers of the source, from 1, whose outputs go to the backbone as well: each through
            a norm and a connector of its own, to be added after the backbone's first layer, its
            second, and so on (DeepStack, arXiv 2406.04334).
        select: outputs that reach an objective: those of all `tokens`, or one of every sample: the
            `last`, that of the `class_token`, or their `mean`.
    """

    source: str
    target: str
    connector: ConnectorConfig | None = None
    norm: bool = False
    layers: LayerNumbers = ()
    select: Select = "tokens"

    @property
    def blocks(self) -> list[str]:
        """Names of the connectors into the backbone in the parameters of the source.

        That of a layer in `layers` has a norm before it, of that name and `_norm`.
        """
        return ["connector", *(f"deepstack{number}" for number in range(len(self.layers)))]


@dataclass(frozen=True)
class ModelGraph:
    """The modules of a model, and where their outputs go.

    Attributes:
        modules: configurations by name, the backbone's first, in the order of initial keys and of
            sums over gradients.
        edges: all edges.
        objectives: configurations by name.
        backbone: the module whose microbatches count the step, and whose rows hold samples.
    """

    modules: Mapping[str, ModuleConfig]
    edges: tuple[Edge, ...]
    objectives: Mapping[str, ObjectiveConfig]
    backbone: str

    @property
    def merged(self) -> tuple[str, ...]:
        """Modules whose outputs are merged into the backbone's rows."""
        return tuple(edge.source for edge in self.edges_into(self.backbone))

    def merge(self, module: str) -> Edge | None:
        """The edge from a module into the backbone's rows, if there is one."""
        merges = self.edges_into(self.backbone)
        return next((edge for edge in merges if edge.source == module), None)

    def connector(self, module: str) -> ConnectorConfig:
        """The connector of that edge; of a module without one a connector that joins nothing."""
        edge = self.merge(module)
        return LINEAR if edge is None or edge.connector is None else edge.connector

    def reduction(self, module: str) -> int:
        """Input positions of a module per output."""
        return self.modules[module].stride * self.connector(module).joined

    def tile_inputs(self, module: str) -> int:
        """Input positions of a tile; 0 for media that are not cut into tiles."""
        settings = self.modules[module]
        if not isinstance(settings, EncoderConfig):
            return 0
        return settings.tile_inputs(self.connector(module))

    @property
    def measured(self) -> str | None:
        """The objective whose loss is measured on held-out samples: of tokens, if there is one.

        None if all wait for the outputs of a step.
        """
        names = [
            name for name, objective in self.objectives.items() if objective.scope == "microbatch"
        ]
        tokens = [name for name in names if self.objectives[name].reads_tokens]
        return next(iter([*tokens, *names]), None)

    @property
    def retrieved(self) -> tuple[str, ...]:
        """The objectives of pairs, whose partners are looked for among held-out samples."""
        return tuple(n for n, objective in self.objectives.items() if objective.retrieves)

    @property
    def writes(self) -> bool:
        """Whether the backbone learns to write."""
        return any(objective.reads_tokens for objective in self.objectives.values())

    def intermediate_layers(self, module: str) -> tuple[int, ...]:
        """Layers of a module, from 1, whose outputs an edge brings to the backbone (DeepStack)."""
        edge = self.merge(module)
        return () if edge is None else edge.layers

    def layer_inputs(self, module: str) -> int:
        """First layers of a module after which outputs of other modules are added."""
        return max((len(edge.layers) for edge in self.edges_into(module)), default=0)

    def side_activations(self, module: str) -> int:
        """Number of activations that are carried beside that of a module's layers."""
        return self.layer_inputs(module) + len(self.intermediate_layers(module))

    def edges_into(self, target: str) -> tuple[Edge, ...]:
        """The edges that end in a module or an objective."""
        return tuple(edge for edge in self.edges if edge.target == target)

    def edges_from(self, source: str) -> tuple[Edge, ...]:
        """The edges that begin in a module."""
        return tuple(edge for edge in self.edges if edge.source == source)

    def heads_of(self, source: str) -> dict[str, Edge]:
        """The edges of a module that end in objectives of samples, by objective."""
        return {
            edge.target: edge
            for edge in self.edges_from(source)
            if edge.target in self.objectives and not self.objectives[edge.target].reads_tokens
        }

    def has_vocabulary_head(self, module: str) -> bool:
        """Whether an objective reads all tokens of a module by the head of the vocabulary."""
        targets = (self.objectives.get(edge.target) for edge in self.edges_from(module))
        return any(objective is not None and objective.reads_tokens for objective in targets)

    def linear_layers(self, module: str) -> Iterator[LinearLayer]:
        """The linear layers of a module, of its connectors and of the head of the vocabulary."""
        settings, edge = self.modules[module], self.merge(module)
        yield from settings.linear_layers(module)
        if edge is not None:
            widths = settings.d_model, self.modules[self.backbone].d_model
            for block in edge.blocks:
                yield from self.connector(module).linear_layers(module, block, *widths)
        elif self.has_vocabulary_head(module):
            yield from settings.head_layers(module)

    def requirements(self, module: str) -> tuple[PlanRequirement, ...]:
        """Sizes of a module and its connector that the module's plan must divide."""
        requirements = self.modules[module].requirements()
        if self.merge(module) is None:
            return requirements
        width = self.modules[self.backbone].d_model
        return requirements + self.connector(module).requirements(self.backbone, width)

    def heads(self, module: str) -> tuple[str, ...]:
        """Objectives for which a module has parameters: of its edges, and the backbone of all."""
        names = [*self.heads_of(module)]
        if module == self.backbone:
            names += [name for name, objective in self.objectives.items() if objective.parameters]
        return tuple(dict.fromkeys(names))


def learns_to_write(objectives: Mapping[str, Any]) -> bool:
    """Whether a model with these plain values of `objectives` learns the next token."""
    return not objectives or any(v["kind"] == NEXT_TOKEN for v in objectives.values())


def check_graph(graph: ModelGraph) -> None:
    """Check that edges begin and end somewhere, and that every module and objective has some.

    Raises:
        ValueError: they do not; the message lists what is valid.
    """
    for edge in graph.edges:
        _check_ends(graph, edge)
        if edge.target in graph.objectives:
            _check_output(graph, edge)
        else:
            _check_merge(graph, edge)
    for name in graph.modules:
        if not graph.edges_from(name):
            raise ValueError(
                f"{name} feeds nothing; valid: an edge from {name} to one of "
                f"{', '.join(graph.objectives)}, or objectives with next_token"
            )
    for name, objective in graph.objectives.items():
        if objective.reads_tokens and name != objective.kind:
            raise ValueError(f"objectives.{name}: {objective.kind} is called {objective.kind}")
        if name in graph.modules:
            raise ValueError(f"objectives.{name}: a module has that name; valid: another name")
        sources = [edge.source for edge in graph.edges_into(name)]
        if len(sources) != objective.sources or len({*sources}) < len(sources):
            count, one = objective.sources, objective.sources == 1
            raise ValueError(
                f"objective {name} has edges from {', '.join(sources) or 'nothing'}; valid: "
                f"{'one edge' if one else f'{count} edges'} from {', '.join(graph.modules)}"
            )


def _check_ends(graph: ModelGraph, edge: Edge) -> None:
    where, valid = f"edge {edge.source} -> {edge.target}", ", ".join(graph.modules)
    if edge.source not in graph.modules:
        raise ValueError(f"{where}: {edge.source!r} is no module; valid: {valid}")
    if edge.target in graph.objectives:
        return
    names = ", ".join(graph.objectives)
    if edge.target not in graph.modules:
        raise ValueError(
            f"{where}: {edge.target!r} is neither a module nor an objective; valid: "
            f"{graph.backbone}, {names}"
        )
    if edge.source == graph.backbone or edge.target != graph.backbone:
        reason = (
            "closes a circle"
            if edge.source in (edge.target, graph.backbone)
            else (f"is refused, as outputs are merged into the rows of {graph.backbone} alone")
        )
        valid = names if edge.source == graph.backbone else f"{graph.backbone}, {names}"
        raise ValueError(f"{where} {reason}; valid: an edge to {valid}")


def _check_output(graph: ModelGraph, edge: Edge) -> None:
    """Check that a module has the outputs that an edge brings to an objective."""
    objective = graph.objectives[edge.target]
    where, source = f"edge {edge.source} -> {edge.target}", graph.modules[edge.source]
    if edge.layers:
        raise ValueError(f"{where}: layers are added to {graph.backbone}; valid: layers []")
    if objective.reads_tokens:
        if edge.source != graph.backbone or edge.select != "tokens" or edge.connector or edge.norm:
            raise ValueError(
                f"{where}: {objective.kind} reads all tokens by the head of the vocabulary; valid: "
                f"an edge from {graph.backbone} without select, connector and norm"
            )
        return
    valid = source.sample_outputs
    if edge.select not in valid:
        raise ValueError(
            f"{where}: select {edge.select} is refused, as {objective.kind} reads one output of "
            f"{edge.source} for every sample; valid: {', '.join(valid)}"
        )
    if edge.connector and (edge.connector.kind == "average" or edge.connector.stack != 1):
        raise ValueError(
            f"{where}: connector {edge.connector.kind} with stack {edge.connector.stack} joins "
            "outputs, and there is one; valid: kind mlp or linear, without stack"
        )
    if graph.tile_inputs(edge.source):
        key = module_key(edge.source, graph.backbone)
        raise ValueError(f"{where}: tiles have an output each; valid: {key}.tiles null")


def _check_merge(graph: ModelGraph, edge: Edge) -> None:
    """Check that outputs of a module can be merged as an edge into the backbone says."""
    where, source = f"edge {edge.source} -> {edge.target}", graph.modules[edge.source]
    key, layers = module_key(edge.source, graph.backbone), edge.layers
    if graph.merged.count(edge.source) > 1:
        raise ValueError(f"{where} is given {graph.merged.count(edge.source)} times; valid: once")
    if edge.norm or edge.select != "tokens":
        further = "norm" if edge.norm else "select"
        raise ValueError(
            f"{where}: {further} is a key of edges into objectives; valid: connector, layers"
        )
    if sorted({*layers}) != [*layers] or max(layers, default=0) > source.layers:
        raise ValueError(
            f"{key}: deepstack {list(layers)} must be numbers of layers in rising order, from "
            f"1 to {source.layers}"
        )
    assert isinstance(source, EncoderConfig)  # as no edge closes a circle
    try:
        source.check_connector(graph.connector(edge.source))
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from None

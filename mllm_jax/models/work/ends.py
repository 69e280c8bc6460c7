"""What follows the layers of a module: connectors, the head of the vocabulary, other heads."""

from __future__ import annotations

from mllm_jax.layers.config import elements
from mllm_jax.models.graph import LINEAR, Edge, ModelGraph


def end_part(graph: ModelGraph, module: str) -> str:
    """The part of the model that makes the outputs of a module, as `ModelConfig.parts` names it."""
    return module if module == graph.backbone else f"{module}.connector"


def end_flops(graph: ModelGraph, module: str) -> float:
    """FLOPs of the products after the layers, per input position.

    The head of the vocabulary counts on every token, as if all had a loss. The head of another
    objective reads one output of a sample, which counts for nothing beside layers.
    """
    settings, edge = graph.modules[module], graph.merge(module)
    if edge is None:
        vocab = settings.vocab_size if graph.has_vocabulary_head(module) else 0
        return 2 * settings.d_model * vocab
    width = graph.modules[graph.backbone].d_model
    flops = graph.connector(module).output_flops(settings.d_model, width)
    return len(edge.blocks) * flops / graph.reduction(module)


def end_elements(graph: ModelGraph, module: str) -> elements.Elements:
    """Elements of the parameters of connectors with their norms, and of heads.

    The parameters of objectives themselves are in the backbone.
    """
    settings, edge = graph.modules[module], graph.merge(module)
    total = elements.Elements()
    if edge is not None:
        width, norm = settings.d_model, elements.norm(settings.d_model, layer_norm=True)
        outputs = graph.modules[graph.backbone].d_model
        one = graph.connector(module).parameter_elements(width, outputs)
        total = sum((one + norm for _ in edge.layers), one)
    elif graph.has_vocabulary_head(module):
        total = settings.head_elements
    for objective, head in graph.heads_of(module).items():
        total += _head_elements(settings.d_model, head, graph.objectives[objective].width)
    objectives = graph.objectives.values() if module == graph.backbone else ()
    return sum((elements.vector(objective.parameters) for objective in objectives), total)


def _head_elements(width: int, edge: Edge, features: int) -> elements.Elements:
    """Elements of the parameters of an edge into an objective of samples."""
    total, connector = elements.Elements(), edge.connector or LINEAR
    inputs: elements.Dims = (("embed", width),)
    if edge.norm:
        total += elements.norm(width, layer_norm=True)
    if connector.kind == "mlp":
        middle: elements.Dims = ((None, connector.hidden or width),)
        total, inputs = total + elements.dense(inputs, middle, connector.bias), middle
    return total + elements.dense(inputs, ((None, features),), connector.bias)

"""Heads of objectives in a released folder, beside the weights of its family.

Their tensors are called as in checkpoints, but for the one head that transformers knows: that of
`LlamaForSequenceClassification` and its siblings, linear without a bias, of the last token::

    decoder.head_scene.linear.kernel   ->  score.weight, if it is the only head of a text model
    decoder.head_place.linear.kernel   ->  decoder.head_place.linear.kernel
    objective_pairs.scale of decoder   ->  decoder.objective_pairs.scale

`config.json` lists the objectives and their edges under a key of this framework, which other
programs leave alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from mllm_jax.hf_format.files import PretrainedError, StoredTensor
from mllm_jax.hf_format.release_format import Values
from mllm_jax.hf_format.tensor_rules import TensorRule
from mllm_jax.hf_format.transforms import Shape, dense_kernel, identity_transform
from mllm_jax.models.graph import HEAD, OBJECTIVE, Edge, ModelGraph
from mllm_jax.models.objectives.config import ClassificationConfig
from mllm_jax.models.short_form import BACKBONE, OTHERS, module_key

#: Key of `config.json` with the objectives and edges of the heads.
KEY = "mllm_jax"
#: What transformers calls the head of a classifier of texts.
SCORE = "score.weight"
#: The public classes of models that write, and of classifiers.
_WRITES, _CLASSIFIES = "ForCausalLM", "ForSequenceClassification"
_TENSOR = re.compile(rf"({OTHERS}\.)?\w+\.({HEAD}|{OBJECTIVE})\w+\.[\w.]+")


def released_objectives(values: Values) -> dict[str, Any]:
    """`objectives` and `edges` of the model of a `config.json`; nothing if it has no heads.

    Raises:
        PretrainedError: the key is of another kind.
    """
    written = values.get(KEY, {})
    if not isinstance(written, Mapping) or not written.keys() <= {"objectives", "edges"}:
        raise PretrainedError(f"{KEY}: {written!r:.120} is refused; valid: objectives and edges")
    return dict(written)


def head_tensors(names: Iterable[str]) -> list[str]:
    """The tensors of heads among those of a release."""
    return [name for name in names if name == SCORE or _TENSOR.fullmatch(name)]


def rules_of_head(
    tensors: Mapping[str, StoredTensor], module: str, objective: str
) -> list[TensorRule]:
    """Rules of a head, of the parameters that a release has of it.

    Args:
        module: released name of the module.
        objective: name of the objective.
    """
    prefix = _stored_prefix(module)
    blocks = tuple(f"{prefix}{begin}{objective}." for begin in (HEAD, OBJECTIVE))
    rules = [
        TensorRule(name.removeprefix(prefix), name, identity_transform(tensor.shape))
        for name, tensor in tensors.items()
        if name.startswith(blocks)
    ]
    if rules or SCORE not in tensors:
        return rules
    return [_score_rule(objective, tensors[SCORE].shape)]


def export_rules(
    graph: ModelGraph, stored: Mapping[str, str], shapes: Mapping[str, Shape]
) -> dict[str, TensorRule]:
    """By dotted name in the checkpoint, the rules of the heads of modules.

    Args:
        stored: released name of every module that is exported, to its name in the checkpoint.
        shapes: shapes of all parameters by dotted name.
    """
    score, rules = score_objective(graph), dict[str, TensorRule]()
    for module, place in stored.items():
        blocks = tuple(f"{place}.{begin}" for begin in (HEAD, OBJECTIVE))
        for name in (name for name in shapes if name.startswith(blocks)):
            parameter = name.removeprefix(f"{place}.")
            if score is None:
                released = f"{_stored_prefix(module)}{parameter}"
                rules[name] = TensorRule(parameter, released, identity_transform(shapes[name]))
            else:
                rules[name] = _score_rule(score, shapes[name][::-1])
    return rules


def export_values(graph: ModelGraph, stored: Mapping[str, str], values: Values) -> dict[str, Any]:
    """`values` of a `config.json` with what tells of the heads of modules.

    Args:
        stored: released name of every module that is exported, to its name in the configuration.
    """
    names = {name: module for module, name in stored.items()}
    edges = [
        edge.model_copy(update={"source": names[edge.source]})
        for edge in graph.edges
        if edge.source in names and edge.target in graph.heads_of(edge.source)
    ]
    plain = {key: value for key, value in values.items() if key != KEY}
    if not edges:
        return plain
    sources = {edge.source for edge in edges}
    objectives = {
        name: objective.model_dump(mode="json")
        for name, objective in graph.objectives.items()
        if objective.reads_tokens or any(edge.target == name for edge in edges)
    }
    merged = [e for e in graph.merged if names.get(e) in sources]
    written = [Edge(source=names[name], target=BACKBONE) for name in merged] + edges
    heads = {"objectives": objectives, "edges": [edge.model_dump(mode="json") for edge in written]}
    return plain | _score_values(graph, plain) | {KEY: heads}


def score_objective(graph: ModelGraph) -> str | None:
    """The classifier whose head transformers knows, if the model has it as its only head."""
    heads = graph.heads_of(graph.backbone)
    if len(graph.modules) > 1 or len(graph.heads(graph.backbone)) != 1 or len(heads) != 1:
        return None
    ((name, edge),) = heads.items()
    connector = edge.connector
    is_linear = connector is not None and connector.kind == "linear" and not connector.bias
    known = isinstance(graph.objectives[name], ClassificationConfig) and edge.select == "last"
    return name if known and is_linear and not edge.norm else None


def _score_rule(objective: str, shape: Shape) -> TensorRule:
    """The rule of the classifier's kernel, which transformers has as `[classes, width]`."""
    classes, width = shape
    return TensorRule(f"{HEAD}{objective}.linear.kernel", SCORE, dense_kernel((width,), (classes,)))


def _score_values(graph: ModelGraph, values: Values) -> dict[str, Any]:
    """The keys by which transformers makes the classifier."""
    name = score_objective(graph)
    objective = graph.objectives.get(name or "")
    if not isinstance(objective, ClassificationConfig):
        return {}
    labels = {str(number): f"LABEL_{number}" for number in range(objective.classes)}
    labels_by_id = {"id2label": labels, "label2id": {label: int(n) for n, label in labels.items()}}
    if graph.writes:
        return labels_by_id
    classes = [name.replace(_WRITES, _CLASSIFIES) for name in values.get("architectures", ())]
    return labels_by_id | {"architectures": classes}


def _stored_prefix(module: str) -> str:
    """How the names of a module's parameters begin."""
    return f"{module_key(module, BACKBONE)}."

"""Edges into the backbone as they are written, and as a model's configuration has them.

In the short form they have keys of their sources: `encoders.vision.connector` is the connector of
the edge from `vision`, and `encoders.vision.deepstack` are its `layers`. A module without edges has
one into the backbone::

    encoders: {vision: {..., connector: {kind: linear}}}

    edges: [{source: vision, target: decoder, connector: {kind: linear}}]
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from mllm_jax.families.choice import DECODERS
from mllm_jax.layers.config.connector import ConnectorConfig
from mllm_jax.models.short_form import BACKBONE, MODULES, OTHERS, in_short_form, module_key

#: Keys of an edge, by their names in its source.
SHORT_KEYS = {"connector": "connector", "deepstack": "layers"}
#: A connector that says nothing.
UNSET = ConnectorConfig().model_dump(mode="json")


def in_graph_form(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values of a model in the form of its class: all edges into the backbone are in `edges`.

    A graph whose backbone is called `decoder` gets its short form but for the edges. What has
    another shape than these keys have is left for the types to refuse.

    Raises:
        ValueError: modules are written in both forms, the backbone is none of them, or keys of an
            edge are given twice, or although there is no such edge.
    """
    form = dict(values)
    if MODULES in form or "backbone" in form:
        form = _checked_form(form)
    backbone = form.get("backbone", BACKBONE)
    key = _key_of_sources(backbone)
    modules, edges = form.get(key) or {}, form.get("edges", [])
    if not isinstance(modules, Mapping):
        return form
    keys = {name: _edge_keys(module) for name, module in modules.items() if name != backbone}
    if isinstance(edges, list | tuple):
        edges = [*_into_backbone(edges, keys, backbone), *_into_objectives(edges, backbone)]
    without = {**modules, **{name: _without_edge(modules[name]) for name in keys}}
    return form | ({key: without} if without else {}) | {"edges": edges}


def in_source_form(
    form: Mapping[str, Any], backbone: str, known: Collection[str] = ()
) -> dict[str, Any]:
    """The inverse: values whose edges into the backbone are keys of their sources.

    Args:
        form: values in the form of the graph.
        backbone: name of the backbone.
        known: modules that get keys although the values do not have them yet.

    Raises:
        ValueError: keys of an edge are given twice.
    """
    edges, key = form.get("edges"), _key_of_sources(backbone)
    written = form.get(key) or {}
    if not isinstance(edges, list | tuple) or not isinstance(written, Mapping):
        return dict(form)
    modules = {name: {} for name in known if name != backbone} | dict(written)
    left, further = list[Any](), [_ends_of(edge)[0] for edge in _into_objectives(edges, backbone)]
    for edge in edges:
        source, _ = _ends_of(edge)
        if _is_short(edge, backbone) and isinstance(modules.get(source), Mapping):
            modules[source] = {**modules[source], **_source_keys(edge, modules[source])}
            left += [{"source": source, "target": backbone}] if source in further else []
        else:
            left.append(edge)
    others = {name: value for name, value in form.items() if name != "edges"}
    return others | ({"edges": left} if left else {}) | ({key: modules} if modules else {})


def as_dumped(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values of a model in the form in which its configuration is dumped.

    Raises:
        ValueError: see `in_graph_form`.
    """
    form = in_graph_form(values)
    return in_source_form(form, form.get("backbone", BACKBONE))


def written_place(values: Mapping[str, Any], place: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """Where a value of a model is written.

    Args:
        values: the model as it is written.
        place: keys and numbers of items that lead to the value in `in_graph_form(values)`.
    """
    if place[:1] != ("edges",) or len(place) == 1:
        return place
    _, number, *inside = place
    ends = _ends_of(in_graph_form(values)["edges"][number])
    key = MODULES if MODULES in values else OTHERS
    source = (values.get(key) or {}).get(ends[0])
    for short, name in SHORT_KEYS.items():
        if inside[:1] == [name] and isinstance(source, Mapping) and short in source:
            return key, ends[0], short, *inside[1:]
    written = [_ends_of(edge) for edge in values.get("edges", ())]
    return ("edges", written.index(ends), *inside) if ends in written else place


def _key_of_sources(backbone: Any) -> str:
    """The key of the modules that edges into a backbone come from."""
    return OTHERS if backbone == BACKBONE else MODULES


def _ends_of(edge: Any) -> tuple[Any, Any]:
    """Source and target of an edge; None of what has another shape."""
    return (edge.get("source"), edge.get("target")) if isinstance(edge, Mapping) else (None, None)


def _into_objectives(edges: Sequence[Any], backbone: Any) -> list[Any]:
    """The edges that do not end in the backbone."""
    return [edge for edge in edges if _ends_of(edge)[1] != backbone]


def _into_backbone(
    edges: Sequence[Any], keys: Mapping[Any, Mapping[str, Any]], backbone: Any
) -> Iterator[dict[str, Any]]:
    """Edges into the backbone with all their keys, by source.

    Args:
        edges: the edges that are written.
        keys: keys of an edge that a module has, by its name.
        backbone: name of the backbone.
    """
    sources = [_ends_of(edge)[0] for edge in edges]
    implied = [{"source": name, "target": backbone} for name in keys if name not in sources]
    merges = [edge for edge in (*implied, *edges) if _ends_of(edge)[1] == backbone]
    merged = [_ends_of(edge)[0] for edge in merges]
    for name in keys:
        if name not in merged:
            _check_unset(name, keys[name], backbone)
    for source, edge in sorted(zip(merged, merges, strict=True), key=lambda pair: str(pair[0])):
        short = keys[source] if source in [*keys] else {}
        _check_once(edge, short)
        connector = short.get("connector", edge.get("connector"))
        yield {**edge, **short, "connector": {} if connector is None else connector}


def _edge_keys(module: Any) -> dict[str, Any]:
    """The keys of a module that are those of its edge, by their names there."""
    keys = SHORT_KEYS.items() if isinstance(module, Mapping) else ()
    return {name: module[short] for short, name in keys if short in module}


def _without_edge(module: Any) -> Any:
    """Values of a module without those keys."""
    if not isinstance(module, Mapping):
        return module
    return {key: value for key, value in module.items() if key not in SHORT_KEYS}


def _is_short(edge: Any, backbone: str) -> bool:
    """Whether an edge into the backbone has no other keys than modules have."""
    source, target = _ends_of(edge)
    if target != backbone or source == backbone:
        return False
    unset = {"norm": False, "select": "tokens"}  # which files of runs list
    further = edge.keys() - {"source", "target", *SHORT_KEYS.values()}
    return all(key in unset and edge[key] == unset[key] for key in further)


def _source_keys(edge: Mapping[str, Any], source: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a module for its edge; those that say nothing only where it has none."""
    _check_once(edge, _edge_keys(source))
    keys = {short: edge.get(name) for short, name in SHORT_KEYS.items()}
    return {
        short: value
        for short, value in keys.items()
        if value or (value is not None and short not in source)
    }


def _check_once(edge: Mapping[str, Any], keys: Mapping[str, Any]) -> None:
    """Check that no key of an edge is one of its source as well. Raises ValueError."""
    twice = [short for short, name in SHORT_KEYS.items() if name in keys and edge.get(name)]
    if twice:
        raise ValueError(
            f"edge {edge['source']} -> {edge['target']}: {', '.join(twice)} of {edge['source']} "
            "are given twice"
        )


def _check_unset(name: Any, keys: Mapping[str, Any], backbone: Any) -> None:
    """Check that a module without an edge into the backbone has no keys of one.

    Files of runs list them with their defaults.

    Raises:
        ValueError: it has.
    """
    connector = keys.get("connector") or {}
    unset = isinstance(connector, Mapping) and connector.items() <= UNSET.items()
    if not unset or keys.get("layers"):
        key = module_key(name, backbone)
        raise ValueError(
            f"{key}.connector and deepstack are of an edge into the backbone; valid: without them, "
            f"and connector in the edge, or an edge {name} -> {backbone}"
        )


def _checked_form(values: dict[str, Any]) -> dict[str, Any]:
    """Values with modules that are written, in the short form if that is the form of the graph.

    Raises:
        ValueError: modules are written in both forms, or the backbone is none of them.
    """
    modules, backbone = values.get(MODULES), values.get("backbone")
    if MODULES not in values:
        if backbone == BACKBONE:
            return {key: value for key, value in values.items() if key != "backbone"}
        raise ValueError(
            f"backbone {backbone!r} is none of the modules, which are not written; valid: modules "
            f"beside it, or neither, beside {BACKBONE} and {OTHERS}"
        )
    if values.keys() & {BACKBONE, OTHERS}:
        raise ValueError(f"{MODULES} are given beside {BACKBONE} or {OTHERS}; valid: either")
    if not isinstance(modules, dict):
        return values
    if backbone not in modules:
        raise ValueError(
            f"backbone {backbone!r} is none of the modules, of which one has rows that hold "
            f"samples; valid: {', '.join(map(str, modules)) or 'a module'}"
        )
    if backbone == BACKBONE:
        short = in_short_form(values)
        return {key: value for key, value in short.items() if key != "backbone"}
    return values | {MODULES: modules | {backbone: _with_family(modules[backbone])}}


def _with_family(module: Any) -> Any:
    """Values of a backbone with the family that is usual, if they name none."""
    return {"family": DECODERS.default, **module} if isinstance(module, dict) else module

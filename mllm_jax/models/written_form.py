"""Modules and edges as they are written, in the form in which a model's configuration has them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from mllm_jax.families.choice import DECODERS
from mllm_jax.models.short_form import BACKBONE, MODULES, OTHERS, in_short_form


def with_edges_in_modules(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values of a model whose edges are those into objectives, in its form.

    Connectors and layers of edges into the backbone become keys of their sources, and a graph whose
    backbone is called `decoder` gets its short form. What has another shape than these keys have is
    left for the types to refuse.

    Raises:
        ValueError: modules are written in both forms, the backbone is none of them, or keys of an
            edge are given twice.
    """
    form = dict(values)
    if MODULES in form or "backbone" in form:
        form = _checked_form(form)
    return with_moved_edges(form, form.get("backbone", BACKBONE))


def with_moved_edges(
    form: Mapping[str, Any], backbone: str, known: Collection[str] = ()
) -> dict[str, Any]:
    """Values whose edges into the backbone are keys of their sources.

    Args:
        form: values in the form of the graph.
        backbone: name of the backbone.
        known: modules that get keys although the values do not have them yet.

    Raises:
        ValueError: keys of an edge are given twice.
    """
    edges, key = form.get("edges"), OTHERS if backbone == BACKBONE else MODULES
    written = form.get(key) or {}
    if not isinstance(edges, list) or not isinstance(written, Mapping):
        return dict(form)
    if not all(isinstance(edge, dict) for edge in edges):
        return dict(form)
    left = [edge for edge in edges if edge.get("target") != backbone]
    also = {edge.get("source") for edge in left}
    modules = {name: {} for name in known if name != backbone} | dict(written)
    for edge in edges:
        source = edge.get("source")
        if edge.get("target") == backbone != source and isinstance(modules.get(source), dict):
            modules[source] = _with_edge(modules[source], edge)
            left += [{"source": source, "target": backbone}] if source in also else []
        elif edge.get("target") == backbone:
            left.append(edge)
    others = {name: value for name, value in form.items() if name != "edges"}
    return others | ({"edges": left} if left else {}) | ({key: modules} if modules else {})


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


def _with_edge(encoder: Mapping[str, Any], edge: Mapping[str, Any]) -> dict[str, Any]:
    """Keys of an encoder, with those of its edge into the backbone."""
    where = f"edge {edge['source']} -> {edge['target']}"
    changes = {"connector": edge.get("connector"), "deepstack": edge.get("layers")}
    changes = {key: value for key, value in changes.items() if value}
    if twice := sorted(changes.keys() & encoder.keys()):
        raise ValueError(f"{where}: {', '.join(twice)} of {edge['source']} are given twice")
    defaults = {"norm": False, "select": "tokens"}  # which files of runs list
    more = [n for n in sorted(edge) if n not in ("source", "target", "connector", "layers")]
    if more := [key for key in more if key not in defaults or edge[key] != defaults[key]]:
        raise ValueError(
            f"{where}: {', '.join(more)} are keys of edges into objectives; valid: connector, "
            "layers"
        )
    return {**encoder, **changes}

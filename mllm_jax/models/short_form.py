"""The two ways in which a section of a configuration gives a value to every module.

The usual model is written in the short form, and every other one as it is::

    decoder: ...                    modules:
    encoders:                         language: ...
      vision: ...                     vision: ...
                                    backbone: language

The short form is that of a graph whose backbone is called `decoder`. A module is called in files
and messages by its key: `decoder` and `encoders.vision`, or `modules.language` and
`modules.vision`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: The backbone of a graph in its short form, and the key of all its other modules.
BACKBONE, OTHERS = "decoder", "encoders"
#: The key of the modules of every other graph.
MODULES = "modules"


def module_key(module: str, backbone: str) -> str:
    """The dotted key of a module in a section that has an entry for each.

    Args:
        module: name of the module, which may be followed by that of something in it.
        backbone: name of the backbone.
    """
    if backbone != BACKBONE:
        return f"{MODULES}.{module}"
    return module if module.partition(".")[0] == BACKBONE else f"{OTHERS}.{module}"


def backbone_of(model: Any) -> str:
    """The name of the backbone that values of a section `model` give."""
    name = model.get("backbone", BACKBONE) if isinstance(model, Mapping) else BACKBONE
    return name if isinstance(name, str) else BACKBONE


def in_short_form(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values whose modules are written, one of them called `decoder`, in the short form."""
    short = dict(values)
    modules = short.pop(MODULES)
    others = {name: value for name, value in modules.items() if name != BACKBONE}
    return short | {BACKBONE: modules[BACKBONE]} | {OTHERS: others}


def module_values(section: Mapping[str, Any], backbone: str) -> dict[str, Any]:
    """The values of all modules in a section of plain values, the backbone's first if it has one.

    Args:
        section: e.g. `model` or `parallel` of a resolved configuration.
        backbone: name of the backbone.
    """
    others = section.get(OTHERS if backbone == BACKBONE else MODULES)
    modules = dict(others) if isinstance(others, Mapping) else {}
    if backbone == BACKBONE in section:
        modules[BACKBONE] = section[BACKBONE]
    first = {name: modules[name] for name in (backbone,) if name in modules}
    return first | modules


def sections_of_modules(modules: Mapping[str, Any], backbone: str) -> dict[str, Any]:
    """The inverse of `module_values`: keys of a section from values by module."""
    if backbone != BACKBONE:
        return {MODULES: dict(modules)}
    others = {name: value for name, value in modules.items() if name != BACKBONE}
    return {name: modules[name] for name in (BACKBONE,) if name in modules} | {OTHERS: others}


def for_backbone(section: Mapping[str, Any], backbone: str, where: str) -> dict[str, Any]:
    """Values of a section in the form of the model, with an entry of the backbone, which is first.

    Args:
        section: plain values with an entry for each module, as a user writes them.
        backbone: name of the model's backbone.
        where: key of the section.

    Raises:
        ValueError: the section has the other form.
    """
    short = section.keys() & {BACKBONE, OTHERS}
    modules = section.get(MODULES)
    if short and (backbone != BACKBONE or MODULES in section):
        form = f"{where}.{MODULES}" if backbone != BACKBONE else f"without {where}.{MODULES}"
        raise ValueError(
            f"{where}.{min(short)} is refused, as the modules of the model are written out, and "
            f"{backbone} is its backbone; valid: {form}"
        )
    if MODULES in section and not isinstance(modules, dict):
        return dict(section)  # refused by its type
    if backbone != BACKBONE:
        return {**section, MODULES: {backbone: {}, **(modules or {})}}
    if modules is None:
        return dict(section)
    return in_short_form({**section, MODULES: {BACKBONE: {}, **modules}})


def in_form(values: Mapping[str, Any], written: bool) -> dict[str, Any]:
    """Keys that a section of typed values has in its form.

    Args:
        values: its values by field; modules that are written lie in the field `written`.
        written: whether modules are written.
    """
    left_out = (BACKBONE, OTHERS) if written else ("written", "backbone")
    keys = {"written": MODULES}
    return {keys.get(key, key): value for key, value in values.items() if key not in left_out}

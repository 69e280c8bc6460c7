"""All families: the folders beside this file, those of installed packages, and registered ones.

A package adds families by entry points::

    [project.entry-points."mllm_jax.families"]
    aimv2 = "my_package.aimv2:FAMILY"

A folder is imported when its family is named, and no other is. See docs/extending/encoder.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pkgutil import iter_modules

from mllm_jax import families
from mllm_jax.families.family import Family, FamilyModule

#: Group of the entry points.
GROUP = "mllm_jax.families"
_registered: dict[str, Family] = {}


class UnknownFamilyError(ValueError):
    """A name that no family has, or no module of one."""


def family_names() -> list[str]:
    """Names of all families."""
    return sorted({*_list_folders(tuple(families.__path__)), *_entry_points(), *_registered})


def find_family(name: str) -> Family:
    """The family of a name; only its folder is imported.

    Raises:
        UnknownFamilyError: there is none; the message lists the valid names.
        TypeError: what the folder or the entry point has is no family of that name.
    """
    if name in _registered:
        return _registered[name]
    if name in _list_folders(tuple(families.__path__)):
        loaded = import_module(f"{families.__name__}.{name}").FAMILY
    elif name in _entry_points():
        loaded = _entry_points()[name].load()
    else:
        raise UnknownFamilyError(f"family {name!r} is unknown; valid: {', '.join(family_names())}")
    if not isinstance(loaded, Family) or loaded.name != name:
        raise TypeError(f"family {name} is {loaded!r:.80}; valid: a Family of that name")
    return loaded


def register(added: Family) -> None:
    """Add a family to this process and to those that it forks.

    Raises:
        ValueError: another family has its name.
    """
    if added.name in family_names() and _registered.get(added.name) != added:
        raise ValueError(f"there is a family {added.name!r}; valid: another name")
    _registered[added.name] = added


def unregister(name: str) -> None:
    """Remove a family that `register` added."""
    del _registered[name]


def find_module(name: str) -> FamilyModule:
    """The kind of module that a configuration names as its `family`.

    Raises:
        UnknownFamilyError: there is none; the message lists the valid names.
    """
    modules = find_family(name.partition(".")[0]).modules
    if name not in modules:
        raise UnknownFamilyError(f"module {name!r} is unknown; valid: {', '.join(modules)}")
    return modules[name]


def iterate_modules() -> Iterator[tuple[str, FamilyModule]]:
    """All kinds of modules by their names; imports the folders of all families."""
    for name in family_names():
        yield from find_family(name).modules.items()


@cache
def _list_folders(path: tuple[str, ...]) -> frozenset[str]:
    return frozenset(info.name for info in iter_modules(path) if info.ispkg)


@cache
def _entry_points() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}

"""The project's files agree: dependencies and pins, Makefile and its help."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from mllm_jax.families import registry
from mllm_jax.layers.config.encoder import EncoderConfig
from tests.configs import ROOT

PINS = [
    Requirement(line)
    for line in (ROOT / "constraints.txt").read_text().splitlines()
    if line and not line.startswith("#")
]
FLOORS = ("benchmarks", "data", "mllm_jax", "scheduling", "sharding")


def pins() -> dict[str, Requirement]:
    """The pins that hold for the running Python."""
    return {
        canonicalize_name(pin.name): pin
        for pin in PINS
        if pin.marker is None or pin.marker.evaluate()
    }


def applies(requirement: Requirement, extras: set[str]) -> bool:
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in extras or {""})


def needed(requirement: Requirement, seen: set[str]) -> Iterator[str]:
    """Names of `requirement` and of all that it needs, as far as it is installed."""
    name = canonicalize_name(requirement.name)
    if f"{name}{sorted(requirement.extras)}" in seen:
        return
    seen.add(f"{name}{sorted(requirement.extras)}")
    yield name
    try:
        inner = [Requirement(text) for text in distribution(name).requires or ()]
    except PackageNotFoundError:
        return
    for child in inner:
        if applies(child, {"", *requirement.extras}):
            yield from needed(child, seen)


def all_needed() -> set[str]:
    """Everything that the project and its extras need."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = chain.from_iterable(project["optional-dependencies"].values())
    direct = [*project["dependencies"], *extras]
    seen: set[str] = set()
    return {name for text in direct for name in needed(Requirement(text), seen)}


def imported() -> set[str]:
    """Top-level modules of others that our packages import."""
    found = set()
    for floor in FLOORS:
        for path in (ROOT / floor).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Import):
                    found |= {name.name.split(".")[0] for name in node.names}
                elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                    found.add(node.module.split(".")[0])
    return found - {*sys.stdlib_module_names, *FLOORS}


def test_what_is_imported_is_declared() -> None:
    """Each import is declared, not only needed by another package; jax and pydantic bring parts."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = chain.from_iterable(project["optional-dependencies"].values())
    declared = {
        canonicalize_name(Requirement(text).name) for text in [*project["dependencies"], *extras]
    }
    homes = packages_distributions()
    missing = {
        module
        for module in imported() & {*homes}
        if not declared & {canonicalize_name(home) for home in homes[module]}
    }
    # aiohttp comes with the clients of stores, and is loaded after them.
    assert missing <= {"jaxlib", "jax_plugins", "pydantic_core", "aiohttp"}


def test_everything_that_is_needed_is_pinned() -> None:
    names = all_needed()
    assert len(names) > 40
    assert names <= set(pins())


def test_what_is_installed_is_what_is_pinned() -> None:
    for name in all_needed():
        try:
            installed = distribution(name).version
        except PackageNotFoundError:
            continue  # of an extra that is not installed
        assert pins()[name].specifier.contains(installed, prereleases=True), name


def test_pins_are_exact_and_hold_no_addresses() -> None:
    for pin in PINS:
        assert re.fullmatch(r"==[\w.+]+", str(pin.specifier)), pin
        assert pin.url is None
    assert "://" not in (ROOT / "constraints.txt").read_text()


def test_python_311_and_newer_have_their_jax() -> None:
    jax = [pin for pin in PINS if pin.name == "jax"]
    found = {
        python: str(pin.specifier)
        for python in ("3.11", "3.12", "3.13")
        for pin in jax
        if pin.marker and pin.marker.evaluate({"python_version": python})
    }
    assert found["3.11"] == "==0.10.2"
    assert found["3.12"] == found["3.13"]
    assert found["3.12"].startswith("==0.12.")


def test_an_installed_package_holds_the_shipped_configurations() -> None:
    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    kept = setuptools["packages"]["find"]["include"]
    shipped = [path.relative_to(ROOT) for path in (ROOT / "configs").rglob("*") if path.is_file()]
    assert len(shipped) > 10
    for path in shipped:
        package = ".".join(path.parent.parts)
        assert any(fnmatch(package, pattern) for pattern in kept), path
        assert any(fnmatch(path.name, kind) for kind in setuptools["package-data"]["*"]), path


def test_make_help_lists_every_target() -> None:
    makefile = (ROOT / "Makefile").read_text()
    (targets,) = re.findall(r"^\.PHONY: (.*)$", makefile, flags=re.MULTILINE)
    shown = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    for target in targets.split():
        assert re.search(rf"^  make {target} +\w", shown.stdout, flags=re.MULTILINE), target


def test_commands_of_the_hooks_are_those_of_make_lint() -> None:
    makefile = (ROOT / "Makefile").read_text()
    hooks = (ROOT / ".pre-commit-config.yaml").read_text()
    tools = set(re.findall(r"entry: \.venv/bin/(\S+)", hooks))
    assert tools == {"ruff", "mypy", "lint-imports"}
    assert all(f"$(BIN)/{tool}" in makefile for tool in tools)


@pytest.mark.parametrize(("stamps", "works"), [(("created", "installed-test"), True), ((), False)])
def test_make_uses_a_linked_environment_as_it_is(
    tmp_path: Path, stamps: tuple[str, ...], works: bool
) -> None:
    environment = tmp_path / "environment"
    environment.mkdir()
    (tmp_path / "linked").symlink_to(environment)
    for name in stamps:
        (environment / f".{name}").touch()
        os.utime(environment / f".{name}", (0, 0))  # older than the pins
    command = ["make", "--dry-run", "test", f"VENV={tmp_path / 'linked'}"]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert ("pip install" not in shown) == works


def test_readme_lists_all_families() -> None:
    text = " ".join((ROOT / "README.md").read_text().split())
    for kind, is_encoder in (("Decoder", False), ("Encoder", True)):
        (listed,) = re.findall(rf"{kind} families: ([\w, ]+)\.", text)
        names = set(re.split(r", | and with experts ", listed.replace(", and", " and")))
        assert names == {
            name
            for name, module in registry.iterate_modules()
            if issubclass(module.config, EncoderConfig) == is_encoder
        }

"""What docstrings name exists: errors, arguments, attributes and code in backticks."""

from __future__ import annotations

import ast
import builtins
import doctest
import gc
import importlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from mllm_jax.config.keys import iterate_keys
from mllm_jax.config.sections import ExperimentConfig
from tests.configs import ROOT

PACKAGES = ("mllm_jax", "scheduling", "data", "sharding", "benchmarks")
#: Names in backticks that code does not have.
OTHER_NAMES = {
    # of other software
    *("GpuTargetConfigProto", "JAX_PLATFORMS", "LlamaForSequenceClassification", "__del__"),
    *("catch_warnings", "group_by_length", "importlib_metadata", "log_mel_spectrogram"),
    *("overlap_p2p_comm", "save_to_disk"),
    # made of parts as the program runs
    *("bench_NAME", "finite_share", "image_encoders", "input_x", "outer_inner"),
    *("stage0", "verifying_share", "x_url"),
    # examples
    *("imagePath", "l", "laiers"),
}
#: Dotted names that begin like modules.
OTHER_PATHS = {"layers.self_attn.q_proj.kernel"}
#: Keys of the configuration whose fields have another name.
ALIASES = {"modules"}
Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
SECTION = re.compile(r"^(Args|Attributes|Raises):\n((?: +.*\n?|\n)+)", re.MULTILINE)
ENTRY = re.compile(r"^ {4}(\w+(?:, \w+)*):", re.MULTILINE)
#: A line that explains attributes outside of a section.
RUN_ON = re.compile(r"(?:^|; |\n)[a-z]\w*(?:, \w+)*: ")
ERROR = re.compile(r"\b[A-Z]\w*Error\b")
CODE = re.compile(r"(?<!`)`([A-Za-z_]\w*(?:\.\w+)*)(?:\(\))?`(?!`)")


@dataclass(frozen=True)
class Docstring:
    """A docstring with the module, class or function that it describes."""

    where: str
    node: Documented
    text: str

    def entries(self, section: str) -> list[str]:
        """Names that are explained in a section."""
        return [
            name
            for title, body in SECTION.findall(self.text)
            if title == section
            for names in ENTRY.findall(body)
            for name in names.split(", ")
        ]


@cache
def parsed_files() -> dict[Path, tuple[str, list[Documented]]]:
    """By path from the root, the text of a file with its module, classes and functions."""
    paths = [path for name in PACKAGES for path in (ROOT / name).rglob("*.py")]
    gc.disable()  # which would take four fifths of the time
    try:
        return {
            path.relative_to(ROOT): (text := path.read_text(), [*definitions(ast.parse(text))])
            for path in paths
        }
    finally:
        gc.enable()


def definitions(node: ast.AST) -> Iterator[Documented]:
    """The modules, classes and functions in a tree."""
    if isinstance(node, Documented):
        yield node
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            yield from definitions(child)


@cache
def docstrings() -> list[Docstring]:
    return [
        Docstring(f"{path}:{node.body[0].lineno}", node, docstring)
        for path, (_, nodes) in parsed_files().items()
        for node in nodes
        if (docstring := ast.get_docstring(node))
    ]


@cache
def words_of_code() -> frozenset[str]:
    """Words of all code and its paths, without docstrings and comments."""
    words = {part for path in parsed_files() for part in path.with_suffix("").parts}
    for text, nodes in parsed_files().values():
        lines = text.splitlines()
        for docstring in (node.body[0] for node in nodes if ast.get_docstring(node, clean=False)):
            for number in range(docstring.lineno - 1, docstring.end_lineno or docstring.lineno):
                lines[number] = ""
        words.update(re.findall(r"\w+", re.sub(r"#.*", "", "\n".join(lines))))
    return frozenset(words)


@cache
def classes() -> dict[str, list[ast.ClassDef]]:
    """Classes by name, of which several may have the same."""
    found: dict[str, list[ast.ClassDef]] = {}
    for _, nodes in parsed_files().values():
        for node in nodes:
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(node)
    return found


def parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    args = node.args
    every = [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg]
    return {arg.arg for arg in every if arg is not None}


def members(node: ast.ClassDef) -> set[str]:
    """Names of fields, methods and parameters of `__init__`, those of base classes included."""
    names: set[str] = set()
    for child in node.body:
        if isinstance(child, ast.AnnAssign | ast.Assign):
            targets = [child.target] if isinstance(child, ast.AnnAssign) else child.targets
            names.update(n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name))
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(child.name)
            if child.name == "__init__":
                names |= parameters(child)
                names.update(n.attr for n in ast.walk(child) if isinstance(n, ast.Attribute))
    bases = {*re.findall(r"\w+", " ".join(map(ast.unparse, node.bases)))} - {node.name}
    return names.union(*(members(other) for base in bases for other in classes().get(base, [])))


def names_of(node: Documented) -> set[str]:
    """What `Args:` and `Attributes:` may explain."""
    if isinstance(node, ast.Module):
        return set()
    return members(node) if isinstance(node, ast.ClassDef) else parameters(node)


def words_of(pattern: re.Pattern[str], text: str) -> set[str]:
    return set(re.findall(r"\w+", " ".join(pattern.findall(text))))


def explained(docstring: Docstring) -> set[str]:
    return {*docstring.entries("Args"), *docstring.entries("Attributes")}


def test_arguments_and_attributes_exist() -> None:
    wrong = [
        f"{docstring.where}: {name}"
        for docstring in docstrings()
        for name in explained(docstring) - names_of(docstring.node) - ALIASES
    ]
    assert not wrong


def test_errors_exist() -> None:
    known = words_of_code() | set(dir(builtins))
    wrong = [
        f"{docstring.where}: {name}"
        for docstring in docstrings()
        for name in ERROR.findall(docstring.text)
        if name not in known
    ]
    assert not wrong


def test_code_in_backticks_exists() -> None:
    known = words_of_code() | OTHER_NAMES
    wrong = [
        f"{docstring.where}: {name}"
        for docstring in docstrings()
        for name in CODE.findall(docstring.text)
        if name.rpartition(".")[2] not in known
    ]
    assert not wrong


def test_attributes_are_explained_in_a_section() -> None:
    wrong = [
        docstring.where
        for docstring in docstrings()
        if isinstance(docstring.node, ast.ClassDef)
        and not explained(docstring)
        and len(members(docstring.node) & words_of(RUN_ON, docstring.text)) > 1
    ]
    assert not wrong


#: Modules whose docstrings have examples.
WITH_EXAMPLES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for package in PACKAGES
    for path in (ROOT / package).rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples_give_what_they_say(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name), verbose=False)
    assert result.attempted > 0
    assert result.failed == 0


def test_there_are_examples_of_masks_packs_and_schedules() -> None:
    assert {
        "data.planning.packing",
        "mllm_jax.layers.attention.masks",
        "scheduling.schedules.backbone_schedules",
    } <= {*WITH_EXAMPLES}


def test_dotted_names_are_of_modules_and_what_they_define() -> None:
    """Of three parts and more, the first a room: shorter ones may be keys of the configuration."""
    modules, defined = paths_of_code()
    rooms = {path.partition(".")[0] for path in modules}
    keys = {".".join(key.path[:end]) for key in iterate_keys(ExperimentConfig) for end in (2, 3, 4)}
    wrong = [
        f"{docstring.where}: {name}"
        for docstring in docstrings()
        for name in CODE.findall(docstring.text)
        if name.count(".") > 1 and name.partition(".")[0] in rooms
        if name not in modules | defined | OTHER_PATHS
        if not {name, name.rpartition(".")[0]} & (defined | keys)
    ]
    assert not wrong


def paths_of_code() -> tuple[set[str], set[str]]:
    """Dotted names of modules, and of what they define; those of mllm_jax without it, too."""
    modules, defined = set(), set()
    for path, (text, _) in parsed_files().items():
        module = ".".join(path.with_suffix("").parts).removesuffix(".__init__")
        for name in (module, module.removeprefix("mllm_jax.")):
            modules.add(name)
            found = re.findall(r"^(?:def |class |)(\w+)\b", text, re.MULTILINE)
            defined |= {f"{name}.{part}" for part in found}
    return modules, defined

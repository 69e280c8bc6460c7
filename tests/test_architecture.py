"""The page of rooms draws rooms that exist, in the order that `make lint` checks imports by."""

from __future__ import annotations

import ast
import re
import tomllib
from dataclasses import fields
from typing import get_args

import pytest

from data.batch import ModuleRows, NextTokenTargets, PackedBatch, SampleTargets
from mllm_jax.families import registry
from scheduling.executor.step_batch import StepBatch
from scheduling.lowering.instructions import InstructionTable
from sharding.exchange import RouteArrays
from tests.configs import ROOT

PAGE = (ROOT / "docs" / "extending" / "architecture.md").read_text()
START = PAGE.index("```text\n") + len("```text\n")
DRAWING = PAGE[START : PAGE.index("\n```", START)]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())
LAYERS = {
    contract["containers"][0]: [re.split(r" [|:] ", layer) for layer in contract["layers"]]
    for contract in SETTINGS["tool"]["importlinter"]["contracts"]
    if contract["type"] == "layers" and "containers" in contract
}
FLOORS = ["mllm_jax", "scheduling", "data", "sharding"]
#: A line of rooms: the bar of a branch, names two spaces apart, what they hold.
LINE = re.compile(r"[ |]*(?P<bar>[|`]-- )?(?P<names>\w+(?:  \w+)*)(?: \.{2,} .+)?")
#: What a room in a line above holds.
REMARK = re.compile(r"[ |]*`-+ .+")


def column(floor: str) -> list[str]:
    """The lines below the name of a floor, without the columns of a floor beside it."""
    lines = DRAWING.splitlines()
    (top,) = (number for number, line in enumerate(lines) if re.search(rf" {floor}/", line))
    starts = [match.start() for match in re.finditer(r"\w+/", lines[top])]
    start = lines[top].index(f"{floor}/")
    end = next((other for other in starts if other > start), None)
    below = lines[top + 1 :]
    return [line[start:end].rstrip() for line in below[: [*below, ""].index("")]]


def drawn(floor: str) -> dict[str, list[list[str]]]:
    """Rooms of a floor line by line, by the package in which they are."""
    found: dict[str, list[list[str]]] = {floor: []}
    places: dict[str, int] = {}
    for line in column(floor):
        match = LINE.fullmatch(line)
        assert match or REMARK.fullmatch(line), f"neither rooms nor what one holds: {line!r}"
        if match is None:
            continue
        names = match["names"].split()
        home = floor
        if match["bar"]:
            above = [name for name, place in places.items() if place <= match.start("bar")]
            home = f"{floor}.{above[-1]}"
        else:
            places = {name: line.index(name) for name in names}
        found.setdefault(home, []).append(names)
    return found


@pytest.mark.parametrize("floor", FLOORS)
def test_every_drawn_room_is_there_in_its_place(floor: str) -> None:
    for home, lines in drawn(floor).items():
        layers = {name: n for n, layer in enumerate(LAYERS[home]) for name in layer}
        assert {name for names in lines for name in names} <= {*layers}, home
        places = [[layers[name] for name in names] for names in lines]
        assert all(len({*line}) == 1 for line in places), f"{home}: layers share a line"
        assert places == sorted(places), f"{home} is drawn in another order"


@pytest.mark.parametrize("floor", FLOORS)
def test_every_package_is_drawn(floor: str) -> None:
    for home, lines in drawn(floor).items():
        folder = ROOT.joinpath(*home.split("."))
        packages = {path.parent.name for path in folder.glob("*/__init__.py")}
        assert packages <= {name for names in lines for name in names}, home


def test_the_floors_are_drawn() -> None:
    names = re.findall(r"(?m)^ (?:layer \d|       )   ([\w.]+)/?", DRAWING)
    assert names == ["launch.py", "configs", "benchmarks", *FLOORS[:3]]
    assert all((ROOT / name).exists() for name in names)
    assert [home for floor in FLOORS for home in drawn(floor)] == [
        "mllm_jax",
        "mllm_jax.train",
        "mllm_jax.models",
        "mllm_jax.layers",
        *FLOORS[1:],
    ]


def test_every_family_is_a_folder_of_the_same_files() -> None:
    folder = ROOT / "mllm_jax" / "families"
    assert {path.parent.name for path in folder.glob("*/__init__.py")} == {*registry.family_names()}
    for name in registry.family_names():
        files = {path.stem for path in (folder / name).glob("*.py")} - {"__init__"}
        assert files <= {"config", "model", "processor", "release"}
        modules = registry.find_family(name).modules
        assert ("config" in files) == bool(modules)
        for module, own in modules.items():
            assert own.config.__module__ == f"mllm_jax.families.{name}.config"
            assert get_args(own.config.model_fields["family"].annotation) == (module,)


def test_no_pickle_crosses_the_network() -> None:
    """Whoever can reach a port could otherwise have code of theirs run."""
    named = re.compile(r"\b(pickle|cloudpickle|dill|marshal|shelve)\b")
    files = [*(ROOT / "mllm_jax").rglob("*.py")]
    assert len(files) > 100
    assert [path for path in files if named.search(path.read_text())] == []


#: Types of a batch, whose fields are attributes.
BATCHES = (
    ModuleRows,
    NextTokenTargets,
    SampleTargets,
    PackedBatch,
    StepBatch,
    RouteArrays,
    InstructionTable,
)
#: Dicts that have keys of the same names: file, what is read, and what it is.
OTHERS = [
    ("benchmarks/accelerator.py", "values['data']['rows']", "a configuration"),
    ("benchmarks/padded.py", "decoder['segment_ids']", "a batch of Grain or torch"),
    ("mllm_jax/config/renamed_keys.py", "values['schedule']", "a configuration"),
    ("mllm_jax/families/whisper/model.py", "blocks['positions']", "blocks of a module"),
    ("mllm_jax/families/whisper/model.py", "params['positions']", "parameters of a module"),
    ("mllm_jax/hf_format/expert_rules.py", "keys['count']", "keys of a released configuration"),
    ("mllm_jax/hf_format/connector_rules.py", "values['inputs']", "a released configuration"),
    ("mllm_jax/submit/kubernetes.py", "metadata['labels']", "a manifest of Kubernetes"),
    ("mllm_jax/train/events.py", "self.results['targets']", "results of a step"),
    (
        "mllm_jax/train/state/snapshots/peers.py",
        "_expect_answer(channel, 'index')['index']",
        "a message",
    ),
    ("mllm_jax/train/state/snapshots/peers.py", "message['index']", "a message"),
    ("mllm_jax/train/step/routes.py", "builders['slices']", "shapes and parts of arrays"),
    ("mllm_jax/train/trainer.py", "results['carried']", "results of a step"),
    ("scheduling/executor/stage_sync.py", "buffers['inputs']", "buffers of the executor"),
    ("scheduling/executor/tasks.py", "state['inputs']", "buffers of the executor"),
]


def test_fields_of_a_batch_are_attributes() -> None:
    """No name of a field is a key, and arrays of a medium are read by `ModuleRows.array`."""
    names = {field.name for kind in BATCHES for field in fields(kind)}
    found = {
        (str(path.relative_to(ROOT)), ast.unparse(node))
        for floor in ("benchmarks", *FLOORS)
        for path in (ROOT / floor).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Subscript)
        and isinstance(node.slice, ast.Constant)
        and (node.slice.value in names or _is_arrays(node.value))
    }
    assert found == {(file, read) for file, read, _ in OTHERS}


def _is_arrays(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "arrays"


#: Files with the names of the graph's short form: where it is read, what older files hold, what
#: releases call their modules, and what the backbone of a schedule is called without another name.
SHORT_FORM = {
    "mllm_jax/config/renamed_keys.py",
    "mllm_jax/hf_format/release_format.py",
    "mllm_jax/models/short_form.py",
    "scheduling/schedules/older_json.py",
    "scheduling/schedules/tasks.py",
}


def test_names_of_modules_come_from_the_graph() -> None:
    """No module is special: what it is called comes from the graph, and not from its short form."""
    found = {
        str(path.relative_to(ROOT))
        for floor in FLOORS
        for path in (ROOT / floor).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and node.value in ("decoder", "encoders")
    }
    families = {name for name in found if name.startswith("mllm_jax/families/")}
    assert found - families == SHORT_FORM


def test_the_short_form_is_read_by_the_configuration_alone() -> None:
    """All else reads `modules`, `backbone_config`, `backbone_plan`, `others` and `plans`."""
    reads = [
        f"{path.relative_to(ROOT)}: {ast.unparse(node)}"
        for floor in ("benchmarks", *FLOORS)
        for path in (ROOT / floor).rglob("*.py")
        if path.parent.name != "hf_format" and "families" not in path.parts
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
        and node.attr in ("decoder", "encoders")
        and ast.unparse(node.value).rpartition(".")[2] in ("model", "parallel")
    ]
    assert not reads


#: Files that read the mesh of an array, beside those of the step and of sharding.
MESHES_OF_ARRAYS = {
    "mllm_jax/models/pretrained/load.py",
    "mllm_jax/train/components/guard.py",
    "mllm_jax/train/state/regroup.py",
    "mllm_jax/train/state/replicas.py",
}


def test_nobody_outside_the_step_reads_its_mesh() -> None:
    """Modules may come to lie on parts of the devices, of which there is no one mesh."""
    found = {
        str(path.relative_to(ROOT))
        for floor in ("benchmarks", *FLOORS)
        for path in (ROOT / floor).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr == "mesh"
    }
    rooms = ("mllm_jax/train/step/", "sharding/")
    assert {name for name in found if not name.startswith(rooms)} == MESHES_OF_ARRAYS


def test_no_room_holds_too_many_files() -> None:
    """About fifteen that are not alike; benchmarks are alike."""
    counts = {
        folder: len([*folder.glob("*.py")]) - (folder / "__init__.py").exists()
        for floor in ("benchmarks", "mllm_jax", "scheduling", "data", "sharding", "tests")
        for folder in {path.parent for path in (ROOT / floor).rglob("*.py")}
    }
    alike = {ROOT / "benchmarks", ROOT / "tests" / "benchmarks"}
    crowded = {str(f): n for f, n in counts.items() if n > 16 and f not in alike}
    assert not crowded


@pytest.mark.parametrize(
    "line", [line for line in PAGE.splitlines() if re.match(r"\| an? \w", line)]
)
def test_what_the_table_names_is_there(line: str) -> None:
    _, _, room, files, _ = line.split("|")
    (folder,) = re.findall(r"`([\w/]+)`", room)
    assert (ROOT / folder).is_dir()
    for name in re.findall(r"`([\w/]+\.py)`", files):
        homes = [ROOT / folder, *(ROOT / folder).parents]
        assert any((home / name).is_file() for home in homes), name

"""docs/architecture.md draws the rooms that there are, in the order that `make lint` holds."""

from __future__ import annotations

import re
import tomllib
from itertools import pairwise
from typing import get_args

import pytest

from mllm_jax.models.config.encoder import EncoderConfig
from mllm_jax.models.model_config import AnyEncoderConfig
from tests.configs import ROOT

PAGE = (ROOT / "docs" / "architecture.md").read_text()
DRAWING = PAGE[PAGE.index("```text") : PAGE.index("| you want to add")]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())
LAYERS = {
    contract["containers"][0]: contract["layers"]
    for contract in SETTINGS["tool"]["importlinter"]["contracts"]
    if contract["type"] == "layers" and "containers" in contract
}


def rooms(floor: str) -> list[str]:
    """The packages of a floor."""
    return sorted(path.parent.name for path in (ROOT / floor).glob("*/__init__.py"))


@pytest.mark.parametrize("floor", ["mllm_jax", "scheduling", "data"])
def test_every_room_is_drawn_in_its_place(floor: str) -> None:
    drawn = DRAWING[DRAWING.index(f"{floor}/") :]
    named = [set(re.split(r" [|:] ", layer)) & {*rooms(floor)} for layer in LAYERS[floor]]
    assert set().union(*named) == {*rooms(floor)}
    places = [[place(drawn, name) for name in names] for names in named if names]
    for upper, lower in pairwise(places):
        assert max(upper) < min(lower)


def place(drawn: str, room: str) -> int:
    """The first place at which a room is drawn."""
    found = re.search(rf"(?m)(?:^ +|  |-- ){room}\b", drawn)
    assert found, f"{room} is not drawn"
    return found.start()


def test_every_encoder_family_is_a_folder_of_the_same_files() -> None:
    folder = ROOT / "mllm_jax" / "models" / "encoders"
    families = [choice for (choice,) in map(_families, get_args(get_args(AnyEncoderConfig)[0]))]
    assert sorted(families) == sorted(path.parent.name for path in folder.glob("*/__init__.py"))
    for name in families:
        files = {path.stem for path in (folder / name).glob("*.py")} - {"__init__"}
        assert {"config", "model"} <= files <= {"config", "model", "weights"}


def _families(config: type[EncoderConfig]) -> tuple[str, ...]:
    """Values of `family` of a configuration, which lies in the folder of that name."""
    names = get_args(config.model_fields["family"].annotation)
    assert [config.__module__] == [f"mllm_jax.models.encoders.{name}.config" for name in names]
    return names


def test_no_room_holds_too_many_files() -> None:
    """About fifteen that are not alike; benchmarks are alike."""
    counts = {
        folder: len([*folder.glob("*.py")]) - (folder / "__init__.py").exists()
        for floor in ("mllm_jax", "scheduling", "data", "sharding", "tests")
        for folder in {path.parent for path in (ROOT / floor).rglob("*.py")}
    }
    alike = {ROOT / "mllm_jax" / "bench"}
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

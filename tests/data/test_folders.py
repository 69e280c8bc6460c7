"""Folders are whole or not there, and nothing is left beside them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from data.folders import SEAL, FolderLock, drop_damaged, drop_superseded, in_use, put_folder


def writer(text: str) -> Callable[[Path], None]:
    def write(draft: Path) -> None:
        (draft / "part").write_text(text)

    return write


def fail(draft: Path) -> None:
    (draft / "part").write_text("half")
    raise OSError("disk full")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "parent" / "folder"


def read(folder: Path) -> str:
    """The contents of the only folder of a parent."""
    assert list(folder.parent.iterdir()) == [folder]
    assert [path.name for path in folder.iterdir()] == ["part"]
    return (folder / "part").read_text()


@pytest.mark.parametrize(("replace", "remaining"), [(False, "first"), (True, "second")])
def test_the_first_wins_unless_it_is_replaced(folder: Path, replace: bool, remaining: str) -> None:
    put_folder(folder, writer("first"), replace=replace)
    put_folder(folder, writer("second"), replace=replace)
    assert read(folder) == remaining


def test_what_fails_leaves_nothing(folder: Path) -> None:
    with pytest.raises(OSError, match="disk full"):
        put_folder(folder, fail)
    assert list(folder.parent.iterdir()) == []


@pytest.mark.parametrize("replace", [False, True])
def test_what_fails_beside_an_old_folder_is_told(folder: Path, replace: bool) -> None:
    put_folder(folder, writer("first"))
    with pytest.raises(OSError, match="disk full"):
        put_folder(folder, fail, replace=replace)
    assert read(folder) == "first"


@pytest.mark.parametrize("damage", ["seal", "no JSON", "a list", "changed", "gone", "none"])
def test_a_sealed_folder_that_is_not_as_written_is_removed(folder: Path, damage: str) -> None:
    put_folder(folder, writer("first"), seal=True)
    victims = {"changed": "part", "gone": "part"}
    file = folder / victims.get(damage, SEAL)
    contents = {"no JSON": "{", "a list": "[]", "changed": "third"}
    if damage in contents:
        file.write_text(contents[damage])
    elif damage != "none":
        file.unlink()
    drop_damaged(folder, "parts")
    assert folder.is_dir() == (damage == "none")
    drop_damaged(folder, "parts")
    assert len(list(folder.parent.iterdir())) == (damage == "none")


def test_superseded_folders_go_unless_they_are_in_use(tmp_path: Path) -> None:
    folders = [tmp_path / f"own-{number}" for number in range(6)]
    for number, other in enumerate(folders):
        put_folder(other, writer("a"))
        os.utime(other, (number, number))
    lock = FolderLock(folders[1] / "part")
    assert in_use(folders[1] / "part")
    assert not in_use(folders[0] / "part")
    assert not in_use(folders[0] / "missing")
    drop_superseded(folders[0], "own-*", "part", 2)
    assert [other.is_dir() for other in folders] == [True, True, False, False, True, True]
    lock.release()
    drop_superseded(folders[5], "own-*", "part", 2)
    assert [other.is_dir() for other in folders] == [False, False, False, False, True, True]

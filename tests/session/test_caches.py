"""Bytecode of the project serves the next session; that of temporary files is removed."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tests.session import caches


def test_bytecode_of_temporary_files_ends_with_the_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path.resolve() / "temporary"
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    monkeypatch.setattr("sys.pycache_prefix", str(tmp_path / "bytecode"))
    monkeypatch.setattr(caches, "BYTECODE", tmp_path / "bytecode")
    monkeypatch.setattr(caches, "_FOLDER", tmp_path / "session")
    files = [Path(caches.__file__), temporary / "program.py"]
    kept, written = (Path(importlib.util.cache_from_source(str(file))) for file in files)
    for file in (kept, written, tmp_path / "session" / "other"):
        file.parent.mkdir(parents=True)
        file.touch()
    caches.remove()
    assert kept.is_file()
    assert not written.exists()
    assert not (tmp_path / "session").exists()

"""Which settings of JAX's cache of programs are ours, and which the user's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import jax
import pytest

from mllm_jax.runtime.compiled.cache import WORTH_KEEPING, enable_compilation_cache

SECONDS, BYTES = WORTH_KEEPING
FOLDER, ENABLED = "jax_compilation_cache_dir", "jax_enable_compilation_cache"
THEIRS = 7


@pytest.fixture(autouse=True)
def _settings_as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Settings as if JAX's environment were empty, with every threshold unlike the framework's."""
    before = {name: getattr(jax.config, name) for name in (FOLDER, ENABLED, SECONDS, BYTES)}
    for name in before:
        monkeypatch.delenv(name.upper(), raising=False)
    for name in WORTH_KEEPING:
        jax.config.update(name, THEIRS)
    yield
    for name, value in before.items():
        jax.config.update(name, value)


@pytest.mark.parametrize("folder_is_theirs", [False, True])
@pytest.mark.parametrize("theirs", [set(), {SECONDS}, {SECONDS, BYTES}])
def test_what_is_worth_keeping_is_the_users_choice_or_ours(
    theirs: set[str], folder_is_theirs: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in theirs:
        monkeypatch.setenv(name.upper(), str(THEIRS))
    if folder_is_theirs:
        monkeypatch.setenv(FOLDER.upper(), str(tmp_path))
        jax.config.update(FOLDER, str(tmp_path))
    enable_compilation_cache("auto" if folder_is_theirs else str(tmp_path / "own"))
    found = {name: getattr(jax.config, name) for name in WORTH_KEEPING}
    assert found == WORTH_KEEPING | dict.fromkeys(theirs, THEIRS)
    folder = Path(getattr(jax.config, FOLDER))
    assert folder == tmp_path if folder_is_theirs else folder.parent == tmp_path / "own"


def test_a_configured_folder_goes_before_the_environments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDER.upper(), str(tmp_path / "theirs"))
    enable_compilation_cache(str(tmp_path / "own"))
    assert Path(getattr(jax.config, FOLDER)).parent == tmp_path / "own"


def test_nothing_is_kept_if_so_configured() -> None:
    enable_compilation_cache(None)
    assert not getattr(jax.config, ENABLED)
    assert {getattr(jax.config, name) for name in WORTH_KEEPING} == {THEIRS}


def test_tests_leave_the_users_caches_alone() -> None:
    enable_compilation_cache("auto")
    folder = Path(getattr(jax.config, FOLDER))
    assert folder.is_dir()
    assert not folder.is_relative_to(Path.home() / ".cache")

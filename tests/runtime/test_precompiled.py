"""Programs compiled ahead of time are loaded where all that they depend on is the same."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import monitoring

from mllm_jax.runtime.compiled import precompiled
from mllm_jax.runtime.compiled.precompiled import PrecompiledPrograms
from mllm_jax.runtime.compiled.synchronized import synchronize_program
from mllm_jax.runtime.folder import RunError

NAME = "the train step"


def program() -> Any:
    """A new jitted function, which nothing has compiled yet."""
    return jax.jit(lambda x: {"half": x / 2, "sum": jnp.sum(x)}, donate_argnums=0)


def values() -> jax.Array:
    return jnp.arange(8.0)


def stored(folder: Path, options: dict[str, str | bool]) -> PrecompiledPrograms:
    return PrecompiledPrograms(folder, options, jax.devices()[:1])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the program of `values`."""
    stored(tmp_path, {"a": "1"}).save_program(NAME, program().lower(values()))
    return tmp_path


@pytest.fixture
def compiled() -> Iterator[list[str]]:
    """The compilations that happen."""
    happened: list[str] = []

    def listen(event: str, duration_secs: float, **_: str | int) -> None:
        if event.endswith("backend_compile_duration"):
            happened.append(event)

    monitoring.register_event_duration_secs_listener(listen)
    yield happened
    monitoring.unregister_event_duration_listener(listen)


def test_a_stored_program_is_loaded_and_not_compiled(
    folder: Path, compiled: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    x = values()
    run = synchronize_program(NAME, program(), stored(folder, {"a": "1"}))
    compiled.clear()
    made = run(x)
    assert not compiled
    assert x.is_deleted(), "the stored program donates as the program does"
    np.testing.assert_array_equal(made["half"], np.arange(8) / 2)
    assert float(made["sum"]) == 28
    assert f"the train step is not compiled: loaded from {folder}" in caplog.text
    run(values())
    assert caplog.text.count("loaded from") == 1


def refusal(
    folder: Path,
    caplog: pytest.LogCaptureFixture,
    options: dict[str, str | bool],
    changed: Any = None,
) -> str:
    """The warning of a program that is compiled anew."""
    run = synchronize_program(NAME, changed or program(), stored(folder, options))
    assert run(values())["half"].shape == (8,)
    (record,) = [r for r in caplog.records if r.levelno == logging.WARNING]
    return record.getMessage()


def test_another_program_is_refused(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    other = jax.jit(lambda x: {"half": x / 2, "sum": jnp.sum(x) + 1})
    message = refusal(folder, caplog, {"a": "1"}, other)
    assert "the train step is compiled anew" in message
    assert "its program is " in message


def test_other_options_are_refused(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    message = refusal(folder, caplog, {"a": "2"})
    assert '"a": "1"' in message
    assert '"a": "2"' in message


def test_another_version_is_refused(
    folder: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jax, "__version__", "0.0.1")
    assert f"its jax is {jax.version.__version__}, and here it is 0.0.1" in refusal(
        folder, caplog, {"a": "1"}
    )


def test_damage_is_refused(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    (file,) = folder.iterdir()
    file.write_bytes(file.read_bytes()[:-1])
    assert "is damaged" in refusal(folder, caplog, {"a": "1"})


def test_facts_of_another_form_are_refused(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    (file,) = folder.iterdir()
    file.write_bytes(b"null\n" + file.read_bytes())
    message = refusal(folder, caplog, {"a": "1"})
    assert "cannot be read: its first line, b'null', is no mapping of facts" in message


def test_a_folder_without_the_program_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert "the-train-step-0-of-1.xla does not exist" in refusal(tmp_path, caplog, {})


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match="--save"):
        stored(tmp_path / "file", {}).save_program(NAME, program().lower(values()))


def test_programs_of_other_hosts_are_refused(
    folder: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(precompiled, "cpu_kind", lambda: "compiled-x86_64-other")
    assert "here it is compiled-x86_64-other" in refusal(folder, caplog, {"a": "1"})

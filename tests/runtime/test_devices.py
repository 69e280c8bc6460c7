"""Devices that are not there: of a wrong configuration, or of a host that has lost them."""

from __future__ import annotations

from argparse import Namespace
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import pytest

from mllm_jax.cli.devices import start_configured
from mllm_jax.config.load import ParallelConfig
from mllm_jax.runtime.devices import DeviceError, DevicesLostError, _find_devices, start_devices
from mllm_jax.runtime.exits import ExitCode, exit_code_of
from mllm_jax.runtime.folder import METRICS, has_trained
from mllm_jax.runtime.run_peers import PeerError
from tests.configs import config

OWN = ParallelConfig(devices=16, platform="gpu")


@pytest.fixture
def devices(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Lets JAX find so many devices of each process; what is gathered is listed."""
    gathered: list[str] = []
    met = SimpleNamespace(gather_values=lambda name, value: gathered.append(name))
    monkeypatch.setattr("mllm_jax.runtime.devices.current_peers", lambda: met)

    def there(*counts: int, index: int = 0) -> list[str]:
        every = [SimpleNamespace(process_index=i) for i, n in enumerate(counts) for _ in range(n)]
        monkeypatch.setattr(jax, "devices", lambda: every)
        monkeypatch.setattr(jax, "process_count", lambda: len(counts))
        monkeypatch.setattr(jax, "process_index", lambda: index)
        return gathered

    return there


@pytest.mark.parametrize(
    ("counts", "index", "trained", "kind", "code"),
    [
        ((4, 4), 0, False, DeviceError, ExitCode.BAD_INPUT),  # as many as the machines have
        ((9, 9), 0, True, DeviceError, ExitCode.BAD_INPUT),
        ((8,), 0, False, DeviceError, ExitCode.BAD_INPUT),
        ((15,), 0, True, DevicesLostError, ExitCode.UNFIT),
        ((4, 4), 0, True, DevicesLostError, ExitCode.UNFIT),
        ((8, 7), 0, False, PeerError, ExitCode.LOST_PEER),
        ((8, 7), 1, False, DevicesLostError, ExitCode.UNFIT),
        ((8, 7), 0, True, PeerError, ExitCode.LOST_PEER),
        ((8, 0), 1, True, DevicesLostError, ExitCode.UNFIT),
    ],
)
def test_a_host_that_has_lost_devices_is_told_from_a_wrong_number(
    devices: Any, counts: tuple[int, ...], index: int, trained: bool, kind: type, code: ExitCode
) -> None:
    gathered = devices(*counts, index=index)
    with pytest.raises(kind) as refused:
        _find_devices(OWN, trained=trained)
    assert gathered == ["devices are counted"], "no process ends before all know of it"
    assert type(refused.value) is kind
    assert exit_code_of(refused.value) == code
    lacking = {i: f"process {i} has {n} of {16 // len(counts)}" for i, n in enumerate(counts)}
    told = [i for i, words in lacking.items() if words in str(refused.value)]
    assert told == [i for i, n in enumerate(counts) if n < 16 // len(counts)]
    assert f"set parallel.devices to {sum(counts)} and the plans" in str(refused.value)


def test_devices_that_are_there_are_taken(devices: Any) -> None:
    devices(8, 8)
    assert len(_find_devices(OWN, trained=True)) == 16
    devices(20)
    assert len(_find_devices(OWN)) == 16


@pytest.mark.parametrize("error", [RuntimeError("CUDA_ERROR_NO_DEVICE"), AssertionError()])
def test_a_driver_that_finds_nothing_is_no_bad_input_once_it_has(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fails() -> None:
        raise error

    monkeypatch.setattr(jax, "devices", fails)
    for trained, code in ((False, ExitCode.BAD_INPUT), (True, ExitCode.UNFIT)):
        with pytest.raises(DeviceError, match=r"parallel\.platform gpu") as refused:
            _find_devices(OWN, trained=trained)
        assert exit_code_of(refused.value) == code


def test_figures_of_a_step_show_that_a_run_has_trained(tmp_path: Any) -> None:
    assert not has_trained(tmp_path)
    (tmp_path / METRICS).touch()
    assert not has_trained(tmp_path)
    (tmp_path / METRICS).write_text("{}")
    assert has_trained(tmp_path)


@pytest.mark.parametrize(("trained", "code"), [(False, ExitCode.BAD_INPUT), (True, ExitCode.UNFIT)])
def test_a_start_is_told_whether_the_devices_were_there(
    devices: Any, monkeypatch: pytest.MonkeyPatch, trained: bool, code: ExitCode
) -> None:
    for name in ("_choose_platform", "_looking_for_devices"):
        monkeypatch.setattr(f"mllm_jax.runtime.devices.{name}", lambda *_: nullcontext())
    devices(15)
    with pytest.raises(DeviceError) as refused:
        start_devices(OWN, trained=trained)
    assert exit_code_of(refused.value) == code


@pytest.mark.parametrize(
    ("command", "figures", "told", "trained"),
    [
        ("train", "", None, False),
        ("train", "{}", None, True),
        ("evaluate", "{}", None, False),  # perhaps on another machine
        ("train", "", False, False),
        ("train", "", True, True),  # by a supervisor: the folder of the run may be gone
    ],
)
def test_a_command_knows_whether_its_run_has_trained(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    command: str,
    figures: str,
    told: bool | None,
    trained: bool,
) -> None:
    own, found = config(run__directory=str(tmp_path)), []
    own.run.path.mkdir()
    (own.run.path / METRICS).write_text(figures)
    by = None if told is None else SimpleNamespace(trained=told)
    monkeypatch.setattr("mllm_jax.runtime.supervised.process.supervisor_settings", lambda: by)
    monkeypatch.setattr(
        "mllm_jax.runtime.devices.start_devices", lambda *_, **how: found.append(how["trained"])
    )
    place = {"processes": 1, "process": 0, "coordinator": None, "join_seconds": 1.0}
    start_configured(Namespace(name=command, **place), own)
    assert found == [trained]

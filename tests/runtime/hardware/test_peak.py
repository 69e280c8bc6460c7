"""The peak of a machine: the best that was measured, kept, and the same for all of a run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import pytest

from data.planning.stream import LoaderState
from mllm_jax.runtime.hardware import peak as own
from mllm_jax.runtime.hardware.peak import DevicePeak, host_peak
from mllm_jax.train.listeners.figures import _peak_of_devices
from mllm_jax.train.state.progress import Progress, ProgressError


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """A machine whose caches are empty, and what it reaches at the next starts, the last first."""
    rates = [3e9, 2e9, 1e9]
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(own, "_measure_flops", lambda seconds, products: rates.pop())
    host_peak.cache_clear()
    yield rates
    host_peak.cache_clear()


def anew() -> DevicePeak:
    """The peak as another process finds it."""
    host_peak.cache_clear()
    return host_peak()


def test_the_best_that_was_measured_is_kept_and_the_place_is_told(
    measured: list[float], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    first = anew()
    (file,) = (tmp_path / "mllm_jax").iterdir()
    assert str(file) in caplog.text
    assert str(file) in first.source
    assert first.flops == 1e9
    # A machine that is busy, or about as fast, changes nothing.
    measured += [1.04e9, 1e8]
    assert anew() == anew() == first
    assert caplog.text.count("until a process measures more") == 1
    # The first rate was that of a busy machine: nothing computes at twice a peak.
    assert anew().flops == 2e9
    measured += [1e9]
    assert anew().flops == 2e9
    assert caplog.text.count("until a process measures more") == 2
    file.unlink()
    assert anew().flops == 3e9


def test_another_machine_or_a_damaged_file_is_measured_again(
    measured: list[float],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    anew()
    (file,) = (tmp_path / "mllm_jax").iterdir()
    file.write_text(file.read_text().replace("1000000000", "1700000000"))
    assert anew().flops == 2e9
    assert f"{file}: the peak of this CPU is measured again" in caplog.text
    monkeypatch.setattr(own, "cpu_name", lambda: "Abacus 9")
    assert anew().flops == 3e9
    assert "Abacus 9" in str(host_peak())


def test_a_place_that_takes_no_file_is_told(
    measured: list[float], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "mllm_jax").write_text("")
    assert anew().source == "(float32, measured by this process)"
    assert "cannot be stored" in caplog.text
    assert len(measured) == 2


def test_a_run_keeps_the_peak_that_it_has_begun_with(measured: list[float], tmp_path: Path) -> None:
    """On the same devices, where an idle machine is busy later, or its caches are gone."""
    devices = jax.devices()
    experiment: Any = SimpleNamespace(step=SimpleNamespace(devices=devices))
    progress = Progress(1, LoaderState(0, step=1))
    begun = _peak_of_devices(experiment, progress)
    assert begun == pytest.approx(1e9)
    (file,) = (tmp_path / "mllm_jax").iterdir()
    file.unlink()
    again = Progress.from_json(json.loads(json.dumps(progress.to_json())))
    assert anew().flops == 2e9
    assert _peak_of_devices(experiment, again) == begun
    elsewhere = Progress.from_json(progress.to_json())
    assert elsewhere.peak is not None
    elsewhere.peak = DevicePeak("64 cores of another CPU", 5e12, "")
    assert _peak_of_devices(experiment, elsewhere) == pytest.approx(2e9)
    assert elsewhere.peak.flops == 2e9


@pytest.mark.parametrize("flops", [0.0, -1.0, float("nan"), "1"])
def test_a_peak_that_no_device_has_is_refused(flops: Any) -> None:
    value = Progress(1, LoaderState(0, step=1), peak=DevicePeak("a", 1.0, "b")).to_json()
    assert Progress.from_json(value).to_json() == value
    value["peak"]["flops"] = flops
    with pytest.raises(ProgressError, match=r"peak\.flops"):
        Progress.from_json(value)

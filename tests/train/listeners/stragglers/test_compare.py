"""Times are sent without a wait, compared on process 0, told once, kept and drawn."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from mllm_jax.runtime.run_peers import RunPeers, current_peers, set_peers
from mllm_jax.train.events import Phase, StepEnded
from mllm_jax.train.listeners.stragglers.compare import AGAIN, LATEST, TimeComparison
from mllm_jax.train.listeners.stragglers.heat import (
    COLUMNS,
    RANKS,
    draw_maps,
    heat_maps,
    load_times,
    slow_ones,
)
from mllm_jax.train.listeners.stragglers.probe import DeviceProbes
from mllm_jax.train.listeners.stragglers.timing import NAME, StepTimer
from mllm_jax.train.listeners.stragglers.window import DEVICE, HOST, LOCAL, StepWindow
from mllm_jax.train.records.sinks import JsonlSink
from tests.configs import ROOT
from tests.runtime.test_peers import free_port
from tests.timing import PATIENCE


class Two(RunPeers):
    """Process 0 of two."""

    count = 2


@pytest.fixture
def two() -> Iterator[RunPeers]:
    before = current_peers()
    set_peers(own := Two())
    yield own
    set_peers(before)


def taken(step: int, seconds: float) -> StepEnded:
    return StepEnded(step, seconds, (), {}, 0.0)


def send(own: RunPeers, step: int, between: float, processes: tuple[int, ...] = (0, 1)) -> None:
    """Windows of both processes; process 1 is slow."""
    for process in processes:
        seconds = {"read": 0.1, "place": 0.1, "between": between if process else 0.2, HOST: 0.001}
        window = StepWindow(
            process, "ab"[process], step, 1.0, seconds, [0.01], [f"device {process}"]
        )
        own._posts[NAME].append((process, window.to_json()))


def test_a_window_has_what_a_process_does_by_itself(two: RunPeers) -> None:
    timing = StepTimer(2, None)
    for step in (1, 2, 3, 4):
        late = 10.0 if step == 1 else 0.0  # the first step compiles
        timing(Phase("read", step, 0.1, ()))
        timing(Phase("place", step, 0.2 + late))
        timing(Phase("dispatch", step, 0.3))
        timing(Phase("wait", step, 0.4))
        timing(Phase("save", step, 0.5))
        timing(Phase("evaluate", step, 7.0, {}))
        timing(taken(step, 2.0 + late))
    windows = [StepWindow.from_json(value) for _, value in two.take_posts(NAME)]
    assert [own.step for own in windows] == [2, 4]
    for own in windows:
        assert own.pace == 2.0
        assert own.seconds == pytest.approx({"read": 0.1, "place": 0.2, "between": 0.5})
    assert not two.take_posts(NAME)


def test_the_slow_one_is_told_once_and_again_later(
    two: RunPeers, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    comparing = TimeComparison(tmp_path, 0)
    with caplog.at_level(logging.INFO):
        for number in range(8 + AGAIN + 1):
            send(two, 10 * number, 0.4)
            comparing.compare_new()
        for number in range(6):
            send(two, 1000 + 10 * number, 0.2)
            comparing.compare_new()
    told = [record.getMessage() for record in caplog.records]
    slow = [text for text in told if "is slow" in text]
    assert len(slow) == 2
    assert slow[0].startswith(
        "process 1 (host b) is slow: what it does between two steps takes 400"
    )
    assert told[-1] == "process 1 (host b) is no longer slow (between)"
    (first,) = slow_ones(load_times(tmp_path))
    assert first == (80, slow[0])


def test_a_window_waits_for_all_processes_but_not_for_ever(two: RunPeers, tmp_path: Path) -> None:
    comparing = TimeComparison(tmp_path, 0)
    send(two, 10, 0.2, (0,))
    comparing.compare_new()
    assert not (tmp_path / "ranks.jsonl").read_text()
    send(two, 10, 0.2, (1,))
    comparing.compare_new()
    assert len((tmp_path / "ranks.jsonl").read_text().splitlines()) == 1
    for step in range(20, 20 + 10 * (LATEST + 5), 10):
        send(two, step, 0.2, (0,))
        comparing.compare_new()
    assert len(comparing._waiting) == LATEST


def test_a_run_goes_on_with_its_times_and_on_a_full_disk(
    two: RunPeers, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    comparing = TimeComparison(tmp_path, 0)
    for step in (10, 20, 30):
        send(two, step, 0.2)
    comparing.compare_new()
    again = TimeComparison(tmp_path, 20)
    assert [json.loads(x)["step"] for x in (tmp_path / "ranks.jsonl").read_text().splitlines()] == [
        10,
        20,
    ]

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(again._sink, "log_values", full)
    for step in (30, 40):
        send(two, step, 0.2)
    again.compare_new()
    assert caplog.text.count("ranks.jsonl cannot be written: [Errno 28]") == 1


def test_maps_have_the_seconds_of_all_over_their_median(two: RunPeers, tmp_path: Path) -> None:
    assert heat_maps(load_times(tmp_path)) == []
    comparing = TimeComparison(tmp_path, 0)
    for number in range(2 * COLUMNS):
        send(two, 10 * (number + 1), 0.4)
    comparing.compare_new()
    own, host, device = heat_maps(load_times(tmp_path))
    assert own.places == host.places == ("process 0 (host a)", "process 1 (host b)")
    assert device.places == ("device 0 of process 0 (host a)", "device 1 of process 1 (host b)")
    assert own.ratio.shape == (2, COLUMNS)
    assert own.ratio[:, 0] == pytest.approx([0.8, 1.2])  # 0.4 and 0.6 s over 0.5 s
    assert own.steps[-1] == 20 * COLUMNS
    draw_maps([own, host, device], tmp_path / "ranks.png")
    pixels = np.asarray(Image.open(tmp_path / "ranks.png").convert("RGB")).reshape(-1, 3)
    assert len(np.unique(pixels, axis=0)) > 20


@given(st.integers(0, 10**6), st.integers(0, 7))
def test_a_bit_that_flips_in_the_times_leaves_a_map_of_the_others(at: int, bit: int) -> None:
    """Also one that makes two numbers of one, or another name of a phase."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / RANKS
        sink = JsonlSink(path)
        for step in range(10, 60, 10):
            first = {"places": {"read": ["a", "b"], "host": ["a", "b"]}} if step == 10 else {}
            sink.log_values(step, {**first, **{phase: [0.21, 0.25] for phase in (*LOCAL, HOST)}})
        data = bytearray(path.read_bytes())
        data[at % len(data)] ^= 1 << bit
        path.write_bytes(data)
        for own in heat_maps(load_times(path.parent)):
            assert len(own.steps) >= 3
            assert slow_ones(load_times(path.parent)) == []


def test_probes_take_some_time_on_host_and_devices() -> None:
    probes = DeviceProbes(jax.local_devices())
    assert probes.time_host() > 0
    seconds = probes.time_devices()
    assert len(seconds) == len(probes.names) == 8
    assert all(own > 0 for own in seconds)
    emulated = DeviceProbes()
    assert not emulated.time_devices()
    assert not emulated.names
    assert {HOST, DEVICE}.isdisjoint(LOCAL)


@pytest.mark.slow
@pytest.mark.multihost
@pytest.mark.parametrize(("factor", "growth"), [(1.2, 0.0), (1.0, 0.04)], ids=["slow", "growing"])
def test_the_slow_one_of_two_processes_is_named(
    factor: float, growth: float, tmp_path: Path, processes: list[subprocess.Popen[str]]
) -> None:
    address = f"127.0.0.1:{free_port()}"
    for index in (0, 1):
        words = [str(index), address, str(tmp_path), str(factor), str(growth)]
        command = [sys.executable, "-m", "tests.train.listeners.stragglers.process", *words]
        processes.append(
            subprocess.Popen(
                command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
        )
    said, _ = processes[0].communicate(timeout=PATIENCE)
    assert processes[1].wait(timeout=PATIENCE) == 0
    assert processes[0].returncode == 0, said
    slow = [line for line in said.splitlines() if "is slow" in line]
    assert slow, said
    assert not [line for line in slow if "process 1 (host " not in line]
    assert "what it does between two steps" in slow[0]

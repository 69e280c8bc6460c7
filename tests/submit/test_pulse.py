"""The pulse of a process, and the probe that looks at it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mllm_jax.submit import pulse
from tests.configs import ROOT
from tests.timing import PATIENCE

BEATS = """
import os, time
from mllm_jax.submit import pulse
pulse.BEAT = 0.1
pulse.begin()
assert pulse.FILE not in os.environ  # processes that it starts have none
time.sleep(60)
"""


def test_without_a_file_there_is_no_pulse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(pulse.FILE, raising=False)
    pulse.begin()


def test_a_process_that_is_stopped_has_no_pulse(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processes, capsys
) -> None:
    file = tmp_path / "pulse"
    monkeypatch.setenv(pulse.FILE, str(file))
    assert pulse.main(["1"]) == 1
    assert "has not begun yet" in capsys.readouterr().err
    process = subprocess.Popen([sys.executable, "-c", BEATS], cwd=ROOT, text=True)
    processes.append(process)
    while not file.exists():
        assert process.poll() is None
        time.sleep(0.05)
    time.sleep(1.0)
    assert pulse.main(["0.9"]) == 0
    os.kill(process.pid, signal.SIGSTOP)
    time.sleep(1.2)
    assert pulse.main(["0.9"]) == 1
    assert "0.9 s are allowed" in capsys.readouterr().err
    os.kill(process.pid, signal.SIGCONT)
    time.sleep(0.5)
    assert pulse.main(["0.9"]) == 0


def test_the_probe_loads_no_numerical_library() -> None:
    code = "import sys, mllm_jax.submit.pulse; assert not {'jax', 'numpy'} & {*sys.modules}"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=PATIENCE)

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
from tests.timing import PATIENCE, soon

BEATS = """
import os, time
from mllm_jax.submit import pulse
pulse.BEAT = 0.1
pulse.start_pulse()
assert pulse.FILE not in os.environ  # processes that it starts have none
time.sleep(60)
"""


def test_without_a_file_there_is_no_pulse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(pulse.FILE, raising=False)
    pulse.start_pulse()


def test_a_process_that_is_stopped_has_no_pulse(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processes, capsys
) -> None:
    file = tmp_path / "pulse"
    monkeypatch.setenv(pulse.FILE, str(file))
    assert pulse.main(["1"]) == 1
    assert "has not begun yet" in capsys.readouterr().err
    process = subprocess.Popen([sys.executable, "-c", BEATS], cwd=ROOT, text=True)
    processes.append(process)
    soon(file.exists)
    long_ago(file)
    soon(lambda: pulse.main(["900"]) == 0)
    os.kill(process.pid, signal.SIGSTOP)
    soon(lambda: Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T")
    long_ago(file)
    capsys.readouterr()
    assert pulse.main(["900"]) == 1
    assert "was touched 1000 s ago; 900 s are allowed" in capsys.readouterr().err
    os.kill(process.pid, signal.SIGCONT)
    soon(lambda: pulse.main(["900"]) == 0)


def long_ago(file: Path) -> None:
    """Make a file look as if it had been touched 1000 seconds ago."""
    os.utime(file, times=(time.time() - 1000,) * 2)


def test_the_probe_loads_no_numerical_library() -> None:
    code = "import sys, mllm_jax.submit.pulse; assert not {'jax', 'numpy'} & {*sys.modules}"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=PATIENCE)

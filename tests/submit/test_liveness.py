"""The file that a process touches as long as it lives, and its probe."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mllm_jax.submit import liveness
from tests.configs import ROOT
from tests.timing import PATIENCE, soon

TOUCHING = """
import os, time
from mllm_jax.submit import liveness
liveness.TOUCH_SECONDS = 0.1
liveness.start_touching()
assert liveness.LIVENESS_VARIABLE not in os.environ  # processes that it starts have none
time.sleep(60)
"""


def test_without_a_file_nothing_is_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(liveness.LIVENESS_VARIABLE, raising=False)
    liveness.start_touching()


def test_a_process_that_is_stopped_touches_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processes, capsys
) -> None:
    file = tmp_path / "liveness"
    monkeypatch.setenv(liveness.LIVENESS_VARIABLE, str(file))
    assert liveness.main(["1"]) == 1
    assert "has not begun yet" in capsys.readouterr().err
    process = subprocess.Popen([sys.executable, "-c", TOUCHING], cwd=ROOT, text=True)
    processes.append(process)
    soon(file.exists)
    long_ago(file)
    soon(lambda: liveness.main(["900"]) == 0)
    os.kill(process.pid, signal.SIGSTOP)
    soon(lambda: Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T")
    long_ago(file)
    capsys.readouterr()
    assert liveness.main(["900"]) == 1
    assert "was touched 1000 s ago; 900 s are allowed" in capsys.readouterr().err
    os.kill(process.pid, signal.SIGCONT)
    soon(lambda: liveness.main(["900"]) == 0)


def long_ago(file: Path) -> None:
    """Make a file look as if it had been touched 1000 seconds ago."""
    os.utime(file, times=(time.time() - 1000,) * 2)


def test_the_probe_loads_no_numerical_library() -> None:
    code = "import sys, mllm_jax.submit.liveness; assert not {'jax', 'numpy'} & {*sys.modules}"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=PATIENCE)

"""Signals where nothing is to be saved."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from mllm_jax.runtime.exits import MEANINGS, ExitCode, exit_code_table
from tests.configs import ROOT
from tests.timing import PATIENCE

PROGRAM = """
import hashlib, sys, time
from mllm_jax.runtime.interrupt import InterruptibleContext, interrupt_message, set_interrupt_status
try:
    with InterruptibleContext():
        set_interrupt_status(" before the first step")
        print("ready", flush=True)
        {busy}
except KeyboardInterrupt:
    sys.stderr.write(interrupt_message() + chr(10))
    sys.exit(130)
"""
#: Python comes to a handler in the first, and not in the second, as in XLA's compiler.
BUSY = {
    "python": "time.sleep(60)",
    "elsewhere": "hashlib.pbkdf2_hmac('sha256', b'a', b'b', 2**30)",
}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("busy", BUSY)
def test_a_signal_ends_whatever_python_does_and_says_what_stands(busy, number):
    words = [sys.executable, "-c", PROGRAM.format(busy=BUSY[busy])]
    with subprocess.Popen(
        words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == ExitCode.INTERRUPTED
    assert err == "interrupted before the first step\n"


def test_every_exit_code_has_a_meaning():
    assert set(MEANINGS) == set(ExitCode)
    assert len(exit_code_table().splitlines()) == len(ExitCode)


DROPS = """
import signal, sys, time
from mllm_jax.runtime.interrupt import InterruptibleContext

class Collected:
    def __del__(self):
        signal.raise_signal(signal.{name})
        for _ in range(100):
            pass

try:
    with InterruptibleContext():
        Collected()
        print("dropped", flush=True)
        time.sleep(60)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_whose_exception_python_drops_comes_again(name: str) -> None:
    command = [sys.executable, "-c", DROPS.format(name=name)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, cwd=ROOT)
    assert done.stdout.split() == ["dropped", "interrupted"], done
    assert done.stderr == ""

"""A session: its processes are found, stopped and killed, and what they left is removed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from mllm_jax.supervise import session
from mllm_jax.supervise.session import ProcessSession, _is_running, _status_fields
from tests.timing import soon

SLEEP = [sys.executable, "-c", "import time; print(flush=True); time.sleep(60)"]


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(SLEEP, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


def test_a_session_has_its_processes_and_no_others(sleeper: subprocess.Popen[bytes]) -> None:
    assert ProcessSession(sleeper.pid).living_processes() == [sleeper.pid]
    assert os.getpid() not in ProcessSession(sleeper.pid).living_processes()
    sleeper.kill()
    soon(
        lambda: not ProcessSession(sleeper.pid).living_processes()
    )  # at its end it is no member, nor gone
    assert _status_fields(sleeper.pid)[0] == b"Z"
    assert not _is_running(sleeper.pid)


def test_a_process_runs_until_it_is_stopped(sleeper: subprocess.Popen[bytes]) -> None:
    assert _is_running(sleeper.pid)
    sleeper.send_signal(signal.SIGSTOP)
    soon(lambda: not _is_running(sleeper.pid))
    sleeper.send_signal(signal.SIGCONT)
    soon(lambda: _is_running(sleeper.pid))
    assert not _is_running(2**22 + 1)  # above all numbers of processes
    assert _status_fields(2**22 + 1) == []


@pytest.mark.parametrize(("looks", "waits"), [([], 0), ([False], 0), ([True, True, False], 2)])
def test_processes_are_killed_once_they_stand(
    looks: list[bool], waits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not before: each could make shared memory that nobody has registered."""
    sent: list[tuple[int, int]] = []
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        assert len(slept) <= waits

    left = iter(looks)
    monkeypatch.setattr(ProcessSession, "living_processes", lambda _: [7] if looks else [])
    monkeypatch.setattr(session, "_read_file", lambda path: b"")
    monkeypatch.setattr(session, "_send_signal", lambda process, how: sent.append((process, how)))
    monkeypatch.setattr(session, "_is_running", lambda process: next(left))
    clock = SimpleNamespace(sleep=sleep, monotonic=lambda: 0.0)
    monkeypatch.setattr(session, "time", clock)
    ProcessSession(1).kill_processes()
    assert len(slept) == waits
    assert sent == ([(7, signal.SIGSTOP), (7, signal.SIGKILL)] if looks else [])


def test_processes_that_do_not_stand_are_killed_in_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    times = iter([0.0, 0.1, 0.3])
    sent: list[int] = []
    monkeypatch.setattr(ProcessSession, "living_processes", lambda _: [7])
    monkeypatch.setattr(session, "_read_file", lambda path: b"")
    monkeypatch.setattr(session, "_send_signal", lambda process, how: sent.append(how))
    monkeypatch.setattr(session, "_is_running", lambda process: True)
    clock = SimpleNamespace(sleep=lambda seconds: None, monotonic=lambda: next(times))
    monkeypatch.setattr(session, "time", clock)
    ProcessSession(1).kill_processes()
    assert sent == [signal.SIGSTOP, signal.SIGKILL]


def test_trackers_end_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[int] = []
    lines = {"/proc/7/cmdline": b"python -c train", "/proc/8/cmdline": session._TRACKER}
    monkeypatch.setattr(ProcessSession, "living_processes", lambda _: [7, 8])
    monkeypatch.setattr(session, "_read_file", lambda path: lines.get(path, b""))
    monkeypatch.setattr(session, "_send_signal", lambda process, how: sent.append(process))
    ProcessSession(1).kill_processes()
    assert sent == [7, 7]


def test_segments_of_killed_processes_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = tmp_path / "psm_1a2b"
    other = tmp_path / "other"
    for path in (made, other):
        path.write_bytes(b"x")
    code = f"import time; a, b = open({str(made)!r}), open({str(other)!r}); print(flush=True); "
    words = [sys.executable, "-c", code + "time.sleep(60)"]
    monkeypatch.setattr(session, "_SHARED", tmp_path)
    with subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        own = ProcessSession(process.pid)
        own.kill_processes()
        assert process.wait() == -signal.SIGKILL
    own.end_session()
    assert not made.exists()
    assert other.exists()

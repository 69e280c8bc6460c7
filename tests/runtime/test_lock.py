"""A run's folder takes one run; the lock goes with its process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mllm_jax.runtime.exits import ExitCode, exit_code_of
from mllm_jax.runtime.lock import (
    JOBSET,
    SUPERVISOR,
    LockedError,
    LockHeldError,
    check_unlocked,
    run_lock,
)
from mllm_jax.train.components import start
from mllm_jax.train.components.start import locked_run
from tests.configs import ROOT

HOLD = (
    "import sys, time; from pathlib import Path; from mllm_jax.runtime.lock import run_lock\n"
    + ("with run_lock(Path(sys.argv[1])): print('locked', flush=True); time.sleep(60)")
)


def test_a_folder_is_locked_until_its_holder_is_killed_and_the_error_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_unlocked(tmp_path)
    monkeypatch.setenv("SLURM_JOB_ID", "41")
    words = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout
        assert holder.stdout.readline() == "locked\n"
        with pytest.raises(LockedError) as refused, run_lock(tmp_path):
            pass
        with pytest.raises(LockedError) as seen:
            check_unlocked(tmp_path)
        holder.kill()
        holder.wait()
    assert str(seen.value) == str(refused.value)
    check_unlocked(tmp_path)
    for word in (
        f"process {holder.pid} on {os.uname().nodename} in job 41 of Slurm since 20",
        str(tmp_path),
    ):
        assert word in str(refused.value)
    with run_lock(tmp_path), pytest.raises(LockedError, match=str(os.getpid())), run_lock(tmp_path):
        pass
    with run_lock(tmp_path):
        pass


@pytest.mark.parametrize("name", [SUPERVISOR, f"{SUPERVISOR}-1"])
def test_only_a_supervised_start_takes_the_folder_of_a_supervisor_between_two_attempts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    with run_lock(tmp_path, name):
        told = f"{tmp_path} is in use by process {os.getpid()} on"
        with pytest.raises(LockedError, match=told), locked_run(tmp_path):
            pass
        check_unlocked(tmp_path)
        monkeypatch.setattr(start, "supervisor_settings", lambda: "told")
        with locked_run(tmp_path):
            pass
    monkeypatch.undo()
    with locked_run(tmp_path):
        pass


def test_a_job_waits_for_a_lock_that_no_other_job_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its host may be gone, and was of this job: its lease ends, or a later start waits."""

    def tried(patience: float) -> type[LockedError]:
        with pytest.raises(LockedError) as told, run_lock(tmp_path, patience=patience):
            pass
        return told.type

    monkeypatch.setenv(JOBSET, "training/mine")
    with run_lock(tmp_path):
        assert tried(0.5) is LockHeldError
        (waits,) = caplog.messages
        assert "in JobSet training/mine since 20" in waits
        assert waits.endswith(": it is waited for, 0.5 s at most")
        monkeypatch.setenv(JOBSET, "training/other")
        assert tried(3600.0) is LockedError  # at once
        monkeypatch.delenv(JOBSET)
        assert tried(0.0) is LockedError
    with run_lock(tmp_path):  # by a process of no job, which may be alive
        monkeypatch.setenv(JOBSET, "training/mine")
        assert tried(0.0) is LockHeldError
        with pytest.raises(LockedError) as seen:
            check_unlocked(tmp_path)
        assert seen.type is LockedError
    assert (exit_code_of(LockedError()), exit_code_of(LockHeldError())) == (
        ExitCode.BAD_INPUT,
        ExitCode.OUT_OF_REACH,
    )


@pytest.mark.parametrize("file", [None, "metrics.jsonl"])
def test_a_run_that_fails_leaves_no_folder_unless_there_is_something_in_it(
    tmp_path: Path, file: str | None
) -> None:
    def fail(folder: Path) -> None:
        with locked_run(folder):
            if file:
                (folder / file).touch()
            raise ValueError("no data")

    for folder in (tmp_path / "runs" / "new", tmp_path):
        with pytest.raises(ValueError, match="no data"):
            fail(folder)
    assert (tmp_path / "runs" / "new").exists() == bool(file)
    assert tmp_path.exists()
    with locked_run(tmp_path / "runs" / "good"):
        pass
    assert (tmp_path / "runs" / "good").exists()

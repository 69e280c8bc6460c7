"""Runs that share a machine or a folder and fail well: `launch.py train` as a user starts it."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from mllm_jax.runtime.exits import ExitCode
from tests.configs import CHANGES
from tests.train.test_run import free_port, launch, of_open_mpi, start, write_config

Process = subprocess.Popen[str]


def small(folder: Path, name: str, **changes: Any) -> Path:
    """A run that is soon at its first step."""
    changes = {"data__source": CHANGES["data__source"], "evaluate": {"enabled": False}} | changes
    return write_config(folder, name, **changes)


def ended(process: Process, code: int) -> str:
    """All that it said; it must end with `code`, and with neither Python's nor C++'s traces."""
    out, err = process.communicate(timeout=240)
    assert process.returncode == code, out + err
    assert "Traceback" not in err, err
    assert "***" not in err, err
    return out + err


def pair(config: Path, *of_second: str) -> list[Process]:
    """Two processes of one run."""
    options = ["--coordinator", f"localhost:{free_port()}", "--processes", "2", "--process"]
    second = [*options, "1", *of_second]
    return [launch("train", config, *options, "0"), launch("train", config, *second)]


def listening(pid: int) -> set[str]:
    """Addresses at which a process listens, in the kernel's hexadecimal words."""
    links = [link.readlink() for link in Path(f"/proc/{pid}/fd").iterdir() if link.is_symlink()]
    own = {str(link)[8:-1] for link in links if str(link).startswith("socket:[")}
    rows = [
        line.split()
        for name in ("tcp", "tcp6")
        for line in Path(f"/proc/{pid}/net/{name}").read_text().splitlines()[1:]
    ]
    found = {row[1].rpartition(":")[0] for row in rows if row[3] == "0A" and row[9] in own}
    assert found, f"process {pid} listens nowhere, or its sockets cannot be told"
    return found


#: All addresses of a machine, of IPv4 and IPv6.
EVERYWHERE = {"0" * 8, "0" * 32}


@pytest.mark.multihost
@pytest.mark.slow
def test_a_run_keeps_its_folder_listens_at_home_and_names_a_process_that_is_killed(
    tmp_path, processes
):
    config = small(tmp_path, "held", train__steps=100_000, checkpoint={"enabled": False})
    processes += pair(config)
    metrics = tmp_path / "held" / "metrics.jsonl"
    while not (metrics.exists() and metrics.read_text().count("loss")):
        assert all(process.poll() is None for process in processes), processes[0].communicate()
        time.sleep(0.1)
    for process in processes:
        assert not listening(process.pid) & EVERYWHERE
    processes.append(launch("train", config))
    said = ended(processes[2], ExitCode.BAD_INPUT)
    assert f"is in use by process {processes[0].pid} on " in said
    # Process 0 has JAX's coordinator, without which JAX aborts the others.
    processes[0].kill()
    said = ended(processes[1], ExitCode.LOST_PEER)
    assert f"pid {processes[0].pid}) is gone" in said
    assert "its last event: " in said


@pytest.mark.multihost
def test_processes_that_differ_end_before_a_step_and_name_the_key(tmp_path, processes):
    processes += pair(small(tmp_path, "other"), "train.learning_rate=0.002")
    for process in processes:
        said = ended(process, ExitCode.BAD_INPUT)
        assert "process 1 has train.learning_rate 0.002, process 0 0.001" in said


@pytest.mark.parametrize("index", [0, 1])
def test_who_is_alone_where_jax_looks_for_others_ends_in_good_order(tmp_path, processes, index):
    config = small(tmp_path, "alone", parallel__distributed=True)
    found = of_open_mpi(index, free_port(range(61440, 65536)))
    options = ["--config", str(config), "--join-seconds", "1"]
    processes.append(start("launch.py", "train", *options, **found))
    said = ended(processes[0], ExitCode.LOST_PEER)
    assert "parallel.distributed: within 1 s (--join-seconds) not all processes came" in said


@pytest.mark.multihost
def test_processes_that_jax_has_found_listen_at_home_and_name_one_that_is_killed(
    tmp_path, processes
):
    config = small(tmp_path, "found", parallel__distributed=True)
    port = free_port(range(61440, 65536))
    for index in (0, 1):
        program = ["-m", "tests.train.reads", str(tmp_path / "reads")]
        options = ["train", "--config", str(config)]
        processes.append(start(*program, *options, **of_open_mpi(index, port)))
    while not (tmp_path / "found" / ".lock").exists():
        assert all(process.poll() is None for process in processes), processes[0].communicate()
        time.sleep(0.05)
    for process in processes:
        assert not listening(process.pid) & EVERYWHERE
    processes[1].kill()
    said = ended(processes[0], ExitCode.LOST_PEER)
    assert "process 1 (" in said
    assert f"pid {processes[1].pid}) is gone" in said


def test_an_interruption_before_the_first_step_says_that_nothing_was_saved(tmp_path, processes):
    config = small(tmp_path, "early")
    processes.append(launch("train", config))
    while not (tmp_path / "early" / ".lock").exists():
        assert processes[0].poll() is None, processes[0].communicate()
        time.sleep(0.05)
    processes[0].send_signal(signal.SIGTERM)
    said = ended(processes[0], ExitCode.INTERRUPTED)
    assert "interrupted before a step was taken: nothing was saved" in said
    assert f"launch.py train --config {config}" in said

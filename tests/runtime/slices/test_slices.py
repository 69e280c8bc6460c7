"""Processes of slices of GPUs under a stand-in for MPS, with limits of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from mllm_jax.runtime.exits import ExitCode
from mllm_jax.runtime.slices import daemon
from mllm_jax.runtime.slices.control import MpsControl, MpsError
from mllm_jax.runtime.slices.launch import check_nccl, launch_slices
from mllm_jax.runtime.slices.limits import SliceLimits
from tests.configs import ROOT
from tests.runtime.slices.standin import GPUS, install
from tests.timing import PATIENCE

HALVES = SliceLimits(("text", "media"), (0.5, 0.5), (0.6, 0.4))
UNEVEN = SliceLimits(("text", "media"), (0.7, 0.3), (0.7, 0.3))
#: A process that writes what it was given, into a file by its number.
CLIENT = """
import json, os, sys, time
given = dict(os.environ, words=sys.argv[2:])
number = sys.argv[sys.argv.index("--process") + 1]
state = os.path.join(os.environ["CUDA_MPS_PIPE_DIRECTORY"], "state.json")
given["state"] = json.load(open(state))
open(os.path.join(sys.argv[1], number), "w").write(json.dumps(given))
"""


@pytest.fixture
def machine(tmp_path: Path) -> dict[str, str]:
    """The environment of a machine that has MPS."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("XLA_")}
    pipes = tmp_path / "usual"
    pipes.mkdir()
    return {**kept, "PATH": install(tmp_path / "bin"), "CUDA_MPS_PIPE_DIRECTORY": str(pipes)}


def launch(folder: Path, machine: Mapping[str, str], limits: SliceLimits, **how: Any) -> list[Any]:
    """What each process of a run was given."""
    code = launch_slices(
        [sys.executable, "-c", CLIENT, str(folder)],
        limits,
        how.pop("devices", 1),
        {**machine, "STANDIN": json.dumps(how)},
    )
    assert code == ExitCode.OK
    return [json.loads((folder / str(n)).read_text()) for n in range(len(limits.names))]


@pytest.fixture
def running(machine: dict[str, str]) -> Iterator[dict[str, str]]:
    """The environment of a machine on which somebody else's daemon runs."""
    environment = {**machine, "STANDIN": "{}"}
    command = [f"{machine['PATH'].split(os.pathsep)[0]}/nvidia-cuda-mps-control", "-f"]
    with subprocess.Popen(command, env=environment) as process:
        wait_until(lambda: MpsControl.from_environment(environment).is_running)
        yield machine
        assert process.poll() is None, "it was ended"
        process.kill()


def wait_until(condition: Any) -> None:
    until = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


def is_alive(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


def test_processes_have_percentages_where_there_are_no_partitions(tmp_path, machine):
    given = launch(tmp_path, machine, UNEVEN, devices=2)
    assert [own["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] for own in given] == ["70", "30"]
    assert [own["XLA_CLIENT_MEM_FRACTION"] for own in given] == ["0.6825", "0.2925"]
    for number, own in enumerate(given):
        assert own["words"][:2] == ["--processes", "2"]
        assert own["words"][-2:] == ["--process", str(number)]
        assert own["NCCL_MULTI_RANK_GPU_ENABLE"] == "1"
        assert own["MLLM_JAX_SLICE"] == str(number)
        assert own["state"]["gpus"] == ",".join(GPUS)
        assert "CUDA_MPS_SM_PARTITION" not in own
    assert given[0]["words"][3] == given[1]["words"][3], "they meet at one place"


def test_the_daemon_of_a_run_ends_with_it(tmp_path, machine):
    given = launch(tmp_path, machine, HALVES)[0]
    assert given["CUDA_MPS_PIPE_DIRECTORY"] != machine["CUDA_MPS_PIPE_DIRECTORY"]
    assert not is_alive(given["state"]["pid"])
    assert not Path(given["CUDA_MPS_PIPE_DIRECTORY"]).exists()


def test_processes_have_partitions_where_the_driver_has_them(tmp_path, machine):
    given = launch(tmp_path, machine, HALVES, version=13010, chunks=14)
    assert [own["CUDA_MPS_SM_PARTITION"] for own in given] == [
        f"{GPUS[0]}/part{number}" for number in (0, 1)
    ]
    assert [chunks for _, chunks in given[1]["state"]["partitions"]] == [7, 7]
    assert all("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE" not in own for own in given)


@pytest.mark.parametrize(("limits", "devices"), [(UNEVEN, 1), (HALVES, 2)])
def test_quotas_that_are_no_chunks_are_percentages(tmp_path, machine, limits, devices):
    """Seven tenths of 16 chunks are none; partitions of several GPUs are not made."""
    given = launch(tmp_path, machine, limits, devices=devices, version=13010, chunks=16)
    assert all(own["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] for own in given)
    assert not given[0]["state"]["static"]


def test_a_daemon_that_runs_already_is_used_and_stays(tmp_path, running):
    given = launch(tmp_path, {**running, "CUDA_VISIBLE_DEVICES": "1"}, UNEVEN)
    for own in given:
        assert own["CUDA_MPS_PIPE_DIRECTORY"] == running["CUDA_MPS_PIPE_DIRECTORY"]
        assert own["CUDA_VISIBLE_DEVICES"] == GPUS[1]


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"default": 50.0}, "allows clients of new servers 50 % of the threads of a GPU, and"),
        ({"servers": {"77": 60.0}}, "clients of server 77 60 % .* quotas ask for 70 %; valid:"),
    ],
)
def test_a_daemon_with_other_limits_is_refused(tmp_path, running, how, message):
    with pytest.raises(MpsError, match=message):
        launch(tmp_path, running, UNEVEN, **how)


def test_partitions_of_others_are_refused(tmp_path, running):
    file = Path(running["CUDA_MPS_PIPE_DIRECTORY"]) / "state.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"static": True}))
    with pytest.raises(MpsError, match=r"static partitions in .*, which others have made"):
        launch(tmp_path, running, HALVES)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"fails": "start"}, "has ended with code 3 as soon as it was started"),
        ({"fails": "silent"}, "does not answer 0.5 s after it was started"),
        (
            {"fails": "partition", "version": 13010},
            "no partition of 8 chunks of GPU-1111.*: Failed",
        ),
    ],
)
def test_a_daemon_that_fails_is_told(tmp_path, machine, monkeypatch, how, message):
    monkeypatch.setattr(daemon, "PATIENCE", 0.5)
    with pytest.raises(MpsError, match=message):
        launch(tmp_path, machine, HALVES, **how)


def test_a_machine_without_mps_is_refused(tmp_path, machine):
    with pytest.raises(MpsError, match="there is no nvidia-cuda-mps-control in PATH; valid:"):
        launch(tmp_path, {**machine, "PATH": f"{tmp_path}"}, HALVES)


def test_more_gpus_than_there_are_are_refused(tmp_path, machine):
    with pytest.raises(MpsError, match=r"parallel\.devices is 3, but nvidia-smi lists 2; valid:"):
        launch(tmp_path, machine, HALVES, devices=3)


@pytest.mark.parametrize(
    "name", ["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "XLA_PYTHON_CLIENT_MEM_FRACTION"]
)
def test_one_limit_for_all_slices_is_refused(tmp_path, machine, name):
    with pytest.raises(MpsError, match=f"{name}=5 is set, and slices have limits of their own"):
        launch(tmp_path, {**machine, name: "5"}, HALVES)


@pytest.mark.parametrize(("version", "refused"), [("2.29.7", True), ("2.30.0", False)])
def test_an_nccl_without_ranks_on_one_gpu_is_refused(tmp_path, monkeypatch, version, refused):
    package = tmp_path / f"nvidia_nccl_cu13-{version}.dist-info"
    package.mkdir()
    (package / "METADATA").write_text(f"Name: nvidia-nccl-cu13\nVersion: {version}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    if not refused:
        check_nccl()
        return
    with pytest.raises(MpsError, match=r"nvidia-nccl-cu13 2.29.7 refuses .* NCCL 2.30 or later"):
        check_nccl()


#: A launcher whose processes write their ids, and wait.
WAITING = """
import json, os, signal, sys, time
from pathlib import Path
from mllm_jax.runtime.slices.process import end_with_launcher
end_with_launcher()
code = {}
signal.signal(signal.SIGTERM, lambda *_: sys.exit(code[sys.argv[-1]]))
state = Path(os.environ["CUDA_MPS_PIPE_DIRECTORY"], "state.json")
ids = dict(own=os.getpid(), daemon=json.loads(state.read_text())["pid"])
own = Path(sys.argv[1], sys.argv[-1])
own.with_suffix(".new").write_text(json.dumps(ids))
own.with_suffix(".new").rename(own)
time.sleep(600)
"""
LAUNCHER = """
import os, sys
from mllm_jax.runtime.slices.launch import launch_slices
from tests.runtime.slices.test_slices import HALVES
sys.exit(launch_slices([sys.executable, "-c", *sys.argv[1:]], HALVES, 1, os.environ))
"""


@pytest.mark.parametrize(
    ("number", "codes", "code"),
    [
        (signal.SIGKILL, {"0": 0, "1": 0}, -signal.SIGKILL),
        (signal.SIGTERM, {"0": 130, "1": 130}, 130),
        (signal.SIGTERM, {"0": ExitCode.LOST_PEER.value, "1": 3}, 3),
    ],
)
def test_processes_and_daemon_end_with_the_launcher(
    tmp_path, machine, processes, number, codes, code
):
    program = WAITING.format(codes)
    command = [sys.executable, "-c", LAUNCHER, program, str(tmp_path)]
    launcher = subprocess.Popen(command, env={**machine, "STANDIN": "{}"}, cwd=ROOT, text=True)
    processes.append(launcher)
    files = [tmp_path / str(n) for n in (0, 1)]
    wait_until(lambda: all(file.exists() for file in files))
    ids = [json.loads(file.read_text()) for file in files]
    launcher.send_signal(number)
    assert launcher.wait(PATIENCE) == code
    wait_until(lambda: not any(map(is_alive, [ids[0]["daemon"], *(own["own"] for own in ids)])))

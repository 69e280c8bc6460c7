"""The script of a job of Slurm, run with programs that only say how they were called."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mllm_jax.runtime.exits import ExitCode
from mllm_jax.submit.backends import SlurmBackend
from mllm_jax.submit.slurm import TRIES, job_script
from tests.configs import ROOT
from tests.submit.jobs import job, slurm
from tests.timing import PATIENCE
from tests.train.test_run import free_port

#: Programs of Slurm. The training ends with $CODE; n2 knows the address of n1.
PROGRAMS = {
    "srun": 'case "$*" in *getent*) [ "$CLOSED" ] && echo "srun getent" >>"$CALLS" && exit 1;'
    ' [ "$NAMED" ] || { echo "srun getent" >>"$CALLS"; exit 2; };'
    ' printf "%s STREAM n1\\n%s DGRAM\\n" "$NAMED" "$NAMED" ;;'
    ' *) printf "%s\\n" "srun $*" >>"$CALLS"; echo "$MLLM_JAX_SECRET" >"$CALLS.secret";'
    ' exit "$CODE" ;; esac',
    "scontrol": 'case "$*" in *hostnames*) printf "n1\\nn2\\n" ;;'
    ' *node*) echo "NodeName=n1 NodeAddr=one.example NodeHostName=n1" ;;'
    ' *config*) echo "ProctrackType           = proctrack/$TRACK" ;;'
    ' *) echo "scontrol $*" >>"$CALLS" ;; esac',
    "squeue": 'echo "$STATE"',
    "sleep": "",
}


class Node:
    """A node on which a script runs."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.calls = folder, folder / "calls"
        self.programs = folder / "bin"
        self.programs.mkdir()
        for name, text in PROGRAMS.items():
            (self.programs / name).write_text(f"#!/bin/sh\n{text}\n")
            (self.programs / name).chmod(0o755)

    def run(self, cluster: SlurmBackend, code: int = 0, nodes: int = 2, **environment: str) -> int:
        """The exit code of the script of a job whose training ends with `code`."""
        own = job(cluster, nodes, run__directory=str(self.folder))
        own.folder.mkdir(exist_ok=True)
        text = job_script(own, cluster, "/usr/bin/python3", ROOT)
        variables = {
            "PATH": f"{self.programs}:{os.environ['PATH']}",
            "SLURM_JOB_ID": "1234",
            "SLURM_JOB_NODELIST": "n[1-2]",
            "CALLS": str(self.calls),
            "CODE": str(code),
            "NAMED": "10.0.0.1",
            "CLOSED": "",
            "STATE": "RUNNING",
            "TRACK": "cgroup",
        }
        done = subprocess.run(
            ["bash"],
            input=text,
            text=True,
            env=variables | environment,
            timeout=PATIENCE,
            check=False,
        )
        return done.returncode

    @property
    def said(self) -> list[str]:
        """The calls of Slurm's programs since the last time."""
        lines = self.calls.read_text().splitlines() if self.calls.exists() else []
        self.calls.unlink(missing_ok=True)
        return lines


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def options(cluster: SlurmBackend, nodes: int = 2, **changes: Any) -> list[str]:
    text = job_script(job(cluster, nodes, **changes), cluster, "/usr/bin/python3", ROOT)
    head = "#SBATCH "
    return [line.removeprefix(head) for line in text.splitlines() if line.startswith(head)]


REQUEUE = "scontrol requeue 1234"


def test_the_training_is_started_on_all_nodes_with_the_address_of_the_first(node: Node) -> None:
    assert node.run(slurm(join_seconds=30, port=2000)) == 0
    (call,) = node.said
    # The others find out by themselves, and say why.
    assert {"--wait=120", "--kill-on-bad-exit=0"} <= {*call.split()}
    assert f"/usr/bin/python3 {ROOT}/launch.py train --config {node.folder}/test/submit" in call
    assert call.endswith("--coordinator 10.0.0.1:2234 --processes 2 --join-seconds 30 --supervise")
    node.run(slurm(), NAMED="fd00::1")
    assert "--coordinator [fd00::1]:12589 " in node.said[0]
    node.run(slurm(launch_options=("--container-image=a b",)), nodes=1)
    (call,) = node.said
    assert "--container-image=a b /usr/bin/python3" in call
    assert call.endswith(".yaml --supervise")
    assert "--coordinator" not in call


def test_the_nodes_of_an_attempt_share_a_secret(node: Node) -> None:
    """A new one, which no file has, unless the user has given one."""
    secrets = []
    for given in ("", "", "mine"):
        assert node.run(slurm(), MLLM_JAX_SECRET=given) == 0
        secrets.append(node.calls.with_name("calls.secret").read_text().strip())
    first, second, third = secrets
    assert len(first) == len(second) == 64
    assert first != second
    assert third == "mine"


def test_no_supervisor_passes_on_a_signal_that_slurm_has_sent_to_all(node: Node) -> None:
    for nodes in (1, 2):
        node.run(slurm(), nodes=nodes, TRACK="linuxproc")
        (call,) = node.said
        assert "--supervise" not in call


@pytest.mark.parametrize("why", [{"NAMED": ""}, {"CLOSED": "yes"}], ids=["name", "step"])
def test_an_address_that_is_not_found_is_tried_again_and_then_the_job(
    node: Node, why: dict[str, Any]
) -> None:
    """`getent` cannot tell a name service that does not answer from an unknown name, and Slurm
    starts no step for some seconds after a node has come back."""
    cluster = slurm(restarts=1)
    assert node.run(cluster, **why) == 0
    assert node.said == ["srun getent"] * TRIES + [REQUEUE]
    assert node.run(cluster, **why) == ExitCode.FAILED


@pytest.mark.parametrize("code", [*ExitCode, 137, 143])
def test_only_what_may_pass_is_queued_again(node: Node, code: int) -> None:
    returned = node.run(slurm(), code)
    final = {
        ExitCode.OK,
        ExitCode.BAD_INPUT,
        ExitCode.BAD_DATA,
        ExitCode.DIVERGED,
        ExitCode.DAMAGED,
    }
    assert (node.said[1:] == [REQUEUE]) == (code not in final)
    assert returned == (code if code in final else 0)
    (line,) = (node.folder / "test" / "attempts.tsv").read_text().splitlines()
    assert line.split("\t")[1:] == ["1234", "0", str(int(code)), "n[1-2]"]


@pytest.mark.parametrize("code", [ExitCode.INTERRUPTED, 137])
def test_a_job_that_is_cancelled_is_not_queued_again(node: Node, code: int) -> None:
    assert node.run(slurm(), code, STATE="COMPLETING") == code
    assert REQUEUE not in node.said


def test_a_script_outlives_the_signal_that_ends_its_training(node: Node) -> None:
    """Slurm sends it to both: the script sees how the training has ended."""
    both = (
        'case "$*" in *getent*) echo "10.0.0.1 STREAM n1" ;; *) kill -TERM $PPID; exit 130 ;; esac'
    )
    (node.programs / "srun").write_text(f"#!/bin/sh\n{both}\n")
    assert node.run(slurm()) == 0
    assert node.said == [REQUEUE]


def test_failures_are_bounded_and_interruptions_are_not(node: Node) -> None:
    cluster, codes = slurm(restarts=2), [6, 130, 130, 137, 130, 1]
    ends = [(node.run(cluster, code), node.said[1:] == [REQUEUE]) for code in codes]
    assert ends == [(0, True)] * 5 + [(1, False)]
    # Another job of the run begins anew.
    node.run(cluster, 6, SLURM_JOB_ID="1235")
    assert node.said[1:] == ["scontrol requeue 1235"]


def test_failures_that_cannot_be_recorded_are_bounded_by_the_restarts(node: Node) -> None:
    cluster = slurm(restarts=2)
    (node.folder / "test" / "attempts.tsv").mkdir(parents=True)
    ends = [
        (node.run(cluster, 7, SLURM_RESTART_COUNT=str(count)), node.said[1:] == [REQUEUE])
        for count in range(3)
    ]
    assert ends == [(0, True), (0, True), (7, False)]


def test_values_of_a_description_stay_values(node: Node) -> None:
    text = "$(touch spoilt) \"a\" 'b' `c`"
    marked = node.folder / "marked"
    cluster = slurm(environment={"MARK": text}, setup=(f'echo "$MARK" >{marked}',))
    assert node.run(cluster) == 0
    assert marked.read_text() == text + "\n"


@pytest.mark.parametrize(
    ("lines", "failed"),
    [
        (("cd /nonexistent", "true"), "exit code 1 of: cd /nonexistent"),
        (("false | true", "(exit 2)"), "exit code 2 of: (exit 2)"),
        (("exit 0",), "exit code 0 of: exit 0"),
        (("echo 'open",), "of: echo 'open"),
        (("set -u", "set -e; echo ${UNSET:?}"), "of: set -e; echo ${UNSET:?}"),
    ],
)
def test_a_line_of_the_setup_that_fails_is_named_and_the_job_queued_again(
    node: Node, capfd: pytest.CaptureFixture[str], lines: tuple[str, ...], failed: str
) -> None:
    assert node.run(slurm(setup=lines)) == 0
    assert node.said == [REQUEUE]
    told = capfd.readouterr().err
    assert "error: setup: exit code " in told
    assert failed in told
    assert "\t1\tn[1-2]" in (node.folder / "test" / "attempts.tsv").read_text()


def test_lines_of_the_setup_leave_no_options_of_the_shell_behind(
    node: Node, capfd: pytest.CaptureFixture[str]
) -> None:
    (node.folder / "profile").write_text('export OWN="$OWN:$UNSET"\nexport OWN="$OWN:a"\n')
    cluster = slurm(
        setup=(
            f"cd {node.folder}; . ./profile",
            f'echo "$OWN" >{node.folder}/own',
            "set -ex -o pipefail",
        )
    )
    assert node.run(cluster, ExitCode.INTERRUPTED) == 0
    assert node.said[1:] == [REQUEUE]
    assert (node.folder / "own").read_text() == "::a\n"
    assert node.calls.with_name("calls.secret").read_text().strip() not in capfd.readouterr().err


def test_options_say_what_the_job_needs() -> None:
    cluster = slurm(partition="gpu", time_limit="1-0", gpu_type="h100", options=("--nice=5",))
    found = options(cluster, parallel__platform="gpu", run__directory="/a b/%x")
    assert {"--partition=gpu", "--time=1-0", "--gres=gpu:h100:2", "--nodes=2"} <= {*found}
    assert {"--ntasks-per-node=1", "--requeue", "--open-mode=append", "--nice=5"} <= {*found}
    assert {"--exclusive", "--mem=0"} <= {*found}
    assert '--output="/a b/%%x/test/slurm-%j.out"' in found
    assert '--comment="/a b/%x/test"' in found
    assert '--comment="/a#b/test"' in options(
        cluster, parallel__platform="gpu", run__directory="/a#b"
    )
    assert "--signal=TERM@121" in found
    assert "--export=HOME,PATH,USER" in found
    passed = options(slurm(exclusive=False, cpus_per_node=4, pass_environment=("HF_TOKEN",)))
    assert {"--cpus-per-task=4", "--export=HOME,PATH,USER,HF_TOKEN"} <= {*passed}
    assert "--exclusive" not in passed
    assert not any(option.startswith("--gres") for option in passed)


#: Joins as process 0 of several does, where the others are not needed.
JOINS = """
import sys
import jax
from mllm_jax.runtime import devices
from mllm_jax.runtime.run_peers import RunPeers
from mllm_jax.runtime.wire import HostAddress
met = RunPeers()
met.coordinator = met.bind = HostAddress("127.0.0.1", int(sys.argv[1]))
devices.join_peers = lambda *of: met
places = devices.ProcessPlace(2, 0, "127.0.0.1:1")
devices._join_processes(places, devices.LIMITS, lambda: None)
print(jax.config.read("jax_cuda_visible_devices"))
"""


def test_the_process_of_a_node_sees_all_its_gpus() -> None:
    """JAX takes a process under Slurm for one of several on its node, if it looks for its place."""
    slurm_says = {"JOB_ID": "1", "STEP_NODELIST": "n1", "NTASKS": "1", "PROCID": "0"}
    slurm_says |= {"LOCALID": "0", "STEP_NUM_NODES": "1"}
    environment = os.environ | {f"SLURM_{name}": value for name, value in slurm_says.items()}
    done = subprocess.run(
        [sys.executable, "-c", JOINS, str(free_port())],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.stdout.strip() == "all", done.stderr

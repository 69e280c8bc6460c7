"""Jobs under a real Slurm of two nodes: `make test-slurm`, which installs it.

Needs root, and Debian's packages `slurm-wlm` and `munge`.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from mllm_jax.config.strict_yaml import write_yaml
from mllm_jax.runtime.exits import ExitCode
from mllm_jax.supervise.agent import SUPERVISE
from tests.configs import ROOT
from tests.conftest import COMPILE_FAST
from tests.slurm.cluster import (
    kill_node,
    missing,
    processes,
    run,
    start_node,
    state_of,
    two_nodes,
    wait,
)

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(900)]
STEPS = 24
#: Seconds in which a run of the demo, or a part of it, is done on a busy machine.
LONG = 300


@pytest.fixture(scope="module")
def nodes() -> Iterator[Path]:
    """A folder for the runs of a Slurm of two nodes."""
    if missing() or os.getuid() != 0:
        pytest.skip(f"needs root, and {missing() or 'nothing'} installed: see make test-slurm")
    with tempfile.TemporaryDirectory(prefix="slurm-") as name:
        folder = Path(name)
        (folder / "daemons").mkdir()
        flags = {"XLA_FLAGS": " ".join(COMPILE_FAST)}
        cluster: dict[str, object] = {"kind": "slurm", "environment": flags}
        # Once a supervisor is gone, the others need not wait for it for two minutes.
        cluster["launch_options"] = ["--wait=5"]
        (folder / "cluster.yaml").write_text(write_yaml(cluster))
        with two_nodes(folder / "daemons"):
            yield folder


class Run:
    """A short run of the demo that is submitted to both nodes, or to one."""

    def __init__(self, nodes: Path, name: str, steps: int = STEPS, count: int = 2) -> None:
        self.folder, self.job, self._count = nodes / "runs" / name, "", count
        self._nodes = nodes
        self._config = (
            f"run.name={name}",
            f"run.directory={nodes / 'runs'}",
            f"run.compilation_cache={nodes / 'compiled'}",
            f"data.cache={nodes / 'data'}",
            "data.source={kind: demo, train: 400, heldout: 8, clips: 64, variants: 2}",
            f"train.steps={steps}",
            "train.warmup_steps=4",
            "run.log_every=1",
            "checkpoint.every=4",
            "evaluate.enabled=false",
        )

    def submit(self, *, go: bool = True) -> subprocess.CompletedProcess[str]:
        """Write the job, and submit it by `launch.py`."""
        cluster = ("--cluster", str(self._nodes / "cluster.yaml"), "--nodes", str(self._count))
        words = (*cluster, *(["--go"] if go else []), "--json", "--config", "configs/demo.yaml")
        done = subprocess.run(
            [sys.executable, "launch.py", "submit", *words, *self._config],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if done.returncode == 0:
            self.job = json.loads(done.stdout)["job"]
        return done

    @property
    def state(self) -> str:
        return state_of_job(self.job)

    @property
    def losses(self) -> dict[int, float]:
        """The loss of every step, as it was found last."""
        file = self.folder / "metrics.jsonl"
        lines = file.read_text().splitlines() if file.exists() else []
        found = [json.loads(line) for line in lines]
        return {line["step"]: line["loss"] for line in found if "loss" in line}

    @property
    def log(self) -> str:
        return "\n".join(path.read_text() for path in self.folder.glob("slurm-*.out"))

    @property
    def codes(self) -> list[int]:
        """Exit codes of the attempts."""
        file = self.folder / "attempts.tsv"
        lines = file.read_text().splitlines() if file.exists() else []
        return [int(line.split("\t")[3]) for line in lines]

    @property
    def processes(self) -> list[tuple[int, list[str]]]:
        """Id and words of each process of the training."""
        inside = f"{self.folder}/"
        return [own for own in processes() if any(word.startswith(inside) for word in own[1])]

    @property
    def restarts(self) -> int:
        """How often Slurm has started the job again."""
        (found,) = re.findall(r"Restarts=(\d+)", run("scontrol", "show", "job", self.job))
        return int(found)

    def kill(self, number: int, *, supervisor: bool) -> None:
        """Kill the training process of this number, or its supervisor."""
        (own,) = (
            own
            for own, words in self.processes
            if ("--process", str(number)) in pairwise(words) and (SUPERVISE in words) == supervisor
        )
        os.kill(own, signal.SIGKILL)

    def wait(self, come) -> None:
        """Wait until `come()` is true; a job that waits for its time to begin is let begin."""

        def done() -> bool:
            if self.state == "PENDING":
                run("scontrol", "update", f"JobId={self.job}", "StartTime=now")
            return come()

        wait(done, LONG, lambda: f"{self.state} {self.codes}\n{self.log}")

    def wait_for_step(self, step: int) -> None:
        self.wait(lambda: step in self.losses)

    def finish(self) -> None:
        self.wait(lambda: self.state == "COMPLETED")


def state_of_job(number: str) -> str:
    return run("squeue", "--noheader", "--states=all", f"--jobs={number}", "--format=%T").strip()


@pytest.fixture(scope="module")
def losses(nodes: Path) -> dict[int, float]:
    """The losses of a run that nothing disturbs."""
    whole = Run(nodes, "whole")
    assert whole.submit().returncode == 0
    whole.finish()
    assert whole.codes == [ExitCode.OK]
    assert [*whole.losses] == [*range(1, STEPS + 1)]
    return whole.losses


def test_a_run_on_two_nodes_survives_kills_and_an_interruption(
    nodes: Path, losses: dict[int, float]
) -> None:
    broken = Run(nodes, "broken")
    assert broken.submit().returncode == 0
    again = broken.submit()
    assert again.returncode == ExitCode.BAD_INPUT
    assert f"is held by job {broken.job} (broken, " in again.stderr
    broken.wait_for_step(5)
    broken.kill(1, supervisor=False)
    broken.wait_for_step(10)
    broken.kill(1, supervisor=True)
    broken.wait(lambda: len(broken.codes) == 1)
    broken.wait_for_step(len(broken.losses) + 3)
    run("scancel", "--signal=TERM", broken.job)
    broken.finish()
    assert broken.codes == [128 + signal.SIGKILL, ExitCode.INTERRUPTED, ExitCode.OK]
    assert "attempt 1 has ended" in broken.log
    assert broken.losses == losses


def test_a_run_goes_on_after_each_of_its_nodes_was_lost(
    nodes: Path, losses: dict[int, float]
) -> None:
    own = Run(nodes, "lost")
    assert own.submit().returncode == 0
    # The batch script, which can queue the job again, runs on n1 alone.
    for restarts, (node, step) in enumerate((("n2", 6), ("n1", 14)), 1):
        own.wait_for_step(step)
        before = own.log.count("resuming")
        kill_node(nodes / "daemons", node)
        wait(lambda node=node: state_of(node).startswith("down"), 120)
        wait(lambda: own.state == "PENDING", 120)
        start_node(node)
        own.wait(lambda before=before: own.log.count("resuming") > before)
        assert own.restarts == restarts
    own.finish()
    assert own.codes[-1] == ExitCode.OK
    assert own.losses == losses


def test_a_folder_has_one_job_however_it_was_submitted(nodes: Path) -> None:
    own = Run(nodes, "twice", steps=100_000, count=1)
    assert own.submit(go=False).returncode == 0
    by_hand = ("sbatch", "--parsable", str(own.folder / "submit" / "job.sbatch"))
    own.job = run(*by_hand).strip()
    refused = own.submit()
    assert refused.returncode == ExitCode.BAD_INPUT
    assert f"is held by job {own.job} (twice, " in refused.stderr
    own.wait_for_step(2)
    second = run(*by_hand).strip()
    wait(lambda: state_of_job(second) == "FAILED", LONG, lambda: own.log)
    assert own.codes == [ExitCode.BAD_INPUT]
    told = (own.folder / f"slurm-{second}.out").read_text()
    assert re.search(rf"is in use by process \d+ on \S+ in job {own.job} of Slurm since", told)
    assert own.state == "RUNNING"
    run("scancel", own.job)
    wait(lambda: not own.processes, 60)


def test_a_run_that_is_cancelled_is_not_queued_again(nodes: Path) -> None:
    own = Run(nodes, "cancelled", steps=100_000)
    assert own.submit().returncode == 0
    own.wait_for_step(2)
    assert own.job in run("squeue", "--me")
    run("scancel", "--name=cancelled")
    own.wait(lambda: own.state == "CANCELLED")
    time.sleep(3)
    assert own.state == "CANCELLED"
    wait(lambda: not own.processes, 60)

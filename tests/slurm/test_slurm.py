"""Jobs under a real Slurm of two nodes: `make test-slurm`, which installs it.

Needs root, and Debian's packages `slurm-wlm` and `munge`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from mllm_jax.runtime.exits import Exit
from mllm_jax.supervise.agent import SUPERVISE
from scheduling.strict_yaml import write_yaml
from tests.configs import ROOT
from tests.conftest import COMPILE_FAST
from tests.slurm.cluster import commands, missing, run, two_nodes, wait
from tests.train.test_run import write_config

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(600)]
STEPS = 24
#: Seconds in which a small run, or a part of it, is done on a busy machine.
LONG = 180


@pytest.fixture(scope="module")
def nodes() -> Iterator[Path]:
    """A folder for the runs of a Slurm of two nodes."""
    if missing() or os.getuid() != 0:
        pytest.skip(f"needs root, and {missing() or 'nothing'} installed: see make test-slurm")
    with tempfile.TemporaryDirectory(prefix="slurm-") as name:
        folder = Path(name)
        (folder / "daemons").mkdir()
        (folder / "runs").mkdir()
        flags = {"XLA_FLAGS": " ".join(COMPILE_FAST)}
        cluster = {"kind": "slurm", "grace_seconds": 60, "environment": flags}
        # Once a supervisor is gone, the others need not wait for it for two minutes.
        cluster["launch_options"] = ["--wait=5"]
        (folder / "cluster.yaml").write_text(write_yaml(cluster))
        with two_nodes(folder / "daemons"):
            yield folder


class Run:
    """A small run that is submitted to both nodes."""

    def __init__(self, folder: Path, name: str, steps: int = STEPS) -> None:
        runs = folder / "runs"
        self.folder, self._cluster = runs / name, folder / "cluster.yaml"
        self._config = write_config(
            runs,
            name,
            train__steps=steps,
            checkpoint={"every": 4},
            evaluate={"enabled": False},
            run__compilation_cache=str(folder / "compiled"),
        )
        self.job = ""

    def submit(self) -> subprocess.CompletedProcess[str]:
        words = ("submit", "--cluster", str(self._cluster), "--nodes", "2", "--go", "--json")
        done = subprocess.run(
            [sys.executable, "launch.py", *words, "--config", str(self._config)],
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
        return run(
            "squeue", "--noheader", "--states=all", f"--jobs={self.job}", "--format=%T"
        ).strip()

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
    def processes(self) -> list[list[str]]:
        """Id and words of each process of the training."""
        return [own for own in commands() if any(w.startswith(f"{self.folder}/") for w in own)]

    def kill(self, number: int, *, supervisor: bool) -> None:
        """Kill the training process of this number, or its supervisor."""
        (own,) = (
            own
            for own in self.processes
            if ("--process", str(number)) in pairwise(own) and (SUPERVISE in own) == supervisor
        )
        os.kill(int(own[0]), signal.SIGKILL)

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


def test_a_run_on_two_nodes_survives_a_kill_and_an_interruption(nodes: Path) -> None:
    whole, broken = Run(nodes, "whole"), Run(nodes, "broken")
    assert whole.submit().returncode == 0
    whole.finish()
    assert broken.submit().returncode == 0
    again = broken.submit()
    assert again.returncode == Exit.BAD_INPUT
    assert f"is held by job {broken.job} (broken, " in again.stderr
    broken.wait_for_step(5)
    broken.kill(1, supervisor=False)
    broken.wait_for_step(10)
    broken.kill(1, supervisor=True)
    broken.wait(lambda: len(broken.codes) == 1)
    broken.wait_for_step(len(broken.losses) + 3)
    run("scancel", "--signal=TERM", broken.job)
    broken.finish()
    assert broken.codes == [128 + signal.SIGKILL, Exit.INTERRUPTED, Exit.OK]
    assert "attempt 1 has ended" in broken.log
    assert whole.codes == [Exit.OK]
    assert broken.losses == whole.losses
    assert [*whole.losses] == [*range(1, STEPS + 1)]


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

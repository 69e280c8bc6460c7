"""Files are written and submitted, by programs that only say how they were called."""

from __future__ import annotations

import fcntl
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

import launch
from mllm_jax.config.load import load_config
from mllm_jax.config.strict_yaml import write_yaml
from mllm_jax.runtime.exits import ExitCode
from mllm_jax.runtime.lock import run_lock
from mllm_jax.submit import programs
from mllm_jax.submit.holder import claim_run_folder
from tests.configs import VALUES
from tests.submit.jobs import KUBERNETES, job, kubernetes, slurm


class Desk:
    """A machine from which runs are submitted."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, capsys: Any) -> None:
        self.folder, self._capsys, self.programs = folder, capsys, folder / "bin"
        self.programs.mkdir()
        (folder / "small.yaml").write_text(write_yaml(VALUES))
        (folder / "pods.yaml").write_text(write_yaml(KUBERNETES))
        patch.chdir(folder)
        patch.setenv("PATH", str(self.programs))

    def install(self, name: str, text: str) -> None:
        path = self.programs / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def submit(self, *words: str, cluster: str = "slurm") -> tuple[int, str]:
        """Exit code and what was said."""
        own = ("--cluster", cluster, "--nodes", "2", "--config", "small.yaml", *words)
        code = launch.main(["submit", *own])
        said = self._capsys.readouterr()
        return code, " ".join((said.out + said.err).split())

    @property
    def files(self) -> dict[Path, str]:
        """Contents of all files that submissions of the run have written."""
        folders = (self.run / "submit", self.folder / "jobs" / "test")
        found = [path for folder in folders if folder.exists() for path in folder.iterdir()]
        return {path: path.read_text() for path in found if not path.name.startswith(".")}

    @property
    def run(self) -> Path:
        return self.folder / "runs" / "test"


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> Desk:
    return Desk(tmp_path, monkeypatch, capsys)


def test_files_are_written_and_the_command_is_told(desk: Desk) -> None:
    code, said = desk.submit("train.steps=7", "--json")
    assert code == ExitCode.OK
    told = json.loads(said)
    script, config, environment = map(Path, told["files"])
    assert told["command"] == ["sbatch", "--parsable", str(script)]
    assert told["job"] is None
    assert load_config(config).train.steps == 7
    assert str(config) in script.read_text()
    assert environment.name in script.read_text()
    record = json.loads(environment.read_text())
    assert record["runs_in"] == {"python": sys.executable}
    assert record["made_in"]["versions"]["jax"]
    assert {"commit", "uncommitted", "user", "host", "python"} <= {*record["made_in"]}


def test_the_record_of_a_job_stays_as_it_is_after_another_submission(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.submit()
    files = desk.files
    monkeypatch.setattr("platform.node", lambda: "other")
    desk.submit("train.steps=7")
    kept = {path: text for path, text in files.items() if path.name != "job.sbatch"}
    assert len(kept) == 2
    assert kept.items() <= desk.files.items()


def test_a_variable_that_is_to_be_passed_and_is_not_set_is_told_of(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = {"kind": "slurm", "pass_environment": ["MINE", "OTHER"]}
    (desk.folder / "own.yaml").write_text(write_yaml(own))
    monkeypatch.setenv("MINE", "")
    assert "pass_environment: OTHER is not set here" in desk.submit(cluster="own.yaml")[1]
    monkeypatch.setenv("OTHER", "1")
    assert "pass_environment" not in desk.submit(cluster="own.yaml")[1]


def test_files_go_where_they_are_asked_to(desk: Desk) -> None:
    assert desk.submit("--output", "out", cluster="pods.yaml")[0] == ExitCode.OK
    assert {path.name for path in (desk.folder / "out").iterdir()} == {"job.yaml"}


def test_the_folder_of_pods_is_not_made_where_they_are_submitted(desk: Desk) -> None:
    """The advice for a run that lies in none of the volumes can be followed."""
    mount = desk.folder / "mount"
    own = KUBERNETES | {"volumes": {str(mount): "runs"}}
    (desk.folder / "own.yaml").write_text(write_yaml(own))
    desk.install("kubectl", "")
    code, said = desk.submit("--go", cluster="own.yaml")
    assert code == ExitCode.BAD_INPUT
    assert f"valid: run.directory={mount}" in said
    assert desk.submit("--go", f"run.directory={mount}", cluster="own.yaml")[0] == ExitCode.OK
    assert {path.name for path in desk.folder.iterdir()} & {"mount", "runs", "jobs"} == {"jobs"}


@pytest.mark.parametrize(("cluster", "program"), [("slurm", "sbatch"), ("pods.yaml", "kubectl")])
def test_a_missing_program_is_named(desk: Desk, cluster: str, program: str) -> None:
    code, said = desk.submit("--go", cluster=cluster)
    assert code == ExitCode.BAD_INPUT
    assert f"{program} is not on this machine's PATH; valid: without --go" in said
    assert not desk.run.exists()


def test_a_program_that_refuses_is_quoted(desk: Desk) -> None:
    desk.install("squeue", "")
    desk.install("sbatch", "echo 'invalid partition specified' >&2; exit 1")
    code, said = desk.submit("--go")
    assert code == ExitCode.BAD_INPUT
    assert "has ended with exit code 1: invalid partition specified" in said
    assert "the job is not submitted" in said


def test_a_run_folder_has_one_job_at_a_time(desk: Desk) -> None:
    """Also one that was submitted by sbatch itself: Slurm knows the folder of every job."""
    desk.install("sbatch", "echo '41;cluster'")
    desk.install("squeue", "")
    assert "submitted: job 41" in desk.submit("--go")[1]
    script = (desk.run / "submit" / "job.sbatch").read_text()
    assert f"#SBATCH --comment={desk.run}\n" in script
    files = desk.files
    jobs = "40|RUNNING|2026-01-01T00:00:00|o|/else\n41|{}|2026-01-02T00:00:00|test|" + str(desk.run)
    desk.install("squeue", f"echo '{jobs.format('PENDING')}'")
    code, said = desk.submit("--go", "train.steps=7")
    assert code == ExitCode.BAD_INPUT
    assert f"run folder {desk.run} is held by job 41 (test, pending, submitted 2026-01-02" in said
    assert "`scancel 41`, or choose another run.name" in said
    assert desk.files == files
    assert desk.submit("--go", "run.name=other")[0] == ExitCode.OK
    for state in ("COMPLETED", "NODE_FAIL"):
        desk.install("squeue", f"echo '{jobs.format(state)}'")
        assert desk.submit("--go")[0] == ExitCode.OK


def test_a_job_in_any_state_but_an_end_has_its_folder(desk: Desk) -> None:
    """By itself squeue tells of jobs that wait or run, and of no others."""
    desk.install("sbatch", "echo 41")
    line = f"41|SUSPENDED|2026-01-02T00:00:00|test|{desk.run}"
    desk.install("squeue", f'case "$*" in *--states=all*) echo "{line}" ;; esac')
    assert "is held by job 41 (test, suspended, submitted 2026-01-02" in desk.submit("--go")[1]


@pytest.mark.parametrize(
    ("cluster", "place"), [(slurm(), "runs/test"), (kubernetes(), "jobs/test")]
)
def test_submissions_of_a_run_wait_for_each_other(desk: Desk, cluster: Any, place: str) -> None:
    for program in ("sbatch", "squeue", "kubectl"):
        desk.install(program, "")
    own, file = job(cluster), desk.folder / place / ".submitting"
    with claim_run_folder(own, cluster):
        assert not is_free(file)
    assert is_free(file)


def is_free(file: Path) -> bool:
    """Whether nobody has the lock of a file."""
    with file.open("a") as opened:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


@pytest.mark.parametrize("cluster", ["slurm", "pods.yaml"])
@pytest.mark.parametrize("lock", [".lock", ".supervisor"])
def test_a_run_that_goes_on_here_is_named(desk: Desk, cluster: str, lock: str) -> None:
    for program in ("sbatch", "squeue", "kubectl"):
        desk.install(program, "")
    desk.submit(cluster=cluster)
    files = desk.files
    desk.run.mkdir(parents=True, exist_ok=True)
    with run_lock(desk.run, lock):
        code, said = desk.submit("--go", "train.steps=7", cluster=cluster)
    assert code == ExitCode.BAD_INPUT
    assert f"run folder {desk.run} is in use by process {os.getpid()} on " in said
    assert desk.files == files


def test_a_jobset_of_the_same_name_holds_the_run(desk: Desk) -> None:
    desk.install("kubectl", f'echo "$@" >>{desk.folder}/calls')
    code, said = desk.submit("--go", cluster="pods.yaml")
    assert code == ExitCode.OK
    assert "submitted: job default/test" in said
    asked, applied = (desk.folder / "calls").read_text().splitlines()
    assert asked.startswith("get jobset test --namespace default --ignore-not-found")
    assert applied == f"apply --filename {desk.folder}/jobs/test/job.yaml"
    files = desk.files
    desk.install("kubectl", 'echo "2026-01-01T00:00:00Z "')
    code, said = desk.submit("--go", "train.steps=7", cluster="pods.yaml")
    assert code == ExitCode.BAD_INPUT
    assert "is held by JobSet test in namespace default (active, since 2026-01-01T" in said
    assert "`kubectl delete jobset test --namespace default` first" in said
    assert desk.files == files
    desk.install("kubectl", 'echo "2026-01-01T00:00:00Z Failed"')
    assert "(failed, since" in desk.submit("--go", cluster="pods.yaml")[1]


def test_a_machine_that_comes_second_is_told_the_holder(desk: Desk) -> None:
    """The API server does not change the pods of a JobSet that another machine has applied."""
    taken = f"{desk.folder}/taken"
    asked = f'[ -e {taken} ] && echo "2026-01-01T00:00:00Z "; exit 0'
    refused = f": >{taken}; echo 'spec.replicatedJobs: field is immutable' >&2; exit 1"
    equal = f": >{taken}; echo 'jobset.jobset.x-k8s.io/test unchanged'"
    for answer in (refused, equal):
        desk.install("kubectl", f'case "$1" in get) {asked} ;; *) {answer} ;; esac')
        code, said = desk.submit("--go", cluster="pods.yaml")
        assert code == ExitCode.BAD_INPUT
        assert "is held by JobSet test in namespace default (active, since 2026-01-01T" in said
        Path(taken).unlink()


def test_a_program_that_does_not_answer_is_named(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "PATIENCE", 0.1)
    desk.install("sbatch", "")
    desk.install("squeue", "exec /bin/sleep 9")
    code, said = desk.submit("--go")
    assert code == ExitCode.BAD_INPUT
    assert "has not answered within 0.1 s; look whether the cluster has a job of this run" in said

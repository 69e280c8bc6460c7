"""Submission by the programs of the clusters; a run folder is held by one job at a time."""

from __future__ import annotations

import fcntl
import json
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mllm_jax.submit.clusters import AnyCluster, Kubernetes, Slurm
from mllm_jax.submit.job import Job

#: Name of the record of a submission in the folder of the run.
RECORD = "submitted.json"


#: States of jobs that have ended (squeue, "JOB STATE CODES").
_ENDED = (
    *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL"),
    *("OUT_OF_MEMORY", "REVOKED", "TIMEOUT"),
)


class SubmitError(RuntimeError):
    """A job that is not submitted."""


def send(job: Job, cluster: AnyCluster, file: Path) -> str:
    """Submit a file that `write_files` has written; the name of the job.

    Raises:
        SubmitError: a program is missing or refuses the job, or another job has the run's folder.
    """
    if isinstance(cluster, Slurm):
        return _to_slurm(job, file)
    return _to_kubernetes(job, cluster, file)


def command(cluster: AnyCluster, file: Path) -> list[str]:
    """The command that submits a file."""
    if isinstance(cluster, Slurm):
        return ["sbatch", "--parsable", str(file)]
    return ["kubectl", "apply", "--filename", str(file)]


# ---- Slurm ---------------------------------------------------------------------------------------


def _to_slurm(job: Job, file: Path) -> str:
    words = _command(file, "sbatch", "--parsable", str(file))
    with _one_at_a_time(job.folder):
        _check_free(job.folder, file)
        number = _run(words, file).split(";")[0].strip()
        record = {"cluster": "slurm", "job": number, "name": job.name, "since": _now()}
        (job.folder / RECORD).write_text(json.dumps(record) + "\n")
    return number


def _check_free(folder: Path, file: Path) -> None:
    """Raise SubmitError if the job that was submitted last for `folder` is still there."""
    held = _record(folder)
    if held is None:
        return
    words = _command(file, "squeue", "--noheader", "--states=all", "--format=%A %T")
    states = dict(line.split() for line in _run(words, file).splitlines())
    state = states.get(held["job"])
    if state is not None and state not in _ENDED:
        raise SubmitError(
            f"run folder {folder} is held by job {held['job']} ({held['name']}, {state.lower()}, "
            f"submitted {held['since']}); wait until it ends, `scancel {held['job']}`, or choose "
            f"another run.name"
        )


def _record(folder: Path) -> dict[str, Any] | None:
    file = folder / RECORD
    try:
        found: dict[str, Any] = json.loads(file.read_text())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise SubmitError(
            f"{file} is damaged ({error}); see with squeue that no job has the run's folder, and "
            "remove the file"
        ) from None
    return found


@contextmanager
def _one_at_a_time(folder: Path) -> Iterator[None]:
    """Context in which no other submission looks whether `folder` is free."""
    with (folder / ".submitting").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


# ---- Kubernetes ----------------------------------------------------------------------------------


def _to_kubernetes(job: Job, cluster: Kubernetes, file: Path) -> str:
    place = ("--namespace", cluster.namespace)
    shown = "--output=jsonpath={.metadata.creationTimestamp} {.status.terminalState}"
    ask = ("get", "jobset", job.name, *place, "--ignore-not-found", shown)
    found = _run(_command(file, "kubectl", *ask), file).split()
    if found:
        state = found[1].lower() if len(found) > 1 else "active"
        raise SubmitError(
            f"run folder {job.folder} is held by JobSet {job.name} in namespace "
            f"{cluster.namespace} ({state}, since {found[0]}); valid: another run.name, or "
            f"`kubectl delete jobset {job.name} {' '.join(place)}` first"
        )
    _run(_command(file, "kubectl", "apply", "--filename", str(file)), file)
    return f"{cluster.namespace}/{job.name}"


# ---- programs ------------------------------------------------------------------------------------


def _command(file: Path, program: str, *words: str) -> Sequence[str]:
    """A command whose program is here.

    Raises:
        SubmitError: it is not.
    """
    if shutil.which(program) is None:
        raise SubmitError(
            f"--go: {program} is not on this machine's PATH; {file} is written: submit it where "
            f"{program} is"
        )
    return program, *words


def _run(words: Sequence[str], file: Path) -> str:
    """What a program writes.

    Raises:
        SubmitError: the program fails.
    """
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        told = (done.stderr or done.stdout).strip()
        raise SubmitError(
            f"{' '.join(words)} has ended with exit code {done.returncode}: {told}; {file} is "
            "written, but not submitted"
        )
    return done.stdout


def _now() -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S %z")

"""The holder of a run's folder: a running run, a job of Slurm, or a JobSet."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mllm_jax.runtime.folder import prepare_folder
from mllm_jax.runtime.lock import check_unlocked, check_unsupervised
from mllm_jax.submit.backends import AnyBackend, KubernetesBackend, SlurmBackend
from mllm_jax.submit.job import ClusterJob
from mllm_jax.submit.programs import SubmitError, require_programs, run_program

#: States of jobs that have ended (squeue, "JOB STATE CODES").
_ENDED = (
    *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL"),
    *("OUT_OF_MEMORY", "REVOKED", "TIMEOUT"),
)
#: What squeue tells of a job; its comment, the run's folder, may hold any character but a newline.
_FORMAT = "%A|%T|%V|%j|%k"


@contextmanager
def claim_run_folder(job: ClusterJob, cluster: AnyBackend) -> Iterator[None]:
    """Context in which the run's folder is free, and no other submission takes it.

    Submissions wait for each other by a lock in the folder that all nodes of a Slurm share. Those
    of a JobSet may come from machines that share nothing: of two, the API server refuses one.

    Raises:
        RunError: the folder takes no files.
        LockedError: a run goes on in the folder.
        SubmitError: a program is missing, or a job has the run's folder.
    """
    slurm = isinstance(cluster, SlurmBackend)
    require_programs(*(("sbatch", "squeue") if slurm else ("kubectl",)))
    folder = job.folder if slurm else job.output
    prepare_folder(folder)
    with (folder / ".submitting").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        check_free(job, cluster)
        yield


def check_free(job: ClusterJob, cluster: AnyBackend) -> None:
    """Check that the run's folder is free.

    Raises:
        LockedError: a run goes on in the folder.
        SubmitError: a job has it.
    """
    if isinstance(cluster, SlurmBackend):
        _check_jobs(job.folder)
    else:
        _check_jobset(job, cluster)
    check_unsupervised(job.folder)
    check_unlocked(job.folder)


def _check_jobs(folder: Path) -> None:
    """Raise SubmitError if a job of `folder` waits or runs, however it was submitted."""
    lines = run_program(
        ("squeue", "--noheader", "--states=all", f"--format={_FORMAT}")
    ).splitlines()
    for number, state, since, name, comment in (line.split("|", 4) for line in lines):
        if comment == str(folder) and state not in _ENDED:
            raise SubmitError(
                f"run folder {folder} is held by job {number} ({name}, {state.lower()}, submitted "
                f"{since}); wait until it ends, `scancel {number}`, or choose another run.name"
            )


def _check_jobset(job: ClusterJob, cluster: KubernetesBackend) -> None:
    """Raise SubmitError if there is a JobSet of the run's name."""
    place = ("--namespace", cluster.namespace)
    shown = "--output=jsonpath={.metadata.creationTimestamp} {.status.terminalState}"
    fields = run_program(
        ("kubectl", "get", "jobset", job.name, *place, "--ignore-not-found", shown)
    ).split()
    if fields:
        state = fields[1].lower() if len(fields) > 1 else "active"
        raise SubmitError(
            f"run folder {job.folder} is held by JobSet {job.name} in namespace "
            f"{cluster.namespace} ({state}, since {fields[0]}); valid: another run.name, or "
            f"`kubectl delete jobset {job.name} {' '.join(place)}` first"
        )

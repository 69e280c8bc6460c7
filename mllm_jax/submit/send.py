"""Submission by the programs of the clusters."""

from __future__ import annotations

from pathlib import Path

from mllm_jax.submit.backends import AnyCluster, Kubernetes, Slurm
from mllm_jax.submit.holder import check_free
from mllm_jax.submit.job import Job
from mllm_jax.submit.programs import SubmitError, run


def send(job: Job, cluster: AnyCluster, file: Path) -> str:
    """Submit a file that `write_files` has written; the name of the job.

    Raises:
        SubmitError: the program refuses the job.
    """
    words = command(cluster, file)
    if isinstance(cluster, Slurm):
        return run(words).split(";")[0].strip()
    return _apply(job, cluster, words)


def command(cluster: AnyCluster, file: Path) -> list[str]:
    """The command that submits a file."""
    if isinstance(cluster, Slurm):
        return ["sbatch", "--parsable", str(file)]
    return ["kubectl", "apply", "--filename", str(file)]


def _apply(job: Job, cluster: Kubernetes, words: list[str]) -> str:
    """Apply the objects, of which the JobSet must be new: an equal one is another machine's."""
    try:
        told = run(words).splitlines()
    except SubmitError:
        check_free(job, cluster)  # another machine was first
        raise
    if any(line.startswith("jobset") and not line.endswith(" created") for line in told):
        check_free(job, cluster)
    return f"{cluster.namespace}/{job.name}"

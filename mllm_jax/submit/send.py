"""Submission by the programs of the clusters."""

from __future__ import annotations

from pathlib import Path

from mllm_jax.submit.backends import AnyBackend, KubernetesBackend, SlurmBackend
from mllm_jax.submit.holder import check_free
from mllm_jax.submit.job import ClusterJob
from mllm_jax.submit.programs import SubmitError, run_program


def submit_file(job: ClusterJob, cluster: AnyBackend, file: Path) -> str:
    """Submit a file that `write_files` has written; the name of the job.

    Raises:
        SubmitError: the program refuses the job.
    """
    words = submit_command(cluster, file)
    if isinstance(cluster, SlurmBackend):
        return run_program(words).split(";")[0].strip()
    return _apply_objects(job, cluster, words)


def submit_command(cluster: AnyBackend, file: Path) -> list[str]:
    """The command that submits a file."""
    if isinstance(cluster, SlurmBackend):
        return ["sbatch", "--parsable", str(file)]
    return ["kubectl", "apply", "--filename", str(file)]


def _apply_objects(job: ClusterJob, cluster: KubernetesBackend, words: list[str]) -> str:
    """Apply the objects; the JobSet must be new, as an equal one is of another machine."""
    try:
        lines = run_program(words).splitlines()
    except SubmitError:
        check_free(job, cluster)  # another machine was first
        raise
    if any(line.startswith("jobset") and not line.endswith(" created") for line in lines):
        check_free(job, cluster)
    return f"{cluster.namespace}/{job.name}"

"""The files of a job: the script or objects, the configuration, and the environment's record."""

from __future__ import annotations

import sys
from pathlib import Path

from mllm_jax.config.strict_yaml import write_yaml
from mllm_jax.runtime.folder import prepare_folder
from mllm_jax.submit import kubernetes, slurm
from mllm_jax.submit.backends import AnyBackend, SlurmBackend
from mllm_jax.submit.environment import ROOT
from mllm_jax.submit.job import ClusterJob


def write_files(job: ClusterJob, cluster: AnyBackend) -> tuple[Path, ...]:
    """Write the files of a job: first the one that is submitted.

    Raises:
        RunError: the folder takes no files.
    """
    prepare_folder(job.output)
    if isinstance(cluster, SlurmBackend):
        prepare_folder(job.folder)  # the job's log is there
        text = slurm.job_script(job, cluster, sys.executable, ROOT)
        contents = {job.output / "job.sbatch": text, job.config_file: job.config}
        contents[job.environment_file] = job.environment
    else:
        text = "---\n".join(map(write_yaml, kubernetes.make_manifests(job, cluster)))
        contents = {job.output / "job.yaml": text}
    for path, content in contents.items():
        path.write_text(content)
    return tuple(contents)

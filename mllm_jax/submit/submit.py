"""Submission of a run to a cluster: its files are written, and submitted if `--go` requests it."""

from __future__ import annotations

import logging
import os
import shlex
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mllm_jax.config.sections import ExperimentConfig
from mllm_jax.submit.backends import SlurmBackend, load_backend
from mllm_jax.submit.files import write_files
from mllm_jax.submit.holder import claim_run_folder
from mllm_jax.submit.job import ClusterJob, make_job
from mllm_jax.submit.send import submit_command, submit_file

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class SubmittedJob:
    """A job, with the result of its submission.

    Attributes:
        job: the job.
        cluster: name of the cluster's description.
        kind: `slurm` or `kubernetes`.
        files: files that are written, the one to submit first.
        command: words of the command that submits it.
        number: number or name that the cluster gave the job; None if it is only written.
    """

    job: ClusterJob
    cluster: str
    kind: str
    files: tuple[Path, ...]
    command: tuple[str, ...]
    number: str | None

    @property
    def rows(self) -> list[tuple[str, object]]:
        """The resources that the job requests."""
        job = self.job
        devices = f"{job.nodes} x {job.devices} {job.platform}"
        return [
            ("cluster", f"{self.cluster} ({self.kind})"),
            ("nodes x devices", devices),
            ("folder of the run", str(job.folder)),
            ("grace after SIGTERM, s", job.grace),
            ("restarts after failures", job.restarts),
        ]

    @property
    def lines(self) -> list[str]:
        """What was done, and what the user has to do."""
        written = [f"written: {file}" for file in self.files]
        if self.number is None:
            return [*written, f"submit it with --go, or by: {shlex.join(self.command)}"]
        return [*written, f"submitted: job {self.number}"]

    def to_json(self) -> dict[str, Any]:
        """The answer for programs."""
        job = self.job
        return {
            "cluster": self.cluster,
            "kind": self.kind,
            "name": job.name,
            "nodes": job.nodes,
            "devices_per_node": job.devices,
            "platform": job.platform,
            "grace_seconds": job.grace,
            "restarts": job.restarts,
            "folder": str(job.folder),
            "files": [str(file) for file in self.files],
            "command": list(self.command),
            "job": self.number,
        }


def submit_run(
    config: ExperimentConfig,
    cluster: str,
    nodes: int,
    output: Path | None,
    *,
    go: bool,
    on_nodes: Sequence[str] = (),
) -> SubmittedJob:
    """Write the files of a job, and with `go` submit it.

    With `go` nothing is written where another job has the run's folder.

    Args:
        cluster: name in `configs/clusters/`, or a file.
        nodes: number of nodes.
        output: folder for the files; None: as of `make_job`.
        on_nodes: as of `make_job`.

    Raises:
        BackendError: there is no such description, or it is wrong.
        ConfigError: the run does not fit the cluster.
        RunError: the folder takes no files.
        LockedError: a run goes on in the folder.
        SubmitError: the job is not submitted.
    """
    backend = load_backend(cluster)
    job = make_job(config, backend, cluster, nodes, output, on_nodes)
    if isinstance(backend, SlurmBackend):
        _warn_of_unset(backend.pass_environment)
    with claim_run_folder(job, backend) if go else nullcontext():
        files = write_files(job, backend)
        number = submit_file(job, backend, files[0]) if go else None
    words = tuple(submit_command(backend, files[0]))
    return SubmittedJob(job, cluster, backend.kind, files, words, number)


def _warn_of_unset(names: Iterable[str]) -> None:
    """Warn of variables that are to be passed to a job, and are not set here."""
    if unset := [name for name in names if name not in os.environ]:
        logger.warning(
            "pass_environment: %s is not set here: a job that is submitted from this shell gets no "
            "value of it",
            ", ".join(unset),
        )

"""The files of a job: what is submitted, the configuration, and the environment it was made in."""

from __future__ import annotations

import getpass
import json
import platform
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mllm_jax.runtime.agreement import versions
from mllm_jax.runtime.folder import prepare_folder
from mllm_jax.submit import kubernetes, slurm
from mllm_jax.submit.clusters import AnyCluster, Slurm
from mllm_jax.submit.job import Job
from scheduling.strict_yaml import write_yaml

#: Folder of `launch.py`.
ROOT = Path(__file__).resolve().parents[2]
#: Name of the record of the environment.
ENVIRONMENT = "environment.json"


def write_files(job: Job, cluster: AnyCluster) -> tuple[Path, ...]:
    """Write the files of a job: first the one that is submitted.

    Raises:
        RunError: the folder takes no files.
    """
    prepare_folder(job.output)
    environment = json.dumps(_environment(ROOT), indent=2) + "\n"
    if isinstance(cluster, Slurm):
        prepare_folder(job.folder)  # the job's log is there
        text = slurm.script(job, cluster, sys.executable, ROOT)
        contents = {job.output / "job.sbatch": text, job.config_file: job.config}
    else:
        text = "---\n".join(map(write_yaml, kubernetes.manifests(job, cluster)))
        contents = {job.output / "job.yaml": text}
    contents[job.output / ENVIRONMENT] = environment
    for path, content in contents.items():
        path.write_text(content)
    return tuple(contents)


def _environment(root: Path) -> dict[str, Any]:
    """The versions and the code that a job was made with; no variables, which may hold secrets."""
    changed = _git(root, "status", "--porcelain")
    return {
        "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "host": platform.node(),
        "user": getpass.getuser(),
        "python": platform.python_version(),
        "versions": versions(),
        "commit": _git(root, "rev-parse", "HEAD"),
        "uncommitted": None if changed is None else changed.splitlines(),
    }


def _git(root: Path, *words: str) -> str | None:
    """What git answers; None if there is no git, or the code is in no repository."""
    command: Sequence[str] = ("git", "-C", str(root), *words)
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return done.stdout.rstrip() if done.returncode == 0 else None

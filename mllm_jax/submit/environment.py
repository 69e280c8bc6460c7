"""The record of a job's environment: where it was made, and where it runs, without variables."""

from __future__ import annotations

import getpass
import json
import platform
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mllm_jax.runtime.agreement import package_versions
from mllm_jax.submit.backends import AnyBackend, SlurmBackend

#: Folder of `launch.py`.
ROOT = Path(__file__).resolve().parents[2]


def environment_record(cluster: AnyBackend) -> str:
    """The record of a job that is made now, in JSON.

    `runs_in` is what the job runs in: a Python, or a container's image, whose versions are not
    known here. `made_in` are machine, user, versions and code of the command that makes the job.
    It has no time, so that equal records are one; the cluster knows when the job was submitted.
    """
    if isinstance(cluster, SlurmBackend):
        runs_in = {"python": cluster.python or sys.executable}
    else:
        runs_in = {"image": cluster.image}
    return json.dumps({"runs_in": runs_in, "made_in": _describe_here(ROOT)}, indent=2) + "\n"


def _describe_here(root: Path) -> dict[str, Any]:
    changed = _run_git(root, "status", "--porcelain")
    return {
        "host": platform.node(),
        "user": getpass.getuser(),
        "python": platform.python_version(),
        "versions": package_versions(),
        "commit": _run_git(root, "rev-parse", "HEAD"),
        "uncommitted": None if changed is None else changed.splitlines(),
    }


def _run_git(root: Path, *words: str) -> str | None:
    """The output of git; None if there is no git, or the code is in no repository."""
    command: Sequence[str] = ("git", "-C", str(root), *words)
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return result.stdout.rstrip() if result.returncode == 0 else None

"""Clusters and jobs for tests to bend."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mllm_jax.submit.backends import KubernetesBackend, SlurmBackend
from mllm_jax.submit.job import ClusterJob, make_job
from tests.configs import config

#: Of a cluster of Kubernetes that has room for runs of the working folder.
KUBERNETES: dict[str, Any] = {
    "kind": "kubernetes",
    "image": "mllm-jax:1",
    "volumes": {"/workspace/runs": "runs"},
}


def slurm(**keys: Any) -> SlurmBackend:
    return SlurmBackend.model_validate({"kind": "slurm", **keys})


def kubernetes(**keys: Any) -> KubernetesBackend:
    return KubernetesBackend.model_validate(KUBERNETES | keys)


def job(
    cluster: SlurmBackend | KubernetesBackend,
    nodes: int = 2,
    output: Path | None = None,
    **changes: Any,
) -> ClusterJob:
    """The small run on `nodes` nodes."""
    return make_job(config(**changes), cluster, "mine", nodes, output)

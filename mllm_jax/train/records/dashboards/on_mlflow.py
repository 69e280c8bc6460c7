"""A run in MLflow."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping
from typing import Any

from mlflow import MlflowClient
from mlflow.entities import Metric, Param

from mllm_jax.config.run import MlflowConfig
from mllm_jax.runtime.folder import RESOLVED
from mllm_jax.train.records.dashboards.dashboard import RunDescription

#: Tag of the identity by which a resumed run is recognised.
IDENTITY = "mllm_jax.identity"
#: Parameters, and metrics, that a request may have; characters of a parameter.
PARAMS, METRICS, LONGEST = 100, 1000, 500
#: Characters that names of metrics may not have.
_OTHER = re.compile(r"[^\w\-. :/]")


class MlflowBoard:
    """See `DashboardRun`; a resumed run continues the run of the same identity.

    Raises:
        mlflow.exceptions.MlflowException: the service does not take the run.
    """

    def __init__(self, config: MlflowConfig, about: RunDescription) -> None:
        self._client = MlflowClient(_store_address(config, about))
        self._run = self._find_run(config.experiment, about)
        self._client.update_run(self._run, status="RUNNING")
        self._client.log_text(self._run, about.resolved, RESOLVED)

    def log_values(self, step: int, values: Mapping[str, float]) -> None:
        """Keep the values of a step."""
        now = round(1e3 * time.time())
        metrics = [Metric(_OTHER.sub("_", k), v, now, step) for k, v in values.items()]
        for at in range(0, len(metrics), METRICS):
            self._client.log_batch(self._run, metrics=metrics[at : at + METRICS])

    def close(self, *, done: bool) -> None:
        """Mark the run as ended."""
        self._client.set_terminated(self._run, "FINISHED" if done else "KILLED")

    def _find_run(self, experiment: str, about: RunDescription) -> str:
        """The run with the identity, which its first start creates."""
        client = self._client
        known = client.get_experiment_by_name(experiment)
        place = known.experiment_id if known else client.create_experiment(experiment)
        runs = client.search_runs([place], f"tags.`{IDENTITY}` = '{about.identity}'", max_results=1)
        if runs:
            return str(runs[0].info.run_id)
        folder = str(about.folder.resolve())
        tags = {IDENTITY: about.identity, "folder": folder, "report": about.report}
        created = client.create_run(
            place, run_name=about.name, tags={**tags, "mlflow.note.content": about.note}
        )
        params = [Param(name, str(value)[:LONGEST]) for name, value in _flatten_keys(about.config)]
        for at in range(0, len(params), PARAMS):
            client.log_batch(created.info.run_id, params=params[at : at + PARAMS])
        return str(created.info.run_id)


def _store_address(config: MlflowConfig, about: RunDescription) -> str:
    """Address of the store; of a folder MLflow must know that a folder is meant."""
    place = config.tracking_uri or (about.folder.resolve().parent / "mlruns").as_uri()
    if "://" not in place or place.startswith("file:"):
        os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
    return place


def _flatten_keys(values: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Leaves of the configuration by their dotted keys."""
    if isinstance(values, Mapping):
        for key, value in values.items():
            yield from _flatten_keys(value, f"{path}.{key}" if path else str(key))
    else:
        yield _OTHER.sub("_", path), values

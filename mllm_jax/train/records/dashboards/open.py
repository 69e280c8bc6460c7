"""The dashboards of a configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import find_spec
from types import MappingProxyType

from data.credentials import hidden
from mllm_jax.config.load import ExperimentConfig, to_yaml
from mllm_jax.config.run import RunConfig
from mllm_jax.runtime.devices import is_primary
from mllm_jax.runtime.folder import RunError, ensure_identity
from mllm_jax.train.records.dashboards.dashboard import DashboardRun, DashboardSink, RunDescription


def check_loggers(config: RunConfig) -> None:
    """Check that the packages of `run.loggers` are installed and will not ask for credentials.

    Raises:
        RunError: some are not installed, or have no credentials where they need them.
    """
    if missing := [name for name in config.loggers if find_spec(name) is None]:
        packages = "package of that name, which is" if len(missing) == 1 else "packages, which are"
        needs = "needs the" if len(missing) == 1 else "need their"
        raise RunError(
            f"run.loggers: {' and '.join(missing)} {needs} {packages} not installed; valid: make "
            f"install EXTRAS=demo,{','.join(missing)}, or leave it out"
        )
    place = config.mlflow.tracking_uri
    in_data_base = "mlflow" in config.loggers and "sql" in place.partition(":")[0]
    if in_data_base and find_spec("sqlalchemy") is None:
        raise RunError(
            f"run.mlflow.tracking: {hidden(place)} is a data base, which needs the full package "
            "mlflow, and mlflow-skinny is installed; valid: pip install mlflow, a folder, or the "
            "address of a server"
        )
    if "wandb" in config.loggers and is_primary():
        from mllm_jax.train.records.dashboards.on_wandb import check_login  # the `wandb` extra

        check_login()


def open_dashboards(config: ExperimentConfig) -> list[DashboardSink]:
    """The dashboards of a run, each of which begins to look for the run in its service."""
    run = config.run
    about = RunDescription(
        run.name,
        ensure_identity(run.path),
        run.path,
        config.model_dump(mode="json"),
        to_yaml(config),
    )
    return [DashboardSink(name, partial(_CONNECT[name], run, about)) for name in run.loggers]


def _open_wandb(run: RunConfig, about: RunDescription) -> DashboardRun:
    from mllm_jax.train.records.dashboards.on_wandb import WandbBoard  # needs the `wandb` extra

    return WandbBoard(run.wandb, about)


def _open_mlflow(run: RunConfig, about: RunDescription) -> DashboardRun:
    from mllm_jax.train.records.dashboards.on_mlflow import MlflowBoard  # needs the `mlflow` extra

    return MlflowBoard(run.mlflow, about)


_CONNECT: Mapping[str, Callable[[RunConfig, RunDescription], DashboardRun]] = MappingProxyType(
    {"wandb": _open_wandb, "mlflow": _open_mlflow}
)

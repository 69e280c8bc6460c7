"""The sections of dashboards: services that keep the figures of runs."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from data.places import without_password
from mllm_jax.models.config.parts import Section

#: An entry of `run.loggers`.
Logger = Literal["wandb", "mlflow"]


class WandbConfig(Section):
    """Where Weights & Biases keeps a run; who one is there, WANDB_API_KEY or a login says.

    Args:
        project: project that the run belongs to.
        entity: user or team of the project; null: the default one of the login.
        group: group of runs that the run belongs to; null: none.
        tags: tags of the run.
    """

    project: str = Field("mllm_jax", min_length=1)
    entity: str | None = None
    group: str | None = None
    tags: tuple[str, ...] = ()


class MlflowConfig(Section):
    """Where MLflow keeps a run; who one is there, MLFLOW_TRACKING_USERNAME and the like say.

    Args:
        tracking: address of the server, or the folder or data base of a local store; null: that
            of MLFLOW_TRACKING_URI, or else where MLflow keeps runs by itself.
        experiment: experiment that the run belongs to.
    """

    tracking: Annotated[str, BeforeValidator(without_password)] | None = None
    experiment: str = Field("mllm_jax", min_length=1)

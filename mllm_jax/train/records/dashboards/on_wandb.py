"""A run in Weights & Biases."""

from __future__ import annotations

from collections.abc import Mapping

import wandb

from data.credentials import hidden
from mllm_jax.config.run import WandbConfig
from mllm_jax.runtime.folder import RunError
from mllm_jax.train.records.dashboards.dashboard import RunDescription

#: Name of the horizontal axis. The counter of the service takes no step twice, and steps after the
#: newest checkpoint are taken again after a fault.
STEP = "step"
#: Modes of the package that send nothing, and so need no credentials.
_UNSENT = ("offline", "dryrun", "disabled")


def check_login() -> None:
    """Check that the package finds credentials: without any it would ask for them on the terminal.

    The package finds them as always: in `WANDB_API_KEY`, in a token's file, or where `wandb login`
    has put them. The service itself is not asked.

    Raises:
        RunError: there are none, or they have the wrong form.
    """
    settings = wandb.setup(wandb.Settings(silent=True, relogin=False)).settings
    if settings.mode in _UNSENT:
        return
    try:
        is_logged_in = wandb.login(prompt=False, verify=False)
    except wandb.errors.Error as error:
        problem = hidden(str(error))
        raise RunError(f"run.loggers: wandb cannot use its credentials: {problem}") from error
    if not is_logged_in:
        raise RunError(
            f"run.loggers: wandb has no credentials for {settings.base_url}; valid: set "
            "WANDB_API_KEY, run `wandb login`, or set WANDB_MODE=offline to keep the figures here"
        )


class WandbBoard:
    """See `DashboardRun`; a resumed run continues the run of the same identity.

    Neither the command, the machine's environment, its code nor its console are sent.

    Raises:
        wandb.errors.Error: the service does not take the run.
    """

    def __init__(self, config: WandbConfig, about: RunDescription) -> None:
        settings = wandb.Settings(
            console="off", silent=True, disable_git=True, disable_code=True, x_disable_meta=True
        )
        self._run = wandb.init(
            project=config.project,
            entity=config.entity,
            group=config.group,
            tags=config.tags,
            name=about.name,
            notes=about.note,
            id=about.identity,
            resume="allow",
            dir=str(about.folder),
            settings=settings,
        )
        described = {**about.config, "folder": str(about.folder.resolve()), "report": about.report}
        self._run.config.update(described, allow_val_change=True)
        self._run.define_metric("*", step_metric=STEP)

    def log_values(self, step: int, values: Mapping[str, float]) -> None:
        """Keep the values of a step."""
        self._run.log({STEP: step, **values})

    def close(self, *, done: bool) -> None:
        """Send what is left."""
        self._run.finish(exit_code=0 if done else 1)

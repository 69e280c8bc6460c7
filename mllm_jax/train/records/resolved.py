"""The configuration of a run, kept in its folder with every default filled in."""

from __future__ import annotations

from mllm_jax.config.load import ExperimentConfig, to_yaml
from mllm_jax.runtime.folder import RunError
from mllm_jax.train.records.sinks import write_atomically

#: Name of the file.
RESOLVED = "resolved.yaml"


def keep(config: ExperimentConfig) -> None:
    """Write the configuration to the folder of the run, which must be there.

    Raises:
        RunError: the folder takes no file.
    """
    path = config.run.path / RESOLVED
    try:
        write_atomically(path, to_yaml(config))
    except OSError as error:
        raise RunError(f"{path} cannot be written: {error}") from error

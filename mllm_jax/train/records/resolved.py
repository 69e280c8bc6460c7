"""The configuration of a run, stored in its folder with every default filled in, and a checksum."""

from __future__ import annotations

from mllm_jax.config.load import ExperimentConfig, to_yaml
from mllm_jax.runtime.folder import RESOLVED, report_write_errors
from mllm_jax.runtime.records import signed_text, write_atomically


def write_resolved(config: ExperimentConfig, *, lenient: bool = False) -> None:
    """Write the configuration to the folder of the run, which must be there.

    Args:
        lenient: warn of a disk that is full or does not answer, and go on.

    Raises:
        RunError: the folder takes no file. UnwritableError: its disk is full, or does not answer.
    """
    path = config.run.path / RESOLVED
    with report_write_errors(str(path), lenient=lenient):
        write_atomically(path, signed_text(to_yaml(config)))

"""`data.budgets: auto` settled: a run that has begun keeps its budgets, another one gets new ones.

Every command that computes rows asks here, behind the start of all processes: process 0 reads or
chooses, and the others take what it has. So a run, its evaluation, its preview, plans and programs
compiled ahead have the same budgets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from data.sample import DataError
from data.waits import SOURCE
from mllm_jax.config.agreement import agreed
from mllm_jax.config.load import ConfigError, ExperimentConfig
from mllm_jax.config.modalities import with_budgets
from mllm_jax.runtime.folder import RESOLVED, has_trained
from mllm_jax.runtime.part import peers
from mllm_jax.runtime.records import DamageError, check_text
from scheduling.strict_yaml import read_yaml

#: Type of `data.budgets` where they are given.
_GIVEN = TypeAdapter(dict[str, int])


def settled(
    config: ExperimentConfig,
    tell: Callable[[str], None] = lambda line: None,
    *,
    planned: bool = True,
) -> ExperimentConfig:
    """`config` with budgets; as it is if it has some.

    Args:
        tell: is given a line about the budgets, on process 0.
        planned: whether plans must fit the budgets, or are still to be found.

    Raises:
        DataError: the data, or the record of the run, cannot be used.
        ConfigError: the budgets do not fit the configuration.
    """
    if not config.data.auto_budgets:
        return config
    peers().note("choosing data.budgets", limited=False, key=SOURCE)
    first = _found(config, tell) if peers().index == 0 else {}
    found = peers().gather("data.budgets", first)[0]
    if "error" in found:
        raise DataError(found["error"])
    changed, problems = agreed(with_budgets(config, found["budgets"]), planned=planned)
    if problems:
        raise ConfigError(f"data.budgets auto, {found['origin']}", problems)
    return changed


def _found(config: ExperimentConfig, tell: Callable[[str], None]) -> dict[str, Any]:
    """Budgets and where they come from, or the error that kept them from being found."""
    from mllm_jax.plan.budgets import choose  # which loads what computes

    record = config.run.path / RESOLVED
    try:
        if _has_begun(config.run.path):
            budgets, origin = _kept(record), f"kept in {record}"
            tell(f"data.budgets auto: {_text(budgets)}, as {record} has them")
        else:
            outcome = choose(config)
            budgets, origin = outcome.budgets, "chosen from the lengths of the samples"
            tell(f"data.budgets auto: {outcome.told}")
    except DataError as error:
        return {"error": str(error)}
    return {"budgets": budgets, "origin": origin}


def _has_begun(folder: Path) -> bool:
    """Whether a run has taken steps, or has a checkpoint."""
    checkpoints = folder / "checkpoints"
    kept = checkpoints.is_dir() and any(checkpoints.iterdir())
    return (folder / RESOLVED).is_file() and (has_trained(folder) or kept)


def _kept(record: Path) -> dict[str, int]:
    """The budgets of a run that has begun. Raises DataError: the record does not say them."""
    try:
        check_text(record)
        return _GIVEN.validate_python(read_yaml(record)["data"]["budgets"])
    except (DamageError, OSError, ValueError, KeyError, TypeError, ValidationError) as error:
        why = str(error) if isinstance(error, DamageError) else type(error).__name__
        raise DataError(
            f"data.budgets: auto, but {record}, which keeps those of the run, does not say them "
            f"({why}); valid: budgets, or another run.name"
        ) from error


def _text(budgets: Mapping[str, int]) -> str:
    return f"{{{', '.join(f'{name}: {number}' for name, number in budgets.items())}}}"

"""`data.budgets: auto` settled: a run that has begun keeps its budgets, another one gets new ones.

Every command that computes rows asks here, behind the start of all processes: process 0 reads or
chooses, and the others take what it has. So a run, its evaluation, its preview, plans and programs
compiled ahead have the same budgets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from data.sample import DataError
from data.waits import SOURCE
from mllm_jax.config.agreement import agreed
from mllm_jax.config.inputs import with_budgets
from mllm_jax.config.load import ConfigError, ExperimentConfig
from mllm_jax.plan.kept_budgets import has_begun, kept_budgets
from mllm_jax.runtime.part import peers


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

    try:
        if has_begun(config.run.path):
            kept = kept_budgets(config.run.path)
            budgets, origin = kept.budgets, f"kept in {kept.file}"
            instead = f"; {kept.instead}" if kept.instead else ""
            tell(f"data.budgets auto: {_text(budgets)}, as {kept.file} has them{instead}")
        else:
            outcome = choose(config)
            budgets, origin = outcome.budgets, "chosen from the lengths of the samples"
            tell(f"data.budgets auto: {outcome.told}")
    except DataError as error:
        return {"error": str(error)}
    return {"budgets": dict(budgets), "origin": origin}


def _text(budgets: Mapping[str, int]) -> str:
    return f"{{{', '.join(f'{name}: {number}' for name, number in budgets.items())}}}"

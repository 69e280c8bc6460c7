"""`data.budgets: auto` settled: a run that has begun keeps its budgets, another one gets new ones.

Every command that computes rows asks here, after the start of all processes: process 0 reads or
chooses, and the others take what it has. So a run, its evaluation, its preview, plans and programs
compiled earlier have the same budgets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from data.sample import DataError
from data.waits import SOURCE
from mllm_jax.config.agreement import resolve_agreement
from mllm_jax.config.inputs import with_budgets
from mllm_jax.config.load import ConfigError, ExperimentConfig
from mllm_jax.plan.stored_budgets import has_begun, read_stored_budgets
from mllm_jax.runtime.run_peers import current_peers


def settle_budgets(
    config: ExperimentConfig,
    notify: Callable[[str], None] = lambda line: None,
    *,
    planned: bool = True,
) -> ExperimentConfig:
    """`config` with budgets; as it is if it has some.

    Args:
        notify: is given a line about the budgets, on process 0.
        planned: whether plans must fit the budgets, or are still to be searched.

    Raises:
        DataError: the data, or the record of the run, cannot be used.
        ConfigError: the budgets do not fit the configuration.
    """
    if not config.data.auto_budgets:
        return config
    current_peers().note_activity("choosing data.budgets", limited=False, key=SOURCE)
    choice = _find_budgets(config, notify) if current_peers().index == 0 else {}
    chosen = current_peers().gather_values("data.budgets", choice)[0]
    if "error" in chosen:
        raise DataError(chosen["error"])
    changed, problems = resolve_agreement(with_budgets(config, chosen["budgets"]), planned=planned)
    if problems:
        raise ConfigError(f"data.budgets auto, {chosen['origin']}", problems)
    return changed


def _find_budgets(config: ExperimentConfig, notify: Callable[[str], None]) -> dict[str, Any]:
    """Budgets and where they come from, or the error that prevented them."""
    from mllm_jax.plan.budgets import choose_budgets  # which loads what computes

    try:
        if has_begun(config.run.path):
            stored = read_stored_budgets(config.run.path)
            budgets, origin = stored.budgets, f"kept in {stored.file}"
            instead = f"; {stored.instead}" if stored.instead else ""
            notify(
                f"data.budgets auto: {_format_budgets(budgets)}, as {stored.file} has them{instead}"
            )
        else:
            outcome = choose_budgets(config)
            budgets, origin = outcome.budgets, "chosen from the lengths of the samples"
            notify(f"data.budgets auto: {outcome.summary_line}")
    except DataError as error:
        return {"error": str(error)}
    return {"budgets": dict(budgets), "origin": origin}


def _format_budgets(budgets: Mapping[str, int]) -> str:
    return f"{{{', '.join(f'{name}: {number}' for name, number in budgets.items())}}}"

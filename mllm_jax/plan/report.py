"""The plan of a run: the best strategies, other systems, and a ready configuration."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mllm_jax.checkout import ADVICE
from mllm_jax.config.load import ExperimentConfig, resolve_config, to_yaml
from mllm_jax.plan.comparison import (
    OtherSystems,
    compare_with_best,
    describe_smallest,
    named_subspaces,
    predict_subspaces,
)
from mllm_jax.plan.exchanges import BucketExchange, bucket_exchanges
from mllm_jax.plan.memory import device_room
from mllm_jax.plan.planner import PlanSearch
from mllm_jax.plan.prediction import GIB, PlanPrediction, format_count, format_gib, predict_outcome
from mllm_jax.plan.same_remat import NAME, compare_seconds, search_same_remat
from scheduling.costs.strategy import Strategy
from scheduling.search.branch_and_bound import ProgressCallback, SearchResult
from scheduling.search.outcome import SearchOutcome
from scheduling.search.space import backbone_plans

if TYPE_CHECKING:
    # The module reads data, and imports libraries for it.
    from mllm_jax.plan.budgets import BudgetAdvice

#: Seconds between lines of progress.
REPORT = 10


class PlanningError(ValueError):
    """No plan meets the requirements."""


@dataclass(frozen=True)
class PlannedRun:
    """The result of `plan`.

    Attributes:
        best: the fastest strategies, the fastest first.
        baselines: predictions of parts of the space and of other systems, by name.
        search: the search.
        seconds: seconds that the search took.
        file: the configuration that was written.
        hardware: description in words: devices, and the bytes of each that a step may take.
        within: the share by which the best may miss the fastest.
        budgets: the present and the chosen budgets, where they were to be chosen.
        same_remat: the fastest plan with the configured remat; None if not requested.
        exchanges: of every bucket of the best, its exchange and predicted seconds of all.
        alone: whether no other system could be compared.
    """

    best: tuple[PlanPrediction, ...]
    baselines: dict[str, PlanPrediction]
    search: SearchResult
    seconds: float
    file: Path
    hardware: str
    within: float = 0.0
    budgets: BudgetAdvice | None = None
    same_remat: PlanPrediction | None = None
    exchanges: tuple[BucketExchange, ...] = ()
    alone: bool = False

    def to_json(self) -> dict[str, Any]:
        """`{"best", "top", "same_remat", "baselines": {name}, "hardware", "search_seconds",
        "within", "simulated", "families", "refused", "budgets", "exchanges", "file"}`; exchanges
        as of `BucketExchange.to_json`."""
        return {
            "best": self.best[0].to_json(),
            "top": [prediction.to_json() for prediction in self.best],
            "same_remat": self.same_remat.to_json() if self.same_remat else None,
            "baselines": {
                name: prediction.to_json() for name, prediction in self.baselines.items()
            },
            "hardware": self.hardware,
            "search_seconds": self.seconds,
            "within": self.within,
            "simulated": self.search.simulated,
            "families": self.search.families,
            "refused": dict(self.search.refused),
            "budgets": self.budgets.to_json() if self.budgets else None,
            "exchanges": [exchange.to_json() for exchange in self.exchanges],
            "file": str(self.file),
        }

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """Cells of the table: the best, the baselines, the best with the configured remat."""
        return [
            prediction.row
            for prediction in (*self.best, *self.baselines.values(), *self._unlike_best)
        ]

    @property
    def _unlike_best(self) -> list[PlanPrediction]:
        prediction = self.same_remat
        return [prediction] if prediction and prediction.seconds != self.best[0].seconds else []

    @property
    def notes(self) -> list[str]:
        """Lines below the table."""
        plans = [
            f"{prediction.name}: {text}" for prediction in self.best for text in prediction.texts
        ]
        lost = [f"{name}: {prediction.reason}" for name, prediction in self.baselines.items()]
        for prediction in self._unlike_best:
            lost += [f"{NAME}: {text}" for text in prediction.texts] + compare_seconds(
                prediction, self.baselines
            )
        refused = [f"{count} refused: {why}" for why, count in self.search.refused.items()]
        missed = [f"the fastest may take up to {self.within:.3g} less"] if self.within else []
        return [
            *plans,
            *map(str, self.exchanges),
            *lost,
            f"for {self.hardware}",
            f"{format_count(self.search.families, 'decoder strategy', 'decoder strategies')}, "
            f"{format_count(self.search.simulated, 'strategy', 'strategies')} of all modules "
            f"simulated in {self.seconds:.1f} s",
            *missed,
            *refused,
            *([f"no other system is compared: {ADVICE}"] if self.alone else ()),
            *(self.budgets.notes if self.budgets else ()),
            f"written: {self.file}",
            run_command(self.file),
        ]


def plan_run(
    planner: PlanSearch,
    top: int,
    file: Path,
    clock: Callable[[], float],
    notify: Callable[[str], None] = lambda text: None,
    budgets: BudgetAdvice | None = None,
    systems: OtherSystems | None = None,
) -> PlannedRun:
    """Search, compare with baselines and write the best as a configuration.

    Args:
        top: strategies to show, each with another plan of the decoder.
        file: file to write.
        clock: clock of the search, in seconds.
        notify: shows a line of progress.
        budgets: how the planner's budgets were chosen, for messages.
        systems: predicts steps of other systems; None: there are none to compare with.

    Raises:
        PlanningError: no strategy fits, and the message says by how much and what would; or the
            file cannot be written.
    """
    prepare_file(file)
    start = clock()
    # Parts of this framework's space first: their results bound the search of all others.
    searches = {
        name: planner.search_plans(top, _progress_reporter(notify, clock, f"{name}: "), space)
        for name, space in named_subspaces(planner.space, planner.workload).items()
    }
    known = [outcome for search in searches.values() for outcome in search.best]
    result = planner.search_plans(top, _progress_reporter(notify, clock), known=known)
    simulated = result.simulated + sum(search.simulated for search in searches.values())
    result = replace(result, simulated=simulated)
    seconds = clock() - start
    if not result.best:
        raise PlanningError(_describe_no_plan(planner, result))
    best = _predict_best(planner, result.best)
    others = predict_subspaces(planner, searches) | (systems(planner) if systems else {})
    baselines = {
        name: compare_with_best(prediction, best[0], planner.space.memory)
        for name, prediction in others.items()
    }
    equal = search_same_remat(
        planner, result.best[0], known, _progress_reporter(notify, clock, f"{NAME}: ")
    )
    write_planned(planner, result.best[0], file)
    notes, chosen = _plan_notes(planner), planner.configure_plans(result.best[0].strategy)
    exchanges = bucket_exchanges(chosen, planner.hardware)
    parts = best, baselines, result, seconds, file, notes, planner.within, budgets, equal
    return PlannedRun(*parts, exchanges, alone=systems is None)


def _plan_notes(planner: PlanSearch) -> str:
    """The devices in words."""
    space, title = planner.space, planner.hardware.title
    by = device_room(planner.hardware)[1] if planner.memory is None else ""
    return f"{space.devices} x {title}, {space.memory / GIB:.3g} GiB each{by}"


def _progress_reporter(
    notify: Callable[[str], None], clock: Callable[[], float], of: str = ""
) -> ProgressCallback:
    """A line every `REPORT` seconds; `of` is what it begins with."""
    start = last = clock()

    def report(simulated: int, limit: float, bound: float) -> None:
        nonlocal last
        if (now := clock()) - last < REPORT:
            return
        last = now
        best = f"the best takes {limit:.4g} s" if limit < inf else "none is the best yet"
        notify(
            f"{of}{now - start:.0f} s: {simulated} strategies simulated, {best}, "
            f"what is left at least {bound:.4g} s"
        )

    return report


def _predict_best(
    planner: PlanSearch, outcomes: Sequence[SearchOutcome]
) -> tuple[PlanPrediction, ...]:
    """Predictions of the plans, with their idle time."""
    names = ["best", *(f"best {n}" for n in range(2, len(outcomes) + 1))]
    idle = [_describe_idle_devices(planner, outcome.strategy) for outcome in outcomes]
    if idle[0]:
        idle[0] += f": {_explain_idle(planner, outcomes[0].strategy)}"
    predictions = [predict_outcome(planner, *pair) for pair in zip(names, outcomes, strict=True)]
    return tuple(
        replace(prediction, reason=why) for prediction, why in zip(predictions, idle, strict=True)
    )


def _describe_idle_devices(planner: PlanSearch, strategy: Strategy) -> str:
    used, there = strategy.backbone.devices, planner.space.devices
    return f"uses {used} of {there} devices" if used < there else ""


def _explain_idle(planner: PlanSearch, strategy: Strategy) -> str:
    """Why nothing that uses more devices is faster."""
    most = max(backbone_plans(planner.space, planner.workload))
    if strategy.backbone.devices == most:
        return "no degrees that divide the model and the rows multiply to more"
    return "nothing that uses more, and fits, is faster"


def prepare_file(file: Path) -> None:
    """Make the folder of `file`, and see that it can be written, before the search takes time."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        there = file.exists()
        with file.open("a", encoding="utf-8"):
            pass
        if not there:
            file.unlink()
    except OSError as error:
        raise PlanningError(
            f"{file} cannot be written: {error.strerror}; choose another --output"
        ) from error


def run_command(file: Path) -> str:
    """The command that starts a run under a plan that was written."""
    return f"a run of its own under this plan: train --config {file} run.name=NAME"


def write_planned(planner: PlanSearch, outcome: SearchOutcome, file: Path) -> None:
    """The configuration of `outcome`, which `launch.py train` takes.

    Raises:
        ConfigError: the planned configuration is refused after all.
    """
    idle = _describe_idle_devices(planner, outcome.strategy)
    write_plan(
        planner.configure_plans(outcome.strategy),
        f"# Planned for {planner.space.devices} x {planner.hardware.title}: predicted "
        f"{outcome.seconds:.4g} s a step,\n"
        f"# {format_gib(outcome.memory.total)} GiB a device{idle and f'; {idle}'}.\n",
        file,
    )


def write_plan(config: ExperimentConfig, head: str, file: Path) -> None:
    """A planned configuration below a head of comments.

    Raises:
        ConfigError: the configuration is refused after all.
    """
    resolve_config(config.model_dump(mode="json"), source=str(file))
    file.write_text(head + to_yaml(config), encoding="utf-8")


def _describe_no_plan(planner: PlanSearch, result: SearchResult) -> str:
    """Why there is no plan, and the nearest change."""
    by = device_room(planner.hardware)[1] if planner.memory is None else ""
    change = describe_smallest(planner, result.refused)
    return (
        f"no plan for {planner.space.devices} x {planner.hardware.title} within "
        f"{planner.space.memory / GIB:.3g} GiB a device{by}: {change}"
    )

"""Predictions for other systems with the same model and devices, compared with the best plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf

from benchmarks.systems.chain import (
    BaselineStep,
    LayerChain,
    decoder_alone,
    run_balanced,
    run_megatron,
)
from benchmarks.systems.optimus import run_optimus
from benchmarks.systems.plans import list_chains
from mllm_jax.plan.planner import PlanSearch
from mllm_jax.plan.prediction import PlanPrediction, format_count, model_utilisation, prediction_of
from scheduling.costs.strategy import Strategy
from scheduling.schedules.schedule import ScheduleError

#: Chains that have room of which a baseline without a configured plan takes the fastest.
TRIED = 8


def predict_systems(planner: PlanSearch) -> dict[str, PlanPrediction]:
    """Predictions with the decoder's configured plan, or each system's best one, by its name."""
    choice = _Choice.for_planner(planner)
    results = {}
    for name, make in SYSTEMS.items():
        try:
            results[name] = choice.find_best(planner, name, make)
        except ScheduleError as error:
            results[name] = PlanPrediction(name, "", reason=str(error))
    return results


#: Makes a baseline's step of a chain.
Make = Callable[[PlanSearch, LayerChain], PlanPrediction]


@dataclass(frozen=True)
class _Choice:
    """Chains that a baseline may run, the most promising first, and whose plans they have."""

    chains: Sequence[LayerChain]
    whose: str

    @classmethod
    def for_planner(cls, planner: PlanSearch) -> _Choice:
        """The configured plan if it fits the devices, otherwise the plans to choose from."""
        workload, hardware = planner.plain_workload, planner.hardware
        configured = _configured_strategy(planner)
        if configured is not None:
            return cls([LayerChain(workload, configured, hardware)], "as configured")
        candidates = list_chains(planner.space, workload, hardware)
        return cls(candidates, f"its own plan, the fastest of {min(TRIED, len(candidates))}")

    def find_best(self, planner: PlanSearch, name: str, make: Make) -> PlanPrediction:
        """The fastest of the first `TRIED` that can be run and have room; the leanest if none has.

        Raises:
            ScheduleError: no plan can be run.
        """
        predictions: list[PlanPrediction] = []
        problem = ScheduleError("no degrees divide the devices, the rows and the model")
        for chain in self.chains:
            if sum(self._has_room(planner, prediction) for prediction in predictions) == TRIED:
                break
            try:
                predictions.append(make(planner, chain))
            except ScheduleError as error:
                problem = error
        if not predictions:
            raise problem
        fitting = [prediction for prediction in predictions if self._has_room(planner, prediction)]
        if fitting:
            best = min(fitting, key=lambda prediction: prediction.seconds or inf)
        else:
            best = min(predictions, key=lambda prediction: prediction.memory or inf)
        return replace(best, name=name, plan=f"{best.plan}; {self.whose}")

    def _has_room(self, planner: PlanSearch, prediction: PlanPrediction) -> bool:
        return prediction.memory is not None and prediction.memory <= planner.space.memory


def _configured_strategy(planner: PlanSearch) -> Strategy | None:
    """The configured strategy of the decoder, if it fits the devices, the model and the rows.

    The systems that are compared share no experts between ranks.
    """
    config, space = planner.platform_config, planner.space
    decoder, rows = config.parallel.backbone_plan, planner.workload.rows
    name = config.model.backbone
    fits = decoder.devices == space.devices and (
        decoder.context in (space.contexts or ()) and decoder.tensor in (space.tensors or ())
    )
    divides = rows % (config.train.accumulate * decoder.batch) == 0
    if not (fits and divides and space.fits_plan(name, decoder)) or decoder.expert > 1:
        return None
    return Strategy(
        {name: decoder},
        config.train.accumulate,
        {name: config.backbone_chunks},
        config.model.remat,
        co_issue=False,
    )


def _predict_megatron(planner: PlanSearch, chain: LayerChain) -> PlanPrediction:
    return _predict_chain(planner, chain, run_megatron(chain))


def _predict_balanced(planner: PlanSearch, chain: LayerChain) -> PlanPrediction:
    return _predict_chain(planner, chain, run_balanced(chain))


def _predict_chain(
    planner: PlanSearch, chain: LayerChain, baseline: BaselineStep
) -> PlanPrediction:
    prediction = prediction_of(planner, "", chain.strategy, baseline.simulation, chain.workload)
    return replace(prediction, memory=baseline.memory)


def _predict_optimus(planner: PlanSearch, chain: LayerChain) -> PlanPrediction:
    alone = decoder_alone(chain)
    room = max(0.0, planner.space.memory - alone.memory)
    planned = run_optimus(chain, alone.simulation, room)
    prediction = prediction_of(planner, "", chain.strategy, alone.simulation, chain.workload)
    mfu, recomputed = model_utilisation(planner, chain.strategy, planned.seconds, chain.workload)
    encoders = (
        f"; encoders in {format_count(planned.stages, 'stage', 'stages')} x "
        f"tensor {planned.tensor}; {planned.coarse:.1%} hidden without packing"
    )
    plan = prediction.plan + (encoders if planner.workload.sources else "")
    return replace(
        prediction,
        plan=plan,
        seconds=planned.seconds,
        compute=None,
        idle=None,
        hidden=planned.hidden if planner.workload.sources else None,
        memory=alone.memory + planned.memory,
        mfu=mfu,
        recomputed=recomputed,
    )


#: Other systems in the order of the table.
SYSTEMS: dict[str, Make] = {
    "megatron": _predict_megatron,
    "balanced": _predict_balanced,
    "optimus": _predict_optimus,
}

"""What others would do with the same model and devices, beside the best plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from mllm_jax.planning import Planner
from mllm_jax.prediction import (
    GIB,
    Prediction,
    counted,
    describe,
    gib,
    of_simulation,
    predicted,
    utilisation,
)
from scheduling.baselines import Baseline, Chain, balanced, decoder_alone, megatron
from scheduling.estimate import Strategy
from scheduling.optimus import optimus
from scheduling.schedule import ScheduleError
from scheduling.search import Outcome, Progress, Search, fitting
from sharding.plan import ParallelPlan

#: More devices than that many times those given are no advice.
MOST_TIMES = 8
#: Why a baseline can be faster than a best with stages, and than one without.
WITHOUT_TICKS = "its stages wait for data alone, those of the best for each other in every tick"
WITHOUT_EXCHANGE = (
    "it counts no exchange of encoder outputs, and of gathers and scatters a constant share"
)
#: Seconds that differ by so small a share are the same.
EQUAL = 1e-9


def compared(own: Prediction, best: Prediction, limit: float) -> Prediction:
    """With the reason why it is slower than the best, or not to be had with `limit` bytes."""
    if own.seconds is None or best.seconds is None:
        return own
    if own.memory is not None and own.memory > limit:
        return replace(own, reason=f"needs {gib(own.memory)} GiB of {limit / GIB:.3g}")
    ratio = own.seconds / best.seconds
    if abs(ratio - 1) < EQUAL:
        return replace(own, reason="as fast as the best")
    if ratio < 1:
        why = WITHOUT_TICKS if best.stages > 1 else WITHOUT_EXCHANGE
        return replace(own, reason=f"{1 / ratio:.2f}x as fast as the best: {why}")
    if own.idle is None:
        return replace(own, reason=f"{ratio:.2f}x the best's seconds")
    losses = {
        kind: seconds - (best.idle or {}).get(kind, 0.0) for kind, seconds in own.idle.items()
    }
    losses["compute"] = (own.compute or 0.0) - (best.compute or 0.0)
    worst = max(losses, key=lambda kind: losses[kind])
    why = f"{ratio:.2f}x the best's seconds, most of it {worst} ({losses[worst]:.4g} s more)"
    return replace(own, reason=why)


def simulated_baselines(
    planner: Planner, best: Outcome, progress: Callable[[str], Progress]
) -> dict[str, Prediction]:
    """What others would do with the configured plan of the decoder, or with the best's.

    All use the devices of that plan.

    Args:
        progress: makes what is told of the search for the baseline of a name.
    """
    chain = Chain(planner.workload, _configured(planner, best), planner.hardware)
    made = {
        "megatron": lambda: _chained(planner, "megatron", chain, megatron(chain)),
        "balanced": lambda: _chained(planner, "balanced", chain, balanced(chain)),
        "fsdp": lambda: _searched(planner, "fsdp", _fsdp(chain.strategy), progress),
        "prologue": lambda: _searched(planner, "prologue", _prologue(chain.strategy), progress),
        "optimus": lambda: _optimus(planner, chain),
    }
    results = {}
    for name, make in made.items():
        try:
            results[name] = make()
        except ScheduleError as error:
            results[name] = Prediction(name, "", reason=str(error))
    return results


def _configured(planner: Planner, best: Outcome) -> Strategy:
    """The configured strategy of the decoder, or the best's if that does not fit the devices."""
    config, space = planner.settled, planner.space
    decoder, rows = config.parallel.decoder, planner.workload.rows
    fits = decoder.devices == space.devices and (
        decoder.context in (space.contexts or ()) and decoder.tensor in (space.tensors or ())
    )
    if not (fits and space.fits("decoder", decoder)) or rows % (
        config.train.accumulate * decoder.batch
    ):
        own = best.strategy
        plans = {"decoder": own.decoder}
        return Strategy(plans, own.microbatches, own.chunks, own.remat, co_issue=False)
    return Strategy(
        {"decoder": decoder},
        config.train.accumulate,
        config.schedule.chunks,
        config.model.remat,
        co_issue=False,
    )


def _fsdp(strategy: Strategy) -> dict[str, Any]:
    return {"counts": (strategy.decoder.devices,), "stages": (1,)}


def _prologue(strategy: Strategy) -> dict[str, Any]:
    decoder: ParallelPlan = strategy.decoder
    return {
        "counts": (decoder.devices,),
        "placements": ("prologue",),
        "stages": (decoder.stage,),
        "contexts": (decoder.context,),
        "tensors": (decoder.tensor,),
        "chunks": (strategy.chunks,),
    }


def _searched(
    planner: Planner, name: str, changes: dict[str, Any], progress: Callable[[str], Progress]
) -> Prediction:
    """The best of a part of the space."""
    found = planner.search(1, progress(name), replace(planner.space, **changes))
    if found.best:
        return predicted(planner, name, found.best[0])
    return Prediction(name, "", reason=smallest(planner, found))


def _chained(planner: Planner, name: str, chain: Chain, made: Baseline) -> Prediction:
    own = of_simulation(planner, name, chain.strategy, made.simulation)
    return replace(own, memory=made.memory)


def _optimus(planner: Planner, chain: Chain) -> Prediction:
    alone = decoder_alone(chain)
    room = max(0.0, planner.space.memory - alone.memory)
    made = optimus(chain, alone.simulation, room)
    own = of_simulation(planner, "optimus", chain.strategy, alone.simulation)
    mfu, recomputed = utilisation(planner, chain.strategy, made.seconds)
    encoders = (
        f"; encoders in {counted(made.stages, 'stage', 'stages')} x tensor {made.tensor}; "
        f"{made.coarse:.1%} hidden without packing"
    )
    plan = own.plan + (encoders if planner.workload.encoders else "")
    return replace(
        own,
        plan=plan,
        seconds=made.seconds,
        compute=None,
        idle=None,
        hidden=made.hidden if planner.workload.encoders else None,
        memory=alone.memory + made.memory,
        mfu=mfu,
        recomputed=recomputed,
    )


def smallest(planner: Planner, found: Search) -> str:
    if found.smallest is None:
        why = "; ".join(found.refused) or "no degrees divide the devices, the rows and the model"
        return f"{why}; change parallel.devices or data.rows x train.accumulate"
    strategy, memory = found.smallest
    ways = _devices(planner)
    if memory <= planner.hardware.memory:
        ways.append(f"--memory {gib(memory)}")
    advice = (
        f"fits with {', or with '.join(ways)}" if ways else f"{MOST_TIMES}x the devices do not do"
    )
    return (
        f"the leanest, {describe(strategy)}, needs {gib(memory)} GiB of "
        f"{planner.space.memory / GIB:.3g}; {advice}"
    )


def _devices(planner: Planner) -> list[str]:
    """How many times the devices would do, twice as many at a time; not for far too many."""
    times = 2
    while times <= MOST_TIMES:
        more = planner.with_devices(times * planner.space.devices)
        if found := fitting(more.space, more.workload, more.hardware, more.schedule):
            return [f"{found[0].decoder.devices} devices"]
        times *= 2
    return []

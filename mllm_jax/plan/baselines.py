"""Predictions for other systems with the same model and devices, beside the best plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

from mllm_jax.plan.planner import Planner
from mllm_jax.plan.prediction import (
    GIB,
    Prediction,
    counted,
    describe,
    gib,
    of_simulation,
    predicted,
    utilisation,
)
from scheduling.baselines.chain import Baseline, Chain, balanced, decoder_alone, megatron
from scheduling.baselines.optimus import optimus
from scheduling.baselines.plans import chains
from scheduling.costs.strategy import Strategy
from scheduling.costs.workload import Workload
from scheduling.schedules.schedule import ScheduleError
from scheduling.search.branch_and_bound import Search
from scheduling.search.space import Space, with_stages

#: More devices than that many times those given are no advice.
MOST_TIMES = 8
#: Chains that have room of which a baseline without a configured plan takes the fastest.
TRIED = 8
#: Why a baseline can be faster than a best with stages, and than one without.
WITHOUT_TICKS = "its stages wait for data alone, those of the best for each other in every tick"
WITHOUT_EXCHANGE = "it counts no exchange of encoder outputs"
#: Seconds that differ by so small a share are the same.
EQUAL = 1e-9


def compared(own: Prediction, best: Prediction, limit: float) -> Prediction:
    """The prediction with the reason why it is slower than the best, or exceeds `limit` bytes."""
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


def own_ways(space: Space, workload: Workload) -> dict[str, Space]:
    """Parts of the space of all plans that have a row of their own, by its name."""
    return {
        "fsdp": replace(space, stages=(1,)),
        "prologue": replace(with_stages(space, workload), placements=("prologue",)),
    }


def simulated_baselines(planner: Planner, ways: Mapping[str, Search]) -> dict[str, Prediction]:
    """Predictions for other systems with the decoder's configured plan, or their own best one.

    Args:
        ways: results of the searches of `own_ways`.
    """
    choice = _Choice.of(planner)
    made = {
        "megatron": lambda: choice.best(planner, "megatron", _megatron),
        "balanced": lambda: choice.best(planner, "balanced", _balanced),
        "fsdp": lambda: _way(planner, "fsdp", ways["fsdp"]),
        "prologue": lambda: _way(planner, "prologue", ways["prologue"]),
        "optimus": lambda: choice.best(planner, "optimus", _optimus),
    }
    results = {}
    for name, make in made.items():
        try:
            results[name] = make()
        except ScheduleError as error:
            results[name] = Prediction(name, "", reason=str(error))
    return results


#: Makes a baseline's step of a chain.
Make = Callable[[Planner, Chain], Prediction]


@dataclass(frozen=True)
class _Choice:
    """Chains that a baseline may run, the most promising first, and whose plans they have."""

    chains: Sequence[Chain]
    whose: str

    @classmethod
    def of(cls, planner: Planner) -> _Choice:
        """The configured plan if it fits the devices, otherwise the plans to choose from."""
        workload, hardware = planner.plain, planner.hardware
        configured = _configured(planner)
        if configured is not None:
            return cls([Chain(workload, configured, hardware)], "as configured")
        found = chains(planner.space, workload, hardware)
        return cls(found, f"its own plan, the fastest of {min(TRIED, len(found))}")

    def best(self, planner: Planner, name: str, make: Make) -> Prediction:
        """The fastest of the first `TRIED` that can be run and have room; the leanest if none has.

        Raises:
            ScheduleError: no plan can be run.
        """
        made: list[Prediction] = []
        problem = ScheduleError("no degrees divide the devices, the rows and the model")
        for chain in self.chains:
            if sum(self._has_room(planner, own) for own in made) == TRIED:
                break
            try:
                made.append(make(planner, chain))
            except ScheduleError as error:
                problem = error
        if not made:
            raise problem
        fitting = [own for own in made if self._has_room(planner, own)]
        if fitting:
            best = min(fitting, key=lambda own: own.seconds or inf)
        else:
            best = min(made, key=lambda own: own.memory or inf)
        return replace(best, name=name, plan=f"{best.plan}; {self.whose}")

    def _has_room(self, planner: Planner, own: Prediction) -> bool:
        return own.memory is not None and own.memory <= planner.space.memory


def _configured(planner: Planner) -> Strategy | None:
    """The configured strategy of the decoder, if it fits the devices, the model and the rows.

    The systems that are compared share no experts between ranks.
    """
    config, space = planner.settled, planner.space
    decoder, rows = config.parallel.decoder, planner.workload.rows
    fits = decoder.devices == space.devices and (
        decoder.context in (space.contexts or ()) and decoder.tensor in (space.tensors or ())
    )
    dealt = rows % (config.train.accumulate * decoder.batch) == 0
    if not (fits and dealt and space.fits("decoder", decoder)) or decoder.expert > 1:
        return None
    return Strategy(
        {"decoder": decoder},
        config.train.accumulate,
        config.schedule.chunks,
        config.model.remat,
        co_issue=False,
    )


def _way(planner: Planner, name: str, found: Search) -> Prediction:
    """The best of a part of the space, or why there is none."""
    if found.best:
        return predicted(planner, name, found.best[0])
    space = own_ways(planner.space, planner.workload)[name]
    return Prediction(name, "", reason=smallest(planner, found.refused, space))


def _megatron(planner: Planner, chain: Chain) -> Prediction:
    return _chained(planner, chain, megatron(chain))


def _balanced(planner: Planner, chain: Chain) -> Prediction:
    return _chained(planner, chain, balanced(chain))


def _chained(planner: Planner, chain: Chain, made: Baseline) -> Prediction:
    own = of_simulation(planner, "", chain.strategy, made.simulation, chain.workload)
    return replace(own, memory=made.memory)


def _optimus(planner: Planner, chain: Chain) -> Prediction:
    alone = decoder_alone(chain)
    room = max(0.0, planner.space.memory - alone.memory)
    made = optimus(chain, alone.simulation, room)
    own = of_simulation(planner, "", chain.strategy, alone.simulation, chain.workload)
    mfu, recomputed = utilisation(planner, chain.strategy, made.seconds, chain.workload)
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


def smallest(planner: Planner, refused: Mapping[str, int], space: Space | None = None) -> str:
    """Memory of the leanest strategy of a space in which none fits, and a number that would fit.

    Args:
        refused: why its families were left out.
        space: space of the search, by default that of all plans.
    """
    leanest = planner.leanest(space)
    if leanest is None:
        why = "; ".join(refused) or "no degrees divide the devices, the rows and the model"
        return f"{why}; change parallel.devices or data.rows x train.accumulate"
    strategy, memory = leanest
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
    """Number of devices that would suffice, found by doubling up to a bound."""
    times = 2
    while times <= MOST_TIMES:
        more = planner.with_devices(times * planner.space.devices)
        if found := more.fitting():
            return [f"{found[0].decoder.devices} devices"]
        times *= 2
    return []

"""The plan of a run: the best strategies beside what others would do, and a ready configuration."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil, floor, inf, log10
from pathlib import Path
from typing import Any

from mllm_jax.budgets import Advice
from mllm_jax.config import resolve, to_yaml
from mllm_jax.planning import Planner
from scheduling.baselines import Chain, balanced, decoder_alone, megatron
from scheduling.estimate import Strategy
from scheduling.optimus import optimus
from scheduling.schedule import ScheduleError
from scheduling.search import Outcome, Progress, Search, leanest, search
from scheduling.simulation import IDLE_KINDS, Simulation
from scheduling.space import decoder_plans
from sharding.plan import ParallelPlan

GIB = 2**30
#: More devices than that many times those given are no advice.
MOST_TIMES = 8
#: Why a baseline can be faster than the best.
WITHOUT_TICKS = "its stages wait for data alone, those of the best for each other in every tick"
#: Seconds between lines of progress.
REPORT = 10
#: Seconds that differ by so small a share are the same.
EQUAL = 1e-9


class PlanningError(ValueError):
    """No plan meets what was asked for."""


@dataclass(frozen=True)
class Prediction:
    """What one way to run the step is predicted to take.

    Attributes:
        name: of the way.
        plan: in words.
        devices: that it uses; None if it cannot be run.
        seconds: of a step; None if it cannot be run.
        compute, idle: seconds of a device, the mean over all; None if only their sum is known.
        hidden: share of the encoders' work that makes the step no longer; None without encoders.
        memory: bytes of a device.
        mfu: model FLOPs utilisation of the devices that are used.
        recomputed: the same, counting what is computed again.
        reason: why it cannot be run, is slower than the best, or leaves devices idle.
    """

    name: str
    plan: str
    devices: int | None = None
    seconds: float | None = None
    compute: float | None = None
    idle: dict[str, float] | None = None
    hidden: float | None = None
    memory: float | None = None
    mfu: float | None = None
    recomputed: float | None = None
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        """The same keys, whatever the way."""
        return {
            "plan": self.plan,
            "devices": self.devices,
            "step_seconds": self.seconds,
            "encoder_hidden": self.hidden,
            "mfu": self.mfu,
            "mfu_with_recomputation": self.recomputed,
            "memory_bytes": self.memory,
            "compute_seconds": self.compute,
            "idle_seconds": self.idle,
            "reason": self.reason,
        }

    @property
    def texts(self) -> list[str]:
        """What there is to say of it."""
        return [text for text in (self.plan, self.reason) if text]

    @property
    def row(self) -> tuple[str, ...]:
        """Cells of a table."""
        if self.seconds is None:
            return (self.name, "-", "-", "-", "-", "-", *"-" * len(IDLE_KINDS))
        idle = [
            None if self.idle is None else self.idle[kind] / self.seconds for kind in IDLE_KINDS
        ]
        return (
            self.name,
            f"{self.seconds:.4g}",
            _percent(self.mfu),
            _percent(self.recomputed),
            _gib(self.memory or 0.0),
            _percent(self.hidden),
            *map(_percent, idle),
        )


COLUMNS = ("way", "seconds", "MFU", "with recomputation", "GiB", "encoders hidden", *IDLE_KINDS)


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"


def _gib(size: float) -> str:
    """GiB with three digits, rounded up: so much is enough."""
    if not size:
        return "0"
    digits = 2 - floor(log10(size / GIB))
    return f"{ceil(size / GIB * 10**digits) / 10**digits:.{max(0, digits)}f}"


@dataclass(frozen=True)
class Planned:
    """What `plan` found.

    Attributes:
        best: the fastest strategies, the fastest first.
        baselines: by name.
        found: the search.
        seconds: that it took.
        file: the configuration that was written.
        budgets: the present and the chosen budgets, where they were to be chosen.
    """

    best: tuple[Prediction, ...]
    baselines: dict[str, Prediction]
    found: Search
    seconds: float
    file: Path
    budgets: Advice | None = None

    def to_json(self) -> dict[str, Any]:
        """`{"best", "top", "baselines": {name}, "search_seconds", "simulated", "refused",
        "budgets", "file"}`."""
        return {
            "best": self.best[0].to_json(),
            "top": [own.to_json() for own in self.best],
            "baselines": {name: own.to_json() for name, own in self.baselines.items()},
            "search_seconds": self.seconds,
            "simulated": self.found.simulated,
            "families": self.found.families,
            "refused": dict(self.found.refused),
            "budgets": self.budgets.to_json() if self.budgets else None,
            "file": str(self.file),
        }

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """Cells of the table: the best, then the baselines."""
        return [own.row for own in (*self.best, *self.baselines.values())]

    @property
    def notes(self) -> list[str]:
        """Lines below the table."""
        plans = [f"{own.name}: {text}" for own in self.best for text in own.texts]
        lost = [f"{name}: {own.reason}" for name, own in self.baselines.items()]
        refused = [f"{count} refused: {why}" for why, count in self.found.refused.items()]
        return [
            *plans,
            *lost,
            f"{_count(self.found.families, 'decoder strategy', 'decoder strategies')}, "
            f"{_count(self.found.simulated, 'whole strategy', 'whole strategies')} simulated in "
            f"{self.seconds:.1f} s",
            *refused,
            *(self.budgets.notes if self.budgets else ()),
            f"written: {self.file}",
        ]


def plan(
    planner: Planner,
    top: int,
    file: Path,
    clock: Callable[[], float],
    tell: Callable[[str], None] = lambda text: None,
    budgets: Advice | None = None,
) -> Planned:
    """Search, compare with baselines and write the best as a configuration.

    Args:
        top: strategies to show, each with another plan of the decoder.
        file: to write.
        clock: of the search, in seconds.
        tell: shows a line of progress.
        budgets: how the planner's budgets were chosen, to be told.

    Raises:
        PlanningError: no strategy fits, and the message says by how much and what would; or the
            file cannot be written.
    """
    _prepare(file)
    start = clock()
    found = planner.search(top, _progress(tell, clock))
    seconds = clock() - start
    if not found.best:
        raise PlanningError(_no_plan(planner, found))
    best = _shown(planner, found.best)
    baselines = {
        name: _compared(own, best[0], planner.space.memory)
        for name, own in _baselines(planner, found.best[0]).items()
    }
    write(planner, found.best[0], file)
    return Planned(best, baselines, found, seconds, file, budgets)


def _progress(tell: Callable[[str], None], clock: Callable[[], float]) -> Progress:
    """A line every `REPORT` seconds."""
    start = last = clock()

    def report(simulated: int, limit: float, bound: float) -> None:
        nonlocal last
        if (now := clock()) - last < REPORT:
            return
        last = now
        best = f"the best takes {limit:.4g} s" if limit < inf else "none is the best yet"
        tell(
            f"{now - start:.0f} s: {simulated} strategies simulated, {best}, "
            f"what is left at least {bound:.4g} s"
        )

    return report


def _shown(planner: Planner, found: Sequence[Outcome]) -> tuple[Prediction, ...]:
    """Predictions of what was found, with what the plans leave idle."""
    names = ["best", *(f"best {n}" for n in range(2, len(found) + 1))]
    idle = [_idle(planner, outcome.strategy) for outcome in found]
    if idle[0]:
        idle[0] += f": {_why_idle(planner, found[0].strategy)}"
    made = [predicted(planner, *own) for own in zip(names, found, strict=True)]
    return tuple(replace(own, reason=why) for own, why in zip(made, idle, strict=True))


def _idle(planner: Planner, strategy: Strategy) -> str:
    used, there = strategy.decoder.devices, planner.space.devices
    return f"uses {used} of {there} devices" if used < there else ""


def _why_idle(planner: Planner, strategy: Strategy) -> str:
    """Why nothing that uses more devices is faster."""
    most = max(decoder_plans(planner.space, planner.workload))
    if strategy.decoder.devices == most:
        return "no degrees that divide the model and the rows multiply to more"
    return "nothing that uses more, and fits, is faster"


def _prepare(file: Path) -> None:
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


def write(planner: Planner, outcome: Outcome, file: Path) -> None:
    """The configuration of `outcome`, which `launch.py train` takes.

    Raises:
        ConfigError: it is refused after all.
    """
    config = planner.configured(outcome.strategy)
    resolve(config.model_dump(mode="json"), source=str(file))
    idle = _idle(planner, outcome.strategy)
    head = (
        f"# Planned for {planner.space.devices} x {planner.hardware.title}: predicted "
        f"{outcome.seconds:.4g} s a step,\n"
        f"# {_gib(outcome.memory.total)} GiB a device{idle and f'; {idle}'}.\n"
    )
    file.write_text(head + to_yaml(config), encoding="utf-8")


def predicted(planner: Planner, name: str, outcome: Outcome) -> Prediction:
    """The prediction of a searched strategy."""
    made = _of_simulation(planner, name, outcome.strategy, outcome.simulation)
    return replace(made, plan=describe(outcome.strategy), memory=outcome.memory.total)


def describe(strategy: Strategy) -> str:
    """A strategy in one line."""
    plans = "; ".join(f"{name} {plan}" for name, plan in strategy.plans.items())
    microbatches = _count(strategy.microbatches, "microbatch", "microbatches")
    parts = [plans, microbatches, f"remat {strategy.remat}"]
    if strategy.decoder.stage > 1:
        cuts = strategy.pieces.items()
        pieces = ", ".join(f"{name} in {_count(n, 'piece', 'pieces')}" for name, n in cuts)
        parts += [_count(strategy.chunks, "chunk", "chunks")]
        parts += [f"encoders in {strategy.placement}", pieces] if pieces else []
    if strategy.decoder.stage > 1 and strategy.decoder.fsdp > 1:
        parts.append(f"gathered by {strategy.gather}")
    return ", ".join(parts)


def _count(number: int, one: str, many: str) -> str:
    """A number with its noun."""
    return f"{number} {one if number == 1 else many}"


def _of_simulation(planner: Planner, name: str, strategy: Strategy, made: Simulation) -> Prediction:
    return Prediction(
        name,
        describe(strategy),
        strategy.decoder.devices,
        made.makespan,
        made.compute,
        {str(kind): seconds for kind, seconds in made.idle.items()},
        made.encoder_hidden,
        None,
        *_utilisation(planner, strategy, made.makespan),
    )


def _utilisation(planner: Planner, strategy: Strategy, seconds: float) -> tuple[float, float]:
    """Model FLOPs utilisation of the devices used, without and with what is computed again."""
    work = planner.workload
    forward = sum(work.flops(name) for name in work.towers)
    trained = sum(work.flops(name) for name in work.towers if name not in work.frozen)
    again = 0.0 if strategy.remat == "none" else trained
    peak = planner.hardware.peak(work.dtype) * strategy.decoder.devices * seconds
    return (forward + 2 * trained) / peak, (forward + 2 * trained + again) / peak


def _compared(own: Prediction, best: Prediction, limit: float) -> Prediction:
    """With the reason why it is slower than the best, or not to be had with `limit` bytes."""
    if own.seconds is None or best.seconds is None:
        return own
    if own.memory is not None and own.memory > limit:
        return replace(own, reason=f"needs {_gib(own.memory)} GiB of {limit / GIB:.3g}")
    ratio = own.seconds / best.seconds
    if abs(ratio - 1) < EQUAL:
        return replace(own, reason="as fast as the best")
    if ratio < 1:
        return replace(own, reason=f"{1 / ratio:.2f}x as fast as the best: {WITHOUT_TICKS}")
    if own.idle is None:
        return replace(own, reason=f"{ratio:.2f}x the best's seconds")
    losses = {
        kind: seconds - (best.idle or {}).get(kind, 0.0) for kind, seconds in own.idle.items()
    }
    losses["compute"] = (own.compute or 0.0) - (best.compute or 0.0)
    worst = max(losses, key=lambda kind: losses[kind])
    why = f"{ratio:.2f}x the best's seconds, most of it {worst} ({losses[worst]:.4g} s more)"
    return replace(own, reason=why)


def _baselines(planner: Planner, best: Outcome) -> dict[str, Prediction]:
    """What others would do with the configured plan of the decoder, or with the best's.

    All use the devices of that plan.
    """
    chain = Chain(planner.workload, _configured(planner, best), planner.hardware)
    made = {
        "megatron": lambda: _chained(planner, "megatron", chain, megatron(chain)),
        "balanced": lambda: _chained(planner, "balanced", chain, balanced(chain)),
        "fsdp": lambda: _searched(planner, "fsdp", _fsdp(chain.strategy)),
        "prologue": lambda: _searched(planner, "prologue", _prologue(chain.strategy)),
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


def _searched(planner: Planner, name: str, changes: dict[str, Any]) -> Prediction:
    """The best of a part of the space."""
    space = replace(planner.space, **changes)
    found = search(space, planner.workload, planner.hardware, planner.schedule)
    if found.best:
        return predicted(planner, name, found.best[0])
    return Prediction(name, "", reason=_smallest(planner, found))


def _chained(planner: Planner, name: str, chain: Chain, made: Simulation) -> Prediction:
    own = _of_simulation(planner, name, chain.strategy, made)
    return replace(own, memory=chain.memory)


def _optimus(planner: Planner, chain: Chain) -> Prediction:
    alone = decoder_alone(chain)
    made = optimus(chain, alone, max(0.0, planner.space.memory - chain.memory))
    own = _of_simulation(planner, "optimus", chain.strategy, alone)
    mfu, recomputed = _utilisation(planner, chain.strategy, made.seconds)
    encoders = (
        f"; encoders in {_count(made.stages, 'stage', 'stages')} x tensor {made.tensor}; "
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
        memory=chain.memory,
        mfu=mfu,
        recomputed=recomputed,
    )


def _no_plan(planner: Planner, found: Search) -> str:
    """Why there is no plan, and the nearest change."""
    return (
        f"no plan for {planner.space.devices} x {planner.hardware.title} within "
        f"{planner.space.memory / GIB:.3g} GiB a device: {_smallest(planner, found)}"
    )


def _smallest(planner: Planner, found: Search) -> str:
    if found.smallest is None:
        why = "; ".join(found.refused) or "no degrees divide the devices, the rows and the model"
        return f"{why}; change parallel.devices or data.rows x train.accumulate"
    strategy, memory = found.smallest
    return (
        f"the leanest, {describe(strategy)}, needs {_gib(memory)} GiB of "
        f"{planner.space.memory / GIB:.3g}; fits with {_devices(planner)}"
        f"--memory {_gib(memory)}"
    )


def _devices(planner: Planner) -> str:
    """How many times the devices would do, twice as many at a time; not for far too many."""
    times = 2
    while times <= MOST_TIMES:
        more = planner.with_devices(times * planner.space.devices)
        found = leanest(more.space, more.workload, more.hardware, more.schedule)
        if found and found[1] <= planner.space.memory:
            return f"{found[0].decoder.devices} devices, or with "
        times *= 2
    return ""

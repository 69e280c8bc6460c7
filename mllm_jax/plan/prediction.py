"""The prediction for a step under one plan, and how it is shown."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, floor, log10
from typing import Any

from mllm_jax.plan.planner import PlanSearch
from scheduling.costs.strategy import Strategy
from scheduling.costs.workload import Workload
from scheduling.search.outcome import SearchOutcome
from scheduling.simulate.simulation import IDLE_KINDS, Simulation

GIB = 2**30


@dataclass(frozen=True)
class PlanPrediction:
    """The predicted time and memory of the step under one plan.

    Attributes:
        name: name of the row, `best` or that of a baseline.
        plan: plan in words.
        devices: number of devices that it uses; None if it cannot be run.
        seconds: seconds of a step; None if it cannot be run.
        compute, idle: seconds of a device, the mean over all; None if only their sum is known.
        hidden: share of the encoders' work that makes the step no longer; None without encoders.
        memory: bytes of a device.
        mfu: model FLOPs utilisation of the devices that are used.
        recomputed: MFU that also counts recomputation.
        reason: why it cannot be run, is slower than the best, or leaves devices idle.
        stages: number of stages of the decoder's pipeline.
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
    stages: int = 1

    def to_json(self) -> dict[str, Any]:
        """A dict with the same keys for every plan."""
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
        """Notes on the prediction."""
        return [text for text in (self.plan, self.reason) if text]

    @property
    def row(self) -> tuple[str, ...]:
        """Cells of a table."""
        if self.seconds is None:
            return (self.name, *"-" * (len(COLUMNS) - 1))
        idle = [
            None if self.idle is None else self.idle[kind] / self.seconds for kind in IDLE_KINDS
        ]
        return (
            self.name,
            str(self.devices),
            f"{self.seconds:.4g}",
            format_percent(self.mfu),
            format_percent(self.recomputed),
            format_gib(self.memory or 0.0),
            format_percent(self.hidden),
            *map(format_percent, idle),
        )


COLUMNS = (
    *("name", "devices", "seconds", "MFU", "with recomputation", "GiB", "encoders hidden"),
    *IDLE_KINDS,
)


def format_percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"


def format_gib(size: float) -> str:
    """GiB with three digits, rounded up: so much is enough."""
    if not size:
        return "0"
    digits = 2 - floor(log10(size / GIB))
    return f"{ceil(size / GIB * 10**digits) / 10**digits:.{max(0, digits)}f}"


def predict_outcome(planner: PlanSearch, name: str, outcome: SearchOutcome) -> PlanPrediction:
    """The prediction of a searched strategy."""
    work = planner.workload_of(outcome.strategy)
    prediction = prediction_of(planner, name, outcome.strategy, outcome.simulation, work)
    return replace(
        prediction, plan=describe_strategy(outcome.strategy), memory=outcome.memory.total
    )


def describe_strategy(strategy: Strategy) -> str:
    """A strategy in one line."""
    plans = "; ".join(f"{name} {plan}" for name, plan in strategy.plans.items())
    microbatches = format_count(strategy.microbatches, "microbatch", "microbatches")
    parts = [plans, microbatches, f"remat {strategy.remat}"]
    if strategy.backbone.stage > 1:
        sources = [name for name in strategy.chunks if name != strategy.backbone_name]
        encoders = ", ".join(_describe_chunks(strategy, name) for name in sources)
        parts += [format_count(strategy.backbone_chunks, "chunk", "chunks")]
        parts += [strategy.kind.replace("_", " ")] if strategy.kind != "1f1b" else []
        parts += [f"encoders in {strategy.placement}", encoders] if encoders else []
    if strategy.backbone.stage > 1 and strategy.backbone.fsdp > 1:
        parts.append(f"gathered by {strategy.gather}")
    return ", ".join(parts)


def _describe_chunks(strategy: Strategy, name: str) -> str:
    chunks = strategy.plans[name].stage * strategy.chunks_of(name)
    return f"{name} in {format_count(chunks, 'chunk', 'chunks')}"


def format_count(number: int, one: str, many: str) -> str:
    """A number with its noun."""
    return f"{number} {one if number == 1 else many}"


def prediction_of(
    planner: PlanSearch, name: str, strategy: Strategy, simulation: Simulation, work: Workload
) -> PlanPrediction:
    return PlanPrediction(
        name,
        describe_strategy(strategy),
        strategy.backbone.devices,
        simulation.makespan,
        simulation.compute,
        {str(kind): seconds for kind, seconds in simulation.idle.items()},
        simulation.encoder_hidden,
        None,
        *model_utilisation(planner, strategy, simulation.makespan, work),
        stages=strategy.backbone.stage,
    )


def model_utilisation(
    planner: PlanSearch, strategy: Strategy, seconds: float, work: Workload
) -> tuple[float, float]:
    """Model FLOPs utilisation of the used devices, without and with recomputation.

    Args:
        work: the work of the step as it runs.
    """
    backward = [name for name in work.modules if work.backward_flops(name)]
    again = 0.0 if strategy.remat == "none" else sum(map(work.forward_flops, backward))
    peak = planner.hardware.peak_flops(work.dtype) * strategy.backbone.devices * seconds
    flops = model_step_flops(work)
    return flops / peak, (flops + again) / peak


def model_step_flops(work: Workload) -> float:
    """FLOPs of a step without recomputation."""
    return sum(work.forward_flops(name) + work.backward_flops(name) for name in work.modules)

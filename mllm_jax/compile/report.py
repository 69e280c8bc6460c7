"""Memory and collectives of a train step, compiled for devices that are not here.

The true step is lowered from shapes alone and compiled (`mllm_jax.compile.target`); nothing is
computed.
"""

from __future__ import annotations

import math
import re
import resource
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax

from mllm_jax.compile.hlo import parse_hlo
from mllm_jax.compile.overlap import ByKind, DeviceSpeeds, loop_share, measure_overlap
from mllm_jax.compile.target import CompileTarget, configure_for_target, training_batch
from mllm_jax.config.load import ExperimentConfig
from mllm_jax.plan.memory import device_room, predict_memory
from mllm_jax.train.step.build import build_train_step
from mllm_jax.train.step.gradient_program import Batch
from mllm_jax.train.step.pipeline import PipelineProgram
from mllm_jax.train.step.step import TrainStep

GIB = 2**30

#: The compiler for TPUs gives up on a program that does not fit, and says what it needs and has;
#: both numbers hold arguments as well.
_SIZES = (
    r"Used ([\d.]+)([KMGT]?) of ([\d.]+)([KMGT]?) hbm",
    r"HLO temporaries \(([\d.]+)([KMGT]?)\) exceeds available HBM \(([\d.]+)([KMGT]?)\)",
)
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}

STATE = ("parameters", "optimizer state")
TEMPORARIES = "temporaries"

Bytes = dict[str, float]


@dataclass(frozen=True)
class CompileReport:
    """Results of a compilation.

    Attributes:
        target: devices that the step was compiled for.
        bytes: bytes of one device, by what they hold.
        predicted: bytes of one device by the cost model.
        limit: bytes that one device has for the program.
        seconds: seconds of tracing, lowering and compiling.
        collectives: collectives of one device and step, by kind; empty if the compiler failed.
        host_bytes: most memory that this process has had.
        advice: changes that would make the step fit; empty if it does.
    """

    target: CompileTarget
    bytes: Mapping[str, float]
    predicted: float
    limit: float
    seconds: float
    collectives: ByKind
    host_bytes: int
    advice: str

    @property
    def total(self) -> float:
        """Bytes of one device."""
        return sum(self.bytes.values())

    @property
    def fits(self) -> bool:
        """Whether the step fits on a device."""
        return self.total <= self.limit

    @property
    def memory_rows(self) -> list[tuple[object, ...]]:
        """GiB of one device by kind, and the share of the limit."""
        sums = ("together", self.total), ("predicted", self.predicted), ("limit", self.limit)
        kinds = [*self.bytes.items(), *sums]
        return [(kind, f"{n / GIB:.2f}", f"{n / self.limit:.1%}") for kind, n in kinds]

    @property
    def collective_rows(self) -> list[tuple[object, ...]]:
        """Kind, how many stand in the program, GiB, milliseconds and hidden share."""
        return [
            (
                kind,
                overlap.collectives,
                f"{overlap.bytes / GIB:.3f}",
                f"{overlap.seconds * 1e3:.2f}",
                f"{overlap.hidden_share:.1%}",
            )
            for kind, overlap in sorted(self.collectives.items())
        ]

    @property
    def summary(self) -> str:
        """Whether it fits, and what the compilation took."""
        verdict = f"fits {self.target}" if self.fits else f"does NOT fit: {self.advice}"
        took = (
            f"compiled in {self.seconds:.1f} s with {_format_gib(self.host_bytes)} of this machine"
        )
        return f"{verdict}\n{took}"

    def to_json(self) -> dict[str, Any]:
        """The report as `launch.py compile --json` prints it."""
        return {
            "topology": str(self.target),
            "fits": self.fits,
            "bytes_per_device": self.total,
            "predicted_bytes": self.predicted,
            "limit_bytes": self.limit,
            "bytes_by_kind": dict(self.bytes),
            "compile_seconds": self.seconds,
            "host_bytes": self.host_bytes,
            "collectives": {
                kind: {"bytes": overlap.bytes, "overlapped_share": overlap.hidden_share}
                for kind, overlap in sorted(self.collectives.items())
            },
            "advice": self.advice,
        }


def compile_for_target(
    config: ExperimentConfig,
    target: CompileTarget,
    notify: Callable[[str], None] = lambda text: None,
) -> CompileReport:
    """Compile the train step of `config` for `target`.

    Args:
        notify: shows a line of progress.

    Raises:
        ConfigError: the configuration is for other devices.
        DeviceError: the compiler is not installed, or refuses the topology.
    """
    config = configure_for_target(config, target)
    begin = time.perf_counter()
    step = build_train_step(config, target.devices())
    batch = training_batch(config, step)
    notify(f"tracing and lowering the step for {target}")
    lowered = step.update.lower(step.abstract_state, batch)
    notify("compiling it")
    byte_counts = argument_bytes(step, batch)
    hardware, collectives = target.hardware, ByKind()
    limit, _ = device_room(hardware)
    try:
        compiled = lowered.compile(compiler_options=dict(target.compiler.options))
    except jax.errors.JaxRuntimeError as error:
        used, capacity = parse_exhausted(error)
        byte_counts[TEMPORARIES] = max(0.0, used - sum(byte_counts.values()))
        limit = min(limit, capacity)
    else:
        byte_counts = program_bytes(byte_counts, compiled.memory_analysis(), hardware.platform)
        collectives = measure_collectives(step, compiled.as_text() or "", target)
    seconds = time.perf_counter() - begin
    host = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # Linux counts KiB
    changes = advise_on_memory(config, byte_counts, limit)
    predicted = predict_memory(config, hardware).total
    return CompileReport(target, byte_counts, predicted, limit, seconds, collectives, host, changes)


def measure_collectives(step: TrainStep, text: str, target: CompileTarget) -> ByKind:
    """Collectives of the compiled `step`, by kind."""
    module, speeds = parse_hlo(text), DeviceSpeeds.from_hardware(target.hardware)
    if not isinstance(step.program, PipelineProgram):
        return measure_overlap(module, speeds)
    return measure_overlap(
        module, speeds, runs=loop_share(step.program.full_load_schedule, step.program.bounds)
    )


# ---- memory --------------------------------------------------------------------------------------


def argument_bytes(step: TrainStep, batch: Batch) -> Bytes:
    """Bytes that the step's arguments take on one device."""
    state = dict(step.abstract_state)
    return {
        "parameters": _on_a_device(state.pop("params")),
        "optimizer state": _on_a_device(state),  # and the number of the step
        "batch": _on_a_device(batch),
    }


def _on_a_device(tree: Any) -> float:
    return float(
        sum(
            math.prod(leaf.sharding.shard_shape(leaf.shape)) * leaf.dtype.itemsize
            for leaf in jax.tree.leaves(tree)
        )
    )


def program_bytes(arguments: Bytes, analysis: Any, platform: str) -> Bytes:
    """All bytes of one device.

    Args:
        arguments: bytes of the arguments, from `argument_bytes`.
        analysis: `Compiled.memory_analysis()`.
        platform: JAX's name of the device's platform.
    """
    padding = analysis.argument_size_in_bytes - sum(arguments.values())
    return arguments | {
        "padding of these": max(0.0, padding),
        "outputs": float(analysis.output_size_in_bytes - analysis.alias_size_in_bytes),
        TEMPORARIES: temporary_bytes(analysis, platform),
        "code": float(analysis.generated_code_size_in_bytes),
    }


def temporary_bytes(analysis: Any, platform: str) -> float:
    """Bytes that a program needs besides its arguments and outputs.

    The compiler for TPUs counts twice in `temp_size_in_bytes` what only loops use of its heap. Its
    peak counts this once, and leaves out fragmentation: 1 to 4 % of the heap
    (docs/measurements/costs.md).

    Args:
        analysis: `Compiled.memory_analysis()`.
        platform: JAX's name of the device's platform.
    """
    if platform != "tpu":
        return float(analysis.temp_size_in_bytes)
    outputs = analysis.output_size_in_bytes - analysis.alias_size_in_bytes
    return float(analysis.peak_memory_in_bytes - analysis.argument_size_in_bytes - outputs)


def parse_exhausted(error: jax.errors.JaxRuntimeError) -> tuple[float, float]:
    """Bytes that a program needs and has, as the compiler for TPUs has said.

    Raises:
        JaxRuntimeError: `error`, where it is about something else.
    """
    text = str(error)
    sizes = [match.groups() for sizes in _SIZES if (match := re.search(sizes, text))]
    if not sizes or "RESOURCE_EXHAUSTED" not in text:
        raise error
    used, used_unit, capacity, capacity_unit = sizes[0]
    return float(used) * _UNITS[used_unit], float(capacity) * _UNITS[capacity_unit]


def advise_on_memory(config: ExperimentConfig, byte_counts: Bytes, limit: float) -> str:
    """Advice: the largest parts, and changes that would make them fit; empty if all fits."""
    total = sum(byte_counts.values())
    if total <= limit:
        return ""
    largest = max(byte_counts, key=lambda kind: byte_counts[kind])
    changes = [*_smaller_state(config, byte_counts, total - limit)]
    changes += _smaller_temporaries(config, byte_counts, total - limit)
    return (
        f"needs {_format_gib(total)} of {_format_gib(limit)}, {_format_gib(total - limit)} too "
        f"much; most of it is {largest}, {_format_gib(byte_counts[largest])}. "
        "What would do, or help: "
        + "; ".join(changes or ["more devices, and shorter rows (data.budgets)"])
    )


def _smaller_state(config: ExperimentConfig, byte_counts: Bytes, excess: float) -> list[str]:
    """Parameters and their optimizer's state distributed over more devices."""
    state, plan = sum(byte_counts[kind] for kind in STATE), config.parallel.backbone_plan
    factor = _power_of_two(state, excess)
    if factor is None:
        return []
    degree = plan.fsdp * factor
    how = "in place of data" if plan.data % factor == 0 else "on more devices"
    key = config.plan_key(config.model.backbone)
    return [f"{key}.fsdp: {degree} {how} (now {plan.fsdp}), and of large encoders"]


def _smaller_temporaries(config: ExperimentConfig, byte_counts: Bytes, excess: float) -> list[str]:
    """Less to keep for the backward, or less at a time."""
    changes = []
    if config.model.remat != "full":
        changes.append(f"model.remat: full (now {config.model.remat})")
    gathered = any(plan.fsdp > 1 for plan in config.parallel.plans.values())
    once = config.parallel.backbone_plan.stage > 1 and config.schedule.fsdp_gather == "step"
    if gathered and once:
        changes.append("schedule.fsdp_gather: layer (now step)")
    factor = _power_of_two(byte_counts[TEMPORARIES], excess)
    if factor is not None:
        changes.append(f"data.rows or data.budgets divided by {factor}, with more microbatches")
    return changes


def _power_of_two(part: float, excess: float) -> int | None:
    """The least power of two by which `part` can be divided to save `excess`, None above 1024."""
    return next((n for n in (2**i for i in range(1, 11)) if part * (1 - 1 / n) >= excess), None)


def _format_gib(number: float) -> str:
    return f"{number / GIB:.1f} GiB"

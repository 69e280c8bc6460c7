"""Benchmark of the exchange of experts: how much of it overlaps with compute.

The gradients of the configuration are compiled from shapes alone, for accelerators that are not
here (`mllm_jax.compile.target`). `mllm_jax.compile.overlap` reads the compiled schedule.
"""

from __future__ import annotations

import time

from benchmarks.pipeline import PrintLine, Row
from mllm_jax.compile.hlo import parse_hlo
from mllm_jax.compile.overlap import DeviceSpeeds, measure_overlap
from mllm_jax.compile.target import (
    CompileTarget,
    check_installed,
    configure_for_target,
    training_batch,
)
from mllm_jax.config.load import ConfigError, ExperimentConfig
from mllm_jax.train.step.build import build_gradient_step

TARGETS = (CompileTarget("v5p", (2, 2, 2)), CompileTarget("h100", (1, 8)))
#: The smallest share of the exchanged bytes that overlaps with compute.
LIMIT = 0.5


def bench_dispatch(config: ExperimentConfig, print_line: PrintLine) -> list[Row]:
    """Share of the exchange of experts that overlaps with compute, for every target.

    Columns: `exchanges` in the program; `gib` that one device sends in a step, and the `seconds`
    of the links for it at their peak; `overlapped`, the share of these bytes with any compute that
    overlaps with them, with a `limit`; `hidden`, the share of the seconds with compute all along,
    by FLOPs over peak; `compile_seconds`.

    Raises:
        ConfigError: no ranks share experts.
        DeviceError: a compiler is not installed.
    """
    if config.parallel.backbone_plan.expert == 1:
        reason = "1 exchanges nothing; valid: 2 or more"
        raise ConfigError(
            "bench dispatch", [f"{config.plan_key(config.model.backbone)}.expert: {reason}"]
        )
    check_installed(TARGETS)
    rows = []
    for target in TARGETS:
        print_line(f"compiling for {target}")
        rows.append(measure_target(config, target))
    return rows


def measure_target(config: ExperimentConfig, target: CompileTarget) -> Row:
    """One row of `bench_dispatch`."""
    config = configure_for_target(config, target)
    step = build_gradient_step(config, target.devices())
    lowered = step.gradients.lower(step.abstract_state["params"], training_batch(config, step))
    begin = time.perf_counter()
    compiled = lowered.compile(compiler_options=dict(target.compiler.options))
    seconds = time.perf_counter() - begin
    by_kind = measure_overlap(
        parse_hlo(compiled.as_text() or ""), DeviceSpeeds.from_hardware(target.hardware)
    )
    overlap = by_kind["ragged-all-to-all"]
    return {
        "target": str(target),
        "exchanges": overlap.collectives,
        "gib": overlap.bytes / 2**30,
        "seconds": overlap.seconds,
        "overlapped": overlap.share_with_compute,
        "limit": LIMIT,
        "hidden": overlap.hidden_share,
        "compile_seconds": seconds,
    }

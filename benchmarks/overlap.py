"""Benchmark of collectives under compute: each piece of `parallel.overlap`, before and after.

The gradients of the configuration are compiled from shapes alone, for accelerators that are not
here (`mllm_jax.compile.target`). `mllm_jax.compile.overlap` reads the compiled schedule.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from benchmarks.pipeline import PrintLine, Row
from mllm_jax.compile.hlo import parse_hlo
from mllm_jax.compile.overlap import DeviceSpeeds, HloOverlap, measure_overlap
from mllm_jax.compile.target import (
    CompileTarget,
    check_installed,
    configure_for_target,
    training_batch,
)
from mllm_jax.config.load import ConfigError, ExperimentConfig
from mllm_jax.train.step.build import build_gradient_step

TARGETS = (CompileTarget("v5p", (4, 4, 2)), CompileTarget("h100", (4, 8)))
#: Values of `parallel.overlap`, the first without any, the last as it is by default.
SETTINGS: tuple[str | list[str], ...] = (
    "off",
    ["flags"],
    ["flags", "gather", "scatter"],
    ["flags", "tensor"],
    ["flags", "gather", "scatter", "tensor"],
    "auto",
)
#: The least gain of `auto` over none.
LIMIT = 1.5


def bench_overlap(config: ExperimentConfig, print_line: PrintLine) -> list[Row]:
    """Share of the bytes of all collectives that overlaps with compute, by target and setting.

    Columns: `overlap`, the value of `parallel.overlap`; `collectives` in the program; `gib` that
    one device sends for the gradients of a step; `overlapped`, the share of these bytes with any
    them; `hidden`, the share of the links' time with compute all along, by FLOPs
    over peak; `gain` of `overlapped` over that without overlap, None if there was none, and for
    `auto` its `limit`; `temporaries`, GiB of a device; `compile_seconds`.

    Raises:
        ConfigError: the configuration has stages, or nothing to overlap.
        DeviceError: a compiler is not installed.
    """
    if config.parallel.backbone_plan.stage > 1:
        reason = "is measured by bench co_issue; valid: 1"
        stages = f"{config.stage_key}: {config.parallel.backbone_plan.stage} {reason}"
        raise ConfigError("bench overlap", [stages])
    check_installed(TARGETS)
    rows: list[Row] = []
    for target in TARGETS:
        before: Row | None = None
        for setting in SETTINGS:
            print_line(f"compiling for {target}: {_name_of(setting)}")
            row = measure_target(config, target, setting)
            before = before or row
            rows.append(row | _gain_columns(row, before, setting))
    return rows


def _gain_columns(row: Row, before: Row, setting: str | Sequence[str]) -> Row:
    gain = row["overlapped"] / before["overlapped"] if before["overlapped"] else None
    return {"gain": gain, "limit": LIMIT if setting == SETTINGS[-1] else None}


def measure_target(
    config: ExperimentConfig, target: CompileTarget, setting: str | list[str]
) -> Row:
    """One row of `bench_overlap`, without its gain."""
    config = configure_for_target(config, target, overlap=setting)
    step = build_gradient_step(config, target.devices())
    lowered = step.gradients.lower(step.abstract_state["params"], training_batch(config, step))
    begin = time.perf_counter()
    compiled = lowered.compile(compiler_options=dict(target.compiler.options))
    seconds = time.perf_counter() - begin
    by_kind = measure_overlap(
        parse_hlo(compiled.as_text() or ""), DeviceSpeeds.from_hardware(target.hardware)
    )
    total = sum(by_kind.values(), HloOverlap())
    sizes = compiled.memory_analysis()
    assert sizes is not None  # both compilers report them
    return {
        "target": str(target),
        "overlap": _name_of(setting),
        "collectives": total.collectives,
        "gib": total.bytes / 2**30,
        "overlapped": total.share_with_compute,
        "hidden": total.hidden_share,
        "temporaries": sizes.temp_size_in_bytes / 2**30,
        "compile_seconds": seconds,
    }


def _name_of(setting: str | Sequence[str]) -> str:
    return setting if isinstance(setting, str) else "+".join(setting)

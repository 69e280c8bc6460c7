"""The schedule of a configuration as a picture: the predicted and the measured timeline."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from mllm_jax.check.synthetic import synthetic_batch
from mllm_jax.config.configured_step import configure_step
from mllm_jax.config.load import ExperimentConfig
from mllm_jax.runtime.folder import RunError, prepare_folder
from mllm_jax.runtime.hardware.peak import device_peak
from mllm_jax.train.records.recorder import (
    UNKNOWN_RATE,
    TaskRecorder,
    WrittenTimelines,
    name_by_process,
    write_timelines,
)
from mllm_jax.train.step.batch_placement import local_rows, place_microbatches, select_rows
from mllm_jax.train.step.build import build_gradient_step, with_pipeline_plan
from mllm_jax.train.step.step import TrainStep


@dataclass(frozen=True)
class TraceResult:
    """Files that `trace` wrote, and the schedule's figures by name of the timeline.

    Attributes:
        hardware: the devices whose FLOP/s the prediction has, and where that number comes from.
    """

    written: WrittenTimelines
    hardware: str

    @property
    def rows(self) -> list[tuple[str, str]]:
        """Table rows."""
        rows = [("predicted for", self.hardware)]
        for name, line in self.written.timelines.items():
            rows.append((f"{name}: milliseconds", f"{1e3 * line.makespan:.1f}"))
            rows.append((f"{name}: bubble share", f"{line.bubble_share:.1%}"))
            if line.encoder_hidden is not None:
                rows.append((f"{name}: encoder work in bubbles", f"{line.encoder_hidden:.1%}"))
            rows.append((f"{name}: tick imbalance", f"{line.tick_imbalance:.2f}"))
        return rows + [("written", str(path)) for path in self.written.files]

    def to_json(self) -> dict[str, Any]:
        """`{"hardware", "predicted": {"seconds", "bubble_share", "encoder_hidden",
        "tick_imbalance"}, .., "files"}`."""
        lines = {
            name: {
                "seconds": line.makespan,
                "bubble_share": line.bubble_share,
                "encoder_hidden": line.encoder_hidden,
                "tick_imbalance": line.tick_imbalance,
            }
            for name, line in self.written.timelines.items()
        }
        return {"hardware": self.hardware, **lines} | {
            "files": [str(path) for path in self.written.files]
        }


def write_trace(config: ExperimentConfig, folder: Path, *, measure: bool) -> TraceResult:
    """Write the timeline of the configured pipeline into `folder`.

    Args:
        measure: whether to run a step on synthetic data, too, and write its timeline.

    Raises:
        RunError: the decoder has one stage, every step has a schedule of its own and `measure` is
            wanted, or `folder` cannot be written.
    """
    plan = configure_step(config).pipeline
    if config.parallel.separate_groups:
        names = ", ".join(config.parallel.separate_groups)
        raise RunError(
            f"parallel.groups: {names} have no pipeline to draw; valid: parallel.groups={{}}, or "
            "simulate, which tells the order of their tasks"
        )
    if plan is None:
        raise RunError(
            f"{config.stage_key}: 1 has no pipeline to draw; choose 2 or more, for example "
            f"{config.stage_key}=2 with train.accumulate=8"
        )
    if measure and plan.independent_microbatches is not None:
        raise RunError(
            "--measure: a measured timeline is drawn beside one schedule, and with "
            "schedule.independent_microbatches: true every step has its own; valid: trace without "
            "--measure, or schedule.independent_microbatches: false"
        )
    prepare_folder(folder)
    costs = configure_step(config).costs
    records = _record_step(config) if measure else None
    rate, hardware = _choose_rate(config, measured=measure)
    name = name_by_process("schedule")
    return TraceResult(write_timelines(folder, name, plan.schedule, costs, rate, records), hardware)


def _choose_rate(config: ExperimentConfig, *, measured: bool) -> tuple[float, str]:
    """FLOP/s of one device for the prediction, and what they are, in words.

    Args:
        measured: whether the prediction has the rate of a measured step instead.
    """
    device, count = jax.devices()[0], config.parallel.devices
    peak = device_peak(device)
    rate = UNKNOWN_RATE if peak is None else peak.flops_of_device(device)
    if measured:
        return rate, f"{count} devices at the rate of the measured step"
    if peak is None:
        return rate, f"{count} x {device.device_kind}: {rate / 1e12:g} TFLOP/s are assumed"
    emulated = device.platform == "cpu"
    return rate, f"{count} emulated devices on {peak}" if emulated else f"{count} x {peak}"


def _record_step(config: ExperimentConfig) -> np.ndarray:
    """Times of the second of two steps on synthetic data; the first one warms up."""
    step = build_gradient_step(config)
    recorder = TaskRecorder(step.program.grid)
    step = with_pipeline_plan(step, observe=recorder)
    params = step.init(jax.random.key(config.train.seed))["params"]
    batch = step.prime_batch(params, place_microbatches(_make_microbatches(config, step), step))
    for _ in range(2):
        jax.block_until_ready(step.gradients(params, batch))
        jax.effects_barrier()
    return recorder.task_records()


def _make_microbatches(config: ExperimentConfig, step: TrainStep) -> list[Any]:
    """This process's rows of synthetic microbatches."""
    data, rows = config.data, local_rows(step, config.data.rows)
    budgets = {name: data.budgets[name] for name in config.model.buckets}
    return [
        select_rows(
            synthetic_batch(config.model, data.rows, data.budgets["tokens"], budgets, seed), rows
        )
        for seed in range(config.train.accumulate)
    ]

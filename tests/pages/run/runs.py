"""A folder of a run, as training writes it, without any training."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from data.faults import FaultKind, SampleFault
from mllm_jax.config.load import ExperimentConfig
from mllm_jax.supervise.attempts import TimeSpent, WatchedAttempt, write_attempt
from mllm_jax.train.records.metrics import StepsReport
from mllm_jax.train.records.resolved import write_resolved
from mllm_jax.train.records.sinks import JsonlSink, write_summary
from mllm_jax.train.records.skips import SkippedSamples
from tests.configs import config
from tests.train.records.test_metrics import REPORT

#: Changes to the small configuration that give it a pipeline.
PIPELINE: dict[str, Any] = {
    "parallel__decoder": {"data": 2, "stage": 2},
    "parallel__encoders": {"vision": {"data": 4}, "audio": {"data": 4}},
    "model__decoder__layers": 2,
    "train__accumulate": 4,
    "train__steps": 1000,
}
#: A sample whose name and fault are markup.
HOSTILE = "<img src=x onerror=alert(1)>", SampleFault(FaultKind.IMAGE, "</script><script>alert(2)")


def begun(folder: Path, **changes: Any) -> ExperimentConfig:
    """A run that has begun, and has reported nothing yet; its configuration."""
    own = config(**PIPELINE | changes, run__directory=str(folder), run__name="small")
    own.run.path.mkdir(parents=True)
    write_resolved(own)
    JsonlSink(own.run.path / "metrics.jsonl")
    return own


def report(step: int) -> StepsReport:
    """A report of a run that learns, with all figures."""
    wave = math.sin(step / 70)
    imbalance = {"decoder": {"before": 1.3 + 0.1 * wave, "after": 1.02}}
    return replace(
        REPORT,
        step=step,
        loss=4.2 / (1 + step / 100) + 0.02 * wave,
        tokens_per_second=38_000 + 2_000 * wave,
        mfu=0.21 + 0.01 * wave,
        step_seconds=0.5 - 0.02 * wave,
        place_seconds=0.01,
        device_wait_seconds=0.4,
        imbalance=imbalance,
    )


def ranks(step: int) -> dict[str, Any]:
    """Times of three processes with two devices each, of which one gets slower."""
    places = [f"process {process} (host {host})" for process, host in enumerate("abc")]
    devices = [f"device {at} of {places[at // 2]}" for at in range(6)]
    late = max(0.0, (step - 500) / 2000)
    line: dict[str, Any] = {
        "places": {"read": places, "place": places, "between": places, "device": devices},
        "read": [0.2, 0.21, 0.2],
        "place": [0.1, 0.1, 0.11],
        "between": [0.3, 0.3, 0.3 * (1 + late)],
        "device": [0.01, 0.01, 0.011, 0.01, 0.01 * (1 + late), 0.01],
    }
    if step > 700:
        line["slow"] = [f"{places[2]} is slow: what it does between two steps takes 400 ms"]
    return line


def ended(folder: Path, steps: Sequence[int] = range(10, 1001, 10)) -> ExperimentConfig:
    """A run of two attempts that has ended, with all that a run may leave."""
    own = begun(folder)
    sink = JsonlSink(own.run.path / "metrics.jsonl")
    sink.log_values(0, {"pipeline/bubble_share": 0.07, "pipeline/tick_imbalance": 1.08})
    for step in steps:
        sink.write_report(report(step))
    sink.log_values(steps[-1], {"heldout_loss": 0.4, "exact_match/vision": 0.9})
    times = JsonlSink(own.run.path / "ranks.jsonl")
    for step in steps:
        times.log_values(step, ranks(step))
    skips = SkippedSamples(path=own.run.path / "skipped.jsonl")
    skips.note_skipped(7, [HOSTILE])
    seconds = {"start": 3.0, "compile": 9.0, "step": 250.0, "save": 2.0}
    for attempt in (1, 2):
        began, effective = 1e9 + 400 * attempt, 250.0 * attempt
        write_attempt(own.run.path, TimeSpent(attempt, began, seconds, effective=effective))
    why = "process 0 (host a, pid 812) was killed by SIGKILL"
    write_attempt(
        own.run.path, WatchedAttempt(1, 1e9 + 400, 1e9 + 700, again=True, code=-9, why=why)
    )
    write_summary(own.run.path / "summary.json", {"steps": steps[-1], "mfu": 0.22})
    return own

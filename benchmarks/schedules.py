"""Benchmark of the decoder's schedules: weight gradients in or after the backwards.

Times are medians over interleaved repetitions; ratios are taken within one run.
"""

from __future__ import annotations

from benchmarks.pipeline import (
    REPETITIONS,
    PrintLine,
    Row,
    compile_gradients,
    predicted_seconds,
    single_tasks,
    with_section,
)
from mllm_jax.calibrate.timing import median_seconds
from mllm_jax.config.load import ExperimentConfig
from mllm_jax.train.step.build import build_gradient_step
from scheduling.schedules.schedule import Schedule

#: The first one is the baseline.
KINDS = ("1f1b", "zero_bubble")


def bench_schedules(config: ExperimentConfig, print_line: PrintLine) -> list[Row]:
    """Seconds per step of every kind of schedule, and the prediction.

    `predicted_seconds` is the makespan of the schedule with the times of single tasks, which are
    taken in turns with the steps; `temporary_mib` is the memory of a device's buffers.
    """
    configs = {kind: with_section(config, "schedule", kind=kind) for kind in KINDS}
    print_line(f"compiling {', '.join(KINDS)}")
    programs = {
        kind: compile_gradients(variant, build_gradient_step(variant))
        for kind, variant in configs.items()
    }
    print_line("compiling single tasks")
    tasks = {
        (kind, name): run
        for kind in KINDS
        for name, run in single_tasks({kind: configs[kind]}, {kind: programs[kind]}).items()
    }
    print_line("timing steps and tasks in turns")
    seconds = median_seconds(
        {kind: program.run for kind, program in programs.items()} | tasks, REPETITIONS
    )
    rows: list[Row] = []
    for kind, program in programs.items():
        task_seconds = {name: seconds[key, name] for key, name in tasks if key == kind}
        schedule = program.step.program.schedule
        assert isinstance(schedule, Schedule)  # the configuration has stages
        rows.append(
            {
                "kind": kind,
                "seconds": seconds[kind],
                "predicted_seconds": predicted_seconds(schedule, task_seconds),
                "speedup_over_1f1b": seconds[KINDS[0]] / seconds[kind],
                "temporary_mib": program.temporary_bytes / 2**20,
            }
        )
    first = rows[0]["predicted_seconds"]
    return [row | {"predicted_speedup": first / row["predicted_seconds"]} for row in rows]

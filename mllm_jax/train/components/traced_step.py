"""A step that is measured tick by tick."""

from __future__ import annotations

from typing import Any

import jax

from mllm_jax.config.configured_step import configure_step
from mllm_jax.runtime.hardware.peak import peak_flops
from mllm_jax.runtime.run_peers import current_peers, waiting_for_peers
from mllm_jax.train.experiment import Experiment
from mllm_jax.train.records.recorder import (
    UNKNOWN_RATE,
    TaskRecorder,
    name_by_process,
    write_timelines,
)
from mllm_jax.train.step.gradient_program import Batch


def take_traced_step(
    experiment: Experiment, state: Any, batch: Batch, number: int
) -> tuple[Any, Any]:
    """Take step `number`, and write its timeline into the run's folder."""
    config, recorder = experiment.config, TaskRecorder(experiment.grid)
    observed = experiment.observed_step(recorder)
    schedule = observed.program.schedule
    assert schedule is not None  # a configuration without stages has no trace_step
    # Its program is compiled for another frame, which has other rows.
    with current_peers().noting_activity("compiling the step with observers", limited=False):
        state, scalars = observed.update(state, batch.with_schedule(observed.schedule))
    with waiting_for_peers(f"step {number}"):
        jax.block_until_ready(scalars)
        jax.effects_barrier()
    rate = peak_flops(experiment.step.devices[0]) or UNKNOWN_RATE
    write_timelines(
        config.run.path,
        name_by_process(f"step-{number}"),
        schedule,
        configure_step(config).costs,
        rate,
        recorder.task_records(),
    )
    return state, scalars

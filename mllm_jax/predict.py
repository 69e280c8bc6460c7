"""How long the configured step's tasks take on hardware that need not be here."""

from __future__ import annotations

from mllm_jax.config import ExperimentConfig
from mllm_jax.train.schedule import encoder_pieces
from mllm_jax.workload import on_platform, strategy, workload
from scheduling import estimate
from scheduling.hardware import Hardware
from scheduling.times import StepTimes


def step_times(config: ExperimentConfig, hardware: Hardware) -> StepTimes:
    """Times of all tasks.

    Raises:
        HardwareError: `hardware` has no speed for the type of the activations.
    """
    settled = on_platform(config, hardware.platform)
    pieces = {cut.name: cut.pieces for cut in encoder_pieces(settled)}
    return estimate.step_times(workload(settled), strategy(settled, pieces), hardware)

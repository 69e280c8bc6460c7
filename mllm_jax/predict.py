"""How long the configured step's tasks take on hardware that need not be here."""

from __future__ import annotations

from mllm_jax.config import ExperimentConfig
from mllm_jax.train.schedule import encoder_pieces, task_costs
from scheduling.cost import EncoderCosts
from scheduling.hardware import Hardware, HardwareError
from scheduling.schedule import Kind
from scheduling.times import Segment, StepTimes, TaskTime


def step_times(config: ExperimentConfig, hardware: Hardware) -> StepTimes:
    """Compute of every task: its FLOPs at the speed that matrix products reach.

    Collectives, sends, parameters and optimizer take no time.

    Raises:
        HardwareError: `hardware` has no speed for the type of the activations.
    """
    costs = task_costs(config, encoder_pieces(config))
    plan = config.parallel.decoder
    rate = _flops(config, hardware) * (plan.devices // plan.stage)

    def task(flops: float) -> TaskTime:
        return TaskTime((Segment(flops / rate),))

    def pieces(name: str, own: EncoderCosts) -> dict[tuple[Kind, str, int], TaskTime]:
        table: dict[tuple[Kind, str, int], TaskTime] = {}
        for piece, (forward, backward) in enumerate(zip(own.forward, own.backward, strict=True)):
            table["EF", name, piece] = task(forward)
            table["EB", name, piece] = task(backward)
        return table

    encoders: dict[tuple[Kind, str, int], TaskTime] = {}
    for name, own in costs.encoders.items():
        encoders |= pieces(name, own)
    return StepTimes(task(costs.forward), task(costs.backward), encoders, task(costs.shared))


def _flops(config: ExperimentConfig, hardware: Hardware) -> float:
    """FLOP/s that a device reaches."""
    dtype = config.model.dtype
    if dtype == "auto":
        dtype = "float32" if hardware.platform == "cpu" else "bfloat16"
    if dtype not in hardware.flops:
        raise HardwareError(
            f"model.dtype: {dtype} has no speed in hardware {hardware.name}; valid: "
            f"{', '.join(sorted(hardware.flops))}"
        )
    return hardware.flops[dtype] * hardware.efficiency.matmul

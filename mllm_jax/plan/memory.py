"""The memory of the configured step on a device, for hardware that need not be here."""

from __future__ import annotations

import os

from mllm_jax.config.configured_step import configure_step, on_platform
from mllm_jax.config.load import ExperimentConfig
from mllm_jax.plan.traced import traced_workload
from mllm_jax.runtime.hardware.gpu_memory import user_share
from scheduling.costs.hardware import GPU_SHARE, Hardware
from scheduling.costs.memory import StepMemory, step_memory
from scheduling.search.outcome import buffer_sizes


def device_room(hardware: Hardware) -> tuple[float, str]:
    """Bytes of one device that a program may use, and who limits them, if the user does.

    Where the environment sets the share that plans count with, it limits nothing.

    Raises:
        ConfigError: the environment sets a share of a GPU's memory that is none.
    """
    user_setting = user_share(os.environ) if hardware.platform == "gpu" else None
    if user_setting is None or user_setting[1] == GPU_SHARE:
        return hardware.usable_memory, ""
    name, share = user_setting
    return hardware.room_within(share), f", by {name}={share:g}"


def predict_memory(config: ExperimentConfig, hardware: Hardware) -> StepMemory:
    """Bytes of one device.

    Raises:
        ScheduleError: the sizes of the pipeline do not fit together.
    """
    settled = on_platform(config, hardware.platform)
    lowered = configure_step(settled)
    plan, chosen = lowered.pipeline, lowered.strategy
    splits = {
        (module_plan.tensor, module_plan.expert > 1)
        for module_plan in settled.parallel.plans.values()
    }
    workload = traced_workload(settled, splits, deferred=chosen.split_backward)
    sizes = None if plan is None else buffer_sizes(workload, plan.schedule, chosen)
    return step_memory(workload, chosen, hardware, sizes)

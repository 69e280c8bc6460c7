"""The memory of the baselines that cut all modules into virtual stages as one chain.

ZeRO-1: parameters, in the type of the activations, and gradients in float32 are replicated on the
ranks of data; a float32 copy of the parameters and the moments are spread over them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from benchmarks.systems.orders import warm_up
from scheduling.costs.estimate import ModuleTiming
from scheduling.costs.memory import layer_residual_bytes, logit_bytes, residual_bytes
from scheduling.costs.shares import local_elements
from scheduling.costs.workload import WIDE


def chain_memory(timings: Mapping[str, ModuleTiming], parts: Sequence[Sequence[str]]) -> float:
    """Bytes of the device that needs most.

    All forwards of a stage before its first backward keep as much for their backwards as an average
    chunk of the stage.

    Args:
        timings: timings of the modules, under plans with parameters replicated on data-parallel
            ranks.
        parts: by virtual stage, the modules of its layers; the virtual stages of a device are
            `stages` apart.
    """
    stages = _backbone_timing(timings).plan.stage
    return max(_of_stage(timings, parts[stage::stages], stage) for stage in range(stages))


def _backbone_timing(timings: Mapping[str, ModuleTiming]) -> ModuleTiming:
    """The timing of the backbone, which is the last."""
    return [*timings.values()][-1]


def state_bytes(timing: ModuleTiming) -> float:
    """Bytes that a parameter takes, with its gradient and its share of the optimizer's state."""
    size, workload = timing.workload.element_bytes, timing.workload
    if not timing.trains_fully:
        return size
    return size + WIDE + (1 + workload.moments) * WIDE / timing.plan.tokens


def _of_stage(
    timings: Mapping[str, ModuleTiming], chunks: Sequence[Sequence[str]], stage: int
) -> float:
    decoder = _backbone_timing(timings)
    strategy, stages = decoder.strategy, decoder.plan.stage
    layers = Counter(name for chunk in chunks for name in chunk)
    state = sum(
        _state_bytes(timings[name], layers[name]) for name in layers | Counter([decoder.name])
    )
    count = strategy.microbatches
    forwards = warm_up(stages, len(chunks), count, stage) + 1
    waiting = min(forwards, count * len(chunks)) / len(chunks)
    left = waiting * sum(_saved_bytes(timings, chunk) for chunk in chunks)
    head = logit_bytes(decoder) if stage == stages - 1 else 0.0
    return state + left + max(_recomputed_bytes(timings, chunk) for chunk in chunks) + head


def _state_bytes(timing: ModuleTiming, layers: int) -> float:
    """Bytes of the state of so many layers, with the module's other parameters."""
    layer, outside_layers = (
        local_elements(timing.profile, parameters, timing.plan, fsdp=False)
        for parameters in (timing.profile.layer_parameters, timing.profile.rest_parameters)
    )
    return state_bytes(timing) * (layers * layer + outside_layers)


def _saved_bytes(timings: Mapping[str, ModuleTiming], chunk: Sequence[str]) -> float:
    """Bytes that the forward of a virtual stage leaves for its backward."""
    modules = [timings[name] for name in chunk]
    if modules and modules[0].remat == "full":
        return modules[0].activation_bytes / modules[0].plan.sequence
    return sum(residual_bytes(module, 1) for module in modules)


def _recomputed_bytes(timings: Mapping[str, ModuleTiming], chunk: Sequence[str]) -> float:
    """Bytes that the backward of a virtual stage makes again before it uses them."""
    recomputed = [
        layer_residual_bytes(timings[name]) for name in chunk if timings[name].remat != "none"
    ]
    full = _backbone_timing(timings).remat == "full"
    return sum(recomputed) if full else max(recomputed, default=0.0)

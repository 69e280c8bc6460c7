"""Benchmark of adapters: a step that trains them compared with one that trains all of the model.

The machine is calibrated in the same go, as for `bench cost`. FLOPs are those of the products of
the decoder's layers in the compiled programs; products of loops whose length is known to no
compiler, those of the head and of encoders, are not among them.
"""

from __future__ import annotations

from typing import Any

import jax

from benchmarks.cost import CompiledStep, at_once, compiled_steps, report_calibration
from benchmarks.pipeline import PrintLine, Row
from mllm_jax.calibrate.measure import REPETITIONS, CalibrationPrograms
from mllm_jax.calibrate.timing import lower_quartiles
from mllm_jax.compile.hlo import parse_hlo, total_flops
from mllm_jax.config.configured_step import build_strategy, build_workload, on_platform
from mllm_jax.config.load import ConfigError, ExperimentConfig
from mllm_jax.plan.memory import predict_memory
from mllm_jax.plan.simulate import simulate_step
from scheduling.costs.flops import task_flops
from scheduling.costs.hardware import Hardware

Values = dict[str, float]


def bench_lora(config: ExperimentConfig, print_line: PrintLine) -> list[Row]:
    """Seconds, bytes and FLOPs of a step with adapters and of one without, and their ratios.

    Both are predicted by one set of constants, under the plans of the configuration.

    Raises:
        ConfigError: the configuration has no adapters.
    """
    if config.train.lora is None:
        raise ConfigError("bench lora", ["train.lora: null has no adapters; valid: a section"])
    configs = {"all": without_adapters(config), "adapters": config}
    steps: dict[str, list[CompiledStep]] = {}
    for name, variant in configs.items():
        print_line(f"{name}: compiling")
        steps[name] = compiled_steps(variant, jax.devices()[: variant.parallel.devices])
    bench = CalibrationPrograms.build(configs["all"], print_line)
    print_line(f"timing steps and what predicts them in turns, {REPETITIONS} times")
    seconds = lower_quartiles(
        {n: at_once(s) for n, s in steps.items()} | bench.programs, REPETITIONS
    )
    hardware = report_calibration(bench.fit_constants(seconds, "calibrated"), print_line)
    predicted = {name: _predict_step(variant, hardware) for name, variant in configs.items()}
    measured = {name: _measured_values(steps[name][0], seconds[name]) for name in configs}
    return [
        *(
            _make_row(f"{name}: {unit}", predicted[name][unit], measured[name][unit])
            for name in configs
            for unit in measured[name]
        ),
        *(
            _make_row(
                f"adapters over all: {unit}",
                *(_adapter_ratio(values, unit) for values in (predicted, measured)),
            )
            for unit in measured["all"]
        ),
    ]


def without_adapters(config: ExperimentConfig) -> ExperimentConfig:
    """The same model without adapters, of which all trains."""
    train = config.train.model_copy(update={"lora": None, "freeze": ()})
    model = config.model.adapted_like(None)
    return config.model_copy(update={"train": train, "model": model})


def _predict_step(config: ExperimentConfig, hardware: Hardware) -> Values:
    settled = on_platform(config, hardware.platform)
    tasks = task_flops(build_workload(settled), build_strategy(settled, hardware.platform))
    devices = config.parallel.backbone_plan.devices
    return {
        "seconds": simulate_step(config, hardware).makespan,
        "bytes": predict_memory(config, hardware).total,
        "FLOPs": config.train.accumulate * (tasks.forward + tasks.backward) / devices,
    }


def _measured_values(step: CompiledStep, seconds: float) -> Values:
    text = step.program.as_text()
    assert text is not None  # every backend that we compile for reports them
    flops = total_flops(parse_hlo(text))
    return {"seconds": seconds, "bytes": float(step.bytes), "FLOPs": flops}


def _adapter_ratio(values: dict[str, Values], unit: str) -> float:
    return values["adapters"][unit] / values["all"][unit]


def _make_row(what: str, predicted: float, measured: float) -> dict[str, Any]:
    error = predicted / measured - 1
    return {"what": what, "predicted": predicted, "measured": measured, "error": error}

"""Benchmark of the cost model: real train steps and their predictions.

The machine is calibrated in the same go: what a slow moment does to a step it does to the layers
that predict it. One set of constants serves all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import jax

from benchmarks.pipeline import PrintLine, Row
from benchmarks.tokens import token_exchanges
from data.batch import PackedBatch
from mllm_jax.calibrate.measure import REPETITIONS, CalibrationPrograms, HardwareCalibration
from mllm_jax.calibrate.probes import InPlaceProgram, TimedProbe
from mllm_jax.calibrate.timing import lower_quartiles
from mllm_jax.check.synthetic import synthetic_batch
from mllm_jax.compile.report import temporary_bytes
from mllm_jax.config.checks.checks import find_problems
from mllm_jax.config.configured_step import on_platform
from mllm_jax.config.hardware import load_hardware
from mllm_jax.config.load import ExperimentConfig
from mllm_jax.plan.memory import predict_memory
from mllm_jax.plan.simulate import simulate_step
from mllm_jax.train.step.batch_placement import place_microbatches
from mllm_jax.train.step.build import build_train_step
from scheduling.costs.hardware import Hardware
from sharding.plan import ParallelPlan


def bench_cost(
    config: ExperimentConfig, print_line: PrintLine, hardware: str | None = None
) -> list[Row]:
    """Seconds and bytes of train steps under several plans, predicted and measured.

    Rows: the plans of the configuration; one device; and all devices with data, tensor and pipeline
    parallelism, the latter with the encoders in its bubbles. The step of one device is taken while
    every device does it: alone it would borrow the cores of the others. Bytes are of the compiled
    step on one device: its arguments and its temporaries. Of a decoder with experts there is a step
    whose devices share them, and its exchange of tokens alone.

    Args:
        hardware: a description; None calibrates.

    Raises:
        HardwareError: there is no such description.
    """
    steps, configs = {}, list_variants(config, print_line)
    for name, config_of_step in configs.items():
        print_line(f"{name}: compiling")
        steps[name] = compiled_steps(config_of_step, jax.devices()[: config.parallel.devices])
    bench, probes = (
        None if hardware else CalibrationPrograms.build(config, print_line),
        _list_exchanges(config),
    )
    print_line(f"timing steps and what predicts them in turns, {REPETITIONS} times")
    runs = {name: at_once(step) for name, step in steps.items()}
    seconds = lower_quartiles(runs | (bench.programs if bench else {}), REPETITIONS)
    # By themselves: the first short program after a step takes several times as long.
    seconds |= lower_quartiles({probe.name: probe.run for probe in probes}, REPETITIONS)
    description = (
        report_calibration(bench.fit_constants(seconds, "calibrated"), print_line)
        if bench
        else load_hardware(str(hardware))
    )
    rows: list[Row] = []
    for probe in probes:
        rows.append(
            _make_row(
                probe.name, "seconds", config, probe.predict(description), seconds[probe.name]
            )
        )
    for name, config_of_step in configs.items():
        predicted = simulate_step(config_of_step, description).makespan
        rows.append(_make_row(name, "seconds", config_of_step, predicted, seconds[name]))
        measured = float(steps[name][0].bytes)
        predicted = predict_memory(config_of_step, description).total
        rows.append(_make_row(name, "bytes", config_of_step, predicted, measured))
    return rows


def _list_exchanges(config: ExperimentConfig) -> list[TimedProbe]:
    """Exchanges of tokens over all devices, of a decoder with experts that these divide."""
    experts, devices = (
        config.model.backbone_config.experts,
        jax.devices()[: config.parallel.devices],
    )
    if experts is None or len(devices) == 1 or experts.count % len(devices):
        return []
    return list(token_exchanges(on_platform(config, devices[0].platform), devices))


def report_calibration(calibration: HardwareCalibration, print_line: PrintLine) -> Hardware:
    """The calibrated description, after reporting the fit."""
    for row in calibration.rows:
        print_line(f"{row['what']}: {row['measured']:.4g} s, fitted {row['error']:+.1%}")
    print_line(", ".join(f"{name} {value:.4g}" for name, value in calibration.constants.items()))
    return calibration.hardware


def _make_row(
    name: str, unit: str, config: ExperimentConfig, predicted: float, measured: float
) -> Row:
    return {
        "what": f"{name}: {unit}",
        "devices": config.parallel.devices,
        "predicted": predicted,
        "measured": measured,
        "error": predicted / measured - 1,
    }


def list_variants(config: ExperimentConfig, print_line: PrintLine) -> dict[str, ExperimentConfig]:
    """The configuration as it is, on one device, and on all of its devices under three plans.

    A decoder with experts also has all of its devices share them.

    Plans that the model does not fit are left out and reported.
    """
    count = config.parallel.devices
    data, one = ParallelPlan(data=count), ParallelPlan()
    plans = {
        "one device": (one, one),
        f"data {count}": (data, data),
        f"tensor {count}": (ParallelPlan(tensor=count), ParallelPlan(tensor=count)),
        f"stage {count}": (ParallelPlan(stage=count), data),
    }
    if config.model.backbone_config.experts is not None:
        plans[f"expert {count}"] = (ParallelPlan(expert=count), data)
    planned = {name: _with_plans(config, *plans) for name, plans in plans.items()}
    if all(variant.parallel != config.parallel for variant in planned.values()):
        planned = {"configured": config, **planned}
    fitting: dict[str, ExperimentConfig] = {}
    for name, variant in planned.items():
        if problems := find_problems(variant):
            print_line(f"{name}: left out: {'; '.join(problems)}")
        elif variant.parallel not in [other.parallel for other in fitting.values()]:
            fitting[name] = variant
    return fitting


def _with_plans(
    config: ExperimentConfig, decoder: ParallelPlan, encoder: ParallelPlan
) -> ExperimentConfig:
    encoders = dict.fromkeys(config.model.buckets, encoder)
    parallel = config.parallel.with_plans({config.model.backbone: decoder, **encoders})
    pads = config.schedule.pad_layers and decoder.stage > 1
    schedule = config.schedule.model_copy(update={"pad_layers": pads})
    return config.model_copy(update={"parallel": parallel, "schedule": schedule})


@dataclass(frozen=True)
class CompiledStep:
    """A compiled train step.

    Attributes:
        run: takes the step once.
        bytes: bytes of arguments and temporaries on one device.
        program: the compiled program.
    """

    run: Callable[[], Any]
    bytes: int
    program: jax.stages.Compiled


def compiled_steps(config: ExperimentConfig, devices: Sequence[jax.Device]) -> list[CompiledStep]:
    """The step on the first of `devices`, and again on all others."""
    count = config.parallel.devices
    groups = [devices[i : i + count] for i in range(0, len(devices) - count + 1, count)]
    return [_compile_step(config, group) for group in groups]


def _compile_step(config: ExperimentConfig, devices: Sequence[jax.Device]) -> CompiledStep:
    step = build_train_step(config, devices)
    state = step.init(jax.random.key(config.train.seed))
    batch = step.prime_batch(state["params"], place_microbatches(_make_microbatches(config), step))
    program = step.update.lower(state, batch).compile()
    sizes = program.memory_analysis()
    assert sizes is not None  # every backend that we compile for reports them
    size = sizes.argument_size_in_bytes + temporary_bytes(sizes, devices[0].platform)
    run = InPlaceProgram(lambda *inputs: program(*inputs)[0], state, (batch,)).run
    return CompiledStep(run, size, program)


def _make_microbatches(config: ExperimentConfig) -> list[PackedBatch]:
    data, budgets = config.data, config.data.budgets
    media = {name: budgets[name] for name in config.model.buckets}
    return [
        synthetic_batch(config.model, data.rows, budgets["tokens"], media, seed)
        for seed in range(config.train.accumulate)
    ]


def at_once(steps: Sequence[CompiledStep]) -> Callable[[], Any]:
    """A function that runs all of `steps` at the same time."""
    workers = ThreadPoolExecutor(len(steps))

    def run_all() -> None:
        list(workers.map(lambda step: jax.block_until_ready(step.run()), steps))

    return run_all

"""Benchmark of the cost model: real train steps beside their predictions.

The machine is calibrated in the same go: what a slow moment does to a step it does to the layers
that predict it. One set of constants serves all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import jax

from benchmarks.pipeline import Row, Tell
from benchmarks.tokens import token_exchanges
from data.batch import PackedBatch
from mllm_jax.calibrate.measure import REPETITIONS, CalibrationPrograms, HardwareCalibration
from mllm_jax.calibrate.probes import InPlaceProgram, TimedProbe
from mllm_jax.calibrate.timing import lower_quartiles
from mllm_jax.check.synthetic import synthetic_batch
from mllm_jax.compile.report import temporary_bytes
from mllm_jax.config.checks.checks import check
from mllm_jax.config.configured_step import on_platform
from mllm_jax.config.hardware import named
from mllm_jax.config.load import ExperimentConfig
from mllm_jax.plan.memory import predict_memory
from mllm_jax.plan.simulate import simulate_step
from mllm_jax.train.step.batch import place
from mllm_jax.train.step.build import train_step
from scheduling.costs.hardware import Hardware
from sharding.plan import ParallelPlan


def bench_cost(config: ExperimentConfig, tell: Tell, hardware: str | None = None) -> list[Row]:
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
    steps, configs = {}, variants(config, tell)
    for name, own in configs.items():
        tell(f"{name}: compiling")
        steps[name] = compiled_steps(own, jax.devices()[: config.parallel.devices])
    bench, probes = (
        None if hardware else CalibrationPrograms.build(config, tell),
        _exchanges(config),
    )
    tell(f"timing steps and what predicts them in turns, {REPETITIONS} times")
    runs = {name: at_once(own) for name, own in steps.items()}
    seconds = lower_quartiles(runs | (bench.programs if bench else {}), REPETITIONS)
    # By themselves: the first short program behind a step takes several times as long.
    seconds |= lower_quartiles({probe.name: probe.run for probe in probes}, REPETITIONS)
    found = told(bench.fit(seconds, "calibrated"), tell) if bench else named(str(hardware))
    rows: list[Row] = []
    for probe in probes:
        rows.append(_row(probe.name, "seconds", config, probe.predict(found), seconds[probe.name]))
    for name, own in configs.items():
        predicted = simulate_step(own, found).makespan
        rows.append(_row(name, "seconds", own, predicted, seconds[name]))
        measured = float(steps[name][0].bytes)
        rows.append(_row(name, "bytes", own, predict_memory(own, found).total, measured))
    return rows


def _exchanges(config: ExperimentConfig) -> list[TimedProbe]:
    """Exchanges of tokens over all devices, of a decoder with experts that these divide."""
    own, devices = config.model.decoder.experts, jax.devices()[: config.parallel.devices]
    if own is None or len(devices) == 1 or own.count % len(devices):
        return []
    return list(token_exchanges(on_platform(config, devices[0].platform), devices))


def told(calibration: HardwareCalibration, tell: Tell) -> Hardware:
    """The calibrated description, after reporting the fit."""
    for row in calibration.rows:
        tell(f"{row['what']}: {row['measured']:.4g} s, fitted {row['error']:+.1%}")
    tell(", ".join(f"{name} {value:.4g}" for name, value in calibration.constants.items()))
    return calibration.hardware


def _row(name: str, unit: str, config: ExperimentConfig, predicted: float, measured: float) -> Row:
    return {
        "what": f"{name}: {unit}",
        "devices": config.parallel.devices,
        "predicted": predicted,
        "measured": measured,
        "error": predicted / measured - 1,
    }


def variants(config: ExperimentConfig, tell: Tell) -> dict[str, ExperimentConfig]:
    """The configuration as it is, on one device, and on all of its devices in three ways.

    A decoder with experts also has all of its devices share them.

    Ways that the model does not fit are left out, and told.
    """
    count = config.parallel.devices
    data, one = ParallelPlan(data=count), ParallelPlan()
    ways = {
        "one device": (one, one),
        f"data {count}": (data, data),
        f"tensor {count}": (ParallelPlan(tensor=count), ParallelPlan(tensor=count)),
        f"stage {count}": (ParallelPlan(stage=count), data),
    }
    if config.model.decoder.experts is not None:
        ways[f"expert {count}"] = (ParallelPlan(expert=count), data)
    found = {name: _planned(config, *plans) for name, plans in ways.items()}
    if all(own.parallel != config.parallel for own in found.values()):
        found = {"configured": config, **found}
    fitting: dict[str, ExperimentConfig] = {}
    for name, own in found.items():
        if problems := check(own):
            tell(f"{name}: left out: {'; '.join(problems)}")
        elif own.parallel not in [other.parallel for other in fitting.values()]:
            fitting[name] = own
    return fitting


def _planned(
    config: ExperimentConfig, decoder: ParallelPlan, encoder: ParallelPlan
) -> ExperimentConfig:
    encoders = dict.fromkeys(config.model.lanes, encoder)
    values = {"devices": decoder.devices, "decoder": decoder, "encoders": encoders}
    parallel = config.parallel.model_copy(update=values)
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
    return [_compile(config, group) for group in groups]


def _compile(config: ExperimentConfig, devices: Sequence[jax.Device]) -> CompiledStep:
    step = train_step(config, devices)
    state = step.init(jax.random.key(config.train.seed))
    batch = step.primed(state["params"], place(_microbatches(config), step))
    program = step.update.lower(state, batch).compile()
    sizes = program.memory_analysis()
    assert sizes is not None  # every backend that we compile for tells
    taken = sizes.argument_size_in_bytes + temporary_bytes(sizes, devices[0].platform)
    run = InPlaceProgram(lambda *inputs: program(*inputs)[0], state, (batch,)).run
    return CompiledStep(run, taken, program)


def _microbatches(config: ExperimentConfig) -> list[PackedBatch]:
    data, budgets = config.data, config.data.budgets
    media = {name: budgets[name] for name in config.model.lanes}
    return [
        synthetic_batch(config.model, data.rows, budgets["tokens"], media, seed)
        for seed in range(config.train.accumulate)
    ]


def at_once(steps: Sequence[CompiledStep]) -> Callable[[], Any]:
    """A function that runs all of `steps` at the same time."""
    workers = ThreadPoolExecutor(len(steps))

    def run() -> None:
        list(workers.map(lambda step: jax.block_until_ready(step.run()), steps))

    return run

"""Benchmarks of the loop: its data alone, and its steps compared with those of one device.

Every figure leaves out one-time work: compilation, the first batch, starting workers.
"""

from __future__ import annotations

import time
from itertools import islice

import jax

from benchmarks.pipeline import PrintLine
from data.loading.loader import MicrobatchStats
from data.planning.stream import LoaderState
from mllm_jax.config.load import ExperimentConfig
from mllm_jax.runtime.hardware.peak import peak_flops
from mllm_jax.train.experiment import Experiment
from mllm_jax.train.listeners.figures import StepRecorder
from mllm_jax.train.loading.loader import open_loader
from mllm_jax.train.records.metrics import FigureMeter
from mllm_jax.train.state.progress import Progress
from mllm_jax.train.trainer import StepRunner
from sharding.plan import ParallelPlan

#: Steps that are measured, after as many as `WARM_UP`.
STEPS, WARM_UP = 20, 3


def bench_data(config: ExperimentConfig, print_line: PrintLine) -> dict[str, float]:
    """The loader alone: how fast it could feed the step, and how full its batches are.

    Returns:
        Steps, samples and tokens per second; the padding share of each budget; and, as
        `longest_<name>`, the padding of the same samples padded to the longest of their microbatch
        (0 for media that no sample has).
    """
    print_line(f"loading {WARM_UP + STEPS} steps")
    experiment, each = Experiment.build(config), config.train.accumulate
    with open_loader(experiment, LoaderState(config.train.seed)) as loader:
        for _ in islice(loader, WARM_UP * each):
            pass
        begin = time.perf_counter()
        stats = [microbatch.stats for microbatch in islice(loader, STEPS * each)]
        seconds = time.perf_counter() - begin
    return {
        "steps_per_second": STEPS / seconds,
        "samples_per_second": sum(s.samples for s in stats) / seconds,
        "tokens_per_second": sum(s.used["tokens"] for s in stats) / seconds,
        **_padding_shares(stats, config.model.backbone),
    }


def _padding_shares(stats: list[MicrobatchStats], backbone: str) -> dict[str, float]:
    shares: dict[str, float] = {}
    for name in stats[0].capacity:
        module = backbone if name == "tokens" else name
        used = sum(s.used[name] for s in stats)
        lengths = [s.lengths[module] for s in stats]
        to_longest = sum(len(n) * int(n.max(initial=0)) for n in lengths)
        shares[f"padding_{name}"] = 1 - used / sum(s.capacity[name] for s in stats)
        shares[f"longest_{name}"] = 1 - used / to_longest if to_longest else 0.0
    return shares


def bench_sharding(config: ExperimentConfig, print_line: PrintLine) -> dict[str, float]:
    """The train step with its data, compared with that of a single device.

    Returns:
        Seconds of the first step (it compiles), tokens per second, MFU where the peak of the
        device is known, and the share of time spent waiting for data. In a single process also
        `over_one_device`: tokens per second over those of one device on the same batches. Emulated
        CPU devices share the host's cores, so that there 1 means that sharding costs nothing.
    """
    print_line(f"training {WARM_UP + STEPS} steps")
    figures = _measure_steps(config)
    if jax.process_count() == 1 and config.parallel.devices > 1:
        one = {name: ParallelPlan() for name in config.parallel.plans}
        print_line("the same steps on one device")
        alone = config.parallel.with_plans(one)
        baseline = _measure_steps(config.model_copy(update={"parallel": alone}))
        ratio = figures["tokens_per_second"] / baseline["tokens_per_second"]
        figures |= {"over_one_device": ratio}
    return figures


def _measure_steps(config: ExperimentConfig) -> dict[str, float]:
    train = config.train.model_copy(update={"steps": WARM_UP + STEPS})
    experiment = Experiment.build(config.model_copy(update={"train": train}))
    peak = peak_flops(experiment.step.devices[0])
    meter = FigureMeter(STEPS, None if peak is None else peak * experiment.grid.devices)
    seed = config.train.seed
    first = None
    begin = time.perf_counter()
    state = experiment.step.init(jax.random.key(seed))
    recorder = StepRecorder(experiment)
    trainer = StepRunner(experiment, state, Progress(0, LoaderState(seed)), recorder)
    with trainer.opened_run():
        while not trainer.is_done:
            ended = trainer.train_step()
            first = first or time.perf_counter() - begin
            record = recorder.make_record(ended)
            if record.step >= WARM_UP:
                meter.add_step(record)
    return {"first_step_seconds": first or 0.0, **_flatten_numbers(meter.summary_figures())}


def _flatten_numbers(values: dict[str, object]) -> dict[str, float]:
    """The numbers of `values`; numbers of nested mappings are named `outer_inner`."""
    flat: dict[str, float] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            flat |= _flatten_numbers({f"{name}_{inner}": item for inner, item in value.items()})
        elif isinstance(value, int | float):
            flat[name] = float(value)
    return flat

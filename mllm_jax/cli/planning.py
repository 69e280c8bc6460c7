"""Commands that predict, search, compile ahead and submit; see `mllm_jax.cli.commands`."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING

from mllm_jax.cli.answer import Answer, table_of
from mllm_jax.cli.shared import begin, code, hardware_of, seed_of, teller, with_budgets

if TYPE_CHECKING:  # which --help does not need
    from rich.console import Console

    from mllm_jax.config.sections import ExperimentConfig


def simulate(args: argparse.Namespace, config: ExperimentConfig, console: Console) -> Answer:
    """Predict a step on hardware that need not be here, with idle time by kind."""
    from mllm_jax.config.hardware import named
    from mllm_jax.config.sections import ConfigError
    from mllm_jax.plan.simulate import Variation
    from mllm_jax.plan.simulate import simulate as run

    config = with_budgets(config, console)
    if args.ablate or args.mixture:
        return _simulate_systems(args, config, console)
    if args.even:
        raise ConfigError("simulate", ["--even is an option of --mixture; valid: both or neither"])
    variation = Variation(dict(args.slow), args.vary or 0.0, seed_of(args, config))
    hardware = named(hardware_of(args, config))
    result = run(config, hardware, Path(args.output or config.run.path), variation)
    return Answer(result.to_json(), [(("what", "seconds", "share"), result.rows)], result.notes)


def _simulate_systems(
    args: argparse.Namespace, config: ExperimentConfig, console: Console
) -> Answer:
    """Predict steps of this framework beside other systems, which a checkout has."""
    from mllm_jax.checkout import require_benchmarks

    name = "ablate" if args.ablate else "mixture"
    module = require_benchmarks("systems.simulate", f"simulate --{name}")
    answer: Answer = getattr(module, name)(args, config, console)
    return answer


def plan(args: argparse.Namespace, config: ExperimentConfig, console: Console) -> Answer:
    """Search the fastest plans for the model, the rows of a step and the devices."""
    from mllm_jax.config.hardware import named
    from mllm_jax.plan.comparison import other_systems
    from mllm_jax.plan.planner import Planner
    from mllm_jax.plan.prediction import COLUMNS
    from mllm_jax.plan.report import plan as run
    from mllm_jax.runtime.devices import use_host

    use_host()
    chosen = None
    if args.budgets:
        from mllm_jax.plan.budgets import advise

        chosen = advise(config)
    config = chosen.applied(config) if chosen else with_budgets(config, console, planned=False)
    memory = None if args.memory is None else args.memory * 2**30
    name = hardware_of(args, config)
    planner = Planner(config, named(name), name, memory, args.within, args.all_devices)
    file = Path(args.output) if args.output else config.run.path / "plan.yaml"
    how = teller(console), chosen, other_systems()
    result = run(planner, args.top, file, time.perf_counter, *how)
    return Answer(result.to_json(), [(COLUMNS, result.rows)], result.notes)


def calibrate(args: argparse.Namespace, config: ExperimentConfig, console: Console) -> Answer:
    """Measure this machine for the cost model: a description for simulate --hardware."""
    begin(args, config, one_thread=True)
    from mllm_jax.calibrate.measure import calibrate as run

    config = with_budgets(config, console)
    output = Path(args.output or config.run.path / "hardware.yaml")
    result = run(config, output, teller(console))
    constants = ("constant", "value"), list(result.constants.items())
    return Answer(
        result.to_json() | {"file": str(output)},
        [table_of(result.rows), constants],
        [*result.notes, f"written: {output}"],
    )


def compile(  # noqa: A001 - commands are called as their functions
    args: argparse.Namespace, config: ExperimentConfig, console: Console
) -> Answer:
    """Compile the train step for accelerators that are not here, or for later runs (--save)."""
    from mllm_jax.config.sections import ConfigError, ParallelConfig

    if (args.save is None) == (args.topology is None):
        problem = "devices that are not here, or those of this machine; valid: --topology or --save"
        raise ConfigError("compile", [problem])
    if args.save is not None:
        return _compile_and_save(args, config, console)
    from mllm_jax.runtime.devices import start

    start(ParallelConfig())  # compiling runs on the CPU
    from mllm_jax.compile.report import compile_ahead
    from mllm_jax.compile.target import Target

    config = with_budgets(config, console)
    report = compile_ahead(config, Target.parse(args.topology), teller(console))
    memory = ("bytes of a device", "GiB", "of the limit"), report.memory_rows
    columns = ("collectives of a step", "in the program", "GiB", "ms", "overlapped")
    tables = [memory, (columns, report.collective_rows)]
    return Answer(report.to_json(), tables, [report.summary], code(report.fits))


def _compile_and_save(
    args: argparse.Namespace, config: ExperimentConfig, console: Console
) -> Answer:
    """Compile the train step for the devices of this machine, and write it."""
    begin(args, config)
    from mllm_jax.compile.save import save_step

    config = with_budgets(config, console)
    saved = save_step(config, Path(args.save), teller(console))
    return Answer(saved.to_json(), lines=[f"written: {saved.file}", saved.summary])


def budgets(args: argparse.Namespace, config: ExperimentConfig, console: Console) -> Answer:
    """Suggest data.budgets that fit the data and the plans, with the padding to expect."""
    from mllm_jax.plan.budgets import advise

    advice = advise(config, args.samples)
    columns = ("budget", "now", "padding now", "suggested", "padding then")
    values = ", ".join(f"{name}: {number}" for name, number in advice.suggested.budgets.items())
    lines = [*advice.outcomes, f"data.budgets='{{{values}}}'"]
    return Answer(advice.to_json(), [(columns, advice.rows)], lines)


def submit(args: argparse.Namespace, config: ExperimentConfig, console: Console) -> Answer:
    """Write the job of a run for Slurm or Kubernetes, and submit it (--go)."""
    from mllm_jax.submit.submit import submit as run

    output = Path(args.output) if args.output else None
    result = run(config, args.cluster, args.nodes, output, go=args.go, on_nodes=args.on_nodes)
    return Answer(result.to_json(), [(("what", "value"), result.rows)], result.lines)

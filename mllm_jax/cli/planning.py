"""Functions of commands that predict, search, compile ahead and submit."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mllm_jax.cli.answer import CommandOutput, exit_code, table_of
from mllm_jax.cli.command import CommandRequest
from mllm_jax.cli.drawing import output_folder

if TYPE_CHECKING:  # which --help does not need
    from mllm_jax.config.load import ExperimentConfig
    from mllm_jax.plan.budgets import BudgetAdvice
    from mllm_jax.plan.groups.simulate import SimulatedGroups
    from mllm_jax.plan.simulate import SimulatedStep, TimeVariation
    from scheduling.costs.hardware import Hardware


def hardware_name(request: CommandRequest) -> str:
    """The hardware that an option names, or for which the configuration was planned."""
    return request.args.hardware or request.config.schedule.hardware or "h100"


def seed_of(request: CommandRequest) -> int:
    """The seed that an option gives, else that of the run."""
    seed: int = request.config.train.seed if request.args.seed is None else request.args.seed
    return seed


# ---- simulate ------------------------------------------------------------------------------------


def check_simulation(request: CommandRequest) -> None:
    """Raise ConfigError for an option of other predictions."""
    from mllm_jax.config.sections import ConfigError

    args = request.args
    if args.even:
        raise ConfigError("simulate", ["--even is an option of --mixture; valid: both or neither"])
    if request.config.parallel.separate_groups and (args.slow or args.vary):
        reason = "--slow and --vary are of one program, and parallel.groups has one for each"
        raise ConfigError("simulate", [f"{reason} group; valid: without them"])


def simulation_arguments(request: CommandRequest) -> Mapping[str, Any]:
    """Arguments of `simulate_configured`."""
    from mllm_jax.config.hardware import load_hardware
    from mllm_jax.plan.simulate import TimeVariation

    args = request.args
    return {
        "config": request.config,
        "hardware": load_hardware(hardware_name(request)),
        "folder": output_folder(request),
        "variation": TimeVariation(dict(args.slow), args.vary or 0.0, seed_of(request)),
    }


def simulate_configured(
    config: ExperimentConfig, hardware: Hardware, folder: Path, variation: TimeVariation
) -> SimulatedStep | SimulatedGroups:
    """Simulate the configured step; of one program with a timeline in `folder`."""
    from mllm_jax.plan.simulate import simulate_config

    if config.parallel.separate_groups:
        from mllm_jax.plan.groups.simulate import simulate_configured_groups

        return simulate_configured_groups(config, hardware)
    return simulate_config(config, hardware, folder, variation)


def answer_simulation(result: Any, request: CommandRequest) -> CommandOutput:
    """The seconds of the step by kind of work."""
    del request
    return CommandOutput(result.to_json(), [(result.columns, result.rows)], result.notes)


def simulate_systems(request: CommandRequest) -> CommandOutput:
    """Predict steps of this framework and of other systems, which only a checkout has."""
    from mllm_jax.checkout import require_benchmarks

    name = "ablate" if request.args.ablate else "mixture"
    module = require_benchmarks("systems.simulate", f"simulate --{name}")
    simulate = module.simulate_ablation if request.args.ablate else module.simulate_mixture
    output: CommandOutput = simulate(request)
    return output


# ---- plan and budgets ----------------------------------------------------------------------------


def plan_arguments(request: CommandRequest) -> Mapping[str, Any]:
    """Arguments of `plan.report.plan_run`; budgets are chosen first where they are asked for."""
    from mllm_jax.config.hardware import load_hardware
    from mllm_jax.plan.budgets import advise_budgets
    from mllm_jax.plan.comparison import other_systems
    from mllm_jax.plan.planner import PlanSearch
    from mllm_jax.plan.settled import settle_budgets

    args, print_line = request.args, request.print_line
    advice = advise_budgets(request.config) if args.budgets else None
    if advice is None:
        config = settle_budgets(request.config, print_line, planned=False)
    else:
        config = advice.apply_to(request.config)
    memory = None if args.memory is None else args.memory * 2**30
    name = hardware_name(request)
    return {
        "planner": PlanSearch(
            config, load_hardware(name), name, memory, args.within, args.all_devices
        ),
        "top": args.top,
        "file": request.path_of("output") or config.run.path / "plan.yaml",
        "clock": time.perf_counter,
        "notify": print_line,
        "budgets": advice,
        "systems": other_systems(),
    }


def answer_plan(result: Any, request: CommandRequest) -> CommandOutput:
    """The plans that were found."""
    from mllm_jax.plan.prediction import COLUMNS

    del request
    return CommandOutput(result.to_json(), [(COLUMNS, result.rows)], result.notes)


def check_plan(request: CommandRequest) -> None:
    """Raise ConfigError for options of the other search."""
    from mllm_jax.config.sections import ConfigError

    args = request.args
    others = {"--calibration": args.calibration, "--quotas": args.quotas}
    if args.slices:
        others = {"--top": args.top > 1, "--within": args.within, "--budgets": args.budgets}
        others |= {"--all-devices": args.all_devices}
    reason = "is no option of plan --slices" if args.slices else "is an option of plan --slices"
    problems = [f"{name} {reason}; valid: without it" for name, value in others.items() if value]
    if problems:
        raise ConfigError("plan", problems)


def group_arguments(request: CommandRequest) -> Mapping[str, Any]:
    """Arguments of `plan.groups.report.plan_groups`."""
    from mllm_jax.config.hardware import load_hardware, read_slice_costs
    from mllm_jax.plan.groups.planner import GroupPlanner
    from mllm_jax.plan.settled import settle_budgets

    args = request.args
    config = settle_budgets(request.config, request.print_line, planned=False)
    calibration, name = request.path_of("calibration"), hardware_name(request)
    measured = None if calibration is None else read_slice_costs(calibration)
    memory = None if args.memory is None else args.memory * 2**30
    hardware = load_hardware(name)
    source = (
        f"counted work on {hardware.title}; none was measured, see calibrate --slices"
        if calibration is None
        else f"measured modules and pairs of {calibration}"
    )
    return {
        "planner": GroupPlanner(config, hardware, measured, args.quotas, memory),
        "source": source,
        "file": request.path_of("output") or config.run.path / "plan.yaml",
        "clock": time.perf_counter,
    }


def answer_groups(result: Any, request: CommandRequest) -> CommandOutput:
    """The groups that were found."""
    from mllm_jax.plan.groups.report import COLUMNS

    del request
    return CommandOutput(result.to_json(), [(COLUMNS, result.rows)], result.notes)


def budget_arguments(request: CommandRequest) -> Mapping[str, Any]:
    """Arguments of `mllm_jax.plan.budgets.advise_budgets`."""
    return {"config": request.config, "samples": request.args.samples}


def answer_budgets(advice: BudgetAdvice, request: CommandRequest) -> CommandOutput:
    """The budgets that fit, as an override to paste."""
    del request
    columns = ("budget", "now", "padding now", "suggested", "padding then")
    values = ", ".join(f"{name}: {number}" for name, number in advice.suggested.budgets.items())
    lines = [*advice.outcomes, f"data.budgets='{{{values}}}'"]
    return CommandOutput(advice.to_json(), [(columns, advice.rows)], lines)


# ---- calibrate -----------------------------------------------------------------------------------


def hardware_file(request: CommandRequest) -> Path:
    """The file for the description of this machine."""
    return request.path_of("output") or request.run_folder / "hardware.yaml"


def calibration_arguments(request: CommandRequest) -> Mapping[str, Any]:
    """Arguments of `calibrate.measure.calibrate_hardware`."""
    return {
        "config": request.config,
        "output": hardware_file(request),
        "notify": request.print_line,
    }


def answer_calibration(result: Any, request: CommandRequest) -> CommandOutput:
    """What was measured, and the constants of the cost model."""
    file = hardware_file(request)
    constants = ("constant", "value"), list(result.constants.items())
    return CommandOutput(
        result.to_json() | {"file": str(file)},
        [table_of(result.rows), constants],
        [*result.notes, f"written: {file}"],
    )


def slices_file(request: CommandRequest) -> Path:
    """The file for the costs of modules that share a device."""
    return request.path_of("output") or request.run_folder / "slices.json"


def slice_arguments(request: CommandRequest) -> Mapping[str, Any]:
    """Arguments of `calibrate.slices.measure.calibrate_slices`."""
    return {
        "config": request.config,
        "output": slices_file(request),
        "notify": request.print_line,
    }


def answer_slices(result: Any, request: CommandRequest) -> CommandOutput:
    """Seconds of every task, and predictions of what nothing was fitted to."""
    file = slices_file(request)
    return CommandOutput(
        result.to_json() | {"file": str(file)},
        [table_of(result.tasks), table_of(result.checks)],
        [*result.notes, f"written: {file}"],
    )


# ---- compile -------------------------------------------------------------------------------------


def check_compilation(request: CommandRequest) -> None:
    """Raise ConfigError unless the step is compiled either for a topology or for later runs."""
    from mllm_jax.config.sections import ConfigError

    if (request.args.save is None) == (request.args.topology is None):
        problem = "devices that are not here, or those of this machine; valid: --topology or --save"
        raise ConfigError("compile", [problem])


def compilation_arguments(request: CommandRequest) -> Mapping[str, Any]:
    """Arguments of `compile.report.compile_for_target`."""
    from mllm_jax.compile.target import CompileTarget

    return {
        "config": request.config,
        "target": CompileTarget.parse(request.args.topology),
        "notify": request.print_line,
    }


def answer_compilation(report: Any, request: CommandRequest) -> CommandOutput:
    """The memory of a device and the collectives of the step."""
    del request
    memory = ("bytes of a device", "GiB", "of the limit"), report.memory_rows
    columns = ("collectives of a step", "in the program", "GiB", "ms", "overlapped")
    tables = [memory, (columns, report.collective_rows)]
    return CommandOutput(report.to_json(), tables, [report.summary], exit_code(report.fits))


def saved_step_arguments(request: CommandRequest) -> Mapping[str, Any]:
    """Arguments of `compile.save.save_step`."""
    return {
        "config": request.config,
        "folder": request.path_of("save"),
        "notify": request.print_line,
    }


def answer_saved_step(saved: Any, request: CommandRequest) -> CommandOutput:
    """The file of the compiled step."""
    del request
    return CommandOutput(saved.to_json(), lines=[f"written: {saved.file}", saved.summary])


# ---- submit --------------------------------------------------------------------------------------


def submission_arguments(request: CommandRequest) -> Mapping[str, Any]:
    """Arguments of `submit.submit.submit_run`."""
    args = request.args
    return {
        "config": request.config,
        "cluster": args.cluster,
        "nodes": args.nodes,
        "output": request.path_of("output"),
        "go": args.go,
        "on_nodes": args.on_nodes,
    }


def answer_submission(result: Any, request: CommandRequest) -> CommandOutput:
    """The files of the job, and the job if it was submitted."""
    del request
    return CommandOutput(result.to_json(), [(("what", "value"), result.rows)], result.lines)

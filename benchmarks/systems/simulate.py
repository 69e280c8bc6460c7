"""`simulate --ablate` and `simulate --mixture`: this framework's step and other systems."""

from __future__ import annotations

from benchmarks.systems import ablation
from benchmarks.systems.mixture.compare import compare_systems
from benchmarks.systems.mixture.draws import SIGMA, SampleDraw
from benchmarks.systems.mixture.files import write_files
from mllm_jax.cli.answer import CommandOutput
from mllm_jax.cli.command import CommandRequest
from mllm_jax.cli.drawing import output_folder
from mllm_jax.cli.planning import hardware_name, seed_of
from mllm_jax.config.hardware import load_hardware
from mllm_jax.config.sections import ConfigError
from mllm_jax.plan.report import run_command
from mllm_jax.runtime.devices import use_cpu_only
from mllm_jax.runtime.folder import prepare_folder


def simulate_ablation(request: CommandRequest) -> CommandOutput:
    """Predict the gains of MegaScale's techniques."""
    args = request.args
    others = {"--mixture": args.mixture, "--slow": args.slow, "--vary": args.vary is not None}
    if options := [name for name, value in others.items() if value]:
        problems = [f"{' and '.join(options)} is of other predictions; valid: --ablate alone"]
        raise ConfigError("simulate --ablate", problems)
    result = ablation.ablate_techniques(request.config, load_hardware(hardware_name(request)))
    table = ablation.COLUMNS, [row.cells for row in result.rows]
    return CommandOutput(result.to_json(), [table], result.notes)


def simulate_mixture(request: CommandRequest) -> CommandOutput:
    """Predict the step under several mixtures of media and text, compared with other systems."""
    args = request.args
    if args.slow or (args.even and args.vary is not None):
        problems = ["--slow changes one step, and even rows do not vary; valid: --even or --vary"]
        raise ConfigError("simulate --mixture", problems)
    use_cpu_only()
    folder = output_folder(request)
    # Whether it takes files is said before the search takes time.
    prepare_folder(folder)
    name, sigma = hardware_name(request), SIGMA if args.vary is None else args.vary
    draw = None if args.even else SampleDraw(sigma, seed_of(request))
    print_line = request.print_line
    result = compare_systems(
        request.config, load_hardware(name), name, args.mixture, draw, print_line
    )
    files = write_files(result, folder)
    notes = [*result.notes, *(f"written: {file}" for file in files), run_command(files[0])]
    value = result.to_json() | {"files": [str(file) for file in files]}
    return CommandOutput(value, [(result.columns, result.rows)], notes)

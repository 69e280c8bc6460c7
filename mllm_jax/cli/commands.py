"""The commands of `launch.py`: each reads options, runs what has its own room, and answers.

The first line of a command's docstring is its help. Libraries that compute are imported inside the
commands: `launch.py --help` and a mistake in a configuration need none of it.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mllm_jax.bench.benchmarks import BENCHMARKS, EMULATED
from mllm_jax.cli.answer import Answer
from mllm_jax.runtime.exits import Exit
from mllm_jax.runtime.part import Processes, peers
from mllm_jax.submit import pulse

if TYPE_CHECKING:  # which --help does not need
    from jax import Device
    from rich.console import Console

    from mllm_jax.config.sections import ExperimentConfig


def train(args: argparse.Namespace, config: ExperimentConfig, console: Console) -> Answer:
    """Train, or go on where the run of this name stopped; evaluate at the end."""
    if args.supervise:
        return _supervise(args, config)
    from mllm_jax.runtime.interrupt import stands
    from mllm_jax.runtime.standing import untouched

    stands(untouched(config))
    _start(args, config, keep=True)
    pulse.begin()
    from mllm_jax.train.loop import train as run

    return Answer(run(config, console, args.from_step))


def _supervise(args: argparse.Namespace, config: ExperimentConfig) -> Answer:
    """Keep training going in another process, which answers."""
    from mllm_jax.config.refit import fallbacks
    from mllm_jax.config.sections import ConfigError
    from mllm_jax.runtime.watch import Limits
    from mllm_jax.runtime.wire import Address
    from mllm_jax.supervise.place import found
    from mllm_jax.supervise.policy import Policy
    from mllm_jax.supervise.start import supervise
    from mllm_jax.supervise.supervisor import Settings

    if not config.checkpoint.enabled:
        told = "checkpoint.enabled false: a restart would lose all steps; valid: true"
        raise ConfigError("train --supervise", [told])
    run, place = config.run, _processes(args)
    overrides: tuple[str, ...] = ()
    if config.parallel.distributed:
        # Supervisors meet before JAX has started, and tell its processes where to meet.
        place = found(os.environ, args.join_seconds) if place.count == 1 else place
        overrides = ("parallel.distributed=false",)
    plans = fallbacks(config, place.count)
    settings = Settings(
        run.path,
        Limits(run.hang_seconds, run.stall_seconds, run.phase_seconds),
        Policy(run.restarts, run.backoff_seconds),
        run.wait_for_hosts,
        place.index,
        place.count,
        Address.parse(place.coordinator) if place.coordinator and place.count > 1 else None,
        plans,
        overrides,
    )
    pulse.begin()
    with _searching(args, config, place, plans):
        return Answer(None, code=supervise(sys.orig_argv, settings), told=True)


@contextmanager
def _searching(
    args: argparse.Namespace,
    config: ExperimentConfig,
    place: Processes,
    plans: dict[int, tuple[str, ...]],
) -> Iterator[None]:
    """Context in which plans for fewer hosts are searched, if they are to be."""
    from mllm_jax.config.refit import planned, searched
    from mllm_jax.supervise.plans import Planning

    devices = searched(config, place.count) if place.index == 0 else {}
    if not devices:
        yield
        return
    before = sys.orig_argv[: sys.orig_argv.index("train")]
    command = [*before, "plan", "--config", args.config, *args.overrides, "--json"]
    planning = Planning(
        command, devices, config.run.path / "plans", partial(planned, config), plans
    )
    try:
        yield
    finally:
        planning.stop()


def evaluate(args: argparse.Namespace, config: ExperimentConfig, console: Console) -> Answer:
    """Loss and exact match on held-out samples, with the newest checkpoint of the run."""
    _start(args, config, keep=True)
    from mllm_jax.train.evaluate import evaluate_run, figures_of

    result = evaluate_run(config)
    rows = [(name, f"{value:.4g}") for name, value in figures_of(result).items()]
    return Answer(result, [((f"step {result['step']}", "value"), rows)])


def verify(args: argparse.Namespace, config: ExperimentConfig, console: Console) -> Answer:
    """Compare loss and every gradient under the configured plans with a single device."""
    _start(args, config)
    from mllm_jax.check.verify import LIMIT
    from mllm_jax.check.verify import verify as run

    result = run(config)
    table = ("what", "relative error", "worst leaf"), result.rows
    verdict = "ok" if result.ok else f"FAILED: an error exceeds {LIMIT:g}"
    return Answer(result.to_json(), [table], [verdict], _code(result.ok))


def check(args: argparse.Namespace, config: ExperimentConfig, console: Console) -> Answer:
    """Check devices, links, disk, clocks and packages of all processes, as before training."""
    from mllm_jax.runtime.folder import prepare_folder

    devices = _start(args, config)
    from mllm_jax.health.check import checks, examine

    prepare_folder(config.run.path)
    health = examine(checks(config.run.path, devices))
    table = ("check", "place", "found"), health.rows
    return Answer(health.to_json(), [table], [str(health)], _code(health.ok))


def config(args: argparse.Namespace, config: ExperimentConfig, console: Console) -> Answer:
    """Print the configuration with every default filled in, and what is chosen by it."""
    from mllm_jax.config.load import to_yaml
    from mllm_jax.config.overlap import overlap
    from mllm_jax.plan.exchanges import lane_exchanges

    told = [f"# {own}" for own in (*lane_exchanges(config), *overlap(config).lines)]
    return Answer(config.model_dump(mode="json"), lines=[to_yaml(config).rstrip("\n"), *told])


def keys() -> Answer:
    """The table of all keys of the configuration, for `config --keys`."""
    from mllm_jax.config.keys import table
    from mllm_jax.config.sections import ExperimentConfig

    text = table(ExperimentConfig).rstrip("\n")
    return Answer(text, lines=[text])


def bench(args: argparse.Namespace, config: ExperimentConfig, console: Console) -> Answer:
    """Measure parts of a step one by one."""
    _check_options(args)
    own = BENCHMARKS[args.benchmark]
    if own.devices == "host":
        from mllm_jax.runtime.devices import use_host

        use_host()
    elif own.devices == "any":
        _start_any(args)
    else:
        _start(args, config, one_thread=own.one_thread)
    from mllm_jax.bench.findings import Findings, Verdict

    names = [option.name for option in own.options]
    options = {name: value for name in names if (value := getattr(args, name)) is not None}
    result = own.function(config, _teller(console), **options)
    if isinstance(result, Findings):
        return Answer(result.rows, lines=[result.markdown], code=_code(result.ok))
    if isinstance(result, Verdict):
        tables = [_table([*result.rows])] if result.rows else []
        return Answer(result.values, tables, result.lines, _code(result.ok))
    if isinstance(result, dict):
        return Answer(result, [((args.benchmark, "value"), list(_flat(result)))])
    return Answer(result, [_table(result)])


def _flat(values: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Values by name; those within others have the names of both."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{name} ")
        else:
            yield before + name, value


def _check_options(args: argparse.Namespace) -> None:
    """Raise ConfigError for an option of another benchmark."""
    from mllm_jax.config.sections import ConfigError

    for name, own in BENCHMARKS.items():
        names = [option.name for option in own.options]
        given = [f"--{option}" for option in names if getattr(args, option) is not None]
        if given and args.benchmark != name:
            problems = [f"{option} is an option of bench {name}" for option in given]
            raise ConfigError(f"bench {args.benchmark}", problems)


def trace(args: argparse.Namespace, config: ExperimentConfig, console: Console) -> Answer:
    """Draw the pipeline's schedule, and write it as a trace for Perfetto."""
    _start(args, config)
    from mllm_jax.check.trace import trace as run

    result = run(config, Path(args.output or config.run.path), measure=args.measure)
    return Answer(result.to_json(), [(("what", "value"), result.rows)])


def experts(args: argparse.Namespace, config: ExperimentConfig, console: Console) -> Answer:
    """Draw the load of every expert in a run: a heat map, and its evenness over the steps."""
    from mllm_jax.train.records.expert_history import COLUMNS, draw, expert_history

    folder = Path(args.output or config.run.path)
    if args.routes:
        return _routes(config, folder)
    history = expert_history(config.run.path / "metrics.jsonl")
    file = draw(history, folder)
    value = history.to_json() | {"file": str(file)}
    return Answer(value, [(COLUMNS, history.rows)], [f"written: {file}"])


def _routes(config: ExperimentConfig, folder: Path) -> Answer:
    """Draw the way of a few tokens through a layer with experts."""
    from mllm_jax.check.expert_routes import draw, routes

    file = draw(routes(config), folder)
    return Answer({"file": str(file)}, lines=[f"written: {file}"])


def simulate(args: argparse.Namespace, config: ExperimentConfig, console: Console) -> Answer:
    """Predict a step on hardware that need not be here, with idle time by kind."""
    from mllm_jax.config.sections import ConfigError
    from mllm_jax.plan.simulate import Variation
    from mllm_jax.plan.simulate import simulate as run
    from scheduling.costs.hardware import named

    if args.ablate:
        return _ablation(args, config)
    if args.mixture:
        return _mixture(args, config, console)
    if args.even:
        raise ConfigError("simulate", ["--even is an option of --mixture; valid: both or neither"])
    variation = Variation(dict(args.slow), args.vary or 0.0, _seed(args, config))
    hardware = named(_hardware(args, config))
    result = run(config, hardware, Path(args.output or config.run.path), variation)
    return Answer(result.to_json(), [(("what", "seconds", "share"), result.rows)], result.notes)


def _ablation(args: argparse.Namespace, config: ExperimentConfig) -> Answer:
    """Predict the gains of MegaScale's techniques."""
    from mllm_jax.config.sections import ConfigError
    from mllm_jax.plan.ablate import COLUMNS, ablate
    from scheduling.costs.hardware import named

    others = {"--mixture": args.mixture, "--slow": args.slow, "--vary": args.vary is not None}
    if given := [name for name, value in others.items() if value]:
        problems = [f"{' and '.join(given)} is of other predictions; valid: --ablate alone"]
        raise ConfigError("simulate --ablate", problems)
    result = ablate(config, named(_hardware(args, config)))
    return Answer(result.to_json(), [(COLUMNS, [row.cells for row in result.rows])], result.notes)


def _seed(args: argparse.Namespace, config: ExperimentConfig) -> int:
    """The seed that is asked for, else that of the run."""
    seed: int = config.train.seed if args.seed is None else args.seed
    return seed


def _mixture(args: argparse.Namespace, config: ExperimentConfig, console: Console) -> Answer:
    """Predict the step under several mixtures of media and text, beside other systems."""
    from mllm_jax.config.sections import ConfigError
    from mllm_jax.plan.mixture.compare import compare
    from mllm_jax.plan.mixture.draws import SIGMA, Draw
    from mllm_jax.plan.mixture.files import write
    from mllm_jax.runtime.devices import use_host
    from scheduling.costs.hardware import named

    if args.slow or (args.even and args.vary is not None):
        problems = ["--slow changes one step, and even rows do not vary; valid: --even or --vary"]
        raise ConfigError("simulate --mixture", problems)
    use_host()
    name, sigma = _hardware(args, config), SIGMA if args.vary is None else args.vary
    draw = None if args.even else Draw(sigma, _seed(args, config))
    result = compare(config, named(name), name, args.mixture, draw, _teller(console))
    files = write(result, Path(args.output or config.run.path))
    notes = [*result.notes, *(f"written: {file}" for file in files)]
    value = result.to_json() | {"files": [str(file) for file in files]}
    return Answer(value, [(result.columns, result.rows)], notes)


def plan(args: argparse.Namespace, config: ExperimentConfig, console: Console) -> Answer:
    """Search the fastest plans for the model, the rows of a step and the devices."""
    from mllm_jax.plan.planner import Planner
    from mllm_jax.plan.prediction import COLUMNS
    from mllm_jax.plan.report import plan as run
    from mllm_jax.runtime.devices import use_host
    from scheduling.costs.hardware import named

    use_host()
    chosen = None
    if args.budgets:
        from mllm_jax.plan.budgets import advise

        chosen = advise(config)
    config = chosen.applied(config) if chosen else config
    memory = None if args.memory is None else args.memory * 2**30
    name = _hardware(args, config)
    planner = Planner(config, named(name), name, memory, args.within)
    file = Path(args.output) if args.output else config.run.path / "plan.yaml"
    result = run(planner, args.top, file, time.perf_counter, _teller(console), chosen)
    return Answer(result.to_json(), [(COLUMNS, result.rows)], result.notes)


def calibrate(args: argparse.Namespace, config: ExperimentConfig, console: Console) -> Answer:
    """Measure this machine for the cost model: a description for simulate --hardware."""
    _start(args, config, one_thread=True)
    from mllm_jax.calibrate.measure import calibrate as run

    output = Path(args.output or config.run.path / "hardware.yaml")
    result = run(config, output, _teller(console))
    constants = ("constant", "value"), list(result.constants.items())
    return Answer(
        result.to_json() | {"file": str(output)},
        [_table(result.rows), constants],
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

    report = compile_ahead(config, Target.parse(args.topology), _teller(console))
    memory = ("bytes of a device", "GiB", "of the limit"), report.memory_rows
    columns = ("collectives of a step", "in the program", "GiB", "ms", "overlapped")
    tables = [memory, (columns, report.collective_rows)]
    return Answer(report.to_json(), tables, [report.summary], _code(report.fits))


def _compile_and_save(
    args: argparse.Namespace, config: ExperimentConfig, console: Console
) -> Answer:
    """Compile the train step for the devices of this machine, and write it."""
    _start(args, config)
    from mllm_jax.compile.save import save_step

    saved = save_step(config, Path(args.save), _teller(console))
    return Answer(saved.to_json(), lines=[f"written: {saved.file}", saved.summary])


def budgets(args: argparse.Namespace, config: ExperimentConfig, console: Console) -> Answer:
    """Suggest data.budgets that fit the data and the plans, with the padding to expect."""
    from mllm_jax.plan.budgets import advise

    advice = advise(config, args.samples)
    columns = ("budget", "now", "padding now", "suggested", "padding then")
    values = ", ".join(f"{name}: {number}" for name, number in advice.suggested.budgets.items())
    lines = [*advice.outcomes, f"data.budgets='{{{values}}}'"]
    return Answer(advice.to_json(), [(columns, advice.rows)], lines)


def preview(args: argparse.Namespace, config: ExperimentConfig, console: Console) -> Answer:
    """Write a page of what the model sees: the first samples, as the loader packs them."""
    from mllm_jax.preview.page import COLUMNS
    from mllm_jax.preview.page import preview as run
    from mllm_jax.runtime.devices import use_host

    use_host()
    done = run(config, args.samples, Path(args.out) if args.out else None)
    return Answer(done.to_json(), [(COLUMNS, done.rows)], done.lines)


def submit(args: argparse.Namespace, config: ExperimentConfig, console: Console) -> Answer:
    """Write the job of a run for Slurm or Kubernetes, and submit it (--go)."""
    from mllm_jax.submit.submit import submit as run

    output = Path(args.output) if args.output else None
    result = run(config, args.cluster, args.nodes, output, go=args.go)
    return Answer(result.to_json(), [(("what", "value"), result.rows)], result.lines)


def import_(args: argparse.Namespace, console: Console) -> Answer:
    """Make a run that begins with released weights: fetch, check and configure them."""
    from mllm_jax.release.import_weights import import_release as run

    encoders = dict(args.encoder)
    tell = _teller(console)
    found = run(args.source, Path(args.out), encoders, args.dtype, args.devices, tell)
    read = f"{found.parameters:,} parameters, read in {found.seconds:.1f} s"
    table = ("part", "comes from"), found.rows
    return Answer(found.to_json(), [table], [read, f"written: {found.config}"])


def export(args: argparse.Namespace, console: Console) -> Answer:
    """Write the newest checkpoint of a run as a released one: safetensors, config, tokenizer."""
    from mllm_jax.release.export_weights import export as run
    from mllm_jax.runtime.devices import use_host

    use_host()
    done = run(Path(args.run), Path(args.out), args.part, args.dtype, _teller(console))
    copied = ", ".join(done.copied)
    line = f"written: {done.folder}, {done.bytes / 1e9:.3g} GB; copied: {copied}"
    return Answer(done.to_json(), lines=[line])


def report(args: argparse.Namespace, console: Console) -> Answer:
    """Write a page about a run: its figures, time, schedule, plan, samples and configuration."""
    from mllm_jax.report.page import report as run

    file = run(Path(args.run), Path(args.output) if args.output else None)
    return Answer({"file": str(file)}, lines=[f"written: {file}"])


#: Commands in the order of the help.
COMMANDS = (
    train,
    evaluate,
    verify,
    check,
    config,
    preview,
    budgets,
    bench,
    trace,
    experts,
    report,
    simulate,
    calibrate,
    plan,
    compile,
    submit,
    import_,
    export,
)


def _table(rows: list[dict[str, object]]) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
    """Columns and rows of a table whose rows name their columns."""
    return tuple(rows[0]), [tuple(row.values()) for row in rows]


def _code(well: bool) -> Exit:
    return Exit.OK if well else Exit.FAILED


def _hardware(args: argparse.Namespace, config: ExperimentConfig) -> str:
    """The description that was asked for, or that the configuration was planned for."""
    return args.hardware or config.schedule.hardware or "h100"


def _teller(console: Console) -> Callable[[object], None]:
    """Tells of progress, from one of the processes."""

    def tell(line: object) -> None:
        if peers().index == 0:
            console.print(line, markup=False, soft_wrap=True)

    return tell


def _processes(args: argparse.Namespace) -> Processes:
    """The place of this process among those of the run."""
    return Processes(args.processes, args.process, args.coordinator, args.join_seconds)


def _start_any(args: argparse.Namespace) -> None:
    """The devices that this process finds by itself; DeviceError for several processes."""
    from mllm_jax.runtime.devices import DeviceError, start_any

    if args.processes > 1:
        raise DeviceError(
            f"--processes {args.processes}: bench {args.benchmark} measures the devices of one "
            "process; valid: 1"
        )
    start_any(EMULATED)


def _start(
    args: argparse.Namespace,
    config: ExperimentConfig,
    *,
    one_thread: bool = False,
    keep: bool = False,
) -> list[Device]:
    """Start devices and processes; with `keep`, compiled programs are kept between runs.

    Returns:
        The devices of all processes.
    """
    from mllm_jax.runtime.agreement import agree, code, configured
    from mllm_jax.runtime.devices import start
    from mllm_jax.runtime.supervised.process import LATER, supervised
    from mllm_jax.runtime.watch import Limits

    processes = _processes(args)
    run = config.run
    later = LATER if supervised() else 0.0
    limits = Limits(run.hang_seconds + later, run.stall_seconds, run.phase_seconds)
    same = partial(agree, "configuration and code")
    if keep:
        from mllm_jax.runtime.compiled.cache import keep_compiled

        keep_compiled(config.run.compilation_cache)
    facts = {
        "command": args.name,
        "--from-step": getattr(args, "from_step", None),
        **configured(config.model_dump(mode="json")),
    }

    def check() -> None:
        from data.planning.balance import fingerprints

        same(facts | code() | fingerprints(config.data))

    return start(config.parallel, processes, limits, check, one_thread=one_thread)

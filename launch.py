"""The one entry point: `launch.py COMMAND --config FILE [section.key=value ...]`.

Commands read the configuration first, then choose the devices, and only then load what computes:
no environment variable is needed, and a mistake in the configuration is told in half a second of
CPU time (`bench startup`).
Exit codes tell causes apart: `mllm_jax/runtime/exits.py`, and at the end of `--help`.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from mllm_jax.options import BENCHMARK_OPTIONS, parse
from mllm_jax.runtime.exits import Exit, code_of

if TYPE_CHECKING:
    from rich.console import Console

    from mllm_jax.config import ExperimentConfig

OK, FAILED, BAD_INPUT, INTERRUPTED = Exit.OK, Exit.FAILED, Exit.BAD_INPUT, Exit.INTERRUPTED

#: Seconds in which the watch on the other processes finds why this one has failed: what JAX says
#: of a process that is gone is no more than that.
VERDICT = 5.0

#: Benchmarks of what the host does by itself, or processes that they start.
WITHOUT_DEVICES = ("balance", "loader", "peers", "published", "startup")
#: Benchmarks that ask XLA for one thread for every emulated device: two cores are two devices.
ONE_THREAD = ("pipeline", "step", "cost")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    args = parse(sys.argv[1:] if argv is None else argv, COMMANDS)
    from mllm_jax.console import log_to, open_console
    from mllm_jax.runtime.interrupt import Interruptible

    console = open_console(as_json=args.json)
    log_to(console)
    with Interruptible():
        code, reason = _outcome(args, console)
        _leave(code, reason)
    return code


def _outcome(args: argparse.Namespace, console: Console) -> tuple[int, str]:
    """Exit code, and why if it is not 0."""
    from mllm_jax.runtime.interrupt import standing

    try:
        return _run(args, console), ""
    except KeyboardInterrupt:
        console.print(standing(), markup=False, soft_wrap=True)
        return INTERRUPTED, "interrupted"
    except Exception as error:
        code = code_of(error)
        if code is None:
            _fail(error)
            raise
        from mllm_jax.console import open_console

        open_console(as_json=True).print(f"error: {error}", style="red", markup=False)
        return code, str(error)


def _fail(error: Exception) -> None:
    """An error that nobody has foreseen: of several processes, the watch may know its cause."""
    from mllm_jax.runtime.part import leave_process, peers

    if peers().count > 1:
        time.sleep(VERDICT)
        traceback.print_exception(error)
        peers().leave(FAILED, f"{type(error).__name__}: {error}")
        leave_process(FAILED)


def _leave(code: int, reason: str) -> None:
    """Part from the other processes; with an error at once, as they may never come."""
    from mllm_jax.runtime.part import leave_process, peers

    if peers().count == 1:
        return
    if code in (OK, FAILED):
        from mllm_jax.devices import stop

        stop()
        peers().leave(OK)
    else:
        peers().leave(code, reason)
        leave_process(code)


def _run(args: argparse.Namespace, console: Console) -> int:
    from mllm_jax.config import load

    if getattr(args, "keys", False):
        return _keys(console)
    if args.command in (import_, export):
        done: int = args.command(args, console)
        return done
    config = load(args.config, args.overrides, planned=args.command is not plan)
    code: int = args.command(args, config, console)
    return code


def train(args: argparse.Namespace, config: ExperimentConfig, console: Console) -> int:
    """Train, or go on where the run of this name stopped; evaluate at the end."""
    from mllm_jax.runtime.interrupt import stands
    from mllm_jax.runtime.standing import untouched

    stands(untouched(config))
    _start(args, config, keep=True)
    from mllm_jax.console import print_json
    from mllm_jax.devices import is_primary
    from mllm_jax.train.loop import train as run

    summary = run(config, console, args.from_step)
    if args.json and is_primary():
        print_json(summary)
    return OK


def evaluate(args: argparse.Namespace, config: ExperimentConfig, console: Console) -> int:
    """Loss and exact match on held-out samples, with the newest checkpoint of the run."""
    _start(args, config, keep=True)
    from mllm_jax.console import print_json, print_table
    from mllm_jax.devices import is_primary
    from mllm_jax.train.evaluate import evaluate_run, figures_of

    result = evaluate_run(config)
    if not is_primary():
        return OK
    if args.json:
        print_json(result)
    else:
        rows = [(name, f"{value:.4g}") for name, value in figures_of(result).items()]
        print_table(console, (f"step {result['step']}", "value"), rows)
    return OK


def verify(args: argparse.Namespace, config: ExperimentConfig, console: Console) -> int:
    """Compare loss and every gradient under the configured plans with a single device."""
    _start(args, config)
    from mllm_jax.console import print_json, print_table
    from mllm_jax.devices import is_primary
    from mllm_jax.train.verify import LIMIT
    from mllm_jax.train.verify import verify as run

    result = run(config)
    if is_primary() and args.json:
        print_json(result.to_json())
    elif is_primary():
        print_table(console, ("what", "relative error", "worst leaf"), result.rows)
        console.print("ok" if result.ok else f"FAILED: an error exceeds {LIMIT:g}")
    return OK if result.ok else FAILED


def config(args: argparse.Namespace, config: ExperimentConfig, console: Console) -> int:
    """Print the configuration with every default filled in."""
    from mllm_jax.config import to_yaml
    from mllm_jax.console import print_json

    if args.json:
        print_json(config.model_dump(mode="json"))
    else:
        console.out(to_yaml(config), end="", highlight=False)
    return OK


def bench(args: argparse.Namespace, config: ExperimentConfig, console: Console) -> int:
    """Measure parts of a step one by one."""
    _check_options(args)
    if args.benchmark not in WITHOUT_DEVICES:
        _start(args, config, one_thread=args.benchmark in ONE_THREAD)
    from mllm_jax.bench import BENCHMARKS
    from mllm_jax.console import print_json, print_table
    from mllm_jax.devices import is_primary, use_host

    if args.benchmark in WITHOUT_DEVICES:
        use_host()

    own = BENCHMARK_OPTIONS.get(args.benchmark, ())
    options = {name: value for name in own if (value := getattr(args, name)) is not None}
    tell = console.print if is_primary() else lambda _: None
    result = BENCHMARKS[args.benchmark](config, tell, **options)
    if not is_primary():
        return OK
    if args.json:
        print_json(result)
    elif isinstance(result, dict):
        print_table(console, (args.benchmark, "value"), list(result.items()))
    else:
        print_table(console, tuple(result[0]), [tuple(row.values()) for row in result])
    return OK


def _check_options(args: argparse.Namespace) -> None:
    """Raise ConfigError for an option of another benchmark."""
    from mllm_jax.config import ConfigError

    for name, options in BENCHMARK_OPTIONS.items():
        given = [f"--{option}" for option in options if getattr(args, option) is not None]
        if given and args.benchmark != name:
            problems = [f"{option} is an option of bench {name}" for option in given]
            raise ConfigError(f"bench {args.benchmark}", problems)


def trace(args: argparse.Namespace, config: ExperimentConfig, console: Console) -> int:
    """Draw the pipeline's schedule, and write it as a trace for Perfetto."""
    _start(args, config)
    from mllm_jax.console import print_json, print_table
    from mllm_jax.devices import is_primary
    from mllm_jax.trace import trace as run

    result = run(config, Path(args.output or config.run.path), measure=args.measure)
    if not is_primary():
        return OK
    if args.json:
        print_json(result.to_json())
    else:
        print_table(console, ("what", "value"), result.rows)
    return OK


def simulate(args: argparse.Namespace, config: ExperimentConfig, console: Console) -> int:
    """Predict a step on hardware that need not be here, with idle time by kind."""
    from mllm_jax.console import print_json, print_table
    from mllm_jax.simulate import Variation
    from mllm_jax.simulate import simulate as run
    from scheduling.hardware import named

    seed = config.train.seed if args.seed is None else args.seed
    variation = Variation(dict(args.slow), args.vary, seed)
    hardware = named(_hardware(args, config))
    result = run(config, hardware, Path(args.output or config.run.path), variation)
    if args.json:
        print_json(result.to_json())
        return OK
    print_table(console, ("what", "seconds", "share"), result.rows)
    for note in result.notes:
        console.print(note, markup=False)
    return OK


def plan(args: argparse.Namespace, config: ExperimentConfig, console: Console) -> int:
    """Search the fastest plans for the model, the rows of a step and the devices."""
    from mllm_jax.console import print_json, print_table
    from mllm_jax.devices import use_host
    from mllm_jax.plan import plan as run
    from mllm_jax.planning import Planner
    from mllm_jax.prediction import COLUMNS
    from scheduling.hardware import named

    use_host()
    chosen = None
    if args.budgets:
        from mllm_jax.budgets import advise

        chosen = advise(config)
    config = chosen.applied(config) if chosen else config
    memory = None if args.memory is None else args.memory * 2**30
    name = _hardware(args, config)
    planner = Planner(config, named(name), name, memory, args.within)
    file = Path(args.output) if args.output else config.run.path / "plan.yaml"
    tell = partial(console.print, markup=False)
    result = run(planner, args.top, file, time.perf_counter, tell, chosen)
    if args.json:
        print_json(result.to_json())
        return OK
    print_table(console, COLUMNS, result.rows)
    for note in result.notes:
        console.print(note, markup=False)
    return OK


def calibrate(args: argparse.Namespace, config: ExperimentConfig, console: Console) -> int:
    """Measure this machine for the cost model: a description for simulate --hardware."""
    _start(args, config, one_thread=True)
    from mllm_jax.calibrate import calibrate as run
    from mllm_jax.console import print_json, print_table
    from mllm_jax.devices import is_primary

    output = Path(args.output or config.run.path / "hardware.yaml")
    tell = console.print if is_primary() else lambda _: None
    result = run(config, output, tell)
    if not is_primary():
        return OK
    if args.json:
        print_json(result.to_json() | {"file": str(output)})
        return OK
    print_table(console, tuple(result.rows[0]), [tuple(row.values()) for row in result.rows])
    print_table(console, ("constant", "value"), list(result.constants.items()))
    for note in (*result.notes, f"written: {output}"):
        console.print(note, markup=False)
    return OK


def compile(  # noqa: A001 - commands are called as their functions
    args: argparse.Namespace, config: ExperimentConfig, console: Console
) -> int:
    """Compile the train step for accelerators that are not here; tell its memory and network."""
    from mllm_jax.config import ParallelConfig
    from mllm_jax.devices import start

    start(ParallelConfig())  # what compiles is the CPU
    from mllm_jax.ahead import Target
    from mllm_jax.compile_ahead import compile_ahead
    from mllm_jax.console import print_json, print_table

    tell = (lambda _: None) if args.json else console.print
    report = compile_ahead(config, Target.parse(args.topology), tell)
    if args.json:
        print_json(report.to_json())
    else:
        print_table(console, ("bytes of a device", "GiB", "of the limit"), report.memory_rows)
        columns = ("collectives of a step", "in the program", "GiB", "ms", "overlapped")
        print_table(console, columns, report.collective_rows)
        console.print(report.summary, markup=False)
    return OK if report.fits else FAILED


def budgets(args: argparse.Namespace, config: ExperimentConfig, console: Console) -> int:
    """Suggest data.budgets that fit the data and the plans, with the padding to expect."""
    from mllm_jax.budgets import advise
    from mllm_jax.console import print_json, print_table

    advice = advise(config, args.samples)
    if args.json:
        print_json(advice.to_json())
        return OK
    columns = ("budget", "now", "padding now", "suggested", "padding then")
    print_table(console, columns, advice.rows)
    for line in advice.outcomes:
        console.print(line, markup=False, soft_wrap=True)
    values = ", ".join(f"{name}: {number}" for name, number in advice.suggested.budgets.items())
    console.print(f"data.budgets='{{{values}}}'", markup=False)
    return OK


def import_(args: argparse.Namespace, console: Console) -> int:
    """Make a run that begins with released weights: fetch, check and configure them."""
    from mllm_jax.console import print_json, print_table
    from mllm_jax.import_weights import import_release as run

    tell = partial(console.print, markup=False, soft_wrap=True)
    encoders = dict(args.encoder)
    found = run(args.source, Path(args.out), encoders, args.dtype, args.devices, tell)
    if args.json:
        print_json(found.to_json())
        return OK
    print_table(console, ("part", "comes from"), found.rows)
    tell(f"{found.parameters:,} parameters, read in {found.seconds:.1f} s")
    tell(f"written: {found.config}")
    return OK


def export(args: argparse.Namespace, console: Console) -> int:
    """Write the newest checkpoint of a run as a released one: safetensors, config, tokenizer."""
    from mllm_jax.console import print_json
    from mllm_jax.devices import use_host
    from mllm_jax.export_weights import export as run

    use_host()
    tell = partial(console.print, markup=False, soft_wrap=True)
    done = run(Path(args.run), Path(args.out), args.part, args.dtype, tell)
    if args.json:
        print_json(done.to_json())
        return OK
    tell(f"written: {done.folder}, {done.bytes / 1e9:.3g} GB; copied: {', '.join(done.copied)}")
    return OK


#: In the order of the help.
COMMANDS = (
    train,
    evaluate,
    verify,
    config,
    budgets,
    bench,
    trace,
    simulate,
    calibrate,
    plan,
    compile,
    import_,
    export,
)


def _hardware(args: argparse.Namespace, config: ExperimentConfig) -> str:
    """The description that was asked for, or that the configuration was planned for."""
    return args.hardware or config.schedule.hardware or "h100"


def _start(
    args: argparse.Namespace,
    config: ExperimentConfig,
    *,
    one_thread: bool = False,
    keep: bool = False,
) -> None:
    """Devices and processes of a run; with `keep`, of a command whose compiling is not measured."""
    from mllm_jax.devices import Processes, start
    from mllm_jax.runtime.agreement import agree, code, configured
    from mllm_jax.runtime.watch import Limits

    processes = Processes(args.processes, args.process, args.coordinator, args.join_seconds)
    limits = Limits(config.run.hang_seconds, config.run.stall_seconds)
    same = partial(agree, "configuration and code")
    if keep:
        from mllm_jax.runtime.cache import keep_compiled

        keep_compiled(config.run.compilation_cache)
    facts = {
        "command": args.name,
        "--from-step": getattr(args, "from_step", None),
        **configured(config.model_dump(mode="json")),
    }
    start(config.parallel, processes, limits, lambda: same(facts | code()), one_thread=one_thread)


def _keys(console: Console) -> int:
    from mllm_jax.config import ExperimentConfig
    from mllm_jax.config_keys import table

    console.out(table(ExperimentConfig), end="", highlight=False)
    return OK


if __name__ == "__main__":
    sys.exit(main())

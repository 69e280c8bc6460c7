"""The commands of `launch.py`: each reads options, runs what has its own room, and answers.

The first line of a command's docstring is its help. Libraries that compute are imported inside the
commands: `launch.py --help` and a mistake in a configuration need none of it.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from mllm_jax.cli.answer import Answer
from mllm_jax.cli.benchmark import answer_of, registered
from mllm_jax.cli.models import export, generate, import_
from mllm_jax.cli.planning import budgets, calibrate, compile, plan, simulate, submit  # noqa: A004
from mllm_jax.cli.shared import (
    begin,
    begin_any,
    code,
    processes_of,
    teller,
    with_budgets,
)
from mllm_jax.runtime.exits import Exit
from mllm_jax.runtime.part import Processes
from mllm_jax.submit import pulse

if TYPE_CHECKING:  # which --help does not need
    from rich.console import Console

    from mllm_jax.config.sections import ExperimentConfig
    from mllm_jax.supervise.plans import Plans


def train(args: argparse.Namespace, config: ExperimentConfig, console: Console) -> Answer:
    """Train, or go on where the run of this name stopped; evaluate at the end."""
    if args.supervise:
        return _supervise(args, config)
    from mllm_jax.runtime.interrupt import stands
    from mllm_jax.runtime.standing import untouched

    stands(untouched(config))
    begin(args, config, keep=True)
    pulse.begin()
    from mllm_jax.train.trainer import train as run

    return Answer(run(with_budgets(config, console), console, args.from_step))


def _supervise(args: argparse.Namespace, config: ExperimentConfig) -> Answer:
    """Keep training going in another process, which answers."""
    from mllm_jax.config.refit import fallbacks
    from mllm_jax.config.sections import ConfigError
    from mllm_jax.runtime.backends.place import found
    from mllm_jax.runtime.watch import Limits
    from mllm_jax.runtime.wire import Address
    from mllm_jax.supervise.plans import Plans
    from mllm_jax.supervise.policy import Policy
    from mllm_jax.supervise.start import supervise
    from mllm_jax.supervise.supervisor import Settings

    if not config.checkpoint.enabled:
        told = "checkpoint.enabled false: a restart would lose all steps; valid: true"
        raise ConfigError("train --supervise", [told])
    run, place = config.run, processes_of(args)
    overrides: tuple[str, ...] = ()
    if config.parallel.distributed:
        # Supervisors meet before JAX has started, and tell its processes where to meet.
        place = found(os.environ, args.join_seconds) if place.count == 1 else place
        overrides = ("parallel.distributed=false",)
    plans = Plans(fallbacks(config, place.count))
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
    plans: Plans,
) -> Iterator[None]:
    """Context in which plans for fewer hosts are searched, if they are to be."""
    from mllm_jax.config.refit import planned, searched
    from mllm_jax.supervise.plans import Planning

    devices = searched(config, place.count) if place.index == 0 else {}
    if not devices:
        yield
        return
    before = sys.orig_argv[: sys.orig_argv.index("train")]
    command = [*before, "plan", "--config", args.config, *args.overrides, "--json", "--all-devices"]
    planning = Planning(
        command, devices, config.run.path / "plans", partial(planned, config), plans
    )
    try:
        yield
    finally:
        planning.stop()


def evaluate(args: argparse.Namespace, config: ExperimentConfig | None, console: Console) -> Answer:
    """Loss and exact match on held-out samples, or metrics of answers to questions of your own."""
    if config is None:
        from mllm_jax.cli.answering import questions

        return questions(args, console)
    begin(args, config, keep=True)
    from mllm_jax.train.components.evaluator import evaluate_run
    from mllm_jax.train.records.evaluation_figures import figures_of

    result = evaluate_run(with_budgets(config, console))
    rows = [(name, f"{value:.4g}") for name, value in figures_of(result).items()]
    return Answer(result, [((f"step {result['step']}", "value"), rows)])


def verify(args: argparse.Namespace, config: ExperimentConfig, console: Console) -> Answer:
    """Compare loss and every gradient under the configured plans with a single device."""
    begin(args, config)
    from mllm_jax.check.verify import LIMIT
    from mllm_jax.check.verify import verify as run

    result = run(with_budgets(config, console))
    table = ("what", "relative error", "worst leaf"), result.rows
    verdict = "ok" if result.ok else f"FAILED: an error exceeds {LIMIT:g}"
    return Answer(result.to_json(), [table], [verdict], code(result.ok))


def check(args: argparse.Namespace, config: ExperimentConfig, console: Console) -> Answer:
    """Check devices, links, disk, clocks and packages of all processes, as before training."""
    from mllm_jax.runtime.folder import prepare_folder

    devices = begin(args, config)
    from mllm_jax.health.check import checks, examine

    prepare_folder(config.run.path)
    health = examine(checks(config.run.path, devices))
    table = ("check", "place", "found"), health.rows
    return Answer(health.to_json(), [table], [str(health)], code(health.ok))


def config(args: argparse.Namespace, config: ExperimentConfig, console: Console) -> Answer:
    """Print the configuration with every default filled in, or rewrite a file with old keys."""
    from mllm_jax.config.load import to_yaml
    from mllm_jax.config.overlap import overlap
    from mllm_jax.plan.exchanges import lane_exchanges

    if config.data.auto_budgets:  # by which exchanges are chosen
        told = ["# data.budgets: auto; `launch.py budgets` tells which they are"]
    else:
        told = [f"# {own}" for own in (*lane_exchanges(config), *overlap(config).lines)]
    return Answer(config.model_dump(mode="json"), lines=[to_yaml(config).rstrip("\n"), *told])


def upgrade_files(files: Sequence[Path]) -> Answer:
    """Rewrite configurations with the keys of today, and tell what changed."""
    from mllm_jax.config.upgrade import upgrade

    changes = {str(file): lines for file, lines in upgrade(files).items()}
    lines: list[str] = []
    for file, changed in changes.items():
        lines += [f"{file}: {'upgraded' if changed else 'has the keys of today'}"]
        lines += [f"  {line}" for line in changed]
    return Answer(changes, lines=lines)


def keys(folder: str | None) -> Answer:
    """The table of all keys of the configuration, for `config --keys`, or pages with it."""
    from mllm_jax.config.keys import table, write_tables
    from mllm_jax.config.sections import ExperimentConfig

    if folder is not None:
        changed = [str(page) for page in write_tables(ExperimentConfig, Path(folder))]
        return Answer(changed, lines=changed or [f"the pages in {folder} are up to date"])
    text = table(ExperimentConfig).rstrip("\n")
    return Answer(text, lines=[text])


def bench(args: argparse.Namespace, config: ExperimentConfig, console: Console) -> Answer:
    """Measure parts of a step one by one."""
    from mllm_jax.checkout import require_benchmarks

    require_benchmarks("registry", f"bench {args.benchmark}")
    _check_options(args)
    benchmark = registered()[args.benchmark]
    require_benchmarks("needs", f"bench {args.benchmark}").check_needs(benchmark, config)
    if benchmark.devices == "host":
        from mllm_jax.runtime.devices import use_host

        use_host()
    elif benchmark.devices == "any":
        begin_any(args)
    else:
        begin(args, config, one_thread=benchmark.one_thread)
    names = [option.name for option in benchmark.options]
    options = {name: value for name in names if (value := getattr(args, name)) is not None}
    config = with_budgets(config, console)
    return answer_of(args.benchmark, benchmark.function(config, teller(console), **options))


def _check_options(args: argparse.Namespace) -> None:
    """Raise ConfigError for an option of another benchmark."""
    from mllm_jax.config.sections import ConfigError

    for name, benchmark in registered().items():
        names = [option.name for option in benchmark.options]
        given = [f"--{option}" for option in names if getattr(args, option) is not None]
        if given and args.benchmark != name:
            problems = [f"{option} is an option of bench {name}" for option in given]
            raise ConfigError(f"bench {args.benchmark}", problems)


def trace(args: argparse.Namespace, config: ExperimentConfig, console: Console) -> Answer:
    """Draw the pipeline's schedule, and write it as a trace for Perfetto."""
    begin(args, config)
    from mllm_jax.check.trace import trace as run

    config = with_budgets(config, console)
    result = run(config, Path(args.output or config.run.path), measure=args.measure)
    return Answer(result.to_json(), [(("what", "value"), result.rows)])


def experts(args: argparse.Namespace, config: ExperimentConfig, console: Console) -> Answer:
    """Draw the load of every expert in a run: a heat map, and its evenness over the steps."""
    from mllm_jax.train.records.expert_history import COLUMNS, draw, drawn_experts, expert_history

    drawn_experts(config.model.decoder)
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
    from mllm_jax.runtime.devices import use_host

    use_host()
    file = draw(routes(config), folder)
    return Answer({"file": str(file)}, lines=[f"written: {file}"])


def data(args: argparse.Namespace, console: Console) -> Answer:
    """Make a small data set to try everything out with: drawn shapes, and questions about them."""
    from data.sources.shapes import write_example

    done = write_example(Path(args.out), args.images, args.seed)
    return Answer(done.to_json(), lines=done.lines)


def preview(args: argparse.Namespace, config: ExperimentConfig, console: Console) -> Answer:
    """Write a page of what the model sees: the first samples, as the loader packs them."""
    from mllm_jax.pages.samples.page import COLUMNS
    from mllm_jax.pages.samples.page import preview as run
    from mllm_jax.runtime.devices import use_host

    use_host()
    config = with_budgets(config, console)
    done = run(config, args.samples, Path(args.out) if args.out else None)
    code = Exit.BAD_DATA if done.preview.refused else Exit.OK
    return Answer(done.to_json(), [(COLUMNS, done.rows)], done.lines, code)


def report(args: argparse.Namespace, console: Console) -> Answer:
    """Write a page about a run: its figures, time, schedule, plan, samples and configuration."""
    from mllm_jax.pages.run.page import report as run

    file = run(Path(args.run), Path(args.output) if args.output else None)
    return Answer({"file": str(file)}, lines=[f"written: {file}"])


#: Commands in the order of the help.
COMMANDS = (
    train,
    evaluate,
    generate,
    verify,
    check,
    config,
    data,
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

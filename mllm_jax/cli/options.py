"""The options of `launch.py` and their help, by command.

This module loads no numerical library: mistakes on the command line are reported at once.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from mllm_jax.checkout import ADVICE, ROOT
from mllm_jax.cli.benchmark import load_registry
from mllm_jax.cli.command import Command, CommandCall
from mllm_jax.cli.command_options import OPTIONS, add_model, add_questions, local_path
from mllm_jax.runtime.exits import exit_code_table

EPILOG = """\
Any key of the configuration can be set after the options, values in YAML:
  launch.py train --config configs/demo.yaml train.steps=10 run.name=trial
`launch.py config --keys` lists all keys.
"""

CODES = f"""\
Exit codes:
{exit_code_table()}
"""

#: Word of `config` before files that are rewritten with the keys of today.
UPGRADE = "upgrade"


#: Rows of `mllm_jax.cli.table` by name. This module does not load the table, which names what
#: commands call.
Commands = Mapping[str, Command]


def parse_arguments(argv: Sequence[str], commands: Commands) -> argparse.Namespace:
    """Parse a command line; arguments after or between the options are overrides.

    `help COMMAND` is `COMMAND --help`.

    Returns:
        The options, with the row of the table as `command` and what it calls as `call`.
    """
    parser = make_parser(commands)
    if argv[:1] == ["help"]:
        argv = [*argv[1:], "--help"]
    args, words = parser.parse_known_args(argv)
    command: Command = args.command
    if not command.has_overrides:
        if words:
            parser.error(f"{words[0]!r} is no option of {args.name}")
        args.call = command.select_call(args)
        return args
    benchmark = load_registry().get(getattr(args, "benchmark", ""))
    if benchmark and benchmark.config and args.config is None:
        args.config = ROOT / benchmark.config
    if args.name == "config":
        args.upgrade = [Path(file) for file in words[1:]] if words[:1] == [UPGRADE] else None
        if args.upgrade == []:
            parser.error("config upgrade needs the names of files: config upgrade FILE [FILE ...]")
        words = [] if args.upgrade else words
    args.call, args.overrides = command.select_call(args), words
    if problem := _find_problem(args, args.call):
        parser.error(problem)
    return args


def _find_problem(args: argparse.Namespace, call: CommandCall) -> str | None:
    """The problem with overrides or with a combination of options; None without one."""
    for text in args.overrides:
        if text.startswith("-") or "=" not in text:
            bare = text.lstrip("-")
            hint = f"; valid: {bare}" if "." in bare.partition("=")[0] and "=" in bare else ""
            return f"{text!r} is neither an option nor section.key=value{hint}"
    if args.name == "evaluate" and (problem := _find_mixture(args)):
        return problem
    if call.config != "none" and args.config is None:
        if args.name == "bench" and not load_registry():
            return ADVICE
        other = " or --questions FILE," if args.name == "evaluate" else ""
        return f"{args.name} needs --config FILE,{other} e.g. --config configs/demo.yaml"
    return None


def _find_mixture(args: argparse.Namespace) -> str | None:
    """Options of both kinds of evaluation together, as a problem; None if there are none."""
    if args.questions is not None:
        both = args.config is not None
        return "--config and --questions: both are given; valid: one of them" if both else None
    parser = argparse.ArgumentParser(add_help=False)
    for add_options in (add_questions, add_model):
        add_options(parser)
    present = [name for name in vars(parser.parse_args([])) if getattr(args, name) is not None]
    if not present:
        return None
    names = " and ".join(f"--{name.replace('_', '-')}" for name in present)
    what = "is an option" if len(present) == 1 else "are options"
    return f"{names} {what} of evaluate --questions FILE, which is not given"


def make_parser(commands: Commands) -> argparse.ArgumentParser:
    """The parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="launch.py",
        description="Train multimodal LLMs on JAX.",
        epilog=f"{EPILOG}\n{CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parsers = parser.add_subparsers(dest="name", required=True, metavar="COMMAND")
    for command in commands.values():
        command_parser = _add_command(parsers, command)
        for add_options in OPTIONS[command.name]:
            add_options(command_parser)
    return parser


def _add_command(
    parsers: argparse._SubParsersAction[argparse.ArgumentParser], command: Command
) -> argparse.ArgumentParser:
    """Add the parser of a command, with the options that all commands have."""
    overrides = " [section.key=value ...]" if command.has_overrides else ""
    parser = parsers.add_parser(
        command.name,
        help=command.summary,
        description=command.summary,
        epilog=f"{EPILOG}\n{CODES}" if command.has_overrides else CODES,
        usage=f"launch.py {command.name} {command.inputs} [options]{overrides}",
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(command=command)
    if command.has_config:
        parser.add_argument(
            "--config", type=local_path, metavar="FILE", help="experiment in YAML, see configs/"
        )
    parser.add_argument("--json", action="store_true", help="JSON on stdout, all else on stderr")
    return parser

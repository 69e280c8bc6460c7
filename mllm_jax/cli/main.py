"""The main function of the command line, from its arguments to an exit code.

Commands read the configuration first, then choose the devices, and only then load what computes:
no environment variable is needed, and a mistake in the configuration is told in half a second of
CPU time (`bench startup`). Exit codes tell causes apart: `mllm_jax/runtime/exits.py`, and at the
end of `--help`.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mllm_jax.cli.answer import Answer, show
from mllm_jax.cli.commands import COMMANDS, keys, upgrade_files
from mllm_jax.cli.folders import check_folders, check_run
from mllm_jax.cli.inputs import check_inputs
from mllm_jax.cli.options import WITHOUT_CONFIG, of_keys, of_model, parse
from mllm_jax.runtime.exits import Exit, code_of
from mllm_jax.runtime.part import leave_process, peers
from mllm_jax.runtime.supervised.process import obey, overrides

if TYPE_CHECKING:  # which --help does not need
    from rich.console import Console

#: Seconds in which the watch on the other processes finds why this one has failed: what JAX says
#: of a process that is gone is no more than that.
VERDICT = 5.0


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    obey()
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
    from mllm_jax.console import open_console
    from mllm_jax.runtime.interrupt import standing

    try:
        answer = _run(args, console)
    except KeyboardInterrupt:
        console.print(standing(), markup=False, soft_wrap=True)
        return Exit.INTERRUPTED, "interrupted"
    except Exception as error:
        code = code_of(error)
        if code is None:
            _fail(error)
            raise
        open_console(as_json=True).print(f"error: {error}", style="red", markup=False)
        return code, str(error)
    if peers().index == 0:
        show(console, answer, as_json=args.json)
    return answer.code, ""


def _run(args: argparse.Namespace, console: Console) -> Answer:
    if of_keys(args):
        return keys(args.write_keys)
    if args.name == "config" and args.upgrade:
        return upgrade_files(args.upgrade)
    check_folders(args)
    check_inputs(args)
    if args.name in WITHOUT_CONFIG or args.name == "generate":
        found: Answer = args.command(args, console)
    elif of_model(args):
        found = args.command(args, None, console)
    else:
        from mllm_jax.config.load import load

        words = [*args.overrides, *overrides()]
        config = load(args.config, words, planned=args.name != "plan")
        check_run(args, config)
        found = args.command(args, config, console)
    return found


def _fail(error: Exception) -> None:
    """Handle an unexpected error: with several processes, the watch may know its cause."""
    if peers().count > 1:
        time.sleep(VERDICT)
        traceback.print_exception(error)
        peers().leave(Exit.FAILED, f"{type(error).__name__}: {error}")
        leave_process(Exit.FAILED)


def _leave(code: int, reason: str) -> None:
    """Part from the other processes; with an error at once, as they may never come."""
    if peers().count == 1:
        return
    if code in (Exit.OK, Exit.FAILED):
        from mllm_jax.runtime.devices import stop

        stop()
        peers().leave(Exit.OK)
    else:
        peers().leave(code, reason)
        leave_process(code)

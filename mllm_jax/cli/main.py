"""The main function of the command line, from its arguments to an exit code.

Commands read the configuration first, then start the devices, and only then load what computes: no
environment variable is needed, and a mistake in the configuration is reported in half a second of
CPU time (`bench startup`). Exit codes distinguish causes: `mllm_jax/runtime/exits.py`, and at the
end of `--help`.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mllm_jax.cli.answer import CommandOutput, show_answer
from mllm_jax.cli.command import CommandCall, CommandRequest
from mllm_jax.cli.devices import launch_command, slices_to_launch, start_devices
from mllm_jax.cli.folders import check_folders, check_run
from mllm_jax.cli.inputs import check_inputs
from mllm_jax.cli.options import parse_arguments
from mllm_jax.cli.table import COMMANDS
from mllm_jax.runtime.exits import ExitCode, exit_code_of
from mllm_jax.runtime.run_peers import current_peers, leave_process
from mllm_jax.runtime.slices.process import end_with_launcher
from mllm_jax.runtime.supervised.process import apply_supervisor_settings, config_overrides
from mllm_jax.submit import liveness

if TYPE_CHECKING:  # which --help does not need
    from rich.console import Console

    from mllm_jax.config.sections import ExperimentConfig

#: Seconds in which the watch on the other processes finds why this one has failed: what JAX says
#: of a process that is gone is no more than that.
PEER_DIAGNOSIS_SECONDS = 5.0


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    apply_supervisor_settings()
    end_with_launcher()
    args = parse_arguments(sys.argv[1:] if argv is None else argv, COMMANDS)
    from mllm_jax.console import log_to, open_console
    from mllm_jax.runtime.interrupt import InterruptibleContext

    console, outcome = open_console(as_json=args.json), CommandOutcome()
    log_to(console)
    with InterruptibleContext():
        with convert_errors(outcome, console):
            outcome.answer = run_command(args, console)
        if outcome.answer is not None and current_peers().index == 0:
            show_answer(console, outcome.answer, as_json=args.json)
        leave_peers(outcome.code, outcome.reason)
    return outcome.code


def run_command(args: argparse.Namespace, console: Console) -> CommandOutput:
    """Check and load what a command needs, and call its function.

    Raises:
        Exception: what the function raises, or the request is refused.
    """
    call: CommandCall = args.call
    request = load_request(call, CommandRequest(args, console))
    limits = slices_to_launch(call, args, request.loaded)
    if limits is not None:
        return CommandOutput(None, code=launch_command(request.config, limits), answered=True)
    request = prepare_request(call, request)
    arguments = call.arguments(request)
    function = call.load_function()
    result = function(**arguments)
    return call.answer(result, request)


def load_request(call: CommandCall, request: CommandRequest) -> CommandRequest:
    """The request with the configuration that a call needs, once its options are checked."""
    check_folders(request.args)
    check_inputs(request.args)
    if call.config != "none":
        request = replace(request, loaded=load_config(call, request.args))
    call.prepare(request)
    return request


def prepare_request(call: CommandCall, request: CommandRequest) -> CommandRequest:
    """Start the devices that a call needs.

    Returns:
        The request with the devices.
    """
    request = replace(request, devices=start_devices(call, request.args, request.loaded))
    if call.liveness:
        liveness.start_touching()
    if call.budgets:
        from mllm_jax.plan.settled import settle_budgets

        request = replace(request, loaded=settle_budgets(request.config, request.print_line))
    return request


def load_config(call: CommandCall, args: argparse.Namespace) -> ExperimentConfig:
    """Load the configuration of `--config`, with its overrides and those of a supervisor."""
    from mllm_jax.config.load import load_config

    words = [*args.overrides, *config_overrides()]
    config = load_config(args.config, words, planned=call.config == "planned")
    check_run(args, config)
    return config


# ---- the end of a command ------------------------------------------------------------------------


@dataclass
class CommandOutcome:
    """The outcome of a command.

    Attributes:
        answer: its answer; None if it failed.
        failure: exit code of the error that it failed with.
        reason: message of that error.
    """

    answer: CommandOutput | None = None
    failure: int = ExitCode.FAILED
    reason: str = ""

    @property
    def code(self) -> int:
        """The exit code."""
        return self.failure if self.answer is None else self.answer.code


@contextmanager
def convert_errors(outcome: CommandOutcome, console: Console) -> Iterator[None]:
    """Context that reports errors whose message explains them, and notes their exit code.

    Raises:
        Exception: any other error.
    """
    from mllm_jax.console import open_console
    from mllm_jax.runtime.interrupt import interrupt_message

    try:
        yield
    except KeyboardInterrupt:
        console.print(interrupt_message(), markup=False, soft_wrap=True)
        outcome.failure, outcome.reason = ExitCode.INTERRUPTED, "interrupted"
    except Exception as error:
        code = exit_code_of(error)
        if code is None:
            report_unexpected(error)
            raise
        open_console(as_json=True).print(f"error: {error}", style="red", markup=False)
        outcome.failure, outcome.reason = code, str(error)


def report_unexpected(error: Exception) -> None:
    """Report an unexpected error: with several processes, the watch may know its cause."""
    if current_peers().count > 1:
        time.sleep(PEER_DIAGNOSIS_SECONDS)
        traceback.print_exception(error)
        current_peers().leave_run(ExitCode.FAILED, f"{type(error).__name__}: {error}")
        leave_process(ExitCode.FAILED)


def leave_peers(code: int, reason: str) -> None:
    """Leave the other processes; after an error without waiting, as they may never come."""
    if current_peers().count == 1:
        return
    if code in (ExitCode.OK, ExitCode.FAILED):
        from mllm_jax.runtime.devices import disconnect_processes

        disconnect_processes()
        current_peers().leave_run(ExitCode.OK)
    else:
        current_peers().leave_run(code, reason)
        leave_process(code)

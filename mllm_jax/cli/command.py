"""Types of commands: a row of `mllm_jax.cli.table`, and the request of a user."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from mllm_jax.cli.answer import CommandOutput
from mllm_jax.runtime.run_peers import current_peers

if TYPE_CHECKING:  # which --help does not need
    from rich.console import Console

    from mllm_jax.config.sections import ExperimentConfig


@dataclass(frozen=True)
class CommandRequest:
    """The request of a user for a command.

    Attributes:
        args: options of the command line.
        console: console for progress.
        loaded: the configuration, of calls that need one.
        devices: JAX devices of all processes, of calls that start the configured ones.
    """

    args: argparse.Namespace
    console: Console
    loaded: ExperimentConfig | None = None
    devices: Sequence[Any] = ()

    @property
    def config(self) -> ExperimentConfig:
        """The configuration."""
        assert self.loaded is not None, f"{self.args.name} is called without a configuration"
        return self.loaded

    @property
    def run_folder(self) -> Path:
        """Folder of the configured run."""
        return self.config.run.path

    def path_of(self, option: str) -> Path | None:
        """The path that an option names; None if the option is not set."""
        value = getattr(self.args, option)
        return None if value is None else Path(value)

    def print_line(self, line: object) -> None:
        """Print a line of progress, on process 0."""
        if current_peers().index == 0:
            self.console.print(line, markup=False, soft_wrap=True)


def accept_request(request: CommandRequest) -> None:
    """Accept any request."""
    del request


def request_alone(request: CommandRequest) -> Mapping[str, Any]:
    """The request as the only argument."""
    return {"request": request}


def answer_with(result: Any, request: CommandRequest) -> CommandOutput:
    """The answer that a function returned; any other result is a value for programs."""
    del request
    return result if isinstance(result, CommandOutput) else CommandOutput(result)


@dataclass(frozen=True)
class CommandCall:
    """A function that a command calls, and what the function needs.

    Attributes:
        function: the function as `module:name`; the module is loaded when devices are started.
        arguments: makes its arguments by name.
        answer: makes the answer of the command from what the function returns.
        config: whether the function needs the configuration of `--config`: none, one whose plans
            fit devices, model and rows, or one whose plans are still to be searched.
        devices: devices to start before: those of the configuration; any that JAX finds; the CPU of
            this `host` alone; one CPU device that a `compiler` for other devices runs on; or none,
            of functions that need no devices or start them themselves.
        compiled: programs that the function compiles are stored for later runs.
        one_thread: every emulated device has one thread.
        liveness: the process touches a file as long as it lives, see `mllm_jax.submit.liveness`.
        budgets: `data.budgets: auto` is replaced by budgets that fit the data.
        prepare: refuses requests that make no sense, before devices are started.
    """

    function: str
    arguments: Callable[[CommandRequest], Mapping[str, Any]] = request_alone
    answer: Callable[[Any, CommandRequest], CommandOutput] = answer_with
    config: Literal["none", "planned", "unplanned"] = "planned"
    devices: Literal["none", "configured", "any", "host", "compiler"] = "none"
    compiled: bool = False
    one_thread: bool = False
    liveness: bool = False
    budgets: bool = False
    prepare: Callable[[CommandRequest], None] = accept_request

    def load_function(self) -> Callable[..., Any]:
        """Load the function with all that it imports."""
        module, _, name = self.function.partition(":")
        function: Callable[..., Any] = getattr(import_module(module), name)
        return function


@dataclass(frozen=True)
class Command:
    """A command of `launch.py`.

    Attributes:
        name: the word on the command line.
        summary: what it does, for `--help`.
        call: what it calls, or a function that chooses that by the options.
        variants: what it calls instead, by the option that asks for that.
        inputs: what it needs on the command line, for `--help`.
        has_config: whether it has the option `--config`.
        has_overrides: whether keys of a configuration can be set after its options.
    """

    name: str
    summary: str
    call: CommandCall | Callable[[argparse.Namespace], CommandCall]
    variants: Mapping[str, CommandCall] = field(default_factory=dict)
    inputs: str = "--config FILE"
    has_config: bool = True
    has_overrides: bool = True

    def select_call(self, args: argparse.Namespace) -> CommandCall:
        """The call that the options ask for."""
        for option, call in self.variants.items():
            if getattr(args, option, None) not in (None, False):
                return call
        return self.call if isinstance(self.call, CommandCall) else self.call(args)

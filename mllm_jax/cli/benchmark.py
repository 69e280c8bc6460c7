"""The command `bench`; the benchmarks are in `benchmarks/` of a checkout."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, NamedTuple, Protocol

from mllm_jax.checkout import load_benchmarks, require_benchmarks
from mllm_jax.cli.answer import CommandOutput, table_of
from mllm_jax.cli.command import CommandCall, CommandRequest


class BenchmarkOption(NamedTuple):
    """An option of one benchmark alone, which its function takes by name.

    Attributes:
        kind: `count`, a whole number of at least 1; `number`, one of at least 0; `path`, which may
            be a shipped name; `names`, separated by commas; or `flag`, which has no value.
        value: what the help calls the value.
    """

    name: str
    kind: Literal["count", "number", "path", "names", "flag"]
    value: str
    help: str


@dataclass(frozen=True)
class Benchmark:
    """A benchmark: the function `bench_NAME` of a file of `benchmarks/`.

    The function takes a configuration, `print_line`, which prints a line of progress, and options.
    Its result is values by name, rows of a table, or what makes its output itself, as it may have
    failed.

    Attributes:
        name: name of the benchmark.
        purpose: what it measures, for the help.
        config: configuration that the benchmark brings, in the repository; None: it brings none.
        file: name of the file of the function; None: the name of the benchmark.
        devices: devices that are started before, see `CommandCall`; the `host` alone also for
            benchmarks that start processes themselves.
        one_thread: whether every emulated device has one thread: two cores are two devices.
        options: options that only this benchmark has.
        without: what it does without these options, for the help.
        needs: what a configuration must have, see `benchmarks/needs.py`.
    """

    name: str
    purpose: str
    config: str | None = None
    file: str | None = None
    devices: Literal["configured", "any", "host"] = "configured"
    one_thread: bool = False
    options: tuple[BenchmarkOption, ...] = ()
    without: str | None = None
    needs: tuple[str, ...] = ()

    @property
    def call(self) -> CommandCall:
        """The call with which `bench` runs it."""
        return CommandCall(
            f"benchmarks.{self.file or self.name}:bench_{self.name}",
            benchmark_arguments,
            answer_benchmark,
            devices=self.devices,
            one_thread=self.one_thread,
            budgets=True,
            prepare=check_benchmark,
        )


class BenchmarkResult(Protocol):
    """A result of a benchmark that makes its answer itself."""

    @property
    def answer(self) -> CommandOutput:
        """The answer of the command."""


@cache
def load_registry() -> Mapping[str, Benchmark]:
    """Every benchmark by its name; none where this package is no checkout."""
    registry = load_benchmarks("registry")
    return {} if registry is None else registry.BENCHMARKS


def select_benchmark(args: argparse.Namespace) -> CommandCall:
    """The call of `bench` for the named benchmark."""
    return load_registry().get(args.benchmark, Benchmark(args.benchmark, "")).call


def check_benchmark(request: CommandRequest) -> None:
    """Check that a benchmark can run with the given options and configuration.

    Raises:
        CheckoutError: this package is no checkout.
        ConfigError: an option is of another benchmark, or the configuration lacks something.
    """
    args = request.args
    require_benchmarks("registry", f"bench {args.benchmark}")
    _check_options(args)
    needs = require_benchmarks("needs", f"bench {args.benchmark}")
    needs.check_needs(load_registry()[args.benchmark], request.config)


def _check_options(args: argparse.Namespace) -> None:
    """Raise ConfigError for an option of another benchmark."""
    from mllm_jax.config.sections import ConfigError

    for name, benchmark in load_registry().items():
        names = [option.name for option in benchmark.options]
        present = [f"--{option}" for option in names if getattr(args, option) is not None]
        if present and args.benchmark != name:
            problems = [f"{option} is an option of bench {name}" for option in present]
            raise ConfigError(f"bench {args.benchmark}", problems)


def benchmark_arguments(request: CommandRequest) -> Mapping[str, Any]:
    """Arguments of a benchmark: those common to all, and its options that were given."""
    args = request.args
    names = [option.name for option in load_registry()[args.benchmark].options]
    options = {name: value for name in names if (value := getattr(args, name)) is not None}
    return {"config": request.config, "print_line": request.print_line, **options}


def answer_benchmark(
    result: Mapping[str, Any] | list[dict[str, Any]] | BenchmarkResult, request: CommandRequest
) -> CommandOutput:
    """The answer of `bench` from what a benchmark has returned."""
    if isinstance(result, Mapping):
        table = (request.args.benchmark, "value"), list(_flatten_values(result))
        return CommandOutput(result, [table])
    if isinstance(result, list):
        return CommandOutput(result, [table_of(result)])
    return result.answer


def _flatten_values(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Values by name; those within others have the names of both."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flatten_values(value, f"{prefix}{name} ")
        else:
            yield prefix + name, value

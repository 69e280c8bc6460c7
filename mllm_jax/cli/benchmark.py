"""What the command line knows of benchmarks, which live in `benchmarks/` of a checkout."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, NamedTuple, Protocol

from mllm_jax.checkout import load_benchmarks, require_benchmarks
from mllm_jax.cli.answer import Answer, table_of

#: CPU devices that are emulated for a benchmark of any devices.
EMULATED = 2


class Option(NamedTuple):
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

    The function takes a configuration, a function that tells of progress, and options. Its result
    is values by name, rows of a table, or what makes its answer itself, as it may have failed.

    Attributes:
        name: name of the benchmark.
        config: configuration that the benchmark brings, in the repository; None: it brings none.
        file: name of the file of the function; None: the name of the benchmark.
        devices: devices of the `configured` kind and number; `any` that JAX finds, `EMULATED` of
            them where it finds the CPU alone; or the `host` alone, of benchmarks that start
            processes themselves, too.
        one_thread: whether every emulated device has one thread: two cores are two devices.
        options: options that only this benchmark has.
        without: what it does without these options, for the help.
        needs: what a configuration must have, see `benchmarks/needs.py`.
    """

    name: str
    config: str | None = None
    file: str | None = None
    devices: Literal["configured", "any", "host"] = "configured"
    one_thread: bool = False
    options: tuple[Option, ...] = ()
    without: str | None = None
    needs: tuple[str, ...] = ()

    @property
    def function(self) -> Callable[..., Any]:
        """The function of the benchmark, loaded with all that it needs."""
        module = require_benchmarks(self.file or self.name, f"bench {self.name}")
        function: Callable[..., Any] = getattr(module, f"bench_{self.name}")
        return function


class Measured(Protocol):
    """A result of a benchmark that makes its answer itself."""

    @property
    def answer(self) -> Answer:
        """The answer of the command."""


@cache
def registered() -> Mapping[str, Benchmark]:
    """Every benchmark by its name; none where this package is no checkout."""
    registry = load_benchmarks("registry")
    return {} if registry is None else registry.BENCHMARKS


def answer_of(name: str, result: Mapping[str, Any] | list[dict[str, Any]] | Measured) -> Answer:
    """The answer of `bench` from what a benchmark has returned."""
    if isinstance(result, Mapping):
        return Answer(result, [((name, "value"), list(_flat(result)))])
    if isinstance(result, list):
        return Answer(result, [table_of(result)])
    return result.answer


def _flat(values: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Values by name; those within others have the names of both."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{name} ")
        else:
            yield before + name, value

"""The benchmarks of `launch.py bench`, an entry each; what computes is loaded when one runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal, NamedTuple


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
    """A benchmark: the function `bench_NAME` of a file of this folder.

    The function takes a configuration, a function that tells of progress, and options. Its result
    is one value by name, rows of a table, or `Findings` or a `Verdict`, which may have failed.

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
        needs: what a configuration must have, see `needs.py`.
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
        module = import_module(f"mllm_jax.bench.{self.file or self.name}")
        function: Callable[..., Any] = getattr(module, f"bench_{self.name}")
        return function


#: CPU devices that are emulated for a benchmark of any devices.
EMULATED = 2

_BALANCE = "configs/bench/balance.yaml"
_PIPELINE = "configs/bench/pipeline.yaml"
_MIXTURE = "configs/bench/mixture.yaml"
_OF_MIXTURES = ("stages", "one encoder", "own rows")

_ALL = (
    Benchmark("data", file="loop"),
    Benchmark("sharding", file="loop"),
    Benchmark("step", "configs/bench/step.yaml", one_thread=True),
    Benchmark("pipeline", _PIPELINE, one_thread=True, needs=("stages", "encoder")),
    Benchmark("microbatches", _PIPELINE, file="pipeline"),
    Benchmark("schedules", "configs/bench/schedules.yaml", needs=("stages",)),
    Benchmark("mixture", _MIXTURE, one_thread=True, needs=_OF_MIXTURES),
    Benchmark("following", _MIXTURE, one_thread=True, needs=_OF_MIXTURES),
    Benchmark("lanes", "configs/bench/lanes.yaml", one_thread=True, needs=("short and long",)),
    Benchmark("experts", "configs/bench/experts.yaml", one_thread=True),
    Benchmark("exchange", "configs/bench/cost.yaml", one_thread=True),
    Benchmark("placing", "configs/optimus/dual_22b_5b_gpt175b_512.yaml", devices="host"),
    Benchmark("co_issue", "configs/bench/co_issue.yaml"),
    Benchmark("overlap", "configs/bench/overlap.yaml"),
    Benchmark("dispatch", "configs/bench/dispatch.yaml"),
    Benchmark(
        "balance",
        _BALANCE,
        devices="host",
        options=(
            Option("ranks", "count", "N", "data-parallel ranks"),
            Option("samples", "count", "N", "samples of a rank"),
            Option(
                "distribution",
                "path",
                "FILE|NAME",
                "shipped lengths by name (web), or a file with a JSON object a line",
            ),
        ),
        without="the three settings of LOG.md",
    ),
    Benchmark(
        "groups",
        _BALANCE,
        devices="host",
        options=(Option("picture", "path", "FILE", "picture of the result (.png, .svg)"),),
    ),
    Benchmark(
        "cost",
        "configs/bench/cost.yaml",
        one_thread=True,
        options=(
            Option(
                "hardware",
                "path",
                "NAME",
                "description that `calibrate` has written on this machine",
            ),
        ),
        without="it calibrates, too",
    ),
    Benchmark("lora", "configs/bench/lora.yaml", one_thread=True),
    Benchmark("published", "configs/optimus/vit22b_gpt175b_3072.yaml", devices="host"),
    Benchmark("loader", "configs/bench/loader.yaml", devices="host"),
    Benchmark("import", "configs/bench/import.yaml", file="imports"),
    Benchmark("peers", "configs/bench/peers.yaml", devices="host"),
    Benchmark("generate", "configs/bench/generate.yaml"),
    Benchmark(
        "startup",
        "configs/demo.yaml",
        devices="host",
        options=(Option("members", "count", "N", "processes that are joined, and halves of them"),),
        without="CPU seconds of commands",
    ),
    Benchmark("checkpoint", "configs/bench/checkpoint.yaml"),
    Benchmark(
        "snapshots",
        "configs/demo.yaml",
        options=(Option("turns", "count", "N", "turns with and without one (default: 16)"),),
    ),
    Benchmark("store", "configs/demo.yaml"),
    Benchmark(
        "recovery",
        "configs/bench/recovery.yaml",
        devices="host",
        needs=("synthetic", "data alone"),
        options=(
            Option("faults", "count", "N", "faults in all runs (default: 12)"),
            Option("seed", "number", "N", "seed of the faults (default: 0)"),
            Option("run", "count", "N", "make this run of them only"),
            Option("list", "flag", "", "only list the runs and their faults"),
        ),
    ),
    Benchmark(
        "accelerator",
        "configs/bench/accelerator.yaml",
        devices="any",
        options=(
            Option(
                "parts",
                "names",
                "PART,PART",
                "of products, step, cost_model, pipeline, exchange, attention, experts",
            ),
        ),
        without="all parts",
    ),
)
#: Every benchmark by its name.
BENCHMARKS = {own.name: own for own in _ALL}

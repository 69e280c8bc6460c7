"""The benchmarks of `launch.py bench`, an entry each; what computes is loaded when one runs."""

from __future__ import annotations

from mllm_jax.cli.benchmark import Benchmark, BenchmarkOption

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
    Benchmark("buckets", "configs/bench/buckets.yaml", one_thread=True, needs=("short and long",)),
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
            BenchmarkOption("ranks", "count", "N", "data-parallel ranks"),
            BenchmarkOption("samples", "count", "N", "samples of a rank"),
            BenchmarkOption(
                "distribution",
                "path",
                "FILE|NAME",
                "shipped lengths by name (web), or a file with a JSON object a line",
            ),
        ),
        without="the three settings of docs/log",
    ),
    Benchmark(
        "groups",
        _BALANCE,
        devices="host",
        options=(BenchmarkOption("picture", "path", "FILE", "picture of the result (.png, .svg)"),),
    ),
    Benchmark(
        "cost",
        "configs/bench/cost.yaml",
        one_thread=True,
        options=(
            BenchmarkOption(
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
        options=(
            BenchmarkOption(
                "members", "count", "N", "processes that are joined, and halves of them"
            ),
        ),
        without="CPU seconds of commands",
    ),
    Benchmark("checkpoint", "configs/bench/checkpoint.yaml"),
    Benchmark(
        "snapshots",
        "configs/demo.yaml",
        options=(
            BenchmarkOption("turns", "count", "N", "turns with and without one (default: 16)"),
        ),
    ),
    Benchmark("store", "configs/demo.yaml"),
    Benchmark(
        "recovery",
        "configs/bench/recovery.yaml",
        devices="host",
        needs=("synthetic", "data alone"),
        options=(
            BenchmarkOption("faults", "count", "N", "faults in all runs (default: 12)"),
            BenchmarkOption("seed", "number", "N", "seed of the faults (default: 0)"),
            BenchmarkOption("run", "count", "N", "make this run of them only"),
            BenchmarkOption("list", "flag", "", "only list the runs and their faults"),
        ),
    ),
    Benchmark(
        "accelerator",
        "configs/bench/accelerator.yaml",
        devices="any",
        options=(
            BenchmarkOption(
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
BENCHMARKS = {benchmark.name: benchmark for benchmark in _ALL}

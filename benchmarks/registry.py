"""The benchmarks of `launch.py bench`, an entry each; what computes is loaded when one runs."""

from __future__ import annotations

from mllm_jax.cli.benchmark import Benchmark, BenchmarkOption

_BALANCE = "configs/bench/balance.yaml"
_PIPELINE = "configs/bench/pipeline.yaml"
_MIXTURE = "configs/bench/mixture.yaml"
_OF_MIXTURES = ("stages", "one encoder", "own rows")

_ALL = (
    Benchmark("data", "samples per second of the loader alone", file="loop"),
    Benchmark("sharding", "the steps of a plan compared with those of one device", file="loop"),
    Benchmark(
        "step",
        "what balancing gains in a train step, and its prediction",
        "configs/bench/step.yaml",
        one_thread=True,
    ),
    Benchmark(
        "pipeline",
        "placements of encoder work in a pipeline against each other",
        _PIPELINE,
        one_thread=True,
        needs=("stages", "encoder"),
    ),
    Benchmark(
        "microbatches",
        "growth of a pipeline's step with its microbatches",
        _PIPELINE,
        file="pipeline",
    ),
    Benchmark(
        "schedules",
        "weight gradients in or after the backwards",
        "configs/bench/schedules.yaml",
        needs=("stages",),
    ),
    Benchmark(
        "mixture",
        "one program that follows a moving mixture, against programs made for it",
        _MIXTURE,
        one_thread=True,
        needs=_OF_MIXTURES,
    ),
    Benchmark(
        "buckets",
        "short media whole and long ones split, against all in one way",
        "configs/bench/buckets.yaml",
        one_thread=True,
        needs=("short and long",),
    ),
    Benchmark(
        "experts",
        "time of mixture-of-experts layers by experts of a token",
        "configs/bench/experts.yaml",
        one_thread=True,
    ),
    Benchmark(
        "exchange",
        "the exchanges of encoder outputs, measured and predicted",
        "configs/bench/cost.yaml",
        one_thread=True,
    ),
    Benchmark(
        "placing",
        "seconds of placing a step's encoder work on the host",
        "configs/optimus/dual_22b_5b_gpt175b_512.yaml",
        devices="host",
    ),
    Benchmark(
        "co_issue",
        "how much tensor-parallel communication overlaps with compute",
        "configs/bench/co_issue.yaml",
    ),
    Benchmark(
        "overlap",
        "collectives under compute, before and after each measure",
        "configs/bench/overlap.yaml",
    ),
    Benchmark(
        "dispatch",
        "how much of the exchange of experts overlaps with compute",
        "configs/bench/dispatch.yaml",
    ),
    Benchmark(
        "balance",
        "evenness of every phase over the ranks, and seconds of planning",
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
        "what balancing in groups of hosts loses and saves",
        _BALANCE,
        devices="host",
        options=(BenchmarkOption("picture", "path", "FILE", "picture of the result (.png, .svg)"),),
    ),
    Benchmark(
        "cost",
        "real train steps against the predictions of the cost model",
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
    Benchmark(
        "slices",
        "modules side by side on slices against one at a time and data parallel",
        "configs/slices/towers.yaml",
        devices="host",
        options=(
            BenchmarkOption("models", "names", "MODEL,MODEL", "of towers, mllm, bound, heads"),
            BenchmarkOption("widths", "names", "N,N", "of 64, 128, 256, 512"),
            BenchmarkOption("sequences", "names", "N,N", "positions of a row, of 64, 256"),
            BenchmarkOption(
                "calibrations",
                "path",
                "FOLDER",
                "calibrations by which to plan; those that are missing are measured",
            ),
        ),
        without="all sizes, without plans",
    ),
    Benchmark(
        "lora",
        "a step that trains adapters against one that trains all",
        "configs/bench/lora.yaml",
        one_thread=True,
    ),
    Benchmark(
        "published",
        "steps that papers have measured against predictions",
        "configs/optimus/vit22b_gpt175b_3072.yaml",
        devices="host",
    ),
    Benchmark(
        "slices_scale",
        "slices, own devices, bubbles and the mixture on 8 to 64 devices, simulated",
        "configs/slices/scale/edge.yaml",
        devices="host",
        options=(BenchmarkOption("image", "path", "FILE", "picture of the result (.png, .svg)"),),
    ),
    Benchmark(
        "loader",
        "the loader against plain Grain and torch, which pad",
        "configs/bench/loader.yaml",
        devices="host",
    ),
    Benchmark(
        "import",
        "loading a released checkpoint against reading its files",
        "configs/bench/import.yaml",
        file="imports",
    ),
    Benchmark(
        "peers",
        "the same training here and with transformers",
        "configs/bench/peers.yaml",
        devices="host",
    ),
    Benchmark(
        "generate", "the same answers here and by transformers", "configs/bench/generate.yaml"
    ),
    Benchmark(
        "startup",
        "CPU seconds from the start of a command to its answer",
        "configs/demo.yaml",
        devices="host",
        options=(
            BenchmarkOption(
                "members", "count", "N", "processes that are joined, and halves of them"
            ),
        ),
        without="CPU seconds of commands",
    ),
    Benchmark(
        "checkpoint",
        "saving and restoring with checksums, against plain Orbax",
        "configs/bench/checkpoint.yaml",
    ),
    Benchmark(
        "snapshots",
        "how long training waits for a snapshot in memory",
        "configs/demo.yaml",
        options=(
            BenchmarkOption("turns", "count", "N", "turns with and without one (default: 16)"),
        ),
    ),
    Benchmark(
        "store", "copies of checkpoints in an object store, against the steps", "configs/demo.yaml"
    ),
    Benchmark(
        "recovery",
        "training under faults: what is lost, and how soon it is back",
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
        "kernels, products, a step of 1B parameters and a pipeline on this device",
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

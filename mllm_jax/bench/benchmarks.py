"""The benchmarks of `launch.py bench`, each a function of the configuration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mllm_jax.bench.accelerator import bench_accelerator
from mllm_jax.bench.balance import bench_balance
from mllm_jax.bench.checkpoint import bench_checkpoint
from mllm_jax.bench.cost import bench_cost
from mllm_jax.bench.findings import Findings
from mllm_jax.bench.groups import bench_groups
from mllm_jax.bench.imports import bench_import
from mllm_jax.bench.lanes import bench_lanes
from mllm_jax.bench.loader import bench_loader
from mllm_jax.bench.loop import bench_data, bench_sharding
from mllm_jax.bench.mixture import bench_mixture
from mllm_jax.bench.overlap import bench_overlap
from mllm_jax.bench.peers import bench_peers
from mllm_jax.bench.pipeline import Row, bench_microbatches, bench_pipeline
from mllm_jax.bench.placing import bench_placing
from mllm_jax.bench.published import bench_published
from mllm_jax.bench.schedules import bench_schedules
from mllm_jax.bench.startup import bench_startup
from mllm_jax.bench.step import bench_step

#: Name to benchmark; the result is one value by name, rows of a table, or findings, which may have
#: failed.
#: Benchmarks with options of their own take them by name.
BENCHMARKS: dict[str, Callable[..., dict[str, Any] | list[Row] | Findings]] = {
    "data": bench_data,
    "step": bench_step,
    "sharding": bench_sharding,
    "pipeline": bench_pipeline,
    "microbatches": bench_microbatches,
    "schedules": bench_schedules,
    "mixture": bench_mixture,
    "lanes": bench_lanes,
    "placing": bench_placing,
    "overlap": bench_overlap,
    "balance": bench_balance,
    "groups": bench_groups,
    "cost": bench_cost,
    "published": bench_published,
    "loader": bench_loader,
    "import": bench_import,
    "peers": bench_peers,
    "startup": bench_startup,
    "checkpoint": bench_checkpoint,
    "accelerator": bench_accelerator,
}

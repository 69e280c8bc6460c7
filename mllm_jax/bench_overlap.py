"""Benchmark of co-issue: how much tensor-parallel communication has compute scheduled beside it.

The pipelined gradients of the configuration are compiled from shapes alone, for accelerators that
are not here: the compilers come as wheels. `mllm_jax.overlap` reads the compiled schedule.
"""

from __future__ import annotations

import importlib.util
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import numpy as np
import optax
from jax.experimental import topologies

from mllm_jax.bench_pipeline import Row, Tell
from mllm_jax.config import ExperimentConfig
from mllm_jax.devices import DeviceError
from mllm_jax.hlo import Instruction, parse
from mllm_jax.models.config import Backend
from mllm_jax.overlap import Groups, Speeds, overlap
from mllm_jax.train.freeze import Frozen
from mllm_jax.train.schedule import pipeline_plan
from mllm_jax.train.step import TrainStep
from mllm_jax.train.synthetic import synthetic_batch
from scheduling.hardware import named
from scheduling.pipeline import scan_scope
from scheduling.program import Program
from sharding.grid import JointGrid, shardings

#: An H100 SXM as XLA's `GpuTargetConfigProto` (NVIDIA H100 data sheet, CUDA programming guide).
H100 = """
gpu_device_info {
  core_count: 132
  fpus_per_core: 128
  clock_rate_ghz: 1.98
  memory_bandwidth: 3352000000000
  device_memory_size: 85899345920
  l2_cache_size: 52428800
  shared_memory_per_block: 49152
  shared_memory_per_block_optin: 232448
  shared_memory_per_core: 233472
  registers_per_core_limit: 65536
  registers_per_block_limit: 65536
  threads_per_block_limit: 1024
  threads_per_warp: 32
  threads_per_core_limit: 2048
  block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535
  block_dim_limit_z: 65535
  cuda_compute_capability { major: 9 }
}
platform_name: "CUDA"
dnn_version_info { major: 9 minor: 10 patch: 0 }
device_description_str: "NVIDIA H100 80GB HBM3"
"""


@dataclass(frozen=True)
class Target:
    """Devices to compile for.

    Attributes:
        name: as rows show it.
        compiler: module that the compiler comes in.
        extra: extra of this project that installs it.
        topology: arguments of `topologies.get_topology_desc`.
        attention: implementation; what a kernel computes counts as no compute that hides anything.
        options: of the compiler.
        speeds: of one device.
    """

    name: str
    compiler: str
    extra: str
    topology: Mapping[str, str]
    attention: Backend
    options: Mapping[str, str | bool]
    speeds: Speeds


TARGETS = (
    Target(
        "v5p:4x4x2",
        "libtpu",
        "compile",
        {"platform": "tpu", "topology_name": "v5p:4x4x2"},
        "splash",
        {
            # All-gathers run in parts, fused with matrix products.
            "xla_enable_async_all_gather": True,
            "xla_tpu_enable_async_collective_fusion": True,
            "xla_tpu_enable_async_collective_fusion_fuse_all_gather": True,
            "xla_tpu_overlap_compute_collective_tc": True,
            # Reduce-scatters run on the SparseCores.
            "xla_tpu_enable_sparse_core_collective_offload_reduce_scatter": True,
            # Combined, collectives of two tasks wait for both and leave nothing to run beside them.
            "xla_all_gather_combiner_threshold_count": "1",
            "xla_jf_crs_combiner_threshold_count": "1",
        },
        # Both directions of a ring at 90 GB/s each ("How to scale your model", table of TPU specs).
        Speeds(named("v5p").flops["bfloat16"], 180e9),
    ),
    Target(
        "H100 4x8",
        "jax_plugins.xla_cuda13",
        "cuda13",
        # Partitions x hosts x devices of a host.
        {
            "platform": "cuda",
            "topology_name": "h100",
            "target_config": H100,
            "topology": "1x4x8",
        },
        "pallas_gpu",
        {
            # Kernels cannot be timed without a GPU.
            "xla_gpu_autotune_level": "0",
            "xla_gpu_enable_latency_hiding_scheduler": True,
            # As above, nothing is combined.
            "xla_gpu_all_gather_combine_threshold_bytes": "0",
            "xla_gpu_all_reduce_combine_threshold_bytes": "0",
            "xla_gpu_reduce_scatter_combine_threshold_bytes": "0",
        },
        # NVLink 4 in one direction (NVIDIA H100 data sheet).
        Speeds(named("h100").flops["bfloat16"], 450e9),
    ),
)


def bench_overlap(config: ExperimentConfig, tell: Tell) -> list[Row]:
    """Share of the tensor-parallel collectives' time that independent compute hides.

    For every target with and without co-issue, with the same tasks in the same ticks. Seconds are
    of one step on one device, on average over the devices: bytes over link speed and, for what
    hides them, FLOPs over peak.

    Raises:
        DeviceError: a compiler is not installed.
    """
    check_compilers()
    rows: list[Row] = []
    for target in TARGETS:
        for co_issue in (False, True):
            tell(f"compiling for {target.name} {'with' if co_issue else 'without'} co-issue")
            rows.append(measured(config, target, co_issue))
    return rows


def check_compilers() -> None:
    """Raise DeviceError if the compiler of a target is not installed."""
    missing = {target.extra: target.name for target in TARGETS if not _installed(target.compiler)}
    if missing:
        names = " and ".join(f"{extra} ({name})" for extra, name in missing.items())
        raise DeviceError(
            "bench overlap compiles for accelerators that are not here, and the compilers of these "
            f"extras are not installed: {names}; run `make install EXTRAS={','.join(missing)}`"
        )


def _installed(module: str) -> bool:
    parent = module.rpartition(".")[0]
    found = not parent or importlib.util.find_spec(parent) is not None
    return found and importlib.util.find_spec(module) is not None


def measured(config: ExperimentConfig, target: Target, co_issue: bool) -> Row:
    """One row of `bench_overlap`."""
    model = config.model.model_copy(update={"attention": target.attention})
    # What works ahead needs the outputs of a step before this one.
    schedule = config.schedule.model_copy(update={"work_ahead": False})
    config = config.model_copy(update={"model": model, "schedule": schedule})
    step = abstract_step(config, target, co_issue)
    lowered = step.gradients.lower(step.abstract["params"], abstract_batch(config, step))
    begin = time.perf_counter()
    compiled = lowered.compile(compiler_options=dict(target.options))
    seconds = time.perf_counter() - begin
    assert step.pipelined is not None
    found = overlap(
        parse(compiled.as_text() or ""),
        target.speeds,
        partial(within_tensor, step.grid),
        loop_share(step.pipelined.program),
    )
    return {
        "target": target.name,
        "co_issue": co_issue,
        "collectives": found.collectives,
        "collective_seconds": found.seconds,
        "hidden_seconds": found.hidden_seconds,
        "hidden_share": found.hidden_share,
        "compile_seconds": seconds,
    }


def abstract_step(config: ExperimentConfig, target: Target, co_issue: bool) -> TrainStep:
    """The step on the devices of `target`, of which none is here.

    Raises:
        DeviceError: the configuration has no pipeline.
    """
    grid = JointGrid.build(config.parallel.plans)
    plan = pipeline_plan(config)
    if plan is None:
        raise DeviceError("parallel.decoder.stage: 1 has no pipeline to measure; valid: 2 or more")
    # The metadata server of a cloud would be asked for the TPU of this machine, which has none.
    os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
    devices = topologies.get_topology_desc(**target.topology).devices
    mesh = grid.mesh(devices)
    frozen, plan = Frozen(config.train.freeze), replace(plan, co_issue=co_issue)
    return TrainStep(config.model, grid, mesh, optax.identity(), plan, frozen)


def abstract_batch(config: ExperimentConfig, step: TrainStep) -> Any:
    """Shapes, types and layouts of the batch of `step`."""
    data = config.data
    budgets = {name: data.budgets[name] for name in config.model.encoders}
    example = synthetic_batch(config.model, data.rows, data.budgets["tokens"], budgets, 0)

    def stacked(count: int, tree: Any) -> Any:
        return jax.tree.map(lambda x: jax.ShapeDtypeStruct((count, *x.shape), x.dtype), tree)

    batch = {
        "decoder": stacked(config.train.accumulate, example["decoder"]),
        "encoders": {
            name: stacked(len(step.dealings[name].order), tree)
            for name, tree in example["encoders"].items()
        },
        "carried": {},
    }
    layout = shardings(step.mesh, step.batch_specs(batch))
    return jax.tree.map(
        lambda x, sharding: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding), batch, layout
    )


def within_tensor(grid: JointGrid, groups: Groups) -> bool:
    """Whether collectives of these groups stay within tensor groups of the decoder."""
    degree = grid.plans["decoder"].tensor  # the fastest axis of the grid
    return all(len({device // degree for device in group}) == 1 for group in groups)


def loop_share(program: Program) -> Callable[[Instruction], float]:
    """How often, on average, a loop of the executor runs in the loop around it.

    That is what the compiler does not know: bundles, meetings and what is done together in them, a
    piece's beginning and end are loops of at most one iteration, named by scopes, and the program's
    tables say when they run. Any other loop counts once.
    """
    shares = {
        scan_scope(scan): scan_shares(program, scan) for scan in program.schedule.phases if scan
    }

    def share(loop: Instruction) -> float:
        *scopes, operation = loop.scopes or [""]
        if operation != "while" or not scopes:
            return 1.0
        within = next((shares[scope] for scope in scopes if scope in shares), {})
        bundle = next((scope for scope in scopes if scope in within), "")
        return within.get(scopes[-1], within.get(f"{bundle}/{scopes[-1]}", 1.0))

    return share


def scan_shares(program: Program, scan: range) -> dict[str, float]:
    """Mean runs of the loops in a tick of `scan`, on average over the stages.

    By scope; of what is in a meeting in a meeting; of what is in a bundle in a bundle of its kind,
    as `kind/scope`.
    """
    rows = program.rows(scan)
    meetings = rows["meets"].sum()
    shares = {"meeting": float(np.mean(rows["meets"]))}
    for scope in ("head", "return", "embed"):
        shares[scope] = float(np.sum(rows[f"{scope}_microbatch"] >= 0) / max(1, meetings))
    for kind, cells in program.bundles(scan).items():
        shares[str(kind)] = float(np.mean(cells))
        for task, name, table in (
            ("EF", kind.encoder_forward, "forward"),
            ("EB", kind.encoder_backward, "backward"),
        ):
            if name:
                pieces = rows["encoders"][name][table]["piece"][cells]
                last = program.encoders[name].cut.pieces - 1
                shares[f"{kind}/{task}_first"] = float(np.mean(pieces == 0))
                shares[f"{kind}/{task}_last"] = float(np.mean(pieces == last))
    return shares

"""The exchange of tokens between ranks that share experts, without the experts' products.

Copies of random tokens go to random experts, as many to each in the mean, and come back as they
are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from mllm_jax.calibrate.probes import TimedProbe
from mllm_jax.config.configured_step import build_workload
from mllm_jax.config.sections import ExperimentConfig
from mllm_jax.layers.experts.block import make_dispatch
from mllm_jax.models.module import compute_dtype
from scheduling.costs.estimate import ModuleTiming
from scheduling.costs.hardware import Hardware
from scheduling.costs.strategy import Strategy
from sharding.dispatch import through_experts
from sharding.grid import JointGrid
from sharding.in_order import shard_map
from sharding.mesh import make_mesh
from sharding.plan import ParallelPlan


def token_exchanges(
    config: ExperimentConfig, devices: Sequence[jax.Device]
) -> Iterator[TimedProbe]:
    """The exchange of a layer for one microbatch over all devices: forward, and with its backward.

    Args:
        config: configuration from `on_platform`, of a decoder with experts.
    """
    plan = ParallelPlan(expert=len(devices))
    full_workload, strategy = (
        build_workload(config),
        Strategy({config.model.backbone: plan}, config.train.accumulate),
    )
    for backward in (False, True):

        def predict_seconds(hardware: Hardware, backward: bool = backward) -> float:
            timing = ModuleTiming(full_workload, strategy, hardware, config.model.backbone)
            assert timing.dispatched is not None  # as ranks share experts
            seconds = timing.copy_seconds + timing.dispatched.forward_time(hardware, 0).seconds
            if backward:
                seconds += (
                    2 * timing.copy_seconds + timing.dispatched.backward_time(hardware, 0).seconds
                )
            return seconds

        what = "forward and backward" if backward else "forward"
        name = f"exchange of tokens over expert {len(devices)}, {what}"
        yield TimedProbe(name, _compile_exchange(config, devices, plan, backward), predict_seconds)


def _compile_exchange(
    config: ExperimentConfig, devices: Sequence[jax.Device], plan: ParallelPlan, backward: bool
) -> Any:
    decoder, grid = config.model.backbone_config, JointGrid.build({config.model.backbone: plan})
    assert decoder.experts is not None  # as the caller knows
    view, mesh, experts = grid.backbone, make_mesh(grid, devices), decoder.experts
    count = config.data.rows * config.data.budgets["tokens"]

    def exchange_tokens(tokens: jax.Array, choice: jax.Array, weights: jax.Array) -> jax.Array:
        way = make_dispatch(experts, choice.size, view)
        return through_experts(lambda _, rows, counts: rows, (), tokens, choice, weights, way)

    def sum_outputs(*inputs: jax.Array) -> jax.Array:
        return jnp.sum(exchange_tokens(*inputs))

    rng, spec = np.random.default_rng(0), PartitionSpec(view.batch_axes)
    scores = rng.random((count, experts.count), np.float32)
    values = (
        rng.random((count, decoder.d_model), np.float32).astype(compute_dtype(config.model)),
        np.argsort(scores, axis=1)[:, : experts.top_k].astype(np.int32),
        rng.random((count, experts.top_k), np.float32),
    )
    body = jax.grad(sum_outputs, argnums=(0, 2)) if backward else exchange_tokens
    run = jax.jit(shard_map(body, mesh=mesh, in_specs=(spec,) * 3, out_specs=spec))
    arrays = jax.device_put(values, NamedSharding(mesh, spec))
    return partial(run.lower(*arrays).compile(), *arrays)

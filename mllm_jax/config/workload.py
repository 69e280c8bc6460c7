"""From a configuration to the values that the cost model reads."""

from __future__ import annotations

from collections.abc import Mapping

from mllm_jax.config.sections import ExperimentConfig
from mllm_jax.models.attention.limits import PREFERRED, able_backends, causal_share
from mllm_jax.models.config.model import Backend
from mllm_jax.models.frozen import FrozenParts
from mllm_jax.models.work.profile import tower_profiles
from scheduling.costs.estimate import Strategy, Workload


def on_platform(config: ExperimentConfig, platform: str) -> ExperimentConfig:
    """`config` with the type and the attention that `auto` means on `platform`."""
    model = config.model
    dtype = model.dtype_on(platform)
    attention = model.attention
    if attention == "auto":
        attention = _attention(config, platform, dtype)
    changed = model.model_copy(update={"dtype": dtype, "attention": attention})
    return config.model_copy(update={"model": changed})


def _attention(config: ExperimentConfig, platform: str, dtype: str) -> Backend:
    """The first implementation that can run all towers."""
    towers = {"decoder": (config.data.budgets["tokens"], config.model.decoder.head_dim)}
    for name, encoder in config.model.encoders.items():
        towers[name] = config.data.budgets[name] // encoder.stride, encoder.head_dim
    able = [
        set(able_backends(platform, tokens=tokens, head_dim=width, dtype=dtype))
        for tokens, width in towers.values()
    ]
    return next(name for name in PREFERRED[platform] if all(name in own for own in able))


def workload(config: ExperimentConfig) -> Workload:
    """What a step of `config` computes; as `on_platform` has settled it."""
    model, data = config.model, config.data
    positions = {"decoder": data.budgets["tokens"]}
    positions |= {name: data.budgets[name] for name in model.encoders}
    frozen = FrozenParts(config.train.freeze)
    return Workload(
        towers=tower_profiles(model),
        positions=positions,
        rows=data.rows * config.train.accumulate,
        dtype=model.dtype,
        moments=2 if config.train.optimizer.kind == "adamw" else 1,
        frozen=frozenset(name for name in positions if frozen.trunk(name)),
        frozen_connectors=frozenset(name for name in model.encoders if frozen.connector(name)),
        loss_chunk=model.loss_chunk,
        pairs={"decoder": causal_share(model.attention, positions["decoder"])},
    )


def strategy(config: ExperimentConfig, pieces: Mapping[str, int]) -> Strategy:
    """How `config` runs its step, with encoders cut into `pieces`."""
    chosen = config.schedule
    return Strategy(
        plans=config.parallel.plans,
        microbatches=config.train.accumulate,
        chunks=chosen.chunks,
        remat=config.model.remat,
        gather=chosen.fsdp_gather,
        placement=chosen.encoder_placement,
        live=chosen.live,
        pieces=pieces,
        co_issue=co_issues(config),
    )


def co_issues(config: ExperimentConfig) -> bool:
    """Whether tasks of a bundle run side by side: where a layer has anything to hide.

    Where it has not, that only costs locality.
    """
    if "tensor" not in config.schedule.fill or config.parallel.decoder.stage == 1:
        return False
    by_layer = config.schedule.fsdp_gather == "layer"
    plans = config.parallel.plans.values()
    return any(plan.sequence > 1 or (by_layer and plan.fsdp > 1) for plan in plans)

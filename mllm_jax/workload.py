"""From a configuration to the values that the cost model reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mllm_jax.config import AdamWConfig, ExperimentConfig
from mllm_jax.models.attention import PREFERRED, able_backends
from mllm_jax.models.config import Backend, ModelConfig
from mllm_jax.models.kept import kept_bytes
from mllm_jax.models.profile import tower_profiles
from mllm_jax.train.freeze import Frozen
from mllm_jax.train.schedule import co_issues, encoder_pieces
from scheduling.estimate import Strategy, Workload


def on_platform(config: ExperimentConfig, platform: str) -> ExperimentConfig:
    """`config` with the type and the attention that `auto` means on `platform`."""
    model = config.model
    dtype = model.dtype
    if dtype == "auto":
        dtype = "float32" if platform == "cpu" else "bfloat16"
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


def workload(config: ExperimentConfig, tensors: Sequence[int] | None = None) -> Workload:
    """What a step of `config` computes; as `on_platform` has settled it.

    Args:
        tensors: degrees of tensor parallelism that will be asked for; by default those of the
            configured plans.
    """
    model, data = config.model, config.data
    positions = {"decoder": data.budgets["tokens"]}
    positions |= {name: data.budgets[name] for name in model.encoders}
    frozen = Frozen(config.train.freeze)
    asked = {
        (name, tensor)
        for name, plan in config.parallel.plans.items()
        for tensor in (tensors or (plan.tensor,))
        if _splits(model, name, tensor, positions[name])
    }
    return Workload(
        towers=tower_profiles(model),
        positions=positions,
        rows=data.rows * config.train.accumulate,
        dtype=model.dtype,
        moments=2 if isinstance(config.train.optimizer, AdamWConfig) else 1,
        frozen=frozenset(name for name in model.encoders if frozen.trunk(name)),
        frozen_connectors=frozenset(name for name in model.encoders if frozen.connector(name)),
        loss_chunk=model.loss_chunk,
        kept={(n, t): kept_bytes(model, n, t, positions[n]) for n, t in sorted(asked)},
    )


def _splits(model: ModelConfig, name: str, tensor: int, positions: int) -> bool:
    """Whether heads, widths and rows divide by `tensor`."""
    unit = 1 if name == "decoder" else model.encoders[name].reduction
    sizes = [need.size for need in model.requirements(name) if need.axis == "tensor"]
    return all(size % tensor == 0 for size in (*sizes, positions // unit))


def strategy(config: ExperimentConfig) -> Strategy:
    """How `config` runs its step."""
    chosen = config.schedule
    pieces: Mapping[str, int] = {}
    if config.parallel.decoder.stage > 1:
        pieces = {cut.name: cut.pieces for cut in encoder_pieces(config)}
    return Strategy(
        plans=config.parallel.plans,
        microbatches=config.train.accumulate,
        chunks=chosen.chunks,
        remat=config.model.remat,
        gather=chosen.fsdp_gather,
        pieces=pieces,
        co_issue=co_issues(config),
    )

"""Collectives beside compute: what `parallel.overlap` stands for, and XLA's options for it.

On accelerators a collective starts, and ends when its result is needed. Compute runs beside it only
if there is some that does not need the result: three pieces of the program see to that. And only if
the compiler moves it there: that is what the options are for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from mllm_jax.config.sections import ExperimentConfig
from sharding.exchange_kinds import OVERLAP_KINDS, OverlapKind

#: Options of XLA's compiler by name, as `jax.jit(compiler_options=..)` takes them.
Options = Mapping[str, str | bool]
NO_OPTIONS: Options = MappingProxyType({})

OPTIONS: Mapping[str, Options] = MappingProxyType(
    {
        "tpu": {
            # Collectives are not fused with products: results may be wrong on all chips but v5e,
            # where newer compilers refuse it.
            "xla_enable_async_all_gather": True,
            "xla_tpu_enable_async_collective_fusion": False,
            "xla_tpu_overlap_compute_collective_tc": True,
            # Reduce-scatters run on the SparseCores.
            "xla_tpu_enable_sparse_core_collective_offload_reduce_scatter": True,
            # Exchanges of experts run beside products.
            "xla_tpu_enable_async_ragged_all_to_all": True,
            # Combined, collectives of two tasks wait for both and leave nothing to run beside them.
            "xla_all_gather_combiner_threshold_count": "1",
            "xla_jf_crs_combiner_threshold_count": "1",
        },
        "gpu": {
            "xla_gpu_enable_latency_hiding_scheduler": True,
            # Collectives are not combined, as above.
            "xla_gpu_all_gather_combine_threshold_bytes": "0",
            "xla_gpu_all_reduce_combine_threshold_bytes": "0",
            "xla_gpu_reduce_scatter_combine_threshold_bytes": "0",
        },
    }
)

#: Further options where rows of tensor ranks do not move in rings: beside rings, all-gathers on the
#: SparseCores leave fewer bytes with compute beside them.
WITHOUT_RINGS: Mapping[str, Options] = MappingProxyType(
    {
        "tpu": {
            # All-gathers run on the SparseCores as well; over two or three axes of the torus they
            # have options of their own, without which they stay synchronous.
            "xla_tpu_enable_sparse_core_collective_offload_all_gather": True,
            "xla_tpu_enable_sparse_core_collective_offload_2d_all_gather": True,
            "xla_tpu_enable_sparse_core_collective_offload_3d_all_gather": True,
            # The scheduler lets one start before another has ended.
            "xla_tpu_enable_sparse_core_offload_queuing_in_lhs": True,
        }
    }
)

#: Pieces that hide collectives in compiled schedules (`bench overlap`): the compiler for TPUs
#: hides less with `gather` and `scatter` than without.
PROVEN: Mapping[str, tuple[OverlapKind, ...]] = MappingProxyType(
    {"gpu": OVERLAP_KINDS, "tpu": ("tensor",)}
)


@dataclass(frozen=True)
class Overlap:
    """What runs beside compute.

    Attributes:
        pieces: collectives of layers that the program moves.
        options: options of the compiler.
    """

    pieces: frozenset[OverlapKind] = frozenset()
    options: Options = field(default_factory=dict)

    @property
    def lines(self) -> list[str]:
        """Lines for people: the pieces, and an option of the compiler each."""
        pieces = ", ".join(name for name in OVERLAP_KINDS if name in self.pieces) or "none"
        options = [f"  {name}={_format_option(value)}" for name, value in self.options.items()]
        options_text = (
            "options of XLA's compiler:" if options else "options of XLA's compiler: none"
        )
        return [f"collectives of layers beside compute: {pieces}", options_text, *options]


def resolve_overlap(config: ExperimentConfig, platform: str | None = None) -> Overlap:
    """What `parallel.overlap` of `config` stands for.

    Args:
        platform: platform on which `auto` is settled; None: that of the configuration.
    """
    chosen, platform = config.parallel.overlap, platform or config.parallel.platform
    if chosen == "off" or (chosen == "auto" and platform == "cpu"):
        return Overlap()
    pieces = pieces_without_stages(config, platform)
    if chosen == "auto":
        # Beside stages, other tasks of a fused task hide the collectives of tensor ranks
        # (co-issue).
        able = pieces if config.parallel.backbone_plan.stage == 1 else ()
        pieces = frozenset(piece for piece in able if not why_useless(config, piece))
        return Overlap(pieces, _compiler_options(platform, pieces))
    return Overlap(pieces, _compiler_options(platform, pieces) if "flags" in chosen else NO_OPTIONS)


def _compiler_options(platform: str, pieces: frozenset[OverlapKind]) -> Options:
    """Options for programs with these pieces; none on CPUs."""
    more = NO_OPTIONS if "tensor" in pieces else WITHOUT_RINGS.get(platform, NO_OPTIONS)
    return {**OPTIONS.get(platform, NO_OPTIONS), **more}


def pieces_without_stages(config: ExperimentConfig, platform: str) -> frozenset[OverlapKind]:
    """Pieces that any plan of a decoder without stages has on `platform`, where they do something.

    Its plan in `config` does not matter: a search asks for other plans.
    """
    chosen = config.parallel.overlap
    if chosen == "off":
        return frozenset()
    if chosen == "auto":
        return frozenset(PROVEN.get(platform, ()))
    return frozenset(piece for piece in OVERLAP_KINDS if piece in chosen)


def why_useless(config: ExperimentConfig, piece: OverlapKind) -> str:
    """Why a piece would do nothing for these plans; empty if it does something."""
    plans = config.parallel.plans.values()
    if piece == "tensor" and config.parallel.backbone_plan.stage > 1:
        return (
            "is for a decoder without stages, as stages run unlike tasks, and no ring turns before "
            "all ranks join; beside stages encoders' work hides collectives (schedule.fill: tensor)"
        )
    if piece == "tensor":
        return "" if has_tensor_ranks(config) else "needs a plan with tensor above 1"
    if config.parallel.backbone_plan.stage > 1:
        return (
            "is for a decoder without stages; beside stages encoders' work hides the gather and "
            "the scatter (schedule.fill: data)"
        )
    return "" if any(plan.fsdp > 1 for plan in plans) else "needs a plan with fsdp above 1"


def has_tensor_ranks(config: ExperimentConfig) -> bool:
    """Whether any module has tensor ranks, which add up partial sums."""
    return any(plan.tensor > 1 for plan in config.parallel.plans.values())


def _format_option(value: str | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else value

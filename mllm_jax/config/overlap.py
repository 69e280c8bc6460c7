"""Collectives that overlap with compute: the values of `parallel.overlap`, and XLA's options.

On accelerators a collective starts, and ends when its result is needed. Compute runs meanwhile only
if there is some that does not need the result: three kinds of overlap see to that. And only if
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
            # Exchanges of experts overlap with products.
            "xla_tpu_enable_async_ragged_all_to_all": True,
            # Combined, collectives of two tasks wait for both and leave nothing that overlaps with
            # them.
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

#: Further options where rows of tensor ranks do not move in rings: with rings, all-gathers on the
#: SparseCores leave fewer bytes that overlap with compute.
WITHOUT_RINGS: Mapping[str, Options] = MappingProxyType(
    {
        "tpu": {
            # All-gathers run on the SparseCores as well; over two or three axes of the torus they
            # have further options, without which they stay synchronous.
            "xla_tpu_enable_sparse_core_collective_offload_all_gather": True,
            "xla_tpu_enable_sparse_core_collective_offload_2d_all_gather": True,
            "xla_tpu_enable_sparse_core_collective_offload_3d_all_gather": True,
            # The scheduler lets one start before another has ended.
            "xla_tpu_enable_sparse_core_offload_queuing_in_lhs": True,
        }
    }
)

#: Kinds of overlap that hide collectives in compiled schedules (`bench overlap`): the compiler for
#: TPUs hides less with `gather` and `scatter` than without.
PROVEN: Mapping[str, tuple[OverlapKind, ...]] = MappingProxyType(
    {"gpu": OVERLAP_KINDS, "tpu": ("tensor",)}
)


@dataclass(frozen=True)
class Overlap:
    """Collectives that overlap with compute.

    Attributes:
        kinds: collectives of layers that the program moves.
        options: options of the compiler.
    """

    kinds: frozenset[OverlapKind] = frozenset()
    options: Options = field(default_factory=dict)

    @property
    def lines(self) -> list[str]:
        """Lines for people: the kinds, and an option of the compiler each."""
        kinds = ", ".join(name for name in OVERLAP_KINDS if name in self.kinds) or "none"
        options = [f"  {name}={_format_option(value)}" for name, value in self.options.items()]
        options_text = (
            "options of XLA's compiler:" if options else "options of XLA's compiler: none"
        )
        return [f"collectives of layers that overlap with compute: {kinds}", options_text, *options]


def resolve_overlap(config: ExperimentConfig, platform: str | None = None) -> Overlap:
    """The kinds of overlap that `parallel.overlap` of `config` chooses.

    Args:
        platform: platform on which `auto` is settled; None: that of the configuration.
    """
    chosen, platform = config.parallel.overlap, platform or config.parallel.platform
    if chosen == "off" or (chosen == "auto" and platform == "cpu"):
        return Overlap()
    kinds = overlap_kinds_without_stages(config, platform)
    if chosen == "auto":
        # Beside stages, other tasks of a fused task hide the collectives of tensor ranks
        # (co-issue).
        able = kinds if config.parallel.backbone_plan.stage == 1 else ()
        kinds = frozenset(kind for kind in able if not why_useless(config, kind))
        return Overlap(kinds, _compiler_options(platform, kinds))
    return Overlap(kinds, _compiler_options(platform, kinds) if "flags" in chosen else NO_OPTIONS)


def _compiler_options(platform: str, kinds: frozenset[OverlapKind]) -> Options:
    """Options for programs with these kinds; none on CPUs."""
    more = NO_OPTIONS if "tensor" in kinds else WITHOUT_RINGS.get(platform, NO_OPTIONS)
    return {**OPTIONS.get(platform, NO_OPTIONS), **more}


def overlap_kinds_without_stages(config: ExperimentConfig, platform: str) -> frozenset[OverlapKind]:
    """Kinds that any plan of a decoder without stages has on `platform`, where they do something.

    Its plan in `config` does not matter: a search asks for other plans.
    """
    chosen = config.parallel.overlap
    if chosen == "off":
        return frozenset()
    if chosen == "auto":
        return frozenset(PROVEN.get(platform, ()))
    return frozenset(kind for kind in OVERLAP_KINDS if kind in chosen)


def why_useless(config: ExperimentConfig, kind: OverlapKind) -> str:
    """The reason why a kind of overlap has no effect under these plans; empty if it has one."""
    plans = config.parallel.plans.values()
    if kind == "tensor" and config.parallel.backbone_plan.stage > 1:
        return (
            "is for a decoder without stages, as stages run unlike tasks, and no ring turns before "
            "all ranks join; with stages encoders' work hides collectives (schedule.fill: tensor)"
        )
    if kind == "tensor":
        return "" if has_tensor_ranks(config) else "needs a plan with tensor above 1"
    if config.parallel.backbone_plan.stage > 1:
        return (
            "is for a decoder without stages; with stages encoders' work hides the gather and "
            "the scatter (schedule.fill: data)"
        )
    return "" if any(plan.fsdp > 1 for plan in plans) else "needs a plan with fsdp above 1"


def has_tensor_ranks(config: ExperimentConfig) -> bool:
    """Whether any module has tensor ranks, which add up partial sums."""
    return any(plan.tensor > 1 for plan in config.parallel.plans.values())


def _format_option(value: str | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else value

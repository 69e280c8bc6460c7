"""Number of a module's parameters that one device holds under a plan."""

from __future__ import annotations

from math import gcd

from scheduling.costs.work import ModuleProfile, Parameters
from sharding.axes import LogicalAxis, logical_axis
from sharding.plan import ParallelPlan


def local_elements(
    profile: ModuleProfile, parameters: Parameters, plan: ParallelPlan, *, fsdp: bool = True
) -> float:
    """Elements of `parameters` on one device, without stages.

    The vocabulary is padded to a multiple of its ranks; heads of keys and values are copied if
    there are fewer of them than tensor ranks.

    Args:
        profile: work of the module that they belong to.
        parameters: number of elements by their logical axes.
        plan: degrees of the module.
        fsdp: whether to count fsdp shards, and not the parameters gathered over fsdp.

    Raises:
        ValueError: a logical axis is unknown.
    """
    total = 0.0
    for axes, count in parameters.items():
        share, named = float(count), [logical_axis(name) for name in axes if name is not None]
        for axis in named:
            share /= _even_shares(axis, profile, plan, fsdp=fsdp)
        padded = any(axis.stored == "padded" for axis in named)
        total += share * vocab_entries(profile, plan) / profile.vocab if padded else share
    return total


def _even_shares(
    axis: LogicalAxis, profile: ModuleProfile, plan: ParallelPlan, *, fsdp: bool
) -> int:
    """Number of equal shares of a dimension; 1 for a padded one, which `vocab_entries` counts."""
    if axis.stored == "padded" or (axis.stored == "gathered" and not fsdp):
        return 1
    degree = axis.degree_of(plan)
    return gcd(profile.kv_heads, degree) if axis.stored == "copied" else degree


def vocab_entries(profile: ModuleProfile, plan: ParallelPlan) -> int:
    """Entries of the vocabulary on one device, padding included."""
    return -(-profile.vocab // plan.vocab)

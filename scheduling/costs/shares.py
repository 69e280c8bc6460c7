"""Number of a tower's parameters that one device holds under a plan."""

from __future__ import annotations

from math import gcd

from scheduling.costs.work import Parameters, TowerProfile
from sharding.axes import LogicalAxis, logical_axis
from sharding.plan import ParallelPlan


def elements(
    tower: TowerProfile, parameters: Parameters, plan: ParallelPlan, *, fsdp: bool = True
) -> float:
    """Elements of `parameters` on one device, without stages.

    The vocabulary is padded to a multiple of its ranks; heads of keys and values are copied if
    there are fewer of them than tensor ranks.

    Args:
        tower: the tower that they belong to.
        fsdp: whether to count fsdp shards, and not the parameters gathered over fsdp.

    Raises:
        ValueError: a logical axis is unknown.
    """
    total = 0.0
    for axes, count in parameters.items():
        share, named = float(count), [logical_axis(name) for name in axes if name is not None]
        for axis in named:
            share /= _even_shares(axis, tower, plan, fsdp=fsdp)
        padded = any(axis.stored == "padded" for axis in named)
        total += share * entries(tower, plan) / tower.outputs if padded else share
    return total


def _even_shares(axis: LogicalAxis, tower: TowerProfile, plan: ParallelPlan, *, fsdp: bool) -> int:
    """Number of equal shares of a dimension; 1 for a padded one, which `entries` counts."""
    if axis.stored == "padded" or (axis.stored == "gathered" and not fsdp):
        return 1
    degree = axis.degree(plan)
    return gcd(tower.kv_heads, degree) if axis.stored == "copied" else degree


def entries(tower: TowerProfile, plan: ParallelPlan) -> int:
    """Entries of the vocabulary on one device, padding included."""
    return -(-tower.outputs // plan.vocab)

"""Logical axes of parameters: the one table that sharding, optimizers and the memory model read.

=========  =============  ========  ======  ====================================================
logical    plan axes      stored    Muon    meaning
=========  =============  ========  ======  ====================================================
chunks     -              split     stack   virtual chunks of a pipeline, each over all stages
layers     stage          split     stack   stacked layers
experts    expert         split     stack   stacked experts of a layer
embed      fsdp           gathered  model   the model width; gathered before use (ZeRO-3)
heads      tensor         split     hidden  attention heads
kv_heads   tensor         copied    hidden  key and value heads, copied where ranks outnumber them
mlp        tensor         split     hidden  hidden width
vocab      stage, tensor  padded    table   rows of the embedding, columns of the head
rank       -              split     adapter the rank of an adapter; `adapter` is no matrix for Muon
None       -              split     -       a dimension that is whole on every rank
=========  =============  ========  ======  ====================================================

What a plan axis splits of a batch is in `sharding.plan`: rows over data, fsdp and expert, positions
over context and tensor. A parameter is replicated over all plan axes that its logical axes do not
name: over expert, unless it is one of experts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from sharding.plan import ParallelPlan

#: Logical axis of every dimension of a parameter; None for one that is whole on every rank.
LogicalAxes = tuple[str | None, ...]


@dataclass(frozen=True)
class LogicalAxis:
    """Role of a named dimension of a parameter in its layout and in its update.

    Attributes:
        plan_axes: axes of the module's plan that split the dimension, slowest first.
        stored: how ranks share the dimension. `split`: they divide it evenly. `gathered`: the same,
            and it is whole wherever the parameter is used. `copied`: it is split as far as its
            entries allow, and ranks beyond them hold copies. `padded`: zeros fill it up to a
            multiple of the ranks.
        muon: role of the dimension in an optimizer of matrices. `stack`: every entry has a matrix
            of its own. `model`: one side of the matrix. `hidden`: the other side, together with all
            further `hidden` dimensions. `table`: parameters that have it are no matrices, and
            neither are those with `adapter`.
    """

    plan_axes: tuple[str, ...]
    stored: Literal["split", "gathered", "copied", "padded"]
    muon: Literal["stack", "model", "hidden", "table", "adapter"]

    def degree_of(self, plan: ParallelPlan) -> int:
        """Number of ranks of `plan` that share the dimension."""
        return math.prod(getattr(plan, axis) for axis in self.plan_axes)


LOGICAL_AXES: Mapping[str, LogicalAxis] = {
    "chunks": LogicalAxis((), "split", "stack"),
    "layers": LogicalAxis(("stage",), "split", "stack"),
    "experts": LogicalAxis(("expert",), "split", "stack"),
    "embed": LogicalAxis(("fsdp",), "gathered", "model"),
    "heads": LogicalAxis(("tensor",), "split", "hidden"),
    "kv_heads": LogicalAxis(("tensor",), "copied", "hidden"),
    "mlp": LogicalAxis(("tensor",), "split", "hidden"),
    "vocab": LogicalAxis(("stage", "tensor"), "padded", "table"),
    "rank": LogicalAxis((), "split", "adapter"),
}


def logical_axis(name: str) -> LogicalAxis:
    """The entry of `name` in the table.

    Raises:
        ValueError: the table has no such name; the message lists the valid names.
    """
    if name not in LOGICAL_AXES:
        raise ValueError(f"logical axis {name!r} is unknown; valid: {', '.join(LOGICAL_AXES)}")
    return LOGICAL_AXES[name]


def stored_dimension(axes: LogicalAxes, stored: str) -> int | None:
    """The dimension of a parameter that is `stored` so (see `LogicalAxis`), if it has one.

    ``stored_dimension(("vocab", "embed"), "gathered") == 1``.
    """
    kinds = [name is not None and logical_axis(name).stored == stored for name in axes]
    return kinds.index(True) if any(kinds) else None


def muon_role(name: str | None) -> str | None:
    """Role of a dimension in an optimizer of matrices, see `LogicalAxis`; None without a name."""
    return None if name is None else logical_axis(name).muon


def is_matrix(axes: LogicalAxes) -> bool:
    """Whether Muon updates a parameter: a hidden matrix, neither table nor vector."""
    roles = {muon_role(name) for name in axes}
    return roles >= {"model", "hidden"} and not roles & {"table", "adapter"}

"""FLOPs of the tasks of a step, for schedules that know no hardware."""

from __future__ import annotations

from dataclasses import replace

from scheduling.costs.strategy import Strategy, module_stages
from scheduling.costs.work import ModuleProfile
from scheduling.costs.workload import Workload
from scheduling.lowering.lowered import Remat
from scheduling.schedules.costs import ChunkCosts, TaskCosts
from scheduling.schedules.task_kinds import B, W
from scheduling.schedules.tasks import ModuleStages


def task_flops(workload: Workload, strategy: Strategy) -> TaskCosts:
    """FLOPs of every task on one device, for full rows.

    Within a stage every device computes an equal share, whichever way the plan splits the work.
    """
    profile, name = workload.backbone, workload.backbone_name
    rows = _row_lengths(workload, strategy, name)
    per_chunk = profile.per_run(strategy.backbone.stage * strategy.backbone_chunks)
    forward = per_chunk * profile.layer.work.forward_flops(rows)
    head = profile.end.work.forward_flops(rows) / strategy.backbone.stage
    modules = [module_stages(workload, strategy, name) for name in workload.sources]
    sources = {module.name: _chunk_costs(workload, strategy, module) for module in modules}
    weights, attention = workload.weights_share(name), per_chunk * _attention_flops(profile, rows)
    backward, more = _backward_flops(strategy.remat, forward, attention, weights), {}
    if profile.experts is not None and strategy.backbone.expert > 1 and strategy.remat != "layer":
        # Their backward always computes the forward of shared experts again.
        module = profile.experts
        backward += per_chunk * module.share * module.flops * sum(rows)
    if strategy.split_backward:
        # Attention has no weights.
        linear = replace(profile.layer.work, quadratic=0, near=()).forward_flops(rows)
        more = {W.cost: per_chunk * weights * linear}
        backward -= more[W.cost]
    full = name not in workload.frozen | workload.adapted
    return TaskCosts(forward, backward, (2 + full) * head, sources, more=more)


def _chunk_costs(workload: Workload, strategy: Strategy, module: ModuleStages) -> ChunkCosts:
    profile, rows = workload.modules[module.name], _row_lengths(workload, strategy, module.name)
    remat = strategy.remat_of(module.name)
    per_chunk = profile.per_run(module.chunks)
    layers = per_chunk * profile.layer.work.forward_flops(rows)
    forward = [layers] * module.chunks
    forward[0] += profile.start.work.forward_flops(rows)
    forward[-1] += profile.end.work.forward_flops(rows)
    weights = workload.weights_share(module.name)
    attention = per_chunk * _attention_flops(profile, rows)
    backward = [
        _backward_flops(remat, cost, attention, weights) if chunk in module.chunks_with(B) else 0.0
        for chunk, cost in enumerate(forward)
    ]
    if module.name in workload.frozen and module.trains:
        again = 0.0 if remat == "none" else layers
        backward[-1] = again + 3 * profile.end.work.forward_flops(rows)
    return ChunkCosts(tuple(forward), tuple(backward))


def _attention_flops(profile: ModuleProfile, rows: list[int]) -> float:
    """FLOPs of a layer's attention in its forward."""
    return sum(profile.layer.work.attention(float(length)) for length in rows)


def _backward_flops(remat: Remat, forward: float, attention: float, weights: float) -> float:
    """FLOPs of a backward: up to two products for each of the forward, and any recomputation.

    Args:
        forward, attention: FLOPs of the forward, and of its attention, without parameters.
        weights: share of all other products whose parameters have gradients.
    """
    again = forward if remat != "none" else 0.0
    return again + (1 + weights) * forward + (1 - weights) * attention


def _row_lengths(workload: Workload, strategy: Strategy, name: str) -> list[int]:
    """Lengths of a microbatch's rows, each filled to its budget by a single segment."""
    return [workload.positions[name]] * int(workload.rows_of(name, strategy.microbatches))

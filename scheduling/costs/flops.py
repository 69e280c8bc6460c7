"""FLOPs of the tasks of a step, for schedules that know no hardware."""

from __future__ import annotations

from dataclasses import replace

from scheduling.costs.strategy import Strategy, encoder_pieces
from scheduling.costs.work import TowerProfile
from scheduling.costs.workload import Workload
from scheduling.lowering.lowered import Remat
from scheduling.schedules.costs import EncoderCosts, TaskCosts
from scheduling.schedules.task_kinds import W
from scheduling.schedules.tasks import EncoderPieces


def task_flops(workload: Workload, strategy: Strategy) -> TaskCosts:
    """FLOPs of every task on one device, for full rows.

    Within a stage every device computes an equal share, whichever way the plan splits the work.
    """
    tower, rows = workload.towers["decoder"], _rows(workload, strategy, "decoder")
    per_chunk = tower.per_run(strategy.decoder.stage * strategy.chunks)
    forward = per_chunk * tower.layer.work.flops(rows)
    head = tower.end.work.flops(rows) / strategy.decoder.stage
    cuts = [encoder_pieces(workload, strategy, name) for name in workload.encoders]
    encoders = {cut.name: _encoder(workload, strategy, cut) for cut in cuts}
    weights, attention = workload.weights_share("decoder"), per_chunk * _attention(tower, rows)
    backward, more = _backward(strategy.remat, forward, attention, weights), {}
    if tower.experts is not None and strategy.decoder.expert > 1 and strategy.remat != "layer":
        # Their backward always computes the forward of shared experts again.
        own = tower.experts
        backward += per_chunk * own.share * own.flops * sum(rows)
    if strategy.weights_apart:
        # Attention has no weights.
        linear = replace(tower.layer.work, quadratic=0, windowed=0).flops(rows)
        more = {W.cost: per_chunk * weights * linear}
        backward -= more[W.cost]
    full = "decoder" not in workload.frozen | workload.adapted
    return TaskCosts(forward, backward, (2 + full) * head, encoders, more=more)


def _encoder(workload: Workload, strategy: Strategy, cut: EncoderPieces) -> EncoderCosts:
    tower, rows = workload.towers[cut.name], _rows(workload, strategy, cut.name)
    remat = strategy.remat_of(cut.name)
    layers = tower.layers // cut.pieces * tower.layer.work.flops(rows)
    forward = [layers] * cut.pieces
    forward[0] += tower.start.work.flops(rows)
    forward[-1] += tower.end.work.flops(rows)
    weights = workload.weights_share(cut.name)
    attention = tower.layers // cut.pieces * _attention(tower, rows)
    backward = [
        _backward(remat, cost, attention, weights) if piece in cut.backward_pieces else 0.0
        for piece, cost in enumerate(forward)
    ]
    if cut.name in workload.frozen and cut.backward:
        again = 0.0 if remat == "none" else layers
        backward[-1] = again + 3 * tower.end.work.flops(rows)
    return EncoderCosts(tuple(forward), tuple(backward))


def _attention(tower: TowerProfile, rows: list[int]) -> float:
    """FLOPs of a layer's attention in its forward."""
    return sum(tower.layer.work.attention(float(length)) for length in rows)


def _backward(remat: Remat, forward: float, attention: float, weights: float) -> float:
    """FLOPs of a backward: up to two products for each of the forward, and any recomputation.

    Args:
        forward, attention: FLOPs of the whole forward, and of its attention, without parameters.
        weights: share of all other products whose parameters have gradients.
    """
    again = forward if remat != "none" else 0.0
    return again + (1 + weights) * forward + (1 - weights) * attention


def _rows(workload: Workload, strategy: Strategy, name: str) -> list[int]:
    """Lengths of a microbatch's rows, each filled to its budget by a single segment."""
    return [workload.positions[name]] * int(workload.rows_of(name, strategy.microbatches))

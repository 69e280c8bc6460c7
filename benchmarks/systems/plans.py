"""Plans that are tried for the baselines that run a model as one chain."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from benchmarks.systems.chain import LayerChain, even_seconds
from scheduling.costs.hardware import Hardware
from scheduling.costs.strategy import PARAMETERS, Strategy
from scheduling.costs.workload import Workload
from scheduling.lowering.lowered import Remat
from scheduling.search.space import Space, backbone_plans, plan_families
from sharding.plan import ParallelPlan


def list_chains(
    space: Space, workload: Workload, hardware: Hardware, *, separate_remat: bool = False
) -> list[LayerChain]:
    """Chains on as many devices as can be used, the most promising first.

    Their ranks have data and tensor parallelism and stages; microbatches, virtual chunks and
    rematerialisation are free. The order is that of `ideal_seconds`.

    Args:
        separate_remat: whether encoders may keep all where the decoder keeps inputs of layers,
            or the other way round.
    """
    plain = plain_space(space)
    plans = next(iter(backbone_plans(plain, workload).values()), [])
    candidates = [
        LayerChain(workload, strategy, hardware)
        for strategy in list_strategies(plain, workload, plans)
    ]
    if separate_remat:
        candidates += [other for chain in candidates for other in _recomputing_apart(chain)]
    return sorted(candidates, key=ideal_seconds)


def plain_space(space: Space) -> Space:
    """The space of plans that these systems have: data, tensor and stages, and no rings of rows."""
    return replace(space, contexts=(1,), experts=(1,), gathers=("step",), overlap=PARAMETERS)


def _recomputing_apart(chain: LayerChain) -> Iterator[LayerChain]:
    """The chain whose encoders recompute otherwise than its decoder."""
    others: dict[str, Remat] = {"none": "layer", "layer": "none"}
    strategy, encoders = chain.strategy, chain.workload.sources
    if encoders and strategy.remat in others:
        remats = dict.fromkeys(encoders, others[strategy.remat])
        yield replace(chain, strategy=replace(strategy, remats=remats))


def list_strategies(
    space: Space, workload: Workload, plans: Iterable[ParallelPlan]
) -> Iterator[Strategy]:
    """Strategies of some plans of the decoder that a chain can run."""
    for strategy in plan_families(space, workload, [plan for plan in plans if plan.fsdp == 1]):
        stages, chunks = strategy.backbone.stage, strategy.backbone_chunks
        interleaves = chunks == 1 or strategy.microbatches % stages == 0
        if interleaves and chunks * stages <= workload.backbone.periods:
            yield strategy


def ideal_seconds(chain: LayerChain) -> float:
    """Seconds of a step of interleaved 1F1B whose virtual stages all take the same time.

    `even_seconds` of all layers, with gather, scatter and optimizer.
    """
    ends = sum(
        chain.gather_seconds(timing) + chain.scatter_seconds(timing) + chain.update_seconds(timing)
        for timing in chain.timings.values()
    )
    return even_seconds(chain, (*chain.encoder_layers, *chain.decoder_layers)) + ends

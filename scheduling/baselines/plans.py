"""Plans that are tried for the baselines that run a model as one chain."""

from __future__ import annotations

from collections.abc import Iterator

from scheduling.baselines.chain import Chain
from scheduling.costs.hardware import Hardware
from scheduling.costs.strategy import Strategy
from scheduling.costs.workload import Workload
from scheduling.search.space import Space, decoder_plans, families


def chains(space: Space, workload: Workload, hardware: Hardware) -> list[Chain]:
    """Chains on as many devices as can be used, the most promising first.

    Their ranks have data and tensor parallelism and stages; microbatches, virtual chunks and
    rematerialisation are free. The order is that of `ideal_seconds`.
    """
    plain = Space(**(vars(space) | {"contexts": (1,), "gathers": ("step",)}))
    found = [Chain(workload, own, hardware) for own in _strategies(plain, workload)]
    return sorted(found, key=ideal_seconds)


def _strategies(space: Space, workload: Workload) -> Iterator[Strategy]:
    plans = next(iter(decoder_plans(space, workload).values()), [])
    for own in families(space, workload, [plan for plan in plans if plan.fsdp == 1]):
        interleaves = own.chunks == 1 or own.microbatches % own.decoder.stage == 0
        if interleaves and own.chunks * own.decoder.stage <= workload.towers["decoder"].periods:
            yield own


def ideal_seconds(chain: Chain) -> float:
    """Seconds of a step of interleaved 1F1B whose virtual stages all take the same time.

    (M / P + (P - 1) / (P V)) times all layers of a microbatch (Narayanan et al., arXiv 2104.04473,
    section 2.2), with gather, scatter and optimizer.
    """
    stages, chunks = chain.strategy.decoder.stage, chain.strategy.chunks
    layers = sum(layer.seconds for layer in (*chain.encoders, *chain.decoder))
    rounds = chain.strategy.microbatches / stages + (stages - 1) / (stages * chunks)
    ends = sum(
        chain.gather(timing) + chain.scatter(timing) + chain.update(timing)
        for timing in chain.timings.values()
    )
    return rounds * layers + ends

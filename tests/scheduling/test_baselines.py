"""The baselines do all of the model's work."""

from __future__ import annotations

import pytest

from scheduling.baselines import Chain, balanced, megatron
from scheduling.estimate import Strategy
from sharding.plan import ParallelPlan
from tests.scheduling.workloads import hardware, workload


@pytest.mark.parametrize(("stage", "chunks"), [(1, 1), (2, 1), (2, 2), (4, 1)])
def test_baselines_compute_every_layer(stage: int, chunks: int) -> None:
    plan = ParallelPlan(data=4 // stage, stage=stage)
    strategy = Strategy({"decoder": plan}, microbatches=4, chunks=chunks, co_issue=False)
    chain = Chain(workload(rows=16), strategy, hardware())
    layers = [*chain.encoders, *chain.decoder]
    work = strategy.microbatches * sum(layer.seconds for layer in layers) / stage
    for made in (megatron(chain), balanced(chain)):
        assert made.compute == pytest.approx(work, rel=0.2)
        assert made.makespan >= work

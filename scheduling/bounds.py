"""Bounds of the seconds of a step, without its schedule: what no step of a strategy undercuts."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from scheduling.estimate import Strategy, Timing, Workload
from scheduling.hardware import Hardware
from scheduling.schedule import interleaved
from scheduling.simulate import makespan
from scheduling.simulation import Options
from sharding.plan import ParallelPlan


def lower_bound(
    workload: Workload, strategy: Strategy, hardware: Hardware, encoders: float | None = None
) -> float:
    """Seconds that no step of `strategy` undercuts, wherever its encoders' tasks go.

    The decoder alone in lockstep, with F-only, mixed and B-only ticks (`scheduling.schedule`); and
    all compute of a device, its idle slots filled.

    Args:
        strategy: with the decoder's plan only, or with all plans.
        encoders: `encoder_compute`, if it is known.
    """
    decoder = Timing(workload, strategy, hardware, "decoder")
    layers, chunks = decoder.layers_per_task, strategy.chunks
    forward, backward = decoder.forward(layers), decoder.backward(layers)
    stages, count = strategy.decoder.stage, strategy.microbatches
    ends = count * (decoder.head().seconds + decoder.deliver()) + decoder.update()
    slots = count * chunks
    if stages == 1:
        path = slots * (forward.seconds + backward.seconds)
    else:
        alone = stages * chunks
        mixed = count - 1 if count < stages else slots - alone
        mixed += stages - 1 if count >= stages and count % stages == 0 else 0
        both = max(forward.seconds, backward.seconds, forward.compute + backward.compute)
        path = alone * (forward.seconds + backward.seconds) + mixed * both
        path += (2 * alone + mixed) * decoder.send()
    path += ends + gathers_and_scatters(workload, strategy, hardware, strategy.plans)
    compute = slots * (forward.compute + backward.compute) + ends
    if encoders is None:
        encoders = encoder_compute(workload, strategy, hardware)
    # Without stages all tasks run one after the other, and nothing beside the collectives.
    return path + encoders if stages == 1 else max(path, compute + encoders)


def gathers_and_scatters(
    workload: Workload, strategy: Strategy, hardware: Hardware, names: Collection[str]
) -> float:
    """Seconds of the gathers and scatters of some towers.

    With the placement `"prologue"` those of all towers have the encoders' forwards and backwards
    beside them, as much of these as a stage runs on average: what is longer counts.
    """
    towers = {name: Timing(workload, strategy, hardware, name) for name in strategy.plans}
    own = sum(towers[name].gather() + towers[name].scatter() for name in names)
    if strategy.placement != "prologue":
        return own
    gather = sum(tower.gather() for tower in towers.values())
    scatter = sum(tower.scatter() for tower in towers.values())
    work = {"EF": 0.0, "EB": 0.0}
    for name in towers.keys() - {"decoder"}:
        for (kind, *_), time in towers[name].pieces().items():
            work[kind] += time.seconds * strategy.microbatches / strategy.decoder.stage
    return own + max(0.0, work["EF"] - gather) + max(0.0, work["EB"] - scatter)


def decoder_seconds(workload: Workload, strategy: Strategy, hardware: Hardware) -> float:
    """Seconds of the decoder's step without any encoder."""
    decoder = Timing(workload, strategy, hardware, "decoder")
    alone = decoder.only()
    plan = strategy.decoder
    schedule = interleaved(plan.stage, strategy.chunks, strategy.microbatches)
    co_issue = plan.stage > 1 and (plan.tensor > 1 or strategy.gather == "layer")
    return makespan(schedule, alone, Options(co_issue=co_issue, replicas=plan.batch))


def encoder_compute(workload: Workload, strategy: Strategy, hardware: Hardware) -> float:
    """Seconds of one device's compute for all encoders, whichever plans they have."""
    total = 0.0
    one = ParallelPlan(fsdp=strategy.decoder.devices)
    for name in workload.encoders:
        plans = {"decoder": one, name: one}
        alone = replace(strategy, plans=plans, microbatches=1, pieces={})
        own = Timing(workload, alone, hardware, name)
        total += sum(time.compute for time in own.pieces().values())
    return total

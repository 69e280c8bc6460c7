"""Small workloads and devices by hand, and schedules for them, for tests of the cost model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from scheduling.costs.estimate import step_times
from scheduling.costs.hardware import Efficiency, Hardware, HardwareLink
from scheduling.costs.strategy import Strategy
from scheduling.costs.work import ExpertWork, ModulePart, ModuleProfile, ModuleWork, Parameters
from scheduling.costs.workload import LayerSplit, Workload
from scheduling.search.outcome import SearchOutcome, memory_of, options_of, with_schedule_chunks
from scheduling.search.scheduler import Scheduler
from scheduling.search.space import Space
from scheduling.simulate.lockstep import step_makespan
from sharding.plan import PlanRequirement

#: Degrees of tensor parallelism that the workloads here can have.
TENSORS = (1, 2, 4, 8)


def tower(width: int, layers: int, outputs: int, stride: int = 1, **changes: Any) -> ModuleProfile:
    """A transformer whose MLP is four times as wide; `outputs` are those of its last product."""
    values: dict[str, Any] = {
        "layers": layers,
        "width": width,
        "stride": stride,
        "reduction": stride,
        "features": 0,
        "vocab": outputs,
        "blocks": 2,
        "heads": 8,
        "kv_heads": 8,
        "head_dim": width // 8,
        "start": ModulePart(ModuleWork(0, 0), 4 * width),
        "layer": ModulePart(ModuleWork(24 * width**2 / stride, 4 * width / stride**2), 32 * width),
        "end": ModulePart(ModuleWork(2 * width * outputs / stride, 0), 8 * width),
        "layer_parameters": _layer_parameters(width),
        "rest_parameters": {("embed", "vocab"): width * outputs, ("embed",): width},
    }
    return ModuleProfile(**(values | changes))


def _layer_parameters(width: int) -> Parameters:
    return {
        ("embed", "heads", None): 3 * width**2,
        ("heads", None, "embed"): width**2,
        ("embed", "mlp"): 4 * width**2,
        ("mlp", "embed"): 4 * width**2,
        ("embed",): 2 * width,
    }


def workload(
    rows: int = 8,
    width: int = 64,
    layers: int = 4,
    encoders: Sequence[tuple[str, int, int]] = (("vision", 32, 4),),
    **changes: Any,
) -> Workload:
    """Text rows of 32 tokens.

    Args:
        encoders: name, width and layers of each; rows of 64 patches, four to a token.
    """
    towers = {"decoder": tower(width, layers, 128)}
    for name, own, depth in encoders:
        last = {(None, "embed"): 4 * own * width, ("embed",): width}
        own_values: dict[str, Any] = {"features": 8, "reduction": 4, "rest_parameters": last}
        towers[name] = tower(own, depth, width, **own_values)
    positions = {name: 32 if name == "decoder" else 64 for name in towers}
    residual_bytes = {
        # Every rank of a tensor group keeps its part of most, and all of some.
        LayerSplit(name, tensor): 2.0 * positions[name] * one.width * (2 + 20 / tensor)
        for name, one in towers.items()
        for tensor in TENSORS
    }
    width = towers["decoder"].width
    operand_bytes = {
        LayerSplit("decoder", tensor): 2.0 * positions["decoder"] * width * (4 + 12 / tensor)
        for tensor in TENSORS
    }
    known: dict[str, Any] = {
        "loss_chunk": 16,
        "residual_bytes": residual_bytes,
        "operand_bytes": operand_bytes,
    }
    return Workload(towers, positions, rows, **known | changes)


def with_experts(own: Workload, share: float = 1.0, buffer: float = 1.25) -> Workload:
    """The same with four experts in a share of the decoder's layers, two of them a token's.

    An expert is twice as wide as the decoder.
    """
    decoder = own.modules["decoder"]
    width, work = decoder.width, decoder.layer.work
    hidden, top_k, count = 2 * width, 2, 4
    flops = 6.0 * width * hidden * top_k
    linear = work.linear + share * (flops - 16 * width**2)
    layer = {
        axes: number * (1 - share) if "mlp" in axes else number
        for axes, number in decoder.layer_parameters.items()
    } | {("experts", "embed", "mlp"): 3.0 * share * count * hidden * width}
    changed = replace(
        decoder,
        layer=ModulePart(replace(work, linear=linear), decoder.layer.moved),
        layer_parameters=layer,
        experts=ExpertWork(share, count, top_k, hidden, flops, buffer),
    )
    return replace(
        own,
        modules={**own.modules, "decoder": changed},
        residual_bytes=_with_less_kept(own.residual_bytes),
        operand_bytes=_with_less_kept(own.operand_bytes),
    )


def _with_less_kept(sizes: Mapping[LayerSplit, float]) -> dict[LayerSplit, float]:
    """Bytes by how layers are split; where ranks share experts, they are fewer."""
    fewer = {
        split._replace(experts=True): 0.7 * size
        for split, size in sizes.items()
        if split.module == "decoder"
    }
    return {**sizes, **fewer}


def hardware(**changes: Any) -> Hardware:
    """Two hosts of four devices: 1 GFLOP/s, 100 MB/s of memory, 20 MB/s of links."""
    values: dict[str, Any] = {
        "name": "small",
        "title": "Small",
        "platform": "gpu",
        "kinds": (),
        "flops": {"bfloat16": 1e9, "float32": 5e8},
        "memory": 1e9,
        "memory_bandwidth": 1e9,
        "host": 4,
        "domain": 4,
        "link": HardwareLink(bandwidth=2e8, latency=1e-5),
        "network": HardwareLink(bandwidth=5e7, latency=5e-5),
        "efficiency": Efficiency(matmul=0.5, attention=0.25, memory=0.8, link=0.8, network=0.5),
    }
    return Hardware(**(values | changes))


def space(devices: int = 4, workload: Workload | None = None, **changes: Any) -> Space:
    """All strategies of `devices`; widths are split 8 ways at most."""
    names = workload.modules if workload else ("decoder", "vision")
    requirements = {name: (PlanRequirement("heads", 8, "sequence"),) for name in names}
    return Space(
        devices, requirements, **{"memory": 1e9, "contexts": (1,), "tensors": TENSORS, **changes}
    )


@st.composite
def links(draw: st.DrawFn, fastest: float) -> HardwareLink:
    """Down to a hundredth of the bandwidth."""
    bandwidth = fastest * draw(st.sampled_from([1.0, 0.1, 0.01]))
    latency = draw(st.sampled_from([0.0, 1e-5, 1e-3]))
    return HardwareLink(
        bandwidth=bandwidth, latency=latency, directions=draw(st.sampled_from([1, 2]))
    )


@st.composite
def devices(draw: st.DrawFn) -> Hardware:
    """Devices whose links are fast or slow, in domains of 1 to 8."""
    return hardware(
        platform=draw(st.sampled_from(["gpu", "cpu", "tpu"])),
        domain=draw(st.sampled_from([1, 2, 4, 8])),
        memory_bandwidth=draw(st.sampled_from([1e8, 1e9, 1e10])),
        link=draw(links(1e9)),
        network=draw(links(1e9)),
    )


@st.composite
def workloads(draw: st.DrawFn, most: int = 2) -> Workload:
    """Up to `most` encoders, trained, frozen or with nothing to train at all."""
    names = ("vision", "audio")[: draw(st.sampled_from([1, 0, 2][: most + 1]))]
    encoders = [
        (name, draw(st.sampled_from([16, 64, 128])), draw(st.sampled_from([2, 4, 3])))
        for name in names
    ]
    frozen = frozenset(name for name in ("decoder", *names) if draw(st.booleans()))
    connectors = frozenset(name for name in frozen - {"decoder"} if draw(st.booleans()))
    return workload(
        draw(st.sampled_from([4, 8])),
        layers=draw(st.sampled_from([4, 2, 3])),
        encoders=encoders,
        frozen=frozen,
        frozen_connectors=connectors,
    )


def evaluate_strategy(strategy: Strategy, scheduler: Scheduler) -> SearchOutcome:
    """Schedule and simulate a strategy."""
    workload, hardware = scheduler.workload, scheduler.hardware
    schedule = scheduler(strategy)
    strategy = with_schedule_chunks(strategy, schedule)
    times = step_times(workload, strategy, hardware)
    memory = memory_of(workload, strategy, hardware, schedule)
    seconds = step_makespan(schedule, times, options_of(strategy))
    return SearchOutcome(strategy, schedule, times, seconds, memory)

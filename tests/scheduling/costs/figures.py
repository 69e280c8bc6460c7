"""Figures of the cost model for drawn cases, which `figures.json` keeps.

Tests by hand say what a formula is for; these say that no figure moves unseen. After a change of
the model that is meant::

    python -m tests.scheduling.costs.figures

writes them anew, and the change of the file shows which figures have moved, and by how much.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from scheduling.costs.estimate import ModuleTiming, step_times
from scheduling.costs.exchange import OutputExchange
from scheduling.costs.flops import task_flops
from scheduling.costs.hardware import Efficiency, Hardware, HardwareLink
from scheduling.costs.memory import least_memory, step_memory
from scheduling.costs.strategy import Strategy
from scheduling.costs.work import ModulePart, ModuleProfile, ModuleWork, NearPairs, Parameters
from scheduling.costs.workload import Workload
from scheduling.lowering.lowered import BufferSizes
from scheduling.schedules.schedule import ScheduleError
from scheduling.search.bounds import (
    backbone_seconds,
    encoder_compute,
    gathers_and_scatters,
    least_compute,
    least_state,
    lower_bound,
    module_compute,
)
from sharding.plan import ParallelPlan
from tests.scheduling import workloads as small

FILE = Path(__file__).with_name("figures.json")
COUNT = 60
#: A strategy, a workload and the hardware.
Case = tuple[Strategy, Workload, Hardware]


@cache
def cases() -> list[Case]:
    """The cases, always the same."""
    return list(islice(filter(_is_possible, map(_drawn, range(10_000))), COUNT))


def _is_possible(case: Case) -> bool:
    strategy, workload, hardware = case
    try:
        least_memory(workload, strategy, hardware)
    except (ScheduleError, ValueError):
        return False
    return True


def _drawn(seed: int) -> Case:
    draw = random.Random(seed)
    hardware = _hardware(draw)
    plans, workload = _plans(draw), _workload(draw)
    stages = plans["decoder"].stage
    names = [name for name in workload.modules if name != "decoder"]
    strategy = Strategy(
        {name: plans["decoder" if name == "decoder" else "encoder"] for name in workload.modules},
        microbatches=draw.choice([1, 2, 4, 8]),
        chunks={"decoder": draw.choice([1, 2]) if stages > 1 else 1},
        remat=draw.choice(["none", "layer", "full"]),
        gather=draw.choice(["step", "layer"]),
        placement=draw.choice(["bubbles", "first_stage", "prologue"]),
        co_issue=draw.random() < 0.5,
        kind=draw.choice(["1f1b", "zero_bubble"]) if stages > 1 else "1f1b",
    )
    each = 2 * stages // plans["encoder"].stage
    chunks = {
        name: each for name in names if draw.random() < 0.2 and _divides(workload, name, 2 * stages)
    }
    strategy = replace(
        strategy.with_source_chunks(chunks),
        remats={name: "full" for name in names if draw.random() < 0.2},
        overlap=frozenset(p for p in ("gather", "scatter", "tensor") if draw.random() < 0.6),
    )
    return strategy, workload, hardware


def _divides(workload: Workload, name: str, chunks: int) -> bool:
    return workload.modules[name].periods % chunks == 0


def _hardware(draw: random.Random) -> Hardware:
    def link(bandwidth: float) -> HardwareLink:
        return HardwareLink(
            bandwidth=bandwidth,
            latency=draw.choice([0.0, 1e-5, 3e-4]),
            directions=draw.choice([1, 2]),
        )

    return small.hardware(
        platform=draw.choice(["gpu", "cpu", "tpu"]),
        domain=draw.choice([1, 2, 4, 8]),
        memory_bandwidth=draw.choice([1e8, 1e9, 1e10]),
        link=link(draw.choice([1e8, 1e9])),
        network=link(draw.choice([1e7, 1e8])),
        efficiency=Efficiency(
            matmul=0.5,
            attention=0.25,
            memory=0.8,
            link=0.7,
            network=0.6,
            layer_seconds=draw.choice([0.0, 1e-4]),
            rows=draw.choice([None, 0.1]),
        ),
    )


def _plans(draw: random.Random) -> Mapping[str, ParallelPlan]:
    """Plans of the decoder and of the encoders, over the same devices."""
    stages = draw.choice([1, 2, 4])
    whole = {"data": 1, "fsdp": 1, "expert": 1, "context": 1, "tensor": 1}
    own, other = dict(whole), dict(whole)
    for _ in range(draw.choice([0, 1, 2, 3])):
        own[draw.choice(list(whole))] *= 2
        other[draw.choice(["data", "fsdp", "context", "tensor"])] *= 2
    encoder = ParallelPlan(**other, stage=stages)
    if draw.random() < 0.3:
        encoder = encoder.model_copy(update={"stage": 1, "data": encoder.data * stages})
    return {"decoder": ParallelPlan(**own, stage=stages), "encoder": encoder}


def _workload(draw: random.Random) -> Workload:
    made = small.workload(
        rows=16, layers=draw.choice([4, 6, 8]), encoders=(("vision", 32, 4), ("audio", 16, 8))
    )
    towers = {name: _tower(draw, name, own) for name, own in made.modules.items()}
    names = ["decoder", "vision", "audio"]
    chosen = [frozenset(n for n in names if draw.random() < 0.2) for _ in range(4)]
    own = replace(
        made,
        modules=towers,
        dtype=draw.choice(["bfloat16", "float32"]),
        sums=draw.choice([2, 4]),
        moments=draw.choice([0, 1, 2]),
        workspace_per_element=draw.choice([0, 3]),
        frozen=chosen[0],
        frozen_connectors=chosen[1] - {"decoder"},
        adapted=chosen[2] - chosen[0],
        adapted_connectors=chosen[3] - chosen[1] - {"decoder"},
        constant=draw.choice([2, 4]),
        pairs={"decoder": 0.5} if draw.random() < 0.5 else {},
        near_pairs={"vision": (0.25,)} if draw.random() < 0.5 else {},
        buckets={"vision": "eyes", "audio": "eyes"} if draw.random() < 0.2 else {},
        microbatch_counts={"vision": 2} if draw.random() < 0.3 else {},
        spread={"audio": 2} if draw.random() < 0.3 else {},
        separate_media=draw.random() < 0.7,
    )
    if draw.random() < 0.5:
        own = small.with_experts(own, draw.choice([0.5, 1.0]), draw.choice([0.5, 1.25, 2.0]))
    return own


def _tower(draw: random.Random, name: str, own: ModuleProfile) -> ModuleProfile:
    """A tower with what towers by hand lack."""
    adapters: Parameters = {("embed", None): 3.0 * own.width, (None, "heads"): 2.0 * own.width}
    work = own.layer.work
    layer = ModulePart(
        ModuleWork(work.linear, work.quadratic, (NearPairs(7.0 * own.width, 8),)),
        own.layer.moved,
        0.125,
    )
    return replace(
        own,
        start=ModulePart(ModuleWork(3.0 * own.width, 0), own.start.moved),
        layer=layer if draw.random() < 0.5 else replace(own.layer, adapters=0.125),
        end=replace(own.end, adapters=0.25),
        kv_heads=draw.choice([2, 4, 8]),
        side_inputs=draw.choice([0, 2]) if name == "decoder" else 0,
        intermediate_outputs=draw.choice([0, 2]) if name != "decoder" else 0,
        stride=1 if name == "decoder" else draw.choice([1, 2]),
        layer_adapters=adapters,
        rest_adapters={("embed", None): 5.0 * own.width},
    )


def figures(case: Case) -> dict[str, float]:
    """What the cost model says of a case, by name."""
    strategy, workload, hardware = case
    found: dict[str, Any] = {}
    times = step_times(workload, strategy, hardware)
    for name, task in (
        ("forward", times.forward),
        ("backward", times.backward),
        ("head", times.head),
        *times.more.items(),
        *((f"{kind.name} {module} {n}", own) for (kind, module, n), own in times.sources.items()),
    ):
        found[name] = [task.compute, task.collective]
    for name in ("send", "embed", "gather", "scatter", "update"):
        found[name] = getattr(times, name)
    found |= {f"memory {k}": v for k, v in _memory(case).items()}
    found["least memory"] = least_memory(workload, strategy, hardware)
    found["flops"] = _flops(case)
    for name in workload.sources:
        moved = OutputExchange.of_bucket(workload, strategy, name)
        found[f"exchange {name}"] = list(moved.predicted_seconds(hardware).values())
        found[f"exchanges {name}"] = ModuleTiming(
            workload, strategy, hardware, name
        ).task_exchange_seconds
    return _rounded(found | _bounds(case))


def _memory(case: Case) -> dict[str, float]:
    strategy, workload, hardware = case
    sizes = None
    if strategy.backbone.stage > 1:
        full = strategy.remat == "full"
        own = BufferSizes(inputs=2, saved=3, output_buffer=4, output_grad_buffer=5, gradients=6)
        decoder = BufferSizes(inputs=7, saved=0 if full else 5, gradients=3, operands=2)
        sizes = {"decoder": decoder, **dict.fromkeys(workload.sources, own)}
    return step_memory(workload, strategy, hardware, sizes).by_kind


def _flops(case: Case) -> list[float]:
    strategy, workload, _ = case
    own = task_flops(workload, strategy)
    encoders = [sum(each) for e in own.sources.values() for each in (e.forward, e.backward)]
    whole = [
        f(name)
        for name in workload.modules
        for f in (workload.forward_flops, workload.backward_flops)
    ]
    return [own.forward, own.backward, own.shared, *own.more.values(), *encoders, *whole]


def _bounds(case: Case) -> dict[str, Any]:
    strategy, workload, hardware = case
    devices = strategy.backbone.devices
    return {
        "lower bound": lower_bound(workload, strategy, hardware),
        "decoder alone": backbone_seconds(workload, strategy, hardware),
        "encoders' compute": encoder_compute(workload, strategy, hardware),
        "gathers": gathers_and_scatters(workload, strategy, hardware, ["decoder"]),
        "towers": [
            module_compute(workload, name, devices, strategy.remat, hardware)
            for name in workload.modules
        ],
        "least compute": least_compute(workload, devices, ["none", "full"], hardware),
        "least state": least_state(workload, devices),
    }


def _rounded(found: Any) -> Any:
    """Numbers with nine digits, which other orders of summation do not change."""
    if isinstance(found, dict):
        return {name: _rounded(own) for name, own in found.items()}
    if isinstance(found, list):
        return [_rounded(own) for own in found]
    return float(f"{found:.9g}")


def described(case: Case) -> str:
    """A case in a line, for the file and for who reads a failure."""
    strategy, workload, hardware = case
    plans = "; ".join(f"{name} {plan}" for name, plan in strategy.plans.items())
    own = {k: v for k, v in asdict(strategy).items() if k not in ("plans", "overlap", "fill")}
    settings = ", ".join(f"{name} {value}" for name, value in own.items())
    overlap = " ".join(sorted(strategy.overlap))
    return f"{plans}; {settings}, overlap {overlap}; {workload.dtype} on {hardware.platform}"


def main() -> None:
    """Write the figures of all cases."""
    kept = [{"case": described(case), **figures(case)} for case in cases()]
    lines = ",\n".join(json.dumps(own) for own in kept)
    FILE.write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()

"""Graphs of modules for tests: two towers by hand, and random ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from scheduling.costs.hardware import HardwareLink
from scheduling.costs.slices import (
    ModuleTasks,
    PairInterference,
    Phase,
    QuotaSpeeds,
    SliceCosts,
    TaskWork,
)
from scheduling.search.groups.space import GroupSpace
from scheduling.simulate.groups.costs import GroupCosts
from scheduling.simulate.groups.graph import GraphModule, ModuleGraph

#: FLOP/s of a task that fills a device, and bytes per second of its memory.
SPEED, BANDWIDTH = 1e12, 1e12


def task_of(
    seconds: float,
    *,
    gain: float = 0.0,
    fixed: float = 0.0,
    traffic: float = 0.0,
    host: float = 0.0,
    quotas: Sequence[float] = (0.125, 0.25, 0.5, 0.75, 1.0),
) -> TaskWork:
    """A task of so many seconds on a whole device, of which a part of `gain` is spread over it."""
    flops = seconds * SPEED
    speeds = {quota: SPEED / (1 - gain + gain / quota) for quota in quotas}
    return TaskWork(
        flops=flops,
        traffic=traffic,
        speeds=QuotaSpeeds(points=speeds),
        fixed_seconds=fixed,
        host_seconds=host,
    )


#: Tasks of a module by phase.
Tasks = dict[Phase, TaskWork]


def slice_costs(
    tasks: Mapping[str, Tasks],
    *,
    output_bytes: float = 0.0,
    pairs: Sequence[tuple[str, str, float]] = (),
    link: HardwareLink | None = None,
) -> SliceCosts:
    """Costs of modules by name and phase."""
    fast = HardwareLink(bandwidth=1e15, latency=0)
    return SliceCosts(
        modules={
            name: ModuleTasks(tasks=of_module, output_bytes=output_bytes)
            for name, of_module in tasks.items()
        },
        bandwidth=BANDWIDTH,
        pairs=tuple(PairInterference(module=a, concurrent=b, factor=f) for a, b, f in pairs),
        slice_link=link or fast,
        device_link=link or fast,
    )


def two_towers(*, waits: bool = True, gain: float = 0.0, microbatches: int = 2) -> GroupCosts:
    """A text and an image tower of equal work, whose losses wait, or an image that feeds a text."""
    tasks: Tasks = {
        "forward": task_of(1, gain=gain),
        "backward": task_of(2, gain=gain),
        "update": task_of(0.5, gain=gain),
    }
    work = dict.fromkeys(("text", "image"), tasks)
    graph = ModuleGraph(
        (GraphModule("text"), GraphModule("image", () if waits else ("text",))),
        microbatches,
        rows=4,
        waits=waits,
    )
    return GroupCosts(graph, slice_costs(work))


def random_costs(seed: int, most: int = 6) -> GroupCosts:
    """A random graph of two to `most` modules, with random works."""
    draw = np.random.default_rng(seed)
    names = [f"m{n}" for n in range(draw.integers(2, most + 1))]
    waits = bool(draw.integers(2))
    modules = tuple(
        GraphModule(
            name,
            () if number == 0 or waits else (str(draw.choice(names[: min(number, 2)])),),
            gradient_bytes=float(draw.uniform(0, 1e9)),
            state_bytes=float(draw.uniform(1, 4)),
            saved_bytes=float(draw.uniform(0, 1)),
        )
        for number, name in enumerate(names)
    )
    works = {name: _random_tasks(draw) for name in names}
    pairs = [(a, b, float(draw.uniform(0.95, 1.2))) for a in names for b in names if a != b]
    link = HardwareLink(bandwidth=float(10 ** draw.uniform(9, 12)), latency=1e-4)
    graph = ModuleGraph(modules, int(draw.integers(1, 5)), rows=4, waits=waits)
    return GroupCosts(graph, slice_costs(works, output_bytes=1e7, pairs=pairs, link=link))


def _random_tasks(draw: np.random.Generator) -> Tasks:
    forward = float(10 ** draw.uniform(-2, 0))
    gain, fixed = float(draw.uniform(0, 1)), float(draw.uniform(0, 0.3)) * forward
    traffic = float(draw.uniform(0, 0.8)) * forward * BANDWIDTH
    host = float(draw.uniform(0, 0.05)) * forward
    return {
        "forward": task_of(forward, gain=gain, fixed=fixed, traffic=traffic, host=host),
        "backward": task_of(2 * forward, gain=gain, fixed=fixed, traffic=traffic, host=host),
        "update": task_of(0.1 * forward, gain=gain, traffic=0.1 * traffic, host=host),
    }


def random_space(seed: int, *, mixed: bool = False) -> GroupSpace:
    """A random space of plans."""
    draw = np.random.default_rng(seed)
    quotas = [(0.5,), (0.25, 0.5, 0.75), (0.25, 0.5)][int(draw.integers(3))]
    return GroupSpace(
        devices=int(draw.choice([1, 2, 4])),
        quotas=quotas,
        equal=bool(draw.integers(2)),
        mixed=mixed,
    )

"""The shortest step there is, as an integer program: a yardstick for the placement."""

from collections import defaultdict

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

from scheduling.schedules.costs import TaskCosts
from scheduling.schedules.schedule import Schedule
from scheduling.schedules.task_kinds import B, F, TaskKind
from scheduling.schedules.tasks import ModuleStages

#: Coefficients by variable, and the least and the largest value of their sum.
Line = tuple[dict[int, float], float, float]


def lower_bound(
    decoder: Schedule, encoder: ModuleStages, costs: TaskCosts, seconds: float
) -> float:
    """Makespan that no placement of the encoder's pieces beats, without heads.

    Any number of pieces may run in any tick; all of a microbatch run on one stage. It is reached
    unless the solver needs more than `seconds`.

    Args:
        encoder: trainable, of one stage, with pieces of equal cost.
    """
    own, pieces = costs.sources[encoder.name], float(encoder.chunks)
    stages = range(decoder.stages)
    # A tick before the decoder's and one after.
    load = np.zeros((len(decoder.ticks) + 2, decoder.stages))
    windows: dict[tuple[int, TaskKind], range] = {}
    for tick, stage, task in decoder:
        load[tick + 1, stage] += costs.cost_of(task)
        if task.chunk == 0:
            forward = task.kind == F
            window = range(tick + 1) if forward else range(tick + 2, len(load))
            windows[task.microbatch, F if forward else B] = window
    numbers: defaultdict[object, int] = defaultdict(lambda: len(numbers))
    work: dict[tuple[int, int], dict[int, float]] = {key: {} for key in np.ndindex(load.shape)}
    lines: list[Line] = []
    for (microbatch, kind), window in windows.items():
        owners = {numbers["owner", microbatch, stage]: 1.0 for stage in stages}
        lines.append((owners, 1, 1))
        for stage in stages:
            cells = {numbers[kind, microbatch, stage, tick]: 1.0 for tick in window}
            lines.append((cells | {numbers["owner", microbatch, stage]: -pieces}, 0, 0))
            for tick, cell in zip(window, cells, strict=True):
                work[tick, stage][cell] = -(own.forward if kind == F else own.backward)[0]
    whole = len(numbers)
    for (tick, stage), cells in work.items():
        lines.append((cells | {numbers["end", tick]: 1.0}, load[tick, stage], np.inf))
    return _solve(lines, whole, len(numbers), seconds)


def _solve(lines: list[Line], whole: int, count: int, seconds: float) -> float:
    """Bound on the sum of the variables from `whole` on; those before are whole numbers."""
    matrix = np.zeros((len(lines), count))
    for row, (line, _, _) in zip(matrix, lines, strict=True):
        row[list(line)] = list(line.values())
    last = np.arange(count) >= whole
    found = milp(
        last.astype(float),
        constraints=LinearConstraint(
            matrix, [low for _, low, _ in lines], [up for *_, up in lines]
        ),
        integrality=(~last).astype(int),
        bounds=Bounds(0, np.inf),
        options={"time_limit": seconds},
    )
    return float(found.mip_dual_bound)

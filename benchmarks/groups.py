"""Benchmark of balancing in groups of hosts: what a group loses in evenness, and what it saves.

Every rank has one row without a limit and as many samples as every other, as they come; the media
of a sample may go to other ranks than its text (`data.balance: per_phase`). Each group distributes
its samples as a host does in training (`data.planning.row_assignment`).
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from statistics import mean

import numpy as np

from benchmarks.pipeline import PrintLine, Row
from data.loading.on_read import numbers_of
from data.planning.groups.evenness import Shares, draw_steps
from data.planning.ladder import Ladder
from data.planning.microbatches import in_turn
from data.planning.packing import make_capacity
from data.planning.row_assignment import RowAssigner, RowAssignment
from data.planning.steps import Packed
from data.rows.pack import WORD, words_of
from data.rows.spec import MediaRowSpec
from data.sample import Lengths
from data.sources.distributions import draw_lengths
from mllm_jax.config.inputs import media_specs, row_specs
from mllm_jax.config.load import ExperimentConfig
from mllm_jax.models.module import compute_dtype
from mllm_jax.models.work.flops import module_works

#: Ranks, of which every host has `LOCAL`, and samples of each.
RANKS, LOCAL, SAMPLES = (320, 2560), 8, 25
#: Steps of other samples, over which figures are means.
STEPS = 2
#: Samples from which the cost model draws steps.
OTHERS = 4096
#: Positions and segments of a row: more than a group has.
ROOM = {"tokens": 2**28, "segments": 2**16}


@dataclass
class _Step:
    """One step of all groups, as distributed.

    Attributes:
        loads: by phase, work of the ranks.
        length_bytes: bytes of lengths that a host gets from the others of its group.
        samples, outputs: bytes that all hosts send: of samples that they have read for others, and
            of encoder outputs with their gradients.
        seconds: CPU seconds of assigning, of every group.
    """

    loads: dict[str, list[np.ndarray]] = field(default_factory=lambda: defaultdict(list))
    length_bytes: list[int] = field(default_factory=list)
    samples: int = 0
    outputs: int = 0
    seconds: list[float] = field(default_factory=list)


def bench_groups(
    config: ExperimentConfig, print_line: PrintLine = lambda line: None, picture: str | None = None
) -> list[Row]:
    """Evenness, moved bytes, bytes of lengths and seconds of planning, against the size of a group.

    Returns:
        For every number of ranks and of hosts in a group, means of `STEPS` steps: `decoder` and
        the encoders' names, work of the heaviest rank of all groups over the mean of all; `step`,
        that of all phases one after the other; `predicted`, what the cost model says of `step`
        (`data.planning.groups.evenness`); `lengths`, bytes of lengths that a host receives if
        lengths are known only after reading; `samples` and `outputs`, bytes that a host sends to
        others, of samples that it has read and of encoder outputs with their gradients; `seconds`,
        CPU seconds in which a host plans its group's step.

    Args:
        config: configuration whose model gives the work of samples.
        print_line: prints a line of progress.
        picture: file of a picture to be drawn.
    """
    rows = [
        _measure_groups(config, ranks, hosts, print_line)
        for ranks in RANKS
        for hosts in group_sizes(ranks // LOCAL)
    ]
    if picture is not None:
        _draw_picture(rows, Path(picture))
    return rows


def group_sizes(hosts: int) -> list[int]:
    """Sizes of groups of `hosts` hosts, each at least twice as large as the one before."""
    chosen: list[int] = []
    for size in range(1, hosts + 1):
        if hosts % size == 0 and (not chosen or size >= 2 * chosen[-1]):
            chosen.append(size)
    return [*chosen[:-1], hosts] if 2 * chosen[-1] > hosts else [*chosen, hosts]


def _measure_groups(config: ExperimentConfig, ranks: int, hosts: int, print_line: PrintLine) -> Row:
    """Figures of groups of `hosts` hosts."""
    print_line(f"{ranks} ranks in groups of {hosts} hosts")
    steps = [_assign_step(config, ranks, hosts, seed) for seed in range(STEPS)]
    count = ranks // LOCAL
    uneven = {
        phase: mean(float(np.max(step.loads[phase]) / np.mean(step.loads[phase])) for step in steps)
        for phase in steps[0].loads
    }
    return {
        "ranks": ranks,
        "hosts": hosts,
        **uneven,
        "step": mean(map(_of_step, steps)),
        "predicted": _predict_evenness(config, ranks, count // hosts),
        "lengths": mean(chain.from_iterable(step.length_bytes for step in steps)),
        "samples": mean(step.samples for step in steps) / count,
        "outputs": mean(step.outputs for step in steps) / count,
        "seconds": mean(chain.from_iterable(step.seconds for step in steps)),
    }


def _predict_evenness(config: ExperimentConfig, ranks: int, groups: int) -> float:
    """`step` of groups by the cost model, from other samples."""
    work, ranks_of_group = module_works(config.model), ranks // groups
    capacity = make_capacity(_row_budgets(media_specs(config.model)), row_specs(config.model))
    shares = Shares(
        groups, ranks_of_group, dict.fromkeys(work, ranks_of_group), ranks_of_group * SAMPLES
    )
    drawn = draw_steps(_draw_lengths(config, OTHERS, STEPS), capacity, work, shares)
    return sum(drawn.heaviest.values()) / sum(drawn.mean.values())


def _draw_lengths(config: ExperimentConfig, count: int, seed: int) -> list[Lengths]:
    """Lengths of so many samples of the shipped distribution."""
    return [shape.lengths(config.model.backbone) for shape in draw_lengths("web", count, seed)]


def _row_budgets(kinds: Sequence[MediaRowSpec]) -> dict[str, int]:
    """Budgets of a row that has room for all."""
    return ROOM | {kind.name: ROOM["tokens"] // kind.reduction * kind.reduction for kind in kinds}


def _of_step(step: _Step) -> float:
    """Work that the heaviest ranks of all phases do one after the other, over that of the mean."""
    heaviest = sum(float(np.max(loads)) for loads in step.loads.values())
    return heaviest / sum(float(np.mean(loads)) for loads in step.loads.values())


def _assign_step(config: ExperimentConfig, ranks: int, hosts: int, seed: int) -> _Step:
    """One step of samples, distributed by every group."""
    drawn, kinds = _draw_lengths(config, ranks * SAMPLES, seed), media_specs(config.model)
    described = row_specs(config.model)
    assign, samples_of_group = _make_assigner(config, kinds, hosts), hosts * LOCAL * SAMPLES
    width = 2 * config.model.backbone_config.d_model * compute_dtype(config.model).itemsize
    step = _Step()
    for first in range(0, len(drawn), samples_of_group):
        samples = drawn[first : first + samples_of_group]
        readers = [i // (LOCAL * SAMPLES) for i in range(samples_of_group)]
        began = time.process_time()
        assigned = assign(samples, readers)
        step.seconds.append(time.process_time() - began)
        for phase, loads in assigned.loads.items():
            step.loads[phase].append(loads.after)
        words = sum(len(numbers_of(lengths, described)) for lengths in samples)
        step.length_bytes.append(WORD * words * (hosts - 1) // hosts)
        sent = _count_sent(config.model.backbone, samples, readers, assigned, kinds)
        step.samples += WORD * sum(sent)
        step.outputs += width * sum(assigned.crossing.values())
    return step


def _make_assigner(
    config: ExperimentConfig, kinds: Sequence[MediaRowSpec], hosts: int
) -> Callable[[Sequence[Lengths], Sequence[int]], RowAssignment]:
    """Distributes the samples of a group, given the hosts that have read them."""
    rows = hosts * LOCAL
    budgets = _row_budgets(kinds)
    data = config.data.model_copy(update={"rows": rows, "budgets": budgets})
    capacity = make_capacity(budgets, row_specs(config.model))
    ladder = Ladder.build(data, {"tokens": 1} | {kind.name: kind.reduction for kind in kinds})
    places = {
        name: [row // LOCAL for row in range(rows)] for name in (config.model.backbone, *budgets)
    }
    assigner = RowAssigner(data, capacity, ladder, module_works(config.model), places)

    def assign_samples(samples: Sequence[Lengths], readers: Sequence[int]) -> RowAssignment:
        packed = Packed.with_media(samples, in_turn(len(samples), rows), kinds)
        return assigner(samples, packed, readers=readers)

    return assign_samples


def _count_sent(
    backbone: str,
    samples: Sequence[Lengths],
    readers: Sequence[int],
    assigned: RowAssignment,
    kinds: Sequence[MediaRowSpec],
) -> list[int]:
    """Words of every sample that its reader sends to other hosts."""
    sent = []
    for lengths, reader, row, media in zip(
        samples, readers, assigned.rows, assigned.media, strict=True
    ):
        words = 3 * lengths.total(backbone) * (row // LOCAL != reader)
        for kind in kinds:
            parts = zip(media.get(kind.name, ()), lengths.of(kind.name), strict=True)
            words += sum(words_of(kind, medium) * (r // LOCAL != reader) for r, medium in parts)
        sent.append(words)
    return sent


def _draw_picture(rows: Sequence[Row], path: Path) -> None:
    """Write the picture: a panel for each number of ranks, and one for what a group saves."""
    # The drawing library is loaded only where something is drawn.
    from matplotlib.figure import Figure

    phases = [name for name in rows[0] if name not in FIGURES]
    figure = Figure(figsize=(12.0, 3.6), layout="constrained")
    panels = figure.subplots(1, len(RANKS) + 1)
    for panel, ranks in zip(panels, RANKS, strict=False):
        of_ranks = [row for row in rows if row["ranks"] == ranks]
        for phase in phases:
            panel.plot(
                [r["hosts"] for r in of_ranks], [r[phase] for r in of_ranks], "o-", label=phase
            )
        panel.set_title(f"{ranks} ranks, {ranks // LOCAL} hosts")
        panel.set_ylabel("work of the heaviest rank over the mean")
        panel.legend()
    of_ranks = [row for row in rows if row["ranks"] == RANKS[-1]]
    single_group = of_ranks[-1]
    for name, label in FIGURES.items():
        if label:
            some = [row for row in of_ranks if row[name]]  # one host alone sends nothing
            shares = [row[name] / single_group[name] for row in some]
            panels[-1].plot([r["hosts"] for r in some], shares, "o-", label=label)
    panels[-1].set_title(f"{RANKS[-1]} ranks, relative to one group")
    panels[-1].set_yscale("log")
    panels[-1].legend(fontsize=8, loc="lower right")
    for panel in panels:
        panel.set_xscale("log", base=2)
        panel.set_xlabel("hosts in a group")
        panel.grid(alpha=0.3)
    figure.savefig(path, dpi=120)


#: Figures of a row that are of no phase, with their name in the picture.
FIGURES: Mapping[str, str] = {
    "ranks": "",
    "hosts": "",
    "step": "",
    "predicted": "",
    "lengths": "lengths sent to a host, bytes",
    "samples": "samples sent by a host, bytes",
    "outputs": "outputs sent by a host, bytes",
    "seconds": "planning, seconds",
}

"""How many hosts balance together (`data.balance_group: auto`), by the seconds of a step.

More hosts are more even (`data.planning.groups.evenness`); they tell each other more lengths, send
more to each other, and each of them plans more. The seconds of these are added up:

    work        3 x forward FLOPs of the heaviest rank at the speed of products, by phase, of those
                phases that `data.balance` distributes
    outputs     of encoders and their gradients to other hosts, by the network of the devices
    exchange    `data.lengths: on_read`: lengths and samples, by the network of one device of a host
    planning    what it takes longer than the step, with which it overlaps
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from data.loading.on_read import numbers_of
from data.planning.groups.evenness import DrawnSteps, Shares, draw_steps
from data.planning.packing import Capacity
from data.rows.pack import WORD, words_of
from data.rows.spec import MediaRowSpec
from data.sample import Lengths
from mllm_jax.config.hardware import load_hardware
from mllm_jax.config.load import ExperimentConfig
from mllm_jax.models.module import compute_dtype
from mllm_jax.models.work.flops import module_works
from scheduling.costs.hardware import Hardware

logger = logging.getLogger(__name__)

#: Seconds in which a core plans a sample of a step (`bench groups`).
PLANNING = 1.1e-4


@dataclass(frozen=True)
class GroupCost:
    """Predictions for a step in groups of `hosts` hosts.

    Attributes:
        hosts: hosts of a group.
        seconds: seconds of a step, without what no group changes.
        uneven: work of the heaviest rank over the mean, of the phases that are distributed; 0 if
            none.
    """

    hosts: int
    seconds: float
    uneven: float


def choose_group_size(
    config: ExperimentConfig,
    capacity: Capacity,
    samples: Sequence[Lengths],
    ranks: Mapping[str, int],
    hosts: int,
    sizes: Sequence[int],
) -> GroupCost:
    """The size of groups under which a step takes the fewest seconds; the smallest of equals.

    Args:
        config: configuration with `schedule.hardware`.
        capacity: capacity of a row.
        samples: lengths of samples of the data, by encoder.
        ranks: by phase, number of ranks that rows are distributed over.
        hosts: number of all hosts.
        sizes: sizes among which to choose, ascending.

    Raises:
        DataError: no sample can be used.
        HardwareError: `schedule.hardware` is unknown, or lacks the type of the activations.
    """
    costs = [_predict_cost(config, capacity, samples, ranks, hosts, size) for size in sizes]
    best = min(costs, key=lambda cost: cost.seconds)
    table = ", ".join(f"{cost.hosts}: {cost.seconds:.3g} s, {cost.uneven:.3f}" for cost in costs)
    logger.info(
        "data.balance_group: auto takes groups of %d of %d hosts; predicted by size: seconds of a "
        "step, and its heaviest rank over the mean: %s",
        best.hosts,
        hosts,
        table,
    )
    return best


def _predict_cost(
    config: ExperimentConfig,
    capacity: Capacity,
    samples: Sequence[Lengths],
    ranks: Mapping[str, int],
    hosts: int,
    size: int,
) -> GroupCost:
    """Predictions for groups of `size` hosts."""
    assert config.schedule.hardware is not None
    hardware, count = load_hardware(config.schedule.hardware), hosts // size
    microbatches, data = config.train.accumulate, config.data
    shares = Shares(
        count,
        data.rows * microbatches // count,
        {name: number * microbatches // count for name, number in ranks.items()},
        None if data.samples is None else data.samples // count,
    )
    by_bucket = map(capacity.by_bucket, samples)
    usable = [lengths for lengths in by_bucket if capacity.misfit(lengths) is None]
    drawn = draw_steps(usable, capacity, module_works(config.model), shares)
    drawn = _select_phases(drawn, _balanced_phases(config))
    work = _work_seconds(config, hardware, drawn, ranks)
    sending = _sending_seconds(config, capacity, samples, hardware, drawn.samples, size, hosts)
    sending *= (size - 1) / size  # the rest goes nowhere
    planning = max(0.0, PLANNING * drawn.samples - work - sending)
    uneven = sum(drawn.heaviest.values()) / max(sum(drawn.mean.values()), 1.0)
    return GroupCost(size, float(work + sending + planning), uneven)


def _balanced_phases(config: ExperimentConfig) -> Collection[str]:
    """Phases whose samples are balanced over the ranks of a group."""
    if config.data.balance == "none":
        return ()
    others = config.model.buckets if config.data.balance == "per_phase" else ()
    return config.model.backbone, *others


def _select_phases(drawn: DrawnSteps, phases: Collection[str]) -> DrawnSteps:
    heaviest, mean = (
        {name: work for name, work in works.items() if name in phases}
        for works in (drawn.heaviest, drawn.mean)
    )
    return replace(drawn, heaviest=heaviest, mean=mean)


def _work_seconds(
    config: ExperimentConfig, hardware: Hardware, drawn: DrawnSteps, ranks: Mapping[str, int]
) -> float:
    """Seconds of the heaviest ranks of all phases, one phase after the other."""
    speed = hardware.peak_flops(compute_dtype(config.model).name) * hardware.efficiency.matmul
    flops = sum(
        work * ranks[name] / config.parallel.backbone_plan.devices
        for name, work in drawn.heaviest.items()
    )
    return 3 * config.train.accumulate * flops / speed


def _sending_seconds(
    config: ExperimentConfig,
    capacity: Capacity,
    samples: Sequence[Lengths],
    hardware: Hardware,
    placed: float,
    size: int,
    hosts: int,
) -> float:
    """Seconds of sending if all of a group's samples and outputs go to another of its hosts.

    Args:
        placed: samples of a group in a step.
    """
    kinds = list({spec.module: spec.of_module for spec in capacity.media}.values())
    link, each = hardware.reached_network, placed / len(samples)
    seconds = 0.0
    if config.data.balance == "per_phase":
        width = config.model.backbone_config.d_model * (1 + config.model.layer_inputs)
        outputs = sum(
            kind.merged_outputs(medium)
            for lengths in samples
            for kind in kinds
            for medium in lengths.of(kind.name)
        )
        devices = size * config.parallel.backbone_plan.devices / hosts
        bytes_ = 2 * outputs * each * width * compute_dtype(config.model).itemsize
        seconds += link.send_seconds(bytes_ / devices)
    if config.data.lengths == "on_read":
        text = capacity.text
        numbers = sum(len(numbers_of(lengths, [text, *kinds])) for lengths in samples)
        words = sum(
            3 * lengths.total(text.name) + _media_words(lengths, kinds) for lengths in samples
        )
        seconds += link.send_seconds(WORD * each * numbers)
        seconds += link.send_seconds(WORD * each * words / size)
    return seconds


def _media_words(lengths: Lengths, kinds: Sequence[MediaRowSpec]) -> int:
    """Words of the media of a sample."""
    return sum(words_of(kind, medium) for kind in kinds for medium in lengths.of(kind.name))

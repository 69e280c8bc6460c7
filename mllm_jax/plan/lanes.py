"""Media of unlike lengths through one encoder in three ways, planned and simulated.

In two lanes cut by cost (`lanes`), each medium whole on one rank (`short`), or all media split over
context ranks (`long`). The planner of training runs deals the steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from data.kinds.modality import Lane, LaneCost, Modality
from data.planning.packing import make_capacity
from data.planning.problem import Ints
from data.planning.stream import Consumer, LoaderState, MicrobatchPlan, Planner, used_lengths
from data.sample import Lengths, Sample
from mllm_jax.config.lanes import cost_of
from mllm_jax.config.load import ExperimentConfig
from mllm_jax.config.lower import lower
from mllm_jax.config.modalities import modalities
from mllm_jax.models.work.flops import tower_works
from scheduling.costs.estimate import step_times
from scheduling.costs.hardware import named

#: Ways of the media through the encoder.
WAYS = ("lanes", "short", "long")
#: The longest medium, in medians.
TAIL = 32
#: Simulated steps, media of a step for each rank that takes whole media, and spread of their
#: lengths (the standard deviation of the logarithm).
STEPS, EACH, SIGMA = 8, 20, 1.25

#: Seconds of a step and those that were predicted, by way.
Found = dict[str, dict[str, float]]


@dataclass(frozen=True)
class Way:
    """A configuration whose media go through the encoder in one way.

    Attributes:
        config: the configuration.
        lanes: modalities of its lanes, with costs.
        costs: seconds of the media of each lane; empty for a cut at the longest medium that a row
            of `short` holds.
    """

    config: ExperimentConfig
    lanes: tuple[Modality, ...]
    costs: Mapping[str, LaneCost]

    @classmethod
    def of(cls, config: ExperimentConfig, name: str, costs: Mapping[str, LaneCost]) -> Way:
        """One of `WAYS` of a configuration with the lanes `short` and `long`."""
        if name != "lanes":
            whole = alone(config, name)
            (encoder,) = modalities(whole.model)
            # With a cost all of its groups of devices are even, not its rows alone.
            only = replace(encoder, lane=Lane(encoder.name, cost=costs.get(name)))
            return cls(whole, (only,), {encoder.name: costs[name]} if name in costs else {})
        most = config.data.budgets["short"]
        ends = {"short": (0, most), "long": (most, None)}
        lanes = tuple(
            replace(own, lane=Lane(own.encoder, *ends[own.name], costs.get(own.name)))
            for own in modalities(config.model)
        )
        return cls(config, lanes, costs)

    def room(self, module: str) -> float:
        """Input positions of a row, if the module's rows are computed one by one."""
        apart = len(self.lanes) > 1 and module != "decoder"
        return self.config.data.budgets[module] if apart else np.inf

    def plans(self, samples: Sequence[Lengths], steps: int) -> list[MicrobatchPlan]:
        """Steps of a run whose source has these samples."""
        data, seed = self.config.data, self.config.train.seed
        data = data.model_copy(update={"samples": len(samples) // steps})
        capacity, source = make_capacity(data.budgets, self.lanes), _Samples(samples)
        consumer = Consumer(tower_works(self.config.model))
        planner = Planner(source, source, data, capacity, LoaderState(seed), consumer)
        return [planner.plan() for _ in range(steps)]


def alone(config: ExperimentConfig, lane: str) -> ExperimentConfig:
    """`config` whose encoder has no lanes, and the plan and the budget of one of them."""
    (name, encoder), *_ = config.model.encoders.items()
    encoders = {name: encoder.model_copy(update={"lanes": {}})}
    budgets = {key: config.data.budgets[key] for key in ("tokens", "segments")}
    budgets[name] = config.data.budgets["long"]
    plans = {name: config.parallel.encoders[lane]}
    return config.model_copy(
        update={
            "model": config.model.model_copy(update={"encoders": encoders}),
            "parallel": config.parallel.model_copy(update={"encoders": plans}),
            "data": config.data.model_copy(update={"budgets": budgets}),
        }
    )


class _Samples:
    """A source of samples of which only the lengths are known, which is enough to plan steps."""

    fingerprint, home = "lengths", Path()

    def __init__(self, lengths: Sequence[Lengths]) -> None:
        self._lengths = lengths

    def __getitem__(self, index: int) -> Sample:
        raise IndexError(f"sample {index} has lengths, and nothing that can be read")

    def __len__(self) -> int:
        return len(self._lengths)

    def at(self, places: Sequence[tuple[int, int]]) -> list[Lengths]:
        """See `data.planning.stream.Measurements`."""
        return [self._lengths[index] for _, index in places]

    def name(self, index: int) -> str:
        """The number of a sample."""
        return str(index)


def sample(encoder: str, positions: int, reduction: int) -> Lengths:
    """A sample of one medium, and a token of text for every two of its outputs."""
    return Lengths(3 * positions // reduction // 2, {encoder: (positions,)}, {encoder: (0,)})


def median(config: ExperimentConfig) -> int:
    """Input positions of the median; the longest medium has `data.image.max_patches`."""
    return config.data.image.max_patches // TAIL


# ---- simulated -----------------------------------------------------------------------------------


def simulated(config: ExperimentConfig, drawing: Path | None = None) -> Found:
    """Seconds of dealt steps on the configured hardware, the mean over `STEPS` of them.

    The prediction is closed: the decoder's mean rank, and of every lane the mean group or the
    dearest medium, one lane after the other. In the simulation every device has its own rows: the
    ranks of a group of `long` wait for the last of them to end its short media, and all devices
    wait for all outputs before the decoder begins, and at the end of the step.

    Args:
        drawing: file for a picture of the first step.
    """
    samples, drawn = heavy(config), dict[str, list[Phase]]()
    found: Found = {}
    for name in WAYS:
        own = config if name == "lanes" else alone(config, name)
        assert config.schedule.hardware is not None
        hardware = named(config.schedule.hardware)
        lowered = lower(own, hardware.platform)
        whole, chosen = lowered.workload, lowered.chosen
        modules = "decoder", *own.model.lanes
        costs = {module: cost_of(whole, chosen, hardware, module) for module in modules}
        times = step_times(whole, chosen, hardware)
        ends = times.gather + times.scatter + times.update
        lanes = {lane: cost for lane, cost in costs.items() if lane != "decoder"}
        way = Way.of(config, name, lanes if name == "lanes" else {name: next(iter(lanes.values()))})
        plans = way.plans(samples, STEPS)
        each = [used_lengths(plan.placements, way.lanes) for plan in plans]
        closed = [
            sum(bound(step[n], cost, way.room(n)) for n, cost in costs.items()) for step in each
        ]
        steps = [phases(way, plan, costs["decoder"]) for plan in plans]
        drawn[name] = steps[0]
        dealt = [step[-1][-1].max() for step in steps]
        found[name] = {
            "seconds": ends + float(np.mean(dealt)),
            "predicted_seconds": ends + float(np.mean(closed)),
        }
    if drawing is not None:
        picture(drawn, drawing)
    return found


def heavy(config: ExperimentConfig) -> list[Lengths]:
    """Samples of all steps: log-normal lengths of media, none above `TAIL` medians."""
    (encoder,) = {own.encoder for own in modalities(config.model)}
    (reduction,) = {own.reduction for own in modalities(config.model)}
    count = STEPS * EACH * config.parallel.encoders["short"].batch
    draw = np.random.default_rng(config.train.seed).lognormal(0.0, SIGMA, count)
    outputs = np.rint(np.minimum(draw, TAIL) * median(config) / reduction)
    return [sample(encoder, int(max(1, n)) * reduction, reduction) for n in outputs]


def bound(lengths: Ints, cost: LaneCost, room: float = np.inf) -> float:
    """Seconds of a lane without dealing: those of the mean group, or of the dearest medium.

    Args:
        room: input positions of a row, if rows are computed one by one; infinite if all at once.
    """
    if not len(lengths):
        return 0.0
    each = cost.linear * lengths + cost.quadratic * lengths.astype(np.float64) ** 2
    rounds = np.ceil(lengths.sum() / (cost.groups * room)) if np.isfinite(room) else 1
    return cost.fixed * rounds + float(max(each.sum() / cost.groups, each.max()))


#: A module, and when its work begins and ends on each group of devices, in seconds, `[groups]`.
Phase = tuple[str, np.ndarray, np.ndarray]


def phases(way: Way, plan: MicrobatchPlan, decoder: LaneCost) -> list[Phase]:
    """One dealt step as its devices run it, without the collectives at its ends."""
    found: list[Phase] = []
    ready = np.zeros(1)
    for own in way.lanes:
        media = [
            (row, n)
            for p in plan.placements
            for (row, *_), n in zip(
                p.media[own.name], p.lengths.media.get(own.name, ()), strict=True
            )
        ]
        loads = _loads(way, media, way.costs[own.name], way.room(own.name))
        begun = _begun(ready, len(loads))
        ready = begun + loads
        found.append((own.name, begun, ready))
    texts = _loads(way, [(p.row, p.lengths.tokens) for p in plan.placements], decoder)
    begun = np.full(len(texts), ready.max())
    return [*found, ("decoder", begun, begun + texts)]


def _begun(ready: np.ndarray, groups: int) -> np.ndarray:
    """When each of `groups` begins: when all of its devices are ready."""
    each = np.repeat(ready, max(1, groups // len(ready)))
    return np.asarray(each.reshape(groups, -1).max(1))


def picture(steps: Mapping[str, list[Phase]], path: Path) -> None:
    """Draw the first step of each way: a line for every device, a color for each module."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 6), layout="constrained")
    devices = max(len(begun) for own in steps.values() for _, begun, _ in own)
    colors = {"short": "tab:orange", "long": "tab:red", "decoder": "tab:blue"}
    titles = {"lanes": "two lanes", "short": "whole media alone", "long": "split media alone"}
    for axes, (way, own) in zip(
        figure.subplots(len(steps), sharex=True), steps.items(), strict=True
    ):
        for module, begun, ended in own:
            height = devices / len(begun)
            name = way if module not in colors else module
            axes.barh(
                (np.arange(len(begun)) + 0.5) * height,
                ended - begun,
                height - (height > 1),
                begun,
                color=colors[name],
                label=name,
            )
        axes.set(title=titles[way], ylabel="device", ylim=(devices, 0))
    figure.axes[0].legend(loc="lower right")
    figure.axes[-1].set_xlabel("seconds")
    figure.savefig(path)


def _loads(
    way: Way, items: Sequence[tuple[int, int]], cost: LaneCost, room: float = np.inf
) -> np.ndarray:
    """Seconds of every group of devices, `[groups]`; none where no group has any item.

    Args:
        items: row and length of each.
        room: as of `bound`.
    """
    rows, lengths = np.array(items, np.int64).reshape(-1, 2).T
    n = lengths.astype(np.float64)
    group = rows * cost.groups // way.config.data.rows
    loads = np.bincount(group, cost.linear * n + cost.attention(n), minlength=cost.groups)
    full = np.unique(rows) * cost.groups // way.config.data.rows
    rounds = np.bincount(full, minlength=cost.groups) if np.isfinite(room) else bool(len(items))
    return loads + cost.fixed * rounds

"""Benchmark of lanes: short media whole and long ones split, beside either way alone.

A mixture with a heavy tail, of lengths up to 32 times the median, is dealt by the planner of
training runs and goes through one encoder in three ways: in two lanes cut by cost (`lanes`), each
medium whole on one rank (`short`), and all media split over context ranks (`long`). On the devices
that are here compiled steps are timed; on many accelerators dealt steps are simulated. Both are
predicted before, from lengths and from what media cost in each lane.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import nnls

from data.kinds.modality import Lane, LaneCost, Modality
from data.loading.assemble import BatchArrays
from data.planning.packing import make_capacity
from data.planning.problem import Ints
from data.planning.stream import (
    Consumer,
    LoaderState,
    MicrobatchPlan,
    Planner,
    media_of_plan,
    runs_of_plan,
    used_lengths,
)
from data.sample import Example, Lengths, Sample
from mllm_jax.bench.pipeline import Tell, changed, compile_gradients
from mllm_jax.calibrate.timing import medians
from mllm_jax.config.lanes import cost_of
from mllm_jax.config.load import ExperimentConfig, load
from mllm_jax.config.lower import on_platform, strategy, workload
from mllm_jax.config.modalities import modalities
from mllm_jax.models.work.flops import tower_works
from mllm_jax.runtime.folder import prepare_folder
from mllm_jax.train.step.build import gradient_step
from scheduling.costs.estimate import step_times
from scheduling.costs.hardware import named

#: Ways of the media through the encoder.
WAYS = ("lanes", "short", "long")
#: Lengths of the media of a step that is timed, in medians.
MEDIANS = (*[1] * 12, 2, 2, 32)
#: Timed repetitions of a step.
REPETITIONS = 7
#: The configuration of the simulated steps; steps, media of a step for each rank that takes whole
#: media, and spread of their lengths (the standard deviation of the logarithm).
SIMULATED = Path(__file__).resolve().parents[2] / "configs" / "bench" / "lanes_64.yaml"
STEPS, EACH, SIGMA = 8, 20, 1.25
#: The longest medium, in medians.
TAIL = 32

#: Seconds of a step and those that were predicted, by way.
Found = dict[str, dict[str, float]]


def bench_lanes(config: ExperimentConfig, tell: Tell) -> dict[str, Any]:
    """Seconds of a step by `WAYS`, timed here and simulated for the devices of `SIMULATED`.

    A simulated step is drawn as `lanes.png` in the run's folder.
    """
    folder = config.run.path
    prepare_folder(folder)
    drawn = simulated(load(SIMULATED), folder / "lanes.png")
    return {"real": timed(config, tell), "simulated": drawn}


# ---- the three ways ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Way:
    """A configuration whose media go through the encoder in one way.

    Attributes:
        config: the configuration.
        lanes: modalities of its lanes, with costs.
        costs: seconds of the media of each lane.
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
            only = replace(encoder, lane=Lane(encoder.name, cost=costs[name]))
            return cls(whole, (only,), {encoder.name: costs[name]})
        most = config.data.budgets["short"]
        ends = {"short": (0, most), "long": (most, None)}
        lanes = tuple(
            replace(own, lane=Lane(own.encoder, *ends[own.name], costs[own.name]))
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
    whole = changed(config, "model", encoders=encoders)
    whole = changed(whole, "parallel", encoders={name: config.parallel.encoders[lane]})
    return changed(whole, "data", budgets=budgets | {name: config.data.budgets["long"]})


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


# ---- timed ---------------------------------------------------------------------------------------


def timed(config: ExperimentConfig, tell: Tell) -> Found:
    """Seconds of compiled steps on the devices that are here.

    The costs of both lanes are parabolas through the seconds of small rows. A step is predicted by
    the rows that its plan computes: of an encoder with lanes those with media, else all.
    """
    tell("calibrating: compiling and timing small rows of each lane")
    text, costs = calibrated(config)
    (encoder,) = {own.encoder for own in modalities(config.model)}
    (reduction,) = {own.reduction for own in modalities(config.model)}
    samples = [sample(encoder, n * median(config), reduction) for n in MEDIANS]
    predicted, runs = {}, {}
    for name in WAYS:
        way = Way.of(config, name, costs)
        (plan,) = way.plans(samples, 1)
        budgets = tight(way, plan)
        predicted[name] = text + sum(
            cost.fixed + rows_of(way, plan, lane) * _row(cost, budgets[lane])
            for lane, cost in way.costs.items()
        )
        tell(f"{name}: {predicted[name]:.3f} s predicted; compiling")
        runs[name] = compiled(way, plan, budgets)
    tell("timing the steps in turns")
    seconds = medians(runs, REPETITIONS)
    return {name: {"seconds": seconds[name], "predicted_seconds": predicted[name]} for name in WAYS}


def median(config: ExperimentConfig) -> int:
    """Input positions of the median; the longest medium has `data.image.max_patches`."""
    return config.data.image.max_patches // TAIL


def _row(cost: LaneCost, positions: int) -> float:
    return cost.linear * positions + cost.quadratic * positions**2


def rows_of(way: Way, plan: MicrobatchPlan, lane: str) -> int:
    """Most rows that a group of devices computes of a lane."""
    rows, groups = way.config.data.rows, way.costs[lane].groups
    if len(way.lanes) == 1:
        return rows // groups
    full = {row for p in plan.placements for row, *_ in p.media[lane]}
    return int(np.bincount([row * groups // rows for row in full], minlength=1).max())


def tight(way: Way, plan: MicrobatchPlan) -> dict[str, int]:
    """Budgets that the fullest rows of a plan fill, in whole units."""
    found = dict(way.config.data.budgets)
    for own in way.lanes:
        used = np.zeros(way.config.data.rows, np.int64)
        for row, _, span, *_ in media_of_plan(plan.placements, way.lanes)[own.name].tolist():
            used[row] += span
        unit = way.config.budget_unit(own.name, way.config.parallel.encoders[own.name])
        found[own.name] = unit * max(1, -(-int(used.max()) // unit))
    return found


def compiled(way: Way, plan: MicrobatchPlan, budgets: dict[str, int]) -> Callable[[], Any]:
    """The compiled gradients of a planned step, in rows of `budgets`."""
    config = changed(way.config, "data", budgets=budgets)
    step = gradient_step(config)
    return compile_gradients(config, step, [batch_of(way, plan, budgets)]).run


def batch_of(way: Way, plan: MicrobatchPlan, budgets: dict[str, int]) -> dict[str, Any]:
    """All rows of a planned step, with noise for media and text."""
    rng, rows = np.random.default_rng(0), range(way.config.data.rows)
    capacity = make_capacity(budgets, way.lanes)
    kinds = {own.name: own for own in way.lanes}
    arrays = BatchArrays(dict.fromkeys(("decoder", *kinds), rows), kinds, capacity)
    for place in plan.placements:
        tokens = rng.integers(0, way.config.model.decoder.vocab_size, place.lengths.tokens)
        weight = np.ones(len(tokens), np.float32)
        own = tokens.astype(np.int32)
        arrays.write_text(place, Example(own, own, weight, {}, place.lengths.starts))
        for lane, number in arrays.wanted_media(place):
            count = kinds[lane].outputs(place.lengths.media[lane][number])
            medium = kinds[lane].sketch(rng, count)
            noise = rng.normal(size=medium.inputs.shape).astype(np.float32)
            arrays.write_medium(place, lane, number, replace(medium, inputs=noise))
    runs = runs_of_plan(plan.placements, way.lanes)
    return {**arrays.batch, "runs": runs, "places": media_of_plan(plan.placements, way.lanes)}


def calibrated(config: ExperimentConfig) -> tuple[float, dict[str, LaneCost]]:
    """Seconds of a step without media, and the cost of each lane on the devices that are here.

    Rows of an eighth, a quarter and a half of the longest medium are timed, each row with one
    medium.
    """
    longest = TAIL * median(config)
    lengths, runs = [longest // 8, longest // 4, longest // 2], {}
    (reduction,) = {own.reduction for own in modalities(config.model)}
    plain = LaneCost(1, 0.0, 1.0, 0.0)
    for lane in ("short", "long"):
        way = Way.of(config, lane, {lane: plain})
        (own,) = way.lanes
        for n in lengths:
            media = [sample(own.encoder, n, reduction)] * config.data.rows
            (plan,) = way.plans(media, 1)
            runs[lane, n] = compiled(way, plan, tight(way, plan))
    runs["text", 0] = _text(config)
    seconds = medians(runs, REPETITIONS)
    text = seconds["text", 0]
    return text, {
        lane: _parabola(
            [(n, seconds[lane, n] - text) for n in lengths],
            config.parallel.encoders[lane].batch,
            config.data.rows,
        )
        for lane in ("short", "long")
    }


def _text(config: ExperimentConfig) -> Callable[[], Any]:
    """The step without encoders and media."""
    own = changed(changed(config, "model", encoders={}), "parallel", encoders={})
    return compile_gradients(own, gradient_step(own)).run


def _parabola(points: Sequence[tuple[int, float]], groups: int, rows: int) -> LaneCost:
    """The cost whose seconds for rows with one medium are nearest to those of all points."""
    n, seconds = np.array(points, np.float64).T
    share = rows / groups
    terms = np.stack([np.ones_like(n), share * n, share * n**2], axis=1)
    # Relative errors count, and noise makes no term negative.
    fixed, linear, quadratic = nnls(terms / seconds[:, None], np.ones_like(n))[0].tolist()
    return LaneCost(groups, fixed, linear, quadratic)


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
        whole, chosen = workload(on_platform(own, hardware.platform)), strategy(own)
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

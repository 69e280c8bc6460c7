"""Budgets of packed rows for the configured source, and the padding that they lead to.

Only lengths are read, from text and from the headers of media: no device is needed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from data.faults import Fault
from data.kinds.modality import Modality
from data.loading.loader import microbatch_stats
from data.planning.lengths import LengthTable, open_lengths
from data.planning.packing import make_capacity
from data.planning.stream import Consumer, LoaderState, Planner
from data.planning.suggest import suggest_budgets
from data.planning.unusable import names, unusable_samples
from data.processing.processor import make_processor
from data.sample import DataError
from data.sources.make import make_source
from data.sources.mixture import Mixture
from data.sources.source import Source
from mllm_jax.config.checks import check_unplanned
from mllm_jax.config.lanes import planned
from mllm_jax.config.load import ConfigError, ExperimentConfig
from mllm_jax.models.work.flops import tower_works
from sharding.plan import ParallelPlan

#: Least number of microbatches, in whole steps, that are planned to assess budgets.
MICROBATCHES = 8


@dataclass(frozen=True)
class Refused:
    """Samples that cannot be used for one kind of reason: how many, and the names of the first."""

    samples: int
    first: str


@dataclass(frozen=True)
class Outcome:
    """Results of budgets over some microbatches.

    Attributes:
        budgets: `data.budgets`.
        samples: samples in a microbatch, on average.
        padding: share of unused positions by budget.
        skipped: samples of the source that no step will hold, each counted once.
        reasons: numbers of unusable samples by kind, with the names of the first.
        total: samples of the source.
    """

    budgets: dict[str, int]
    samples: float
    padding: dict[str, float]
    skipped: int
    reasons: dict[str, Refused]
    total: int

    @property
    def text(self) -> str:
        """Samples in a microbatch, and samples that fit no step."""
        lost = f"{self.skipped} of {self.total} samples skipped"
        return f"{self.samples:.1f} samples a microbatch, {lost}"

    @property
    def lost(self) -> list[str]:
        """A line for each kind of unusable samples."""
        return [f"  {kind}: {own.samples}: {own.first}" for kind, own in self.reasons.items()]


@dataclass(frozen=True)
class Advice:
    """The present budgets and those suggested; `present` is None if no sample fits into them."""

    present: Outcome | None
    suggested: Outcome

    def to_json(self) -> dict[str, Any]:
        """A JSON-able dict."""
        return asdict(self)

    def applied(self, config: ExperimentConfig) -> ExperimentConfig:
        """`config` with the suggested budgets, for whatever plans.

        Raises:
            ConfigError: other sections require more.
        """
        data = config.data.model_copy(update={"budgets": self.suggested.budgets})
        changed = config.model_copy(update={"data": data})
        if problems := check_unplanned(changed):
            raise ConfigError("suggested data.budgets", problems)
        return changed

    @property
    def notes(self) -> list[str]:
        """Lines with the suggested budgets beside the present ones."""
        lines = [
            f"data.budgets.{name}: {now} with {before} padding, now {budget} with {after}"
            for name, now, before, budget, after in self.rows
        ]
        old, new = self.present, self.suggested
        before = f"{old.samples:.1f} samples a microbatch, {old.skipped} skipped" if old else "none"
        after = f"{new.samples:.1f} a microbatch, {new.skipped} skipped"
        return [*lines, f"samples: {before}; now {after}"]

    @property
    def outcomes(self) -> list[str]:
        """Samples of a microbatch, present and suggested, and the samples that fit into none."""
        now, then = self.present, self.suggested
        before = [f"now: {now.text}", *now.lost] if now else []
        same = now is not None and now.lost == then.lost
        return [*before, f"then: {then.text}", *([] if same else then.lost)]

    @property
    def rows(self) -> list[tuple[str, object, str, int, str]]:
        """Lines of a table: budget, now, its padding, suggested, its padding."""
        old, new = self.present, self.suggested
        lines: list[tuple[str, object, str, int, str]] = []
        for name, budget in new.budgets.items():
            now = old.budgets[name] if old else "-"
            lines.append((name, now, _share(old, name), budget, _share(new, name)))
        return lines


def advise(config: ExperimentConfig, samples: int | None = None) -> Advice:
    """Suggest `data.budgets` for the configured rows and plans.

    Encoders whose plans are yet to be found split no rows.

    Args:
        samples: samples that a microbatch should hold, about; None = as many as it holds now.

    Raises:
        DataError: the source cannot be used; or no sample fits the present budgets, so that
            `samples` must be given.
    """
    config = _with_plans(config)
    source = make_source(config.data, "train")
    if not len(source):
        raise DataError("data.source has no samples; valid: at least one")
    processor = make_processor(config.data, planned(config))
    lengths = open_lengths(source, processor, config.data)
    encoders = tuple(processor.modalities.values())
    try:
        present = outcome(config, source, lengths, encoders, config.data.budgets)
    except DataError as error:
        if samples is None and len(lengths.unusable) < len(lengths):
            raise DataError(
                f"{error}; say with --samples of `launch.py budgets` how many samples a "
                "microbatch should hold"
            ) from error
        if samples is None:
            raise
        present = None
    wanted = samples or max(1, round(present.samples if present else 1))
    order = source.order(config.train.seed) if isinstance(source, Mixture) else None
    budgets = suggest_budgets(lengths, encoders, config.data.rows, wanted, order=order)
    suggested = outcome(config, source, lengths, encoders, rounded(budgets, config))
    return Advice(present, suggested)


def rounded(budgets: dict[str, int], config: ExperimentConfig) -> dict[str, int]:
    """`budgets` raised to multiples of the configuration's `budget_units`.

    Rows have no more tokens than the decoder has learned positions.
    """
    units, decoder = config.budget_units, config.model.decoder
    found = {name: _raised(budget, units.get(name, 1)) for name, budget in budgets.items()}
    if not decoder.traits.rotary:
        most = decoder.max_positions // units["tokens"] * units["tokens"]
        found["tokens"] = min(found["tokens"], most)
    return found


def _with_plans(config: ExperimentConfig) -> ExperimentConfig:
    """`config` with a plan for every encoder."""
    plans = dict.fromkeys(config.model.lanes, ParallelPlan()) | config.parallel.encoders
    parallel = config.parallel.model_copy(update={"encoders": plans})
    return config.model_copy(update={"parallel": parallel})


def outcome(
    config: ExperimentConfig,
    source: Source,
    lengths: LengthTable,
    encoders: tuple[Modality, ...],
    budgets: dict[str, int],
) -> Outcome:
    """Plan the first steps with `budgets`.

    Raises:
        DataError: no sample is usable.
    """
    data = config.data.model_copy(update={"budgets": budgets, "on_error": "skip"})
    capacity = make_capacity(budgets, encoders)
    work, units = tower_works(config.model), config.budget_units
    consumer = Consumer(work, microbatches=config.train.accumulate, units=units)
    state = LoaderState(config.train.seed)
    planner = Planner(source, lengths, data, capacity, state, consumer)
    used: Counter[str] = Counter()
    room: Counter[str] = Counter()
    placed = 0
    each = config.train.accumulate
    count = -(-MICROBATCHES // each) * each
    for plan in (planner.plan() for _ in range(count)):
        stats = microbatch_stats(plan, data.rows)
        used.update(stats.used)
        room.update(stats.capacity)
        placed += stats.samples
    padding = {name: 1 - used[name] / room[name] for name in room}
    found = unusable_samples(lengths, capacity, config.data.rows_apart)
    reasons = _by_kind(source, found)
    return Outcome(dict(budgets), placed / count, padding, len(found), reasons, len(source))


def _by_kind(source: Source, found: Mapping[int, Fault]) -> dict[str, Refused]:
    """Unusable samples by kind, the most frequent first."""
    kinds: dict[str, list[int]] = {}
    for index, fault in found.items():
        kinds.setdefault(fault.kind.value, []).append(index)
    ordered = sorted(kinds.items(), key=lambda item: -len(item[1]))
    return {kind: Refused(len(own), names(source, own)) for kind, own in ordered}


def _raised(number: int, unit: int) -> int:
    return -(-number // unit) * unit


def _share(outcome: Outcome | None, name: str) -> str:
    """Padding as text; segments have none."""
    return f"{outcome.padding[name]:.1%}" if outcome and name in outcome.padding else "-"

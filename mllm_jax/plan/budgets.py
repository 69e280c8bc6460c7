"""Budgets of packed rows for the configured source, and the padding that they lead to.

Only lengths are read, from text and from the headers of media: no device is needed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from math import ceil
from typing import Any

import numpy as np

from data.faults import SampleFault
from data.loading.loader import microbatch_stats
from data.planning.lengths import LengthTable, open_lengths
from data.planning.packing import make_capacity
from data.planning.stream import BatchPlanner, LoaderState, TrainingDemand
from data.planning.suggest import MULTIPLE, needs_of, suggest_budgets
from data.planning.unusable import names, unusable_samples
from data.rows.spec import RowSpec
from data.sample import DataError
from data.sources.make import make_source
from data.sources.mixture import SourceMixture
from data.sources.order import SampleOrder
from data.sources.source import Source
from mllm_jax.config.buckets import configured_processor
from mllm_jax.config.checks.checks import check_unplanned
from mllm_jax.config.checks.data_checks import check_demo_media
from mllm_jax.config.inputs import (
    TOKENS,
    round_budgets,
    with_budgets,
    with_plans,
)
from mllm_jax.config.load import ConfigError, ExperimentConfig
from mllm_jax.models.work.flops import module_works

#: Least number of microbatches, in full steps, that are planned to assess budgets.
MICROBATCHES = 8
#: Samples of a row where nobody says how many.
SAMPLES = 8
#: How often budgets of media are widened, of which those with least padding are chosen.
WIDER = 2


@dataclass(frozen=True)
class RefusedSamples:
    """Samples that cannot be used for one kind of reason: how many, and the names of the first."""

    samples: int
    first: str


@dataclass(frozen=True)
class BudgetOutcome:
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
    reasons: dict[str, RefusedSamples]
    total: int

    @property
    def text(self) -> str:
        """Samples in a microbatch, and samples that fit no step."""
        lost = f"{self.skipped} of {self.total} samples skipped"
        return f"{self.samples:.1f} samples a microbatch, {lost}"

    @property
    def summary_line(self) -> str:
        """Budgets as an override, with the shares of padding that they lead to."""
        values = ", ".join(f"{name}: {number}" for name, number in self.budgets.items())
        shares = ", ".join(f"{name} {share:.1%}" for name, share in self.padding.items())
        return f"{{{values}}}, {self.text}, padding {shares}"

    @property
    def unusable_lines(self) -> list[str]:
        """A line for each kind of unusable samples."""
        return [
            f"  {kind}: {refused.samples}: {refused.first}"
            for kind, refused in self.reasons.items()
        ]


@dataclass(frozen=True)
class BudgetAdvice:
    """The present budgets and those suggested; `present` is None if no sample fits into them."""

    present: BudgetOutcome | None
    suggested: BudgetOutcome

    def to_json(self) -> dict[str, Any]:
        """A JSON-able dict."""
        return asdict(self)

    def apply_to(self, config: ExperimentConfig) -> ExperimentConfig:
        """`config` with the suggested budgets, for whatever plans.

        Raises:
            ConfigError: other sections require more.
        """
        changed = with_budgets(config, self.suggested.budgets)
        if problems := check_unplanned(changed):
            raise ConfigError("suggested data.budgets", problems)
        return changed

    @property
    def notes(self) -> list[str]:
        """Lines with the suggested and the present budgets."""
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
        before = [f"now: {now.text}", *now.unusable_lines] if now else []
        same = now is not None and now.unusable_lines == then.unusable_lines
        return [*before, f"then: {then.text}", *([] if same else then.unusable_lines)]

    @property
    def rows(self) -> list[tuple[str, object, str, int, str]]:
        """Lines of a table: budget, now, its padding, suggested, its padding."""
        old, new = self.present, self.suggested
        lines: list[tuple[str, object, str, int, str]] = []
        for name, budget in new.budgets.items():
            now = old.budgets[name] if old else "-"
            lines.append(
                (name, now, _format_padding(old, name), budget, _format_padding(new, name))
            )
        return lines


@dataclass(frozen=True)
class _MeasuredSamples:
    """The samples of a configuration, whose encoders all have plans.

    Attributes:
        specs: descriptions of the rows of all buckets, that of the text among them.
    """

    config: ExperimentConfig
    source: Source
    lengths: LengthTable
    specs: tuple[RowSpec, ...]

    @classmethod
    def from_config(cls, config: ExperimentConfig) -> _MeasuredSamples:
        """Measure all samples, if that has not been done.

        Raises:
            ConfigError: the model takes no media of the demo set.
            DataError: the source cannot be used.
        """
        check_demo_media(config)
        config = with_plans(config)
        source = make_source(config.data, "train")
        if not len(source):
            raise DataError("data.source has no samples; valid: at least one")
        processor = configured_processor(config)
        lengths = open_lengths(source, processor, config.data)
        return cls(config, source, lengths, tuple(processor.specs.values()))

    def assess_budgets(self, budgets: dict[str, int]) -> BudgetOutcome:
        """Outcome of the first steps with these budgets. Raises DataError: no sample is usable."""
        return assess_budgets(self.config, self.source, self.lengths, self.specs, budgets)

    def suggest_for(self, samples: int) -> BudgetOutcome:
        """Budgets by which a microbatch holds about so many samples."""
        rows, common = self.config.data.rows, (self.lengths, self.specs)
        budgets = suggest_budgets(
            *common, rows, samples, order=self.sample_order, longest=self.longest_sample
        )
        return self.assess_budgets(round_budgets(budgets, self.config))

    def default_budgets(self) -> BudgetOutcome:
        """Budgets that nobody has given: see `usual_samples`."""
        data, each = self.config.data, self.config.train.accumulate
        if data.samples is not None:
            return self.suggest_for(-(-data.samples // each))
        usual = usual_samples(
            needs_of(self.lengths, self.specs, order=self.sample_order, longest=self.longest_sample)
        )
        suggestion = self.suggest_for(data.rows * usual)
        return min(
            suggestion,
            *self._wider_budgets(suggestion),
            key=lambda candidate: round(max(candidate.padding.values()), 2),
        )

    def _wider_budgets(self, suggestion: BudgetOutcome) -> Iterator[BudgetOutcome]:
        """The same with a bit more room for media, which rows hold whole: often for one more."""
        for part in range(1, WIDER + 1):
            more = {spec.name: part * MULTIPLE * spec.reduction for spec in self.specs}
            budgets = {name: n + more.get(name, 0) for name, n in suggestion.budgets.items()}
            yield self.assess_budgets(round_budgets(budgets, self.config))

    @property
    def longest_sample(self) -> int:
        """Tokens of the longest sample that the decoder has positions for."""
        return self.config.model.backbone_config.max_positions

    @property
    def sample_order(self) -> SampleOrder | None:
        """The order in which samples come up, where some come more often than others."""
        source = self.source
        return (
            source.make_order(self.config.train.seed) if isinstance(source, SourceMixture) else None
        )


def usual_samples(needs: np.ndarray) -> int:
    """Samples of a row that leave little padding: `SAMPLES`, and as many as the longest needs.

    A row is at least as long as the longest sample. Where that is many times as long as the mean
    one, budgets of media must hold as many more, or they would be full long before the tokens. No
    row is longer for that than `TOKENS`, or than the longest sample.

    Args:
        needs: `[samples, budgets]`, see `data.planning.suggest.needs_of`.
    """
    means, largest = needs.mean(0), needs.max(0)
    used = means > 0
    needed = max(SAMPLES, ceil(float((largest[used] / means[used]).max())))
    return max(1, min(needed, int(max(TOKENS, largest[0]) / means[0])))


def choose_budgets(config: ExperimentConfig) -> BudgetOutcome:
    """Choose `data.budgets` where they are `auto`, from the lengths of all samples.

    Raises:
        DataError: the source cannot be used, or has no sample that can.
    """
    return _MeasuredSamples.from_config(config).default_budgets()


def advise_budgets(config: ExperimentConfig, samples: int | None = None) -> BudgetAdvice:
    """Suggest `data.budgets` for the configured rows and plans.

    Encoders whose plans are yet to be searched split no rows. Where `data.budgets` is `auto`, the
    suggestion without `samples` is what it chooses.

    Args:
        samples: samples that a microbatch should hold, about; None = as many as it holds now.

    Raises:
        DataError: the source cannot be used; or no sample fits the present budgets, so that
            `samples` must be given.
    """
    measured = _MeasuredSamples.from_config(config)
    if config.data.auto_budgets:
        return BudgetAdvice(
            None, measured.suggest_for(samples) if samples else measured.default_budgets()
        )
    try:
        present = measured.assess_budgets(config.data.budgets)
    except DataError as error:
        if samples is None and _is_learnable(
            measured.lengths, config.model.backbone_config.max_positions
        ):
            raise DataError(
                f"{error}; say with --samples of `launch.py budgets` how many samples a "
                "microbatch should hold"
            ) from error
        if samples is None:
            raise
        present = None
    samples_of_microbatch = samples or max(1, round(present.samples if present else 1))
    return BudgetAdvice(present, measured.suggest_for(samples_of_microbatch))


def assess_budgets(
    config: ExperimentConfig,
    source: Source,
    lengths: LengthTable,
    encoders: tuple[RowSpec, ...],
    budgets: dict[str, int],
) -> BudgetOutcome:
    """Plan the first steps with `budgets`.

    Raises:
        DataError: no sample is usable.
    """
    config = with_budgets(config, budgets)
    data = config.data.model_copy(update={"on_error": "skip"})
    capacity = make_capacity(budgets, encoders, config.model.backbone_config.max_positions)
    work, units = module_works(config.model), config.budget_units
    consumer = TrainingDemand(work, microbatches=config.train.accumulate, units=units)
    state = LoaderState(config.train.seed)
    planner = BatchPlanner(source, lengths, data, capacity, state, consumer)
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
    unusable = unusable_samples(lengths, capacity, config.data.rows_apart)
    reasons = _count_by_kind(source, unusable)
    return BudgetOutcome(
        dict(budgets), placed / count, padding, len(unusable), reasons, len(source)
    )


def _is_learnable(lengths: LengthTable, longest: int | None) -> bool:
    """Whether rows that are long enough would hold a sample."""
    tokens = np.asarray(lengths.tokens)
    return bool(((tokens >= 0) & (tokens <= (longest or tokens.max()))).any())


def _count_by_kind(
    source: Source, unusable: Mapping[int, SampleFault]
) -> dict[str, RefusedSamples]:
    """Unusable samples by kind, the most frequent first."""
    kinds: dict[str, list[int]] = {}
    for index, fault in unusable.items():
        kinds.setdefault(fault.kind.value, []).append(index)
    ordered = sorted(kinds.items(), key=lambda item: -len(item[1]))
    return {kind: RefusedSamples(len(indices), names(source, indices)) for kind, indices in ordered}


def _format_padding(outcome: BudgetOutcome | None, name: str) -> str:
    """Padding as text; segments have none."""
    return f"{outcome.padding[name]:.1%}" if outcome and name in outcome.padding else "-"

"""Figures of a run, summed over a window of steps for reports and for its progress.

    StepRecord -> FigureMeter -> StepsReport -> console, metrics.jsonl, TensorBoard (`sinks.py`)
                            \\-> totals -> summary.json
                            \\-> window -> the progress that is saved

Rates leave out the first step of a process, which compiles.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import numpy as np
from pydantic import AliasChoices, Field

from mllm_jax.models.short_form import BACKBONE
from mllm_jax.train.records.expert_loads import (
    ExpertLoad,
    expert_loads,
)
from mllm_jax.train.records.step_record import (
    EXPERT_RANKS,
    STRICT,
    Amount,
    Count,
    PhaseLoad,
    StepRecord,
)

#: Usual values, which log lines leave out; `metrics.jsonl` has all values.
WAIT, PADDING, IMBALANCE, EXPERTS = 0.05, 0.10, 1.05, 2.0


@dataclass(frozen=True)
class StepsReport:
    """Figures over a window of steps; rates are None where the window holds a compile only.

    Attributes:
        step, steps: steps done, and of the run.
        loss: mean over the window, without steps whose update was left out.
        learning_rate, gradient_norm: values of the last step.
        tokens_per_second: token positions that hold samples, per second.
        mfu: model FLOP/s over the peak FLOP/s of all devices (PaLM, arXiv 2204.02311, appendix B).
        padding: share of computed positions without a sample, by budget.
        wait_share: share of the time spent waiting for data.
        eta_seconds: time left at the rate of the window.
        skipped: samples refused so far.
        imbalance: work of the heaviest data-parallel rank over the mean, by phase, `before` and
            `after` balancing; of `expert ranks` their tokens, the same before and after.
        moved_bytes, planning_seconds: means over steps, see `StepRecord`.
        skipped_updates: number of updates of the window that were left out.
        step_seconds: wall time of a step in the mean.
        place_seconds, device_wait_seconds: parts of it, see `StepRecord`.
        aux: auxiliary losses by name, means over the window as `loss` is, see `StepRecord`.
        trust_ratios: those of the last step, see `StepRecord`.
        experts: loads of the experts of every layer that has them, means over the window.
        encoder_microbatches: by encoder, how many independent microbatches a step runs in the mean;
            empty where encoders have the decoder's.
        spilled_steps: number of steps of the window whose encoders ran as if they were full, as no
            schedule of theirs fits the compiled step.
    """

    step: int
    steps: int
    loss: float
    learning_rate: float
    gradient_norm: float
    tokens_per_second: float | None
    mfu: float | None
    padding: Mapping[str, float]
    wait_share: float | None
    eta_seconds: float | None
    skipped: int = 0
    imbalance: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    moved_bytes: float = 0.0
    planning_seconds: float = 0.0
    skipped_updates: int = 0
    step_seconds: float | None = None
    place_seconds: float | None = None
    device_wait_seconds: float | None = None
    aux: Mapping[str, float] = field(default_factory=dict)
    trust_ratios: Mapping[str, float] = field(default_factory=dict)
    experts: tuple[ExpertLoad, ...] = ()
    encoder_microbatches: Mapping[str, float] = field(default_factory=dict)
    spilled_steps: int = 0

    def log_fields(self) -> list[tuple[str, str]]:
        """Labels and values of the log line: a fixed set, then values that deviate."""
        width = len(str(self.steps))
        paddings = {content_name(name): share for name, share in self.padding.items()}
        imbalances = {
            phase_name(name): imbalance["after"] for name, imbalance in self.imbalance.items()
        }
        ranks = imbalances.pop(EXPERT_RANKS, 1.0)
        busiest = {f"layer {load.layer}": load.imbalance for load in self.experts}
        shown = [
            ("step", f"{self.step:>{width}}/{self.steps}"),
            ("loss", f"{self.loss:.4f}"),
            ("lr", f"{self.learning_rate:.1e}"),
            ("grad", f"{self.gradient_norm:.2f}"),
            (
                "",
                _format_known(self.tokens_per_second, lambda rate: f"{_format_short(rate)} tok/s"),
            ),
            ("mfu", _format_known(self.mfu, "{:.1%}".format)),
            ("eta", _format_known(self.eta_seconds, format_clock)),
            ("wait", _format_above(WAIT, {"": self.wait_share or 0.0}, "{:.0%}")),
            ("padding", _format_above(PADDING, paddings, "{:.0%}")),
            ("imbalance", _format_above(IMBALANCE, imbalances, "{:.2f}")),
            (EXPERT_RANKS, _format_above(IMBALANCE, {"": ranks}, "{:.2f}")),
            ("experts", _format_above(EXPERTS, busiest, "{:.1f}")),
            ("skipped", str(self.skipped) if self.skipped else ""),
            ("skipped updates", str(self.skipped_updates) if self.skipped_updates else ""),
            ("fallback steps", str(self.spilled_steps) if self.spilled_steps else ""),
        ]
        return [(label, value) for label, value in shown if value]

    def __str__(self) -> str:
        return "  ".join(f"{label} {value}".strip() for label, value in self.log_fields())


#: Counts by encoder; runs that began earlier have saved them as `units`.
IndependentMicrobatches = Annotated[
    Mapping[str, Count],
    Field(validation_alias=AliasChoices("independent_microbatches", "units")),
]


@dataclass(frozen=True)
class FigureSums:
    """Figures of several steps added up; saved with a run, so that its summary covers all of it."""

    __pydantic_config__ = STRICT

    steps: Count = 0
    seconds: Amount = 0.0
    wait_seconds: Amount = 0.0
    flops: Amount = 0.0
    used: Mapping[str, Count] = field(default_factory=dict)
    capacity: Mapping[str, Count] = field(default_factory=dict)
    independent_microbatches: IndependentMicrobatches = field(default_factory=dict)
    loads: Mapping[str, PhaseLoad] = field(default_factory=dict)
    moved_bytes: Amount = 0.0
    planning_seconds: Amount = 0.0
    place_seconds: Amount = 0.0
    device_wait_seconds: Amount = 0.0
    spilled_steps: Count = 0

    def with_step(self, record: StepRecord) -> FigureSums:
        """These sums and the figures of one more step."""
        return FigureSums(
            steps=self.steps + 1,
            seconds=self.seconds + record.seconds,
            wait_seconds=self.wait_seconds + record.wait_seconds,
            flops=self.flops + record.model_flops,
            used=_add_maps(self.used, record.used),
            capacity=_add_maps(self.capacity, record.capacity),
            independent_microbatches=_add_maps(
                self.independent_microbatches, record.independent_microbatches
            ),
            loads=_add_maps(self.loads, record.phases, PhaseLoad()),
            moved_bytes=self.moved_bytes + record.moved_bytes,
            planning_seconds=self.planning_seconds + record.planning_seconds,
            place_seconds=self.place_seconds + record.place_seconds,
            device_wait_seconds=self.device_wait_seconds + record.device_wait_seconds,
            spilled_steps=self.spilled_steps + record.is_fallback,
        )

    @property
    def imbalance(self) -> dict[str, dict[str, float]]:
        """The heaviest rank over the mean, by phase."""
        return {name: load.imbalance for name, load in self.loads.items()}

    @property
    def padding(self) -> dict[str, float]:
        return {name: 1 - self.used[name] / n for name, n in self.capacity.items() if n}

    @property
    def encoder_microbatches(self) -> dict[str, float]:
        """Mean number of independent microbatches of a step, by encoder."""
        return {name: count / self.steps for name, count in self.independent_microbatches.items()}

    @property
    def wait_share(self) -> float | None:
        return self.wait_seconds / self.seconds if self.seconds else None

    def positions_per_second(self, module: str) -> float | None:
        """Positions with samples per second."""
        return self.used.get(module, 0) / self.seconds if self.seconds else None


@dataclass(frozen=True)
class FigureTotals:
    """Sums over a run, however often it was stopped and started again.

    Attributes:
        every: of all steps; what does not depend on time is computed from these.
        timed: of all steps but the first of each process, which compiles; for rates.
    """

    __pydantic_config__ = STRICT

    every: FigureSums = field(default_factory=FigureSums)
    timed: FigureSums = field(default_factory=FigureSums)

    def with_step(self, record: StepRecord, *, timed: bool) -> FigureTotals:
        """These sums and the figures of one more step, which counts for rates if it is `timed`."""
        return FigureTotals(
            self.every.with_step(record), self.timed.with_step(record) if timed else self.timed
        )


@dataclass(frozen=True)
class FigureWindow:
    """Figures of the steps since the last report, added up; saved with a run.

    A report is then the same, however often the run was stopped and started again since the one
    before.

    Attributes:
        every: sums of all steps.
        timed: sums of all steps but the first of each process, for rates.
        learnt: number of steps whose update was not left out; the next are sums over these.
        loss: sum of their losses.
        aux: sums of their auxiliary losses by name.
        loads: sums of their `expert_loads`, `[layers with experts, experts]`; empty without.
    """

    __pydantic_config__ = STRICT

    every: FigureSums = field(default_factory=FigureSums)
    timed: FigureSums = field(default_factory=FigureSums)
    learnt: Count = 0
    loss: float = 0.0
    aux: Mapping[str, float] = field(default_factory=dict)
    loads: tuple[tuple[float, ...], ...] = ()

    def with_step(self, record: StepRecord, *, timed: bool) -> FigureWindow:
        """These sums and the figures of one more step; waits for it."""
        every = self.every.with_step(record)
        rates = self.timed.with_step(record) if timed else self.timed
        if record.left_out:
            return replace(self, every=every, timed=rates)
        aux = {name: float(value) for name, value in record.aux.items()}
        loss = self.loss + float(record.loss)
        loads = self._plus_loads(record.expert_loads)
        return FigureWindow(every, rates, self.learnt + 1, loss, _add_maps(self.aux, aux), loads)

    def _plus_loads(self, loads: Any) -> tuple[tuple[float, ...], ...]:
        if loads is None:
            return ()
        new_loads = np.asarray(loads, np.float64)
        total = new_loads + np.asarray(self.loads) if self.loads else new_loads
        return tuple(map(tuple, total.tolist()))

    def mean_over_updates(self, total: float) -> float:
        """Mean over the steps with an update, or not a number if there are none."""
        return total / self.learnt if self.learnt else math.nan

    @property
    def mean_loads(self) -> list[Any]:
        """Mean loads of experts in a list, which is empty if there are none."""
        return [np.asarray(self.loads) / self.learnt] if self.learnt and self.loads else []


@dataclass
class FigureMeter:
    """Sums the records of a run.

    Attributes:
        steps: steps of the run.
        peak_flops: peak FLOP/s of all devices together, or None where it is not known.
        every: steps between two reports.
        total: figures of the steps that are added up, see `sums`.
        merge_hosts: gives records of all hosts for those of a group of hosts.
        window: those of them since the last report, see `since_report`.
    """

    steps: int
    peak_flops: float | None = None
    every: int = 10
    total: FigureTotals = field(default_factory=FigureTotals)
    merge_hosts: Callable[[Sequence[StepRecord]], list[StepRecord]] = list
    window: FigureWindow = field(default_factory=FigureWindow)
    _records: list[StepRecord] = field(default_factory=list, init=False)
    _last: StepRecord | None = field(default=None, init=False)
    _first: int | None = field(default=None, init=False)

    def add_step(self, record: StepRecord) -> StepsReport | None:
        """Take a step in; a report each `every` steps and at the last step."""
        self._records.append(record)
        if self._first is None:
            self._first = record.step
        is_due = record.step % self.every == 0 or record.step >= self.steps
        return self.take_report() if is_due else None

    def take_report(self) -> StepsReport | None:
        """Report of the steps since the last one, or None if there are none."""
        self._add_up()
        last, window = self._last, self.window
        self._last, self.window = None, FigureWindow()
        return self._make_report(last, window) if last else None

    @property
    def sums(self) -> FigureTotals:
        """Figures of all steps, those before a resumption included.

        Waits for the last step.
        """
        self._add_up()
        return self.total

    @property
    def since_report(self) -> FigureWindow:
        """Figures of the steps since the last report, those before a resumption included.

        Waits for the last step.
        """
        self._add_up()
        return self.window

    def _add_up(self) -> None:
        """Add up new records; those of a group of hosts become records of all hosts."""
        if not self._records:
            return
        records, self._records = self.merge_hosts(self._records), []
        for record in records:
            timed = record.step != self._first
            self.total = self.total.with_step(record, timed=timed)
            self.window = self.window.with_step(record, timed=timed)
        self._last = records[-1]

    def summary_figures(self) -> dict[str, object]:
        """Figures of `sums` in the words of `summary.json`."""
        sums = self.sums
        every, timed = sums.every, sums.timed
        return {
            "tokens_per_second": timed.positions_per_second("tokens"),
            "padding": every.padding,
            "encoder_microbatches": every.encoder_microbatches,
            "spilled_steps": every.spilled_steps,
            "imbalance": every.imbalance,
            "moved_bytes": every.moved_bytes / max(1, every.steps),
            "planning_seconds": timed.planning_seconds / max(1, timed.steps),
            "data_wait_share": timed.wait_share,
            "place_seconds": timed.place_seconds / max(1, timed.steps),
            "device_wait_seconds": timed.device_wait_seconds / max(1, timed.steps),
            "mfu": self._mfu_of(timed),
        }

    def _make_report(self, last: StepRecord, window: FigureWindow) -> StepsReport:
        everything, timed = window.every, window.timed
        pace = timed.seconds / timed.steps if timed.steps else None
        return StepsReport(
            step=last.step,
            steps=self.steps,
            loss=window.mean_over_updates(window.loss),
            learning_rate=float(last.learning_rate),
            gradient_norm=float(last.gradient_norm),
            tokens_per_second=timed.positions_per_second("tokens"),
            mfu=self._mfu_of(timed),
            padding=everything.padding,
            wait_share=timed.wait_share,
            eta_seconds=None if pace is None else pace * (self.steps - last.step),
            skipped=last.skipped,
            imbalance=everything.imbalance,
            moved_bytes=everything.moved_bytes / everything.steps,
            planning_seconds=everything.planning_seconds / everything.steps,
            skipped_updates=everything.steps - window.learnt,
            step_seconds=pace,
            place_seconds=timed.place_seconds / timed.steps if timed.steps else None,
            device_wait_seconds=timed.device_wait_seconds / timed.steps if timed.steps else None,
            aux={name: window.mean_over_updates(window.aux.get(name, 0.0)) for name in last.aux},
            trust_ratios={name: float(value) for name, value in last.trust_ratios.items()},
            experts=expert_loads(last.expert_layers, window.mean_loads),
            encoder_microbatches=everything.encoder_microbatches,
            spilled_steps=everything.spilled_steps,
        )

    def _mfu_of(self, sums: FigureSums) -> float | None:
        if not self.peak_flops or not sums.seconds:
            return None
        return sums.flops / sums.seconds / self.peak_flops


def _add_maps(left: Mapping[str, Any], right: Mapping[str, Any], zero: Any = 0) -> dict[str, Any]:
    return {name: left.get(name, zero) + right.get(name, zero) for name in {**left, **right}}


def content_name(module: str) -> str:
    """Name of the contents of positions: tokens are text."""
    return "text" if module == "tokens" else module


def phase_name(module: str) -> str:
    """Name of a module for people: the backbone of the short form works on text."""
    return "text" if module == BACKBONE else module


def _format_above(usual: float, values: Mapping[str, float], form: str) -> str:
    """The largest of `values` with its name, or nothing if it is usual."""
    name, value = max(values.items(), key=lambda item: item[1], default=("", usual))
    return f"{name} {form.format(value)}".strip() if value > usual else ""


def _format_known(value: float | None, text: Callable[[float], str]) -> str:
    """`text` of a figure, or nothing where it is not known."""
    return "" if value is None else text(value)


def _format_short(number: float) -> str:
    """Three significant digits with a unit: 38.1k."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.1f}{unit}"
    return f"{number:.0f}"


def format_clock(seconds: float) -> str:
    """Minutes and seconds, with hours where there are any: 1:42, 3:05:09."""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"

"""The progress of a run, as stored in checkpoints."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any

from pydantic import BaseModel, Field, ValidationError, model_validator

from data.loading.identity import DataIdentity, Identities
from data.planning.groups.group import WHOLE, HostGroupSpec
from data.planning.stream import LoaderState
from data.sample import DataError
from mllm_jax.runtime.hardware.peak import DevicePeak
from mllm_jax.train.records.metrics import FigureSums, FigureTotals, FigureWindow
from mllm_jax.train.records.skips import SkippedSamples
from mllm_jax.train.records.step_record import STRICT, Amount, Count


class ProgressError(ValueError):
    """JSON that is not the progress of a run."""


@dataclass
class Progress:
    """The progress of a run, over all its processes and restarts; saved with the model.

    Attributes:
        step: optimizer steps taken.
        loader: state from which the data stream continues.
        seconds: wall time of training, compilation included, evaluation not.
        effective: part of it that went into the steps themselves, see `train.listeners.goodput`.
        loss: loss of the last report.
        figures: sums for the summary.
        window: sums since the last report.
        skipped: unusable training samples.
        skipped_updates: steps whose update was left out, see `train.guard.skip`.
        skipped_in_row: how many of them are the last steps.
        good: newest step with a checkpoint that is known to be good; None if none is.
        usual_loss: usual loss of a step, see `StepGuard`; None before the first.
        peak: the peak against which MFU is reported, which the run keeps on the same devices; None
            before it is known.
        sources: identities of the data; empty for runs of older versions.
        paused: seconds of this process that went into evaluation or a profile, or that whoever
            takes the steps has spent between them; not saved.
        group: the hosts whose samples `loader` counts; what is saved counts those of all.
    """

    step: int
    loader: LoaderState
    seconds: float = 0.0
    effective: float = 0.0
    loss: float | None = None
    figures: FigureTotals = field(default_factory=FigureTotals)
    window: FigureWindow = field(default_factory=FigureWindow)
    skipped: SkippedSamples = field(default_factory=SkippedSamples)
    skipped_updates: int = 0
    skipped_in_row: int = 0
    good: int | None = None
    usual_loss: float | None = None
    peak: DevicePeak | None = None
    sources: Identities = field(default_factory=dict)
    paused: float = 0.0
    group: HostGroupSpec = WHOLE

    def to_json(self) -> dict[str, Any]:
        """A JSON-able dict."""
        return {
            "step": self.step,
            "loader": self.loader.to_json(),
            "seconds": self.seconds,
            "effective": self.effective,
            "loss": self.loss,
            "figures": asdict(self.figures.timed),
            "figures_of_all": asdict(self.figures.every),
            "window": asdict(self.window),
            "skipped": dict(self.skipped.times),
            "skipped_samples": dict(self.skipped.samples),
            "skipped_updates": self.skipped_updates,
            "skipped_in_row": self.skipped_in_row,
            "good": self.good,
            "usual_loss": self.usual_loss,
            "peak": self.peak.to_json() if self.peak else None,
            "sources": {name: source.model_dump() for name, source in self.sources.items()},
        }

    @classmethod
    def from_json(cls, value: Any) -> Progress:
        """Inverse of `to_json`.

        Raises:
            ProgressError: a key is missing or unknown, or a value is of another type.
        """
        try:
            stored = _StoredProgress.model_validate_json(json.dumps(value))
            loader = LoaderState.from_json(stored.loader)
        except ValidationError as error:
            raise ProgressError(_first_problem(error)) from error
        except DataError as error:
            raise ProgressError(str(error)) from error
        return cls(
            step=stored.step,
            loader=loader,
            seconds=stored.seconds,
            effective=stored.effective,
            loss=stored.loss,
            figures=FigureTotals(stored.figures_of_all or stored.figures, stored.figures),
            window=stored.window,
            skipped=SkippedSamples.from_json(stored.skipped, stored.skipped_samples),
            skipped_updates=stored.skipped_updates,
            skipped_in_row=stored.skipped_in_row,
            good=stored.good,
            usual_loss=stored.usual_loss,
            peak=DevicePeak(**stored.peak.model_dump()) if stored.peak else None,
            sources=stored.sources,
        )


class _StoredPeak(BaseModel):
    """The JSON of `DevicePeak`."""

    model_config = STRICT
    of: str
    flops: Annotated[float, Field(gt=0)]
    source: str


class _StoredProgress(BaseModel):
    """The JSON of `Progress`; fields that older runs lack have defaults."""

    model_config = STRICT
    step: Count
    loader: dict[str, Any]
    seconds: Amount
    effective: Amount = 0.0
    # Not a number where all updates of a report were left out.
    loss: Annotated[float, Field(allow_inf_nan=True)] | None
    figures: FigureSums
    # Earlier versions summed timed steps only.
    figures_of_all: FigureSums | None = None
    window: FigureWindow = FigureWindow()
    skipped: dict[str, Count]
    skipped_samples: dict[str, Count] = {}
    skipped_updates: Count = 0
    skipped_in_row: Count = 0
    good: Count | None = None
    usual_loss: float | None = None
    peak: _StoredPeak | None = None
    sources: dict[str, DataIdentity] = {}

    @model_validator(mode="after")
    def _check_possible(self) -> _StoredProgress:
        """Figures that steps can have."""
        sums = {"figures": self.figures, "figures_of_all": self.figures_of_all or FigureSums()}
        for key, amount in sums.items():
            for name, used in amount.used.items():
                if used > (room := amount.capacity.get(name, 0)):
                    raise ValueError(f"{key}.used.{name} {used} is more than its capacity {room}")
        counts = {f"{key}.steps": amount.steps for key, amount in sums.items()}
        counts["window.every.steps"] = self.window.every.steps
        counts |= {"window.learnt": self.window.learnt, "skipped_in_row": self.skipped_in_row}
        for name, step in (*counts.items(), ("good", self.good or 0)):
            if step > self.step:
                raise ValueError(f"{name} {step} is after step {self.step}")
        return self


def _first_problem(error: ValidationError) -> str:
    """`figures.steps: Input should be a valid integer`."""
    first = error.errors(include_url=False, include_context=False)[0]
    return f"{'.'.join(map(str, first['loc'])) or 'progress'}: {first['msg']}"

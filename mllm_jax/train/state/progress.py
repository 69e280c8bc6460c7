"""What a run has done so far, as it is kept in checkpoints."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from data.loading.identity import Identities, Identity
from data.planning.stream import LoaderState
from data.sample import DataError
from mllm_jax.train.records.metrics import Sums
from mllm_jax.train.records.skips import Skips


class ProgressError(ValueError):
    """JSON that is not the progress of a run."""


@dataclass
class Progress:
    """What a run has done so far, over all its processes and restarts; saved with the model.

    Attributes:
        step: optimizer steps taken.
        loader: where the data stream continues.
        seconds: wall time of training, compilation included, evaluation not.
        loss: of the last report.
        figures: sums for the summary.
        skipped: unusable training samples.
        skipped_updates: steps whose update was left out, see `train.guard.skip`.
        good: newest step with a checkpoint that is known to be good; None if none is.
        usual_loss: of a step, see `Guard`; None before the first.
        sources: what tells the data from others; empty for runs of older versions.
        paused: seconds of this process that went into evaluation; not saved.
    """

    step: int
    loader: LoaderState
    seconds: float = 0.0
    loss: float | None = None
    figures: Sums = field(default_factory=Sums)
    skipped: Skips = field(default_factory=Skips)
    skipped_updates: int = 0
    good: int | None = None
    usual_loss: float | None = None
    sources: Identities = field(default_factory=dict)
    paused: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """A JSON-able dict."""
        return {
            "step": self.step,
            "loader": self.loader.to_json(),
            "seconds": self.seconds,
            "loss": self.loss,
            "figures": asdict(self.figures),
            "skipped": self.skipped.to_json(),
            "skipped_updates": self.skipped_updates,
            "good": self.good,
            "usual_loss": self.usual_loss,
            "sources": {name: own.model_dump() for name, own in self.sources.items()},
        }

    @classmethod
    def from_json(cls, value: Any) -> Progress:
        """Inverse of `to_json`.

        Raises:
            ProgressError: a key is missing or unknown, or a value is of another type.
        """
        try:
            stored = _Stored.model_validate_json(json.dumps(value))
            loader = LoaderState.from_json(stored.loader)
        except ValidationError as error:
            raise ProgressError(_first_problem(error)) from error
        except DataError as error:
            raise ProgressError(str(error)) from error
        return cls(
            step=stored.step,
            loader=loader,
            seconds=stored.seconds,
            loss=stored.loss,
            figures=stored.figures,
            skipped=Skips.from_json(stored.skipped),
            skipped_updates=stored.skipped_updates,
            good=stored.good,
            usual_loss=stored.usual_loss,
            sources=stored.sources,
        )


class _Stored(BaseModel):
    """The JSON of `Progress`; what older runs did not keep yet has a default."""

    model_config = ConfigDict(extra="forbid", strict=True)
    step: Annotated[int, Field(ge=0)]
    loader: dict[str, Any]
    seconds: Annotated[float, Field(ge=0)]
    loss: float | None
    figures: Sums
    skipped: dict[str, int]
    skipped_updates: int = 0
    good: int | None = None
    usual_loss: float | None = None
    sources: dict[str, Identity] = {}


def _first_problem(error: ValidationError) -> str:
    """`figures.steps: Input should be a valid integer`."""
    first = error.errors(include_url=False, include_context=False)[0]
    return f"{'.'.join(map(str, first['loc'])) or 'progress'}: {first['msg']}"

"""Results of training: those of a step, of an evaluation and of a run."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from mllm_jax.train.records.step_record import StepRecord

#: Content of `summary.json`.
RunSummary = dict[str, Any]


#: Results on held-out samples, see `LossEvaluator`; empty without an evaluation.
EvaluationMetrics = dict[str, Any]


@dataclass(frozen=True)
class StepResult:
    """A step, with the results of work that was due after it.

    Attributes:
        record: figures of the step.
        state: `params`, `optimizer` and `step` after it, on the devices; the next step takes their
            memory, so whoever wants to keep of them copies it.
        evaluation: results on held-out samples, see `LossEvaluator`; None where none was due.
    """

    record: StepRecord
    state: Any
    evaluation: EvaluationMetrics | None = None

    @property
    def step(self) -> int:
        """The number of the step, from 1."""
        return self.record.step

    @property
    def loss(self) -> float:
        """Mean loss of its target tokens; waits for the step."""
        return float(self.record.loss)


#: Gives the steps of a run one by one, and the content of `summary.json` at its end.
StepGenerator = Generator[StepResult, None, RunSummary]

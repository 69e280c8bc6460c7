"""Evaluation of a model on a user's questions: answers, metrics by source, what was skipped."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from data.sample import SampleError
from mllm_jax.evaluation.metrics import (
    METRICS,
    OF_CHOICES,
    AnswerReference,
    MetricScore,
    check_metrics,
)
from mllm_jax.evaluation.references import ReferencedSet
from mllm_jax.generate.answers import AnswerReply, AnswerTiming
from mllm_jax.generate.generator import AnswerGenerator, AnswerOptions
from mllm_jax.runtime.records import write_atomically

logger = logging.getLogger(__name__)

#: Name of all sources together.
ALL = "all"


@dataclass(frozen=True)
class JudgedAnswer:
    """A question with its answer.

    Attributes:
        source: source that it counts for.
        reply: the answer, or why there is none.
        reference: what it was compared with; None for a record without one.
        scores: by metric.
    """

    source: str
    reply: AnswerReply
    reference: AnswerReference | None
    scores: Mapping[str, MetricScore]

    def to_json(self) -> dict[str, Any]:
        """The answer with its references and scores, by name."""
        record = {"source": self.source, **self.reply.to_json()}
        if self.reference is not None:
            record["answers"] = list(self.reference.answers)
            record |= {"choices": list(self.reference.choices)} if self.reference.choices else {}
        means = {
            name: score.amount / score.weight for name, score in self.scores.items() if score.weight
        }
        return record | means


@dataclass(frozen=True)
class EvaluationResult:
    """The results of an evaluation.

    Attributes:
        named: the model.
        metrics: names of the metrics.
        judged: every question.
        timing: how fast they were answered.
    """

    named: str
    metrics: Sequence[str]
    judged: Sequence[JudgedAnswer]
    timing: AnswerTiming

    def mean_scores(self, source: str) -> dict[str, float | None]:
        """By metric, the mean of a source; None where nothing has the metric."""
        matching_scores = [
            answer.scores for answer in self.judged if source in (ALL, answer.source)
        ]
        means: dict[str, float | None] = {}
        for name in self.metrics:
            scores = [scores[name] for scores in matching_scores if name in scores]
            weight = sum(score.weight for score in scores)
            means[name] = sum(score.amount for score in scores) / weight if weight else None
        return means

    @property
    def sources(self) -> list[str]:
        """Names of the sources in the order of the file, then all together."""
        names = list(dict.fromkeys(answer.source for answer in self.judged))
        return names if ALL in names else [*names, ALL]

    def _count_questions(self, source: str, *, answered: bool) -> int:
        matching = (answer for answer in self.judged if source in (ALL, answer.source))
        return sum((answer.reply.error is None) == answered for answer in matching)

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the table."""
        return ("source", "answered", "skipped", *self.metrics)

    @property
    def rows(self) -> list[tuple[object, ...]]:
        """A row for each source."""
        return [
            (
                source,
                self._count_questions(source, answered=True),
                self._count_questions(source, answered=False),
                *("-" if mean is None else mean for mean in self.mean_scores(source).values()),
            )
            for source in self.sources
        ]

    def to_json(self) -> dict[str, Any]:
        """`{"model", "sources": {source: {"answered", "skipped", **metrics}}, "timing"}`."""
        return {
            "model": self.named,
            "sources": {
                source: {
                    "answered": self._count_questions(source, answered=True),
                    "skipped": self._count_questions(source, answered=False),
                    **self.mean_scores(source),
                }
                for source in self.sources
            },
            "skipped": dict(
                Counter(answer.reply.error for answer in self.judged if answer.reply.error)
            ),
            "timing": self.timing.to_json(),
        }

    def write(self, path: Path) -> None:
        """Write every question with its answer and scores, as JSON Lines."""
        lines = [json.dumps(answer.to_json(), ensure_ascii=False) + "\n" for answer in self.judged]
        write_atomically(path, "".join(lines))


def evaluate_answers(
    generator: AnswerGenerator,
    file: Path,
    metrics: Sequence[str],
    options: AnswerOptions,
    media: Path | None = None,
) -> EvaluationResult:
    """Answer the questions of a file, and compare the answers with their references.

    Args:
        generator: the model.
        file: questions with references, see `evaluation.references`.
        metrics: names of metrics.
        options: what answers are wanted.
        media: folder of images and clips; None: the folder of the file.

    Raises:
        ConfigError: there is no such metric.
        DataError: the file cannot be read, or none of its questions can be used.
    """
    check_metrics(metrics)
    source = ReferencedSet(generator.open_questions(file, media), file.stem)
    answers = generator.answers(source, options)
    judged = [_judge_answer(source, i, reply, metrics) for i, reply in enumerate(answers.replies)]
    for answer in judged:
        if answer.reply.error is not None:
            logger.warning("skipped %s: %s", answer.reply.name, answer.reply.error)
    answers.checked(file)
    return EvaluationResult(generator.opened.named, tuple(metrics), judged, answers.timing)


def _judge_answer(
    source: ReferencedSet, index: int, reply: AnswerReply, metrics: Sequence[str]
) -> JudgedAnswer:
    """A question with the scores of its answer."""
    if reply.error is not None:
        return JudgedAnswer(_source_of(source, index), reply, None, {})
    reference = source.reference(index)
    applicable = [name for name in metrics if (name in OF_CHOICES) == bool(reference.choices)]
    scores = {name: METRICS[name](reply.text or "", reference) for name in applicable}
    return JudgedAnswer(source.source(index), reply, reference, scores)


def _source_of(source: ReferencedSet, index: int) -> str:
    """The source of a question that may have none that can be read."""
    try:
        return source.source(index)
    except SampleError:
        return "-"

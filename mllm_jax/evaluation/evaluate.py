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
from mllm_jax.evaluation.metrics import METRICS, OF_CHOICES, Reference, Score, check_metrics
from mllm_jax.evaluation.references import ReferencedSet
from mllm_jax.generate.answers import Reply, Timing
from mllm_jax.generate.generator import Generator, Wanted
from mllm_jax.runtime.records import write_atomically

logger = logging.getLogger(__name__)

#: Name of all sources together.
ALL = "all"


@dataclass(frozen=True)
class Judged:
    """A question with its answer.

    Attributes:
        source: source that it counts for.
        reply: the answer, or why there is none.
        reference: what it was compared with; None for a record without one.
        scores: by metric.
    """

    source: str
    reply: Reply
    reference: Reference | None
    scores: Mapping[str, Score]

    def to_json(self) -> dict[str, Any]:
        """The answer with its references and scores, by name."""
        found = {"source": self.source, **self.reply.to_json()}
        if self.reference is not None:
            found["answers"] = list(self.reference.answers)
            found |= {"choices": list(self.reference.choices)} if self.reference.choices else {}
        means = {name: own.amount / own.weight for name, own in self.scores.items() if own.weight}
        return found | means


@dataclass(frozen=True)
class Evaluated:
    """The results of an evaluation.

    Attributes:
        named: the model.
        metrics: names of the metrics.
        judged: every question.
        timing: how fast they were answered.
    """

    named: str
    metrics: Sequence[str]
    judged: Sequence[Judged]
    timing: Timing

    def means(self, source: str) -> dict[str, float | None]:
        """By metric, the mean of a source; None where nothing has the metric."""
        own = [each.scores for each in self.judged if source in (ALL, each.source)]
        found: dict[str, float | None] = {}
        for name in self.metrics:
            scores = [scores[name] for scores in own if name in scores]
            weight = sum(score.weight for score in scores)
            found[name] = sum(score.amount for score in scores) / weight if weight else None
        return found

    @property
    def sources(self) -> list[str]:
        """Names of the sources in the order of the file, then all together."""
        named = list(dict.fromkeys(each.source for each in self.judged))
        return named if ALL in named else [*named, ALL]

    def _count(self, source: str, *, answered: bool) -> int:
        own = (each for each in self.judged if source in (ALL, each.source))
        return sum((each.reply.error is None) == answered for each in own)

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
                self._count(source, answered=True),
                self._count(source, answered=False),
                *("-" if mean is None else mean for mean in self.means(source).values()),
            )
            for source in self.sources
        ]

    def to_json(self) -> dict[str, Any]:
        """`{"model", "sources": {source: {"answered", "skipped", **metrics}}, "timing"}`."""
        return {
            "model": self.named,
            "sources": {
                source: {
                    "answered": self._count(source, answered=True),
                    "skipped": self._count(source, answered=False),
                    **self.means(source),
                }
                for source in self.sources
            },
            "skipped": dict(Counter(own.reply.error for own in self.judged if own.reply.error)),
            "timing": self.timing.to_json(),
        }

    def write(self, path: Path) -> None:
        """Write every question with its answer and scores, as JSON Lines."""
        lines = [json.dumps(own.to_json(), ensure_ascii=False) + "\n" for own in self.judged]
        write_atomically(path, "".join(lines))


def evaluate(
    generator: Generator,
    file: Path,
    metrics: Sequence[str],
    wanted: Wanted,
    media: Path | None = None,
) -> Evaluated:
    """Answer the questions of a file, and compare the answers with their references.

    Args:
        generator: the model.
        file: questions with references, see `evaluation.references`.
        metrics: names of metrics.
        wanted: what answers are wanted.
        media: folder of images and clips; None: the folder of the file.

    Raises:
        ConfigError: there is no such metric.
        DataError: the file cannot be read, or none of its questions can be used.
    """
    check_metrics(metrics)
    source = ReferencedSet(generator.questions(file, media), file.stem)
    answers = generator.answers(source, wanted)
    judged = [_judged(source, i, reply, metrics) for i, reply in enumerate(answers.replies)]
    for own in judged:
        if own.reply.error is not None:
            logger.warning("skipped %s: %s", own.reply.name, own.reply.error)
    answers.checked(file)
    return Evaluated(generator.opened.named, tuple(metrics), judged, answers.timing)


def _judged(source: ReferencedSet, index: int, reply: Reply, metrics: Sequence[str]) -> Judged:
    """A question with the scores of its answer."""
    if reply.error is not None:
        return Judged(_source(source, index), reply, None, {})
    reference = source.reference(index)
    named = [name for name in metrics if (name in OF_CHOICES) == bool(reference.choices)]
    scores = {name: METRICS[name](reply.text or "", reference) for name in named}
    return Judged(source.source(index), reply, reference, scores)


def _source(source: ReferencedSet, index: int) -> str:
    """The source of a question that may have none that can be read."""
    try:
        return source.source(index)
    except SampleError:
        return "-"

"""The forms of a run's records, by which readers find missing and unknown fields of a line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, fields

from mllm_jax.runtime.records import (
    INT,
    LIST,
    NUMBER,
    OBJECT,
    TEXT,
    RecordSchema,
    Values,
)
from mllm_jax.train.records.metrics import StepsReport

#: Types of JSON by how the annotation of a figure begins.
_TYPES = {"int": INT, "float": NUMBER, "Mapping": OBJECT, "tuple": LIST}

#: Any record of a step.
STEP = RecordSchema({"step": INT})
#: `samples.jsonl`.
SAMPLES = RecordSchema({"step": INT, "samples": LIST}, {})
#: `skipped.jsonl`.
SKIPPED = RecordSchema({"step": INT, "sample": TEXT, "reason": TEXT, "text": TEXT}, {})
#: `summary.json`, without the results of evaluations.
SUMMARY = RecordSchema({"steps": INT})


def _field_types(field_of_report: Field[object]) -> tuple[type, ...]:
    begin = str(field_of_report.type).partition("[")[0].partition(" ")[0]
    return _TYPES[begin]


def _report_schema() -> RecordSchema:
    needed: dict[str, tuple[type, ...]] = {}
    others: dict[str, tuple[type, ...]] = {}
    for field_of_report in fields(StepsReport):
        optional = (
            field_of_report.default is not MISSING or field_of_report.default_factory is not MISSING
        )
        (others if optional else needed)[field_of_report.name] = _field_types(field_of_report)
    return RecordSchema(needed, others)


#: A report of the log in `metrics.jsonl`.
REPORT = _report_schema()


def metrics_schema(values: Values) -> RecordSchema:
    """The form of a line of `metrics.jsonl`: a report, or values that were logged by name."""
    return REPORT if is_report(values) else STEP


def is_report(values: Mapping[str, object]) -> bool:
    """Whether a line of `metrics.jsonl` is a report of the log."""
    return "steps" in values or "learning_rate" in values

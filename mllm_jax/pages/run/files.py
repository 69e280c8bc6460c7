"""The files in the folder of a run, read for its report."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from mllm_jax.config.load import ExperimentConfig, load_config
from mllm_jax.config.sections import ConfigError
from mllm_jax.pages.run.steps import wrong_steps
from mllm_jax.runtime.folder import IDENTITY, METRICS, RESOLVED, RunError, steps_in
from mllm_jax.runtime.records import (
    RecordDamageError,
    RecordLines,
    check_text,
    is_signed,
    read_record,
    read_record_lines,
)
from mllm_jax.supervise.attempts import FOLDER as ATTEMPTS
from mllm_jax.supervise.attempts import AttemptRecords, compute_goodput, read_attempts
from mllm_jax.train.listeners.stragglers.heat import RankLine, read_times, times_of
from mllm_jax.train.records.forms import SAMPLES, SKIPPED, SUMMARY, is_report, metrics_schema
from mllm_jax.train.records.samples import LIST as STEPS_LIST
from mllm_jax.train.records.skips import LIST
from mllm_jax.train.state.saved import CheckpointDamageError as SavedDamageError
from mllm_jax.train.state.saved import read_json, verify_checkpoint

logger = logging.getLogger(__name__)

Line = Mapping[str, Any]

#: Name of the file with the end of a run.
SUMMARY_FILE = "summary.json"
#: Files that a sentence names.
_NAMED = 5


@dataclass(frozen=True)
class RunFiles:
    """The records in the folder of a run.

    Attributes:
        folder: the folder.
        lines: records of `metrics.jsonl`, in order: reports, and values that were logged.
        attempts: records of the attempts.
        skipped: entries of the lists of unusable samples, of all processes.
        times: times of processes and devices.
        summary: content of `summary.json`; None if the run has not ended, or it is damaged.
        config: configuration of the run; None if it cannot be read.
        trouble: why it cannot be read.
        damage: sentences about what is damaged in the folder's records, and left out, about lines
            that are lost, and about damage in the records of its checkpoints.
        unchecked: names of files whose records have no checksums.
    """

    folder: Path
    lines: Sequence[Line]
    attempts: AttemptRecords = field(default_factory=AttemptRecords)
    skipped: Sequence[Line] = ()
    times: Sequence[RankLine] = ()
    summary: Line | None = None
    config: ExperimentConfig | None = None
    trouble: str = ""
    damage: Sequence[str] = ()
    unchecked: Sequence[str] = ()

    @cached_property
    def reports(self) -> list[Line]:
        """The lines that are reports of the log."""
        return [line for line in self.lines if is_report(line)]

    @property
    def step(self) -> int:
        """Steps that are reported."""
        return int(self.reports[-1]["step"]) if self.reports else 0

    @property
    def name(self) -> str:
        """The run's name, which is that of its folder."""
        return self.folder.resolve().name

    @cached_property
    def goodput(self) -> Mapping[str, Any] | None:
        """See `attempts.goodput`; None without records. Of a run that goes on, so far."""
        if self.summary and "goodput" in self.summary:
            goodput: Mapping[str, Any] = self.summary["goodput"]
            return goodput
        attempts = self.attempts
        if not (attempts.times_spent or attempts.watched):
            return None
        return compute_goodput(
            attempts.times_spent, attempts.watched, attempts.effective_seconds, [*attempts.damage]
        )

    def series(self, name: str) -> tuple[list[int], list[float | None]]:
        """Steps and values of a figure that lines hold under `name`."""
        lines = [line for line in self.lines if name in line]
        return [line["step"] for line in lines], [line[name] for line in lines]


def read_run(folder: Path) -> RunFiles:
    """Read a run that is running or has ended; damaged records are left out and reported.

    Raises:
        RunError: `folder` is none of a run, or a file in it cannot be read.
    """
    metrics_file = folder / METRICS
    if not metrics_file.is_file():
        raise RunError(
            f"--run {folder}: there is no {METRICS} in it; valid: the folder of a run that has "
            "begun, such as runs/demo"
        )
    try:
        lines = read_record_lines(metrics_file, metrics_schema)
        lists = [read_record_lines(path, SKIPPED) for path in sorted(folder.glob(f"{LIST}*.jsonl"))]
        samples = [
            read_record_lines(path, SAMPLES) for path in sorted(folder.glob(f"{STEPS_LIST}*.jsonl"))
        ]
        times = read_times(folder)
        attempts = read_attempts(folder)
        summary, of_summary = _read_summary(folder / SUMMARY_FILE)
    except OSError as error:
        raise RunError(f"--run {folder}: {error}") from error
    read_lists: Sequence[RecordLines] = (lines, *lists, *samples, times)
    config, trouble, checked = _read_configuration(folder / RESOLVED)
    damage = [sentence for records in read_lists for sentence in records.problems]
    damage += [*attempts.damage.values(), *of_summary, *_identity_problems(folder)]
    damage += _checkpoint_problems(folder)
    reports = [line for line in lines.values if is_report(line)]
    every = config.run.log_every if config else None
    damage += wrong_steps(reports, summary, every, len(lines.damage))
    unchecked = [records.path.name for records in read_lists if not records.checked]
    unchecked += [RESOLVED] * (not checked)
    unchecked += _without_checksums(folder, [SUMMARY_FILE] if summary else [], attempts)
    for sentence in (*damage, *([trouble] if trouble else ()), *describe_unchecked(unchecked)):
        logger.warning("%s: %s", folder, sentence)
    return RunFiles(
        folder,
        lines.values,
        attempts,
        [entry for records in lists for entry in records.values],
        times_of(times),
        summary,
        config,
        trouble,
        damage,
        unchecked,
    )


def describe_unchecked(names: Sequence[str]) -> list[str]:
    """A sentence about files whose records have no checksums; none without any."""
    listed = ", ".join(names[:_NAMED]) + (f", {len(names) - _NAMED} more" * (len(names) > _NAMED))
    sentence = (
        f"An earlier version wrote {listed}, or they were changed: their records have no checksums"
    )
    return [sentence] if names else []


def _without_checksums(
    folder: Path, documents: Sequence[str], attempts: AttemptRecords
) -> list[str]:
    """Names of records in files of their own that have no checksums."""
    paths = [folder / name for name in documents]
    paths += sorted(p for p in (folder / ATTEMPTS).glob("*.json") if p.name not in attempts.damage)
    return [path.relative_to(folder).as_posix() for path in paths if not is_signed(path)]


def _read_summary(path: Path) -> tuple[Line | None, list[str]]:
    """The summary, or the problem with it."""
    try:
        return (read_record(path, SUMMARY) if path.exists() else None), []
    except RecordDamageError as error:
        return None, [str(error)]


def _read_configuration(path: Path) -> tuple[ExperimentConfig | None, str, bool]:
    """The configuration, or why there is none; and whether it has a checksum."""
    if not path.exists():
        trouble = f"There is no {path.name} in the folder: an earlier version has begun the run."
        return None, trouble, True
    checked = True
    try:
        checked = check_text(path)
        return load_config(path), "", checked
    except RecordDamageError as error:
        return None, str(error), True
    except (ConfigError, OSError) as error:
        return None, f"{path.name} cannot be used by this version: {error}", checked


def _identity_problems(folder: Path) -> list[str]:
    """The problem with the file that identifies the run."""
    path = folder / IDENTITY
    try:
        if path.exists():
            check_text(path)
    except RecordDamageError as error:
        return [str(error)]
    return []


def _checkpoint_problems(folder: Path) -> list[str]:
    """The problems with the records in the checkpoints of a run: all but their arrays."""
    places = [folder / "checkpoints" / str(step) for step in steps_in(folder)]
    damaged = [place for place in places if _checkpoint_problem(place)]
    # A run that goes on removes its older checkpoints, file by file.
    problems = [(place.name, _checkpoint_problem(place)) for place in damaged if place.is_dir()]
    return [f"checkpoint of step {step}: {why}" for step, why in problems if why]


def _checkpoint_problem(place: Path) -> str:
    """The problem with a checkpoint's configuration, its progress or its checksums."""
    try:
        verify_checkpoint(place, needed=lambda block: False)
        read_json(place)
    except SavedDamageError as error:
        return str(error)
    return ""

"""The files in the folder of a run, read for its report."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from mllm_jax.config.load import ExperimentConfig, load
from mllm_jax.config.sections import ConfigError
from mllm_jax.runtime.folder import METRICS, RunError
from mllm_jax.supervise.attempts import Spent, Watched, effective_so_far, goodput, read
from mllm_jax.train.records.resolved import RESOLVED
from mllm_jax.train.records.sinks import kept_lines
from mllm_jax.train.records.skips import KEYS, LIST

Line = Mapping[str, Any]

#: Name of the file with the end of a run.
SUMMARY = "summary.json"


@dataclass(frozen=True)
class RunFiles:
    """What the folder of a run holds.

    Attributes:
        folder: the folder.
        lines: objects of `metrics.jsonl`, in order: reports, and values that were logged.
        spent, watched: records of the attempts; none if one cannot be read.
        damage: why it cannot be read.
        skipped: entries of the lists of unusable samples, of all processes.
        summary: content of `summary.json`; None if the run has not ended.
        config: configuration of the run; None if it cannot be read.
        trouble: why it cannot be read.
    """

    folder: Path
    lines: Sequence[Line]
    spent: Sequence[Spent] = ()
    watched: Sequence[Watched] = ()
    damage: str = ""
    skipped: Sequence[Line] = ()
    summary: Line | None = None
    config: ExperimentConfig | None = None
    trouble: str = ""

    @cached_property
    def reports(self) -> list[Line]:
        """The lines that are reports of the log."""
        return [line for line in self.lines if "loss" in line and "steps" in line]

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
            found: Mapping[str, Any] = self.summary["goodput"]
            return found
        if not (self.spent or self.watched):
            return None
        return goodput(self.spent, self.watched, effective_so_far(self.spent))

    def series(self, name: str) -> tuple[list[int], list[float | None]]:
        """Steps and values of a figure that lines hold under `name`."""
        held = [line for line in self.lines if name in line]
        return [line["step"] for line in held], [line[name] for line in held]


def read_run(folder: Path) -> RunFiles:
    """Read a run that goes on or has ended.

    Raises:
        RunError: `folder` is none of a run, or a file in it cannot be read, other than records of
            attempts.
    """
    metrics = folder / METRICS
    if not metrics.is_file():
        raise RunError(
            f"--run {folder}: there is no {METRICS} in it; valid: the folder of a run that has "
            "begun, such as runs/demo"
        )
    try:
        summary = _object(folder / SUMMARY)
        lines = _lines(metrics)
        lists = sorted(folder.glob(f"{LIST}*.jsonl"))
        skipped = [line for path in lists for line in _lines(path, KEYS)]
    except (OSError, ValueError) as error:
        raise RunError(f"--run {folder}: {error}") from error
    spent, watched, damage = _attempts(folder)
    config, trouble = _configuration(folder / RESOLVED)
    return RunFiles(folder, lines, spent, watched, damage, skipped, summary, config, trouble)


def _attempts(folder: Path) -> tuple[list[Spent], list[Watched], str]:
    """The records of all attempts, or why there are none."""
    try:
        return *read(folder), ""
    except (OSError, ValueError) as error:
        return [], [], f"The records of attempts cannot be read: {error}"


def _lines(path: Path, keys: Sequence[str] = ()) -> list[Line]:
    """Whole lines; the last one of a run that goes on may be a part."""
    return [json.loads(line) for line in kept_lines(path, keys=keys)]


def _object(path: Path) -> Line | None:
    if not path.exists():
        return None
    try:
        found: Line = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path.name} is damaged: {error}; remove it") from error
    return found


def _configuration(path: Path) -> tuple[ExperimentConfig | None, str]:
    """The configuration, or why there is none."""
    if not path.exists():
        return None, f"There is no {path.name} in the folder: an earlier version has begun the run."
    try:
        return load(path), ""
    except ConfigError as error:
        return None, f"{path.name} cannot be used by this version: {error}"

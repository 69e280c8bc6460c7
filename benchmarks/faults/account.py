"""What a run has left: its losses, samples and files, compared with an undisturbed run."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: Files that a run may leave, by their paths in its folder; the others are left over. Checkpoints
#: are counted apart.
_ALLOWED = re.compile(
    r"\.lock|\.identity|\.supervisor(-\d+)?|metrics\.jsonl|samples\.jsonl|skipped(-process-\d+)?\.jsonl"
    r"|summary\.json|resolved\.yaml|ranks\.(jsonl|png)"
    r"|attempts/\d+(\.supervisor)?\.json|plans/hosts-\d+\.yaml|stacks/attempt-\d+-process-\d+\.txt"
    r"|checkpoints/(damaged-)?\d+(-\d+)?/.*"
)


@dataclass(frozen=True)
class RunRecord:
    """What a run has trained.

    Attributes:
        losses: loss and norm of the gradients of every step, to the bit.
        samples: the samples of every step.
    """

    losses: Mapping[int, tuple[float, float]]
    samples: Mapping[int, tuple[int, ...]]

    @classmethod
    def read_run(cls, run: Path) -> RunRecord:
        """The record in the folder of a run."""
        steps = [line for line in _read_lines(run / "metrics.jsonl") if "loss" in line]
        return cls(
            {line["step"]: (line["loss"], line["gradient_norm"]) for line in steps},
            {line["step"]: tuple(line["samples"]) for line in _read_lines(run / "samples.jsonl")},
        )


@dataclass(frozen=True)
class RunDifference:
    """What a run has trained otherwise than an undisturbed one.

    Attributes:
        steps: steps whose loss or gradients are others, or are missing.
        lost, repeated: numbers of samples that it has trained less or more often.
    """

    steps: tuple[int, ...]
    lost: int
    repeated: int

    @classmethod
    def between(
        cls, run: RunRecord, undisturbed: RunRecord, last_equal_step: int | None = None
    ) -> RunDifference:
        """The difference between two records.

        Args:
            last_equal_step: newest step whose loss and gradients must be equal; later ones need
                only be there. None: all must be equal.
        """
        each = sorted(run.losses.keys() | undisturbed.losses.keys())
        wrong = tuple(
            n
            for n in each
            if (
                last_equal_step is None
                or n <= last_equal_step
                or n not in run.losses
                or n not in undisturbed.losses
            )
            and run.losses.get(n) != undisturbed.losses.get(n)
        )
        trained, expected = _count_samples(run), _count_samples(undisturbed)
        return cls(wrong, (expected - trained).total(), (trained - expected).total())


def left_over(run: Path, most: int, damaged: int) -> list[str]:
    """Files and folders of a run that it should not have left.

    Args:
        most: checkpoints that it may keep: the newest ones, and one that is known to be good.
        damaged: checkpoints that it may have set aside.
    """
    files = [path.relative_to(run).as_posix() for path in run.rglob("*") if path.is_file()]
    unexpected = [name for name in files if not _ALLOWED.fullmatch(name)]
    checkpoints = [path.name for path in (run / "checkpoints").iterdir()]
    complete = [name for name in checkpoints if name.isdigit()]
    aside = [name for name in checkpoints if name.startswith("damaged-")]
    others = sorted({*checkpoints} - {*complete} - {*aside})
    unexpected += [f"checkpoints/{name}" for name in others]
    if len(complete) > most:
        unexpected.append(f"{len(complete)} checkpoints, of which it keeps {most}")
    if len(aside) > damaged:
        unexpected.append(f"{len(aside)} damaged checkpoints, of which there can be {damaged}")
    return unexpected


def newest_step(metrics: Path) -> int:
    """The step of the last complete line of a file that is being written; 0 without one."""
    if not metrics.exists():
        return 0
    with metrics.open("rb") as file:
        file.seek(max(0, metrics.stat().st_size - 2**14))
        lines = file.read().split(b"\n")[:-1]
    steps = (_step_of(line) for line in reversed(lines))
    return next((step for step in steps if step is not None), 0)


def _step_of(line: bytes) -> int | None:
    try:
        return int(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError):
        return None


def _read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _count_samples(record: RunRecord) -> Counter[tuple[int, int]]:
    """How often each sample has been trained in each step."""
    return Counter((step, p) for step, places in record.samples.items() for p in places)


def median_and_worst(values: Iterable[float | None]) -> dict[str, float | None]:
    """`median` and `worst` of the seconds that are known; None without any."""
    known = sorted(value for value in values if value is not None)
    if not known:
        return {"median": None, "worst": None}
    middle = len(known) // 2
    median = (known[middle] + known[-1 - middle]) / 2
    return {"median": round(median, 2), "worst": round(known[-1], 2)}

"""The records of a run's attempts, and its goodput: the share of the time that has trained.

Two files of an attempt `n` lie in `attempts/` in the folder of the run. `n.json` is of process 0,
which replaces it every few seconds, `n.supervisor.json` of its supervisor, if it has one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

#: Name of the folder.
FOLDER = "attempts"
#: What follows the number of an attempt in the names of its files.
SPENT, WATCHED = ".json", ".supervisor.json"
#: What the seconds of a training process go into: `step` is what trains, `elsewhere` what whoever
#: takes the steps one by one does between them.
KINDS = (
    *("start", "data", "build", "restore", "compile"),
    *("step", "wait", "save", "check", "evaluate", "elsewhere"),
)
#: What else the time of a run goes into.
LOSSES = ("rework", "hang", "pause")


@dataclass(frozen=True)
class Spent:
    """The time of process 0 in an attempt.

    Attributes:
        attempt: number of the attempt.
        began: time at which the process was started, seconds since 1970.
        seconds: seconds by what they went into, see `KINDS`; they add up to the time since.
        now: what the time behind them goes into.
        effective: seconds of the steps that the run's state then has, those of earlier attempts
            included, each step counted once; None before there is a state.
    """

    attempt: int
    began: float
    seconds: Mapping[str, float]
    now: str = "step"
    effective: float | None = None

    @property
    def until(self) -> float:
        """Time up to which the seconds are known."""
        return self.began + sum(self.seconds.values())


@dataclass(frozen=True)
class Watched:
    """An attempt as its supervisor knows it.

    Attributes:
        attempt: number of the attempt.
        began: time of its begin, seconds since 1970.
        ended: time of its end; None before.
        hung: whether a process of it hung.
        again: whether the supervisor begins another attempt.
        code: exit code of the process that explains the end.
        why: reason of the end.
    """

    attempt: int
    began: float
    ended: float | None = None
    hung: bool = False
    again: bool = False
    code: int = 0
    why: str = ""


def newest(folder: Path) -> int:
    """The highest number of an attempt of the run in `folder`; 0 if there was none."""
    names = (path.name.split(".")[0] for path in (folder / FOLDER).glob("*.json"))
    return max((int(name) for name in names if name.isdigit()), default=0)


def write(folder: Path, record: Spent | Watched) -> None:
    """Replace the record of an attempt.

    Records of the same kind are begun under one name, so that what a process that is killed has
    begun is overwritten by the next one.

    Raises:
        OSError: the folder takes no file.
    """
    suffix = WATCHED if isinstance(record, Watched) else SPENT
    path = folder / FOLDER / f"{record.attempt}{suffix}"
    path.parent.mkdir(exist_ok=True)
    part = path.with_name(f"{suffix}.part")
    try:
        with part.open("w", encoding="utf-8") as file:
            file.write(json.dumps(asdict(record)) + "\n")
            file.flush()
            os.fsync(file.fileno())  # else a machine that is lost may leave an empty file
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def read(folder: Path) -> tuple[list[Spent], list[Watched]]:
    """All records, the oldest attempt first.

    Raises:
        ValueError: a file holds something else; it is named.
    """
    numbers = range(1, newest(folder) + 1)
    return (
        [_read(path, Spent) for n in numbers if (path := folder / FOLDER / f"{n}{SPENT}").exists()],
        [
            _read(path, Watched)
            for n in numbers
            if (path := folder / FOLDER / f"{n}{WATCHED}").exists()
        ],
    )


def _read(path: Path, kind: Any) -> Any:
    try:
        return kind(**json.loads(path.read_text()))
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path} is no record of an attempt: {error}; remove it") from error


def accounts(spent: Sequence[Spent], watched: Sequence[Watched]) -> dict[int, dict[str, float]]:
    """The seconds of every attempt by what they went into, up to the begin of the next one.

    Args:
        spent: records of process 0, by attempt.
        watched: records of the supervisor, by attempt.

    Returns:
        Seconds by the names of `KINDS` and `LOSSES` for every number of an attempt, in order.
    """
    own = {one.attempt: one for one in spent}
    begins = {one.attempt: one.began for one in spent}
    begins |= {one.attempt: one.began for one in watched}
    found = {number: dict(own[number].seconds) if number in own else {} for number in begins}
    numbers = sorted(begins)
    following = dict(pairwise(numbers))
    for one in watched:
        behind = _behind(own.get(one.attempt), one, begins.get(following.get(one.attempt, 0)))
        for kind, seconds in behind.items():
            found[one.attempt][kind] = found[one.attempt].get(kind, 0.0) + seconds
    return {number: found[number] for number in numbers}


def _behind(own: Spent | None, seen: Watched, following: float | None) -> dict[str, float]:
    """What the time behind the last that process 0 has told went into.

    A supervisor that was killed has not told the end of its attempt: the next one begins after a
    pause that is counted from the last that is known.

    Args:
        following: begin of the next attempt; None if there is none.
    """
    known = own.until if own else seen.began
    ended = known if seen.ended is None else max(known, seen.ended)
    now = own.now if own else KINDS[0]
    lost = "hang" if seen.hung else "rework" if now == "step" else now
    seconds = {lost: ended - known} if seen.code or seen.hung else {}
    if following is not None and (seen.again or seen.ended is None):
        seconds["pause"] = max(0.0, following - ended)
    return seconds


def effective_so_far(spent: Sequence[Spent]) -> float | None:
    """Seconds of the steps that the state of a run has that has not ended, each counted once.

    Args:
        spent: as of `accounts`, the oldest attempt first.

    Returns:
        What the newest record knows; None if none does, as records of earlier versions do not,
        unless there was one attempt only, which has taken no step again.
    """
    found = (own.effective for own in reversed(spent) if own.effective is not None)
    alone = spent[0].seconds.get("step", 0.0) if len(spent) == 1 else None
    return next(found, alone)


def goodput(
    spent: Sequence[Spent], watched: Sequence[Watched], effective: float | None
) -> dict[str, Any]:
    """What the time of a run has gone into.

    Args:
        spent, watched: as of `accounts`.
        effective: seconds of the steps that the run's state has, each counted once. None: not
            known, nor is `share` then, and steps that were taken again count as effective.

    Returns:
        `share`, the effective share of all seconds; `seconds` by what they went into: `effective`,
        the kinds of `KINDS` but `step`, `rework` (steps that were taken again, or whose state is
        lost), `hang` (from the last that is known of a process that hung to its end) and `pause`
        (between attempts); and the number of `attempts`.
    """
    each = accounts(spent, watched)
    total = dict.fromkeys((*KINDS, *LOSSES), 0.0)
    for kind in total:
        total[kind] = sum(seconds.get(kind, 0.0) for seconds in each.values())
    stepping = total.pop("step")
    kept = stepping if effective is None else min(effective, stepping)
    total["rework"] += stepping - kept
    seconds = {"effective": kept, **total}
    whole = sum(seconds.values())
    return {
        "share": kept / whole if whole and effective is not None else None,
        "seconds": seconds,
        "attempts": len(each),
    }


def told(found: Mapping[str, Any]) -> str:
    """A line that tells a goodput, with the largest losses first.

    `goodput 91.2 % of 104 s in 2 attempts: compile 4.1 s, start 3.0 s, rework 1.2 s`
    """
    seconds = dict(found["seconds"])
    total = sum(seconds.values())
    del seconds["effective"]
    losses = sorted(seconds.items(), key=lambda item: -item[1])
    words = ", ".join(f"{name} {value:.1f} s" for name, value in losses if value >= 0.05)
    many = "s" * (found["attempts"] != 1)
    share = found["share"] or 0.0
    return f"goodput {share:.1%} of {total:.0f} s in {found['attempts']} attempt{many}: {words}"

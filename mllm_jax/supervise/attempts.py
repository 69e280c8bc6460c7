"""The records of a run's attempts, and its goodput: the share of time spent on training.

Two files of an attempt `n` lie in `attempts/` in the folder of the run. `n.json` is of process 0,
which replaces it every few seconds, `n.supervisor.json` of its supervisor, if it has one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from itertools import pairwise
from pathlib import Path
from typing import Any

from mllm_jax.runtime.records import (
    FLAG,
    INT,
    KNOWN_NUMBER,
    NUMBER,
    OBJECT,
    TEXT,
    RecordDamageError,
    RecordSchema,
    read_record,
    record_line,
    write_atomically,
)

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
#: What else the time of a run goes into; `unknown` is the time of attempts whose record is damaged.
LOSSES = ("rework", "hang", "pause", "unknown")
#: Forms of the two files.
_SPENT = RecordSchema(
    {"attempt": INT, "began": KNOWN_NUMBER, "seconds": OBJECT}, {"now": TEXT, "effective": NUMBER}
)
_WATCHED = RecordSchema(
    {"attempt": INT, "began": KNOWN_NUMBER},
    {"ended": NUMBER, "hung": FLAG, "again": FLAG, "code": INT, "why": TEXT},
)


@dataclass(frozen=True)
class TimeSpent:
    """The time of process 0 in an attempt.

    Attributes:
        attempt: number of the attempt.
        began: time at which the process was started, seconds since 1970.
        seconds: seconds by what they went into, see `KINDS`; they add up to the time since.
        now: what the time after them goes into.
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
class WatchedAttempt:
    """The record of an attempt that its supervisor writes.

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


def newest_attempt(folder: Path) -> int:
    """The highest number of an attempt of the run in `folder`; 0 if there was none."""
    names = (path.name.split(".")[0] for path in (folder / FOLDER).glob("*.json"))
    return max((int(name) for name in names if name.isdigit()), default=0)


def write_attempt(folder: Path, record: TimeSpent | WatchedAttempt) -> None:
    """Replace the record of an attempt.

    Records of the same kind are begun under one name, so that what a process that is killed has
    begun is overwritten by the next one.

    Raises:
        OSError: the folder takes no file.
    """
    suffix = WATCHED if isinstance(record, WatchedAttempt) else SPENT
    path = folder / FOLDER / f"{record.attempt}{suffix}"
    path.parent.mkdir(exist_ok=True)
    write_atomically(path, record_line(asdict(record)), part=f"{suffix}.part")


@dataclass(frozen=True)
class AttemptRecords:
    """All records of a run, the oldest attempt first.

    Attributes:
        times_spent: records of process 0.
        watched: records of the supervisor.
        damage: by name of a file that is damaged, and left out, what is wrong with it.
    """

    times_spent: Sequence[TimeSpent] = field(default_factory=list)
    watched: Sequence[WatchedAttempt] = field(default_factory=list)
    damage: Mapping[str, str] = field(default_factory=dict)

    @property
    def effective_seconds(self) -> float | None:
        """See `effective_seconds`; None if the record of the newest attempt is damaged."""
        known = max((record.attempt for record in self.times_spent), default=0)
        lost = max(map(parse_attempt_number, self.damage), default=0)
        return effective_seconds(self.times_spent) if known >= lost else None


def parse_attempt_number(name: str) -> int:
    """The number of the attempt that a file is of."""
    return int(name.partition(".")[0])


def read_attempts(folder: Path) -> AttemptRecords:
    """All records of a run, without those that are damaged.

    Raises:
        OSError: a file cannot be read.
    """
    times_spent, watched, damage = list[TimeSpent](), list[WatchedAttempt](), dict[str, str]()
    for number in range(1, newest_attempt(folder) + 1):
        for kind, suffix, form, records in (
            (TimeSpent, SPENT, _SPENT, times_spent),
            (WatchedAttempt, WATCHED, _WATCHED, watched),
        ):
            path = folder / FOLDER / f"{number}{suffix}"
            if not path.exists():
                continue
            try:
                records.append(_read_file(path, kind, form))
            except RecordDamageError as error:
                damage[path.name] = str(error)
    return AttemptRecords(times_spent, watched, damage)


def _read_file(path: Path, kind: Any, form: RecordSchema) -> Any:
    """The record in a file; keys of later versions are left out."""
    values = read_record(path, form)
    if values["attempt"] != parse_attempt_number(path.name):
        raise RecordDamageError(f"{path.name} is of attempt {values['attempt']}, and left out")
    seconds = values.get("seconds", {})
    if unknown := [kind for kind in seconds if kind not in KINDS]:
        raise RecordDamageError(
            f"{path.name} is damaged, and left out: unknown kind {unknown[0]:.40}"
        )
    return kind(**{key.name: values[key.name] for key in fields(kind) if key.name in values})


def account_attempts(
    times_spent: Sequence[TimeSpent],
    watched: Sequence[WatchedAttempt],
    damage: Collection[str] = (),
) -> dict[int, dict[str, float]]:
    """The seconds of every attempt by kind, up to the begin of the next one.

    Args:
        times_spent: records of process 0, by attempt.
        watched: records of the supervisor, by attempt.
        damage: names of the files that are damaged, and neither in `times_spent` nor in `watched`.

    Returns:
        Seconds by the names of `KINDS` and `LOSSES` for every number of an attempt, in order.
    """
    spent_by_number = {record.attempt: record for record in times_spent}
    watched_by_number = {record.attempt: record for record in watched}
    begins = {record.attempt: record.began for record in times_spent}
    begins |= {record.attempt: record.began for record in watched}
    numbers = sorted({*begins, *map(parse_attempt_number, damage)})
    following = dict(pairwise(numbers))
    accounts = {}
    for number in numbers:
        seconds = dict(spent_by_number[number].seconds) if number in spent_by_number else {}
        trailing = _trailing_seconds(
            spent_by_number.get(number),
            watched_by_number.get(number),
            begins.get(following.get(number, 0)),
            {name.partition(".")[2] for name in damage if parse_attempt_number(name) == number},
        )
        for kind, more in trailing.items():
            seconds[kind] = seconds.get(kind, 0.0) + more
        accounts[number] = seconds
    return accounts


def _trailing_seconds(
    time_spent: TimeSpent | None,
    watched: WatchedAttempt | None,
    following: float | None,
    lost: Collection[str],
) -> dict[str, float]:
    """The kind of the time after the last record of process 0.

    A supervisor that was killed has not recorded the end of its attempt: the next one begins after
        a
    pause that is counted from the last that is known.

    Args:
        following: begin of the next attempt; None if there is none.
        lost: endings of the names of this attempt's files that are damaged.
    """
    if watched is None:
        if following is None or time_spent is None or WATCHED[1:] not in lost:
            return {}
        return {"unknown": max(0.0, following - time_spent.until)}
    known = time_spent.until if time_spent else watched.began
    if time_spent is None and SPENT[1:] in lost:
        end = watched.ended if watched.ended is not None else following
        seconds = {} if end is None else {"unknown": max(0.0, end - known)}
        ended = known if end is None else max(known, end)
    else:
        ended = known if watched.ended is None else max(known, watched.ended)
        now = time_spent.now if time_spent else KINDS[0]
        into = "hang" if watched.hung else "rework" if now == "step" else now
        seconds = {into: ended - known} if watched.code or watched.hung else {}
    if following is not None and (watched.again or watched.ended is None):
        seconds["pause"] = max(0.0, following - ended)
    return seconds


def effective_seconds(times_spent: Sequence[TimeSpent]) -> float | None:
    """Seconds of the steps that the state of a run has that has not ended, each counted once.

    Args:
        times_spent: as of `accounts`, the oldest attempt first.

    Returns:
        What the newest record knows; None if none does, as records of earlier versions do not,
        unless there was one attempt only, which has taken no step again.
    """
    known = (record.effective for record in reversed(times_spent) if record.effective is not None)
    only_attempt = times_spent[0].seconds.get("step", 0.0) if len(times_spent) == 1 else None
    return next(known, only_attempt)


def compute_goodput(
    times_spent: Sequence[TimeSpent],
    watched: Sequence[WatchedAttempt],
    effective: float | None,
    damage: Collection[str] = (),
) -> dict[str, Any]:
    """The time of a run by kind.

    Args:
        times_spent, watched, damage: as of `accounts`.
        effective: seconds of the steps that the run's state has, each counted once. None: not
            known, nor is `share` then, and steps that were taken again count as effective.

    Returns:
        `share`, the effective share of all seconds; `seconds` by what they went into: `effective`,
        the kinds of `KINDS` but `step`, `rework` (steps that were taken again, or whose state is
        lost), `hang` (from the last that is known of a process that hung to its end), `pause`
        (between attempts) and `unknown` (of attempts whose record is damaged, but for their
        effective part); the number of `attempts`; and, if there are any, the names of `damaged`
        records.
    """
    accounts = account_attempts(times_spent, watched, damage)
    total = dict.fromkeys((*KINDS, *LOSSES), 0.0)
    for kind in total:
        total[kind] = sum(seconds.get(kind, 0.0) for seconds in accounts.values())
    stepping = total.pop("step")
    effective_part = stepping if effective is None else min(effective, stepping + total["unknown"])
    total["rework"] += max(0.0, stepping - effective_part)
    total["unknown"] -= max(0.0, effective_part - stepping)
    seconds = {"effective": effective_part, **total}
    all_seconds = sum(seconds.values())
    goodput = {
        "share": effective_part / all_seconds if all_seconds and effective is not None else None,
        "seconds": seconds,
        "attempts": len(accounts),
    }
    return goodput | ({"damaged": sorted(damage)} if damage else {})


def goodput_line(goodput: Mapping[str, Any]) -> str:
    """The goodput in one line, with the largest losses first.

    `goodput 91.2 % of 104 s in 2 attempts: compile 4.1 s, start 3.0 s, rework 1.2 s`
    """
    seconds = dict(goodput["seconds"])
    total = sum(seconds.values())
    del seconds["effective"]
    losses = sorted(seconds.items(), key=lambda item: -item[1])
    words = ", ".join(f"{name} {value:.1f} s" for name, value in losses if value >= 0.05)
    many = "s" * (goodput["attempts"] != 1)
    share = "not known" if goodput["share"] is None else f"{goodput['share']:.1%}"
    line = f"goodput {share} of {total:.0f} s in {goodput['attempts']} attempt{many}: {words}"
    damaged = ", ".join(f"{FOLDER}/{name}" for name in goodput.get("damaged", ()))
    return f"{line}; without the damaged {damaged}" if damaged else line

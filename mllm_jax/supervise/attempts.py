"""The records of a run's attempts, and its goodput: the share of the time that has trained.

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
    DamageError,
    Form,
    line_of,
    read_document,
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
_SPENT = Form(
    {"attempt": INT, "began": KNOWN_NUMBER, "seconds": OBJECT}, {"now": TEXT, "effective": NUMBER}
)
_WATCHED = Form(
    {"attempt": INT, "began": KNOWN_NUMBER},
    {"ended": NUMBER, "hung": FLAG, "again": FLAG, "code": INT, "why": TEXT},
)


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
    write_atomically(path, line_of(asdict(record)), part=f"{suffix}.part")


@dataclass(frozen=True)
class Attempts:
    """All records of a run, the oldest attempt first.

    Attributes:
        spent: records of process 0.
        watched: records of the supervisor.
        damage: by name of a file that is damaged, and left out, what is wrong with it.
    """

    spent: Sequence[Spent] = field(default_factory=list)
    watched: Sequence[Watched] = field(default_factory=list)
    damage: Mapping[str, str] = field(default_factory=dict)

    @property
    def effective(self) -> float | None:
        """See `effective_so_far`; None if the record of the newest attempt is damaged."""
        known = max((own.attempt for own in self.spent), default=0)
        lost = max(map(number_of, self.damage), default=0)
        return effective_so_far(self.spent) if known >= lost else None


def number_of(name: str) -> int:
    """The number of the attempt that a file is of."""
    return int(name.partition(".")[0])


def read(folder: Path) -> Attempts:
    """All records of a run, without those that are damaged.

    Raises:
        OSError: a file cannot be read.
    """
    spent, watched, damage = list[Spent](), list[Watched](), dict[str, str]()
    for number in range(1, newest(folder) + 1):
        for kind, suffix, form, found in (
            (Spent, SPENT, _SPENT, spent),
            (Watched, WATCHED, _WATCHED, watched),
        ):
            path = folder / FOLDER / f"{number}{suffix}"
            if not path.exists():
                continue
            try:
                found.append(_read(path, kind, form))
            except DamageError as error:
                damage[path.name] = str(error)
    return Attempts(spent, watched, damage)


def _read(path: Path, kind: Any, form: Form) -> Any:
    """The record in a file; keys of later versions are left out."""
    found = read_document(path, form)
    if found["attempt"] != number_of(path.name):
        raise DamageError(f"{path.name} is of attempt {found['attempt']}, and left out")
    seconds = found.get("seconds", {})
    if unknown := [kind for kind in seconds if kind not in KINDS]:
        raise DamageError(f"{path.name} is damaged, and left out: unknown kind {unknown[0]:.40}")
    return kind(**{own.name: found[own.name] for own in fields(kind) if own.name in found})


def accounts(
    spent: Sequence[Spent], watched: Sequence[Watched], damage: Collection[str] = ()
) -> dict[int, dict[str, float]]:
    """The seconds of every attempt by what they went into, up to the begin of the next one.

    Args:
        spent: records of process 0, by attempt.
        watched: records of the supervisor, by attempt.
        damage: names of the files that are damaged, and neither in `spent` nor in `watched`.

    Returns:
        Seconds by the names of `KINDS` and `LOSSES` for every number of an attempt, in order.
    """
    own = {one.attempt: one for one in spent}
    seen = {one.attempt: one for one in watched}
    begins = {one.attempt: one.began for one in spent}
    begins |= {one.attempt: one.began for one in watched}
    numbers = sorted({*begins, *map(number_of, damage)})
    following = dict(pairwise(numbers))
    found = {}
    for number in numbers:
        seconds = dict(own[number].seconds) if number in own else {}
        behind = _behind(
            own.get(number),
            seen.get(number),
            begins.get(following.get(number, 0)),
            {name.partition(".")[2] for name in damage if number_of(name) == number},
        )
        for kind, more in behind.items():
            seconds[kind] = seconds.get(kind, 0.0) + more
        found[number] = seconds
    return found


def _behind(
    own: Spent | None, seen: Watched | None, following: float | None, lost: Collection[str]
) -> dict[str, float]:
    """What the time behind the last that process 0 has told went into.

    A supervisor that was killed has not told the end of its attempt: the next one begins after a
    pause that is counted from the last that is known.

    Args:
        following: begin of the next attempt; None if there is none.
        lost: endings of the names of this attempt's files that are damaged.
    """
    if seen is None:
        if following is None or own is None or WATCHED[1:] not in lost:
            return {}
        return {"unknown": max(0.0, following - own.until)}
    known = own.until if own else seen.began
    if own is None and SPENT[1:] in lost:
        end = seen.ended if seen.ended is not None else following
        seconds = {} if end is None else {"unknown": max(0.0, end - known)}
        ended = known if end is None else max(known, end)
    else:
        ended = known if seen.ended is None else max(known, seen.ended)
        now = own.now if own else KINDS[0]
        into = "hang" if seen.hung else "rework" if now == "step" else now
        seconds = {into: ended - known} if seen.code or seen.hung else {}
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
    spent: Sequence[Spent],
    watched: Sequence[Watched],
    effective: float | None,
    damage: Collection[str] = (),
) -> dict[str, Any]:
    """What the time of a run has gone into.

    Args:
        spent, watched, damage: as of `accounts`.
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
    each = accounts(spent, watched, damage)
    total = dict.fromkeys((*KINDS, *LOSSES), 0.0)
    for kind in total:
        total[kind] = sum(seconds.get(kind, 0.0) for seconds in each.values())
    stepping = total.pop("step")
    kept = stepping if effective is None else min(effective, stepping + total["unknown"])
    total["rework"] += max(0.0, stepping - kept)
    total["unknown"] -= max(0.0, kept - stepping)
    seconds = {"effective": kept, **total}
    whole = sum(seconds.values())
    found = {
        "share": kept / whole if whole and effective is not None else None,
        "seconds": seconds,
        "attempts": len(each),
    }
    return found | ({"damaged": sorted(damage)} if damage else {})


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
    share = "not known" if found["share"] is None else f"{found['share']:.1%}"
    line = f"goodput {share} of {total:.0f} s in {found['attempts']} attempt{many}: {words}"
    damaged = ", ".join(f"{FOLDER}/{name}" for name in found.get("damaged", ()))
    return f"{line}; without the damaged {damaged}" if damaged else line

"""The faults of `bench recovery`, as plain data that a seed draws.

    run 2 of 3 hosts
      7  stop             host 1   6 steps later, 0.31 s into a save
      8  cut              host 2   3 steps later, 0.08 s into a step     for 11.2 s

A fault strikes once the run has recovered from the one before and has taken some more steps. One
whose moment is `start` strikes while the run still recovers: it adds to the one before.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

Moment = Literal["step", "save", "start"]
#: What a kind of fault needs: a host with a link or a disk of its own, or leave to trace processes.
Need = Literal["link", "disk", "trace"]


@dataclass(frozen=True)
class FaultSpec:
    """A kind of fault.

    Attributes:
        name: its name.
        help: what happens.
        weight: how often it is drawn.
        lasts: seconds of the shortest and the longest; None for what does not end by itself.
        needs: what must be possible; None for what always is.
        ends: whether it always ends the attempt, so that it must be detected.
        hosts: which hosts it strikes.
        moments: when it strikes.
        last: whether no other fault of the run can follow.
    """

    name: str
    help: str
    weight: int = 1
    lasts: tuple[float, float] | None = None
    needs: Need | None = None
    ends: bool = True
    hosts: Literal["any", "first", "others"] = "any"
    moments: tuple[Moment, ...] = ("step", "save", "start")
    last: bool = False


#: How often a fault strikes at each moment.
_WEIGHTS: dict[Moment, int] = {"step": 3, "save": 2, "start": 1}
_ALL = (
    FaultSpec("kill", "SIGKILL of the training process", weight=4),
    FaultSpec("supervisor", "SIGKILL of a supervisor but that of process 0", hosts="others"),
    FaultSpec("coordinator", "SIGKILL of the supervisor of process 0", hosts="first"),
    FaultSpec("stop", "SIGSTOP of the training process", weight=2),
    # At a start it may be at what takes long, e.g. compiling: only run.phase_seconds tells that.
    FaultSpec("stuck", "the main thread hangs", 2, needs="trace", moments=("step", "save")),
    FaultSpec("freeze", "SIGSTOP of all of a host, then SIGCONT", lasts=(1, 15), ends=False),
    FaultSpec("cut", "the link of a host is cut", lasts=(1, 15), needs="link", ends=False),
    FaultSpec("slow_link", "the link of a host is slow", lasts=(2, 6), needs="link", ends=False),
    FaultSpec(
        "slow_rank", "the training process is stopped half of the time", lasts=(2, 6), ends=False
    ),
    FaultSpec("damage", "bytes of a file are changed, and SIGKILL"),
    FaultSpec("delete", "a file is deleted, and SIGKILL"),
    FaultSpec("damage_snapshot", "bytes of snapshots in memory are changed, and SIGKILL", weight=2),
    FaultSpec("full", "the disk is full, and SIGKILL", lasts=(1, 8), needs="disk"),
    FaultSpec("lost_host", "a host and its memory are gone for good", 6, last=True),
)
#: Every kind by its name.
KINDS = {kind.name: kind for kind in _ALL}

#: Hosts of a run.
HOSTS = (2, 3, 4)
#: Faults of a run: each run begins cold.
FAULTS = 6
#: Most steps from a recovery to the next fault.
STEPS = 8
#: Seconds from the beginning of a moment to the fault, at most.
DELAYS: dict[Moment, float] = {"step": 1.0, "save": 0.3, "start": 8.0}


@dataclass(frozen=True)
class InjectedFault:
    """One fault.

    Attributes:
        number: number of the fault, from 1.
        kind: name of its kind.
        host: host that it strikes.
        steps: new steps from the recovery to the moment; 0 for the moment `start`.
        moment: what is going on when it strikes: anything, a save, or the start of an attempt.
        delay: seconds from the moment to the fault.
        seconds: how long it lasts; 0 for what does not end by itself.
        choice: a number from 0 to 1 that chooses among files, or snapshots.
    """

    number: int
    kind: str
    host: int
    steps: int
    moment: Moment
    delay: float
    seconds: float = 0.0
    choice: float = 0.0

    def __str__(self) -> str:
        when = f"{self.delay:.2f} s into a {self.moment}"
        if self.moment != "start":
            when = f"{self.steps} steps later, {when}"
        lasts = f"for {self.seconds:.1f} s" if self.seconds else ""
        return f"{self.number:>4}  {self.kind:<15} host {self.host}  {when:<38} {lasts}".rstrip()


@dataclass(frozen=True)
class FaultPlan:
    """A run of training and its faults.

    Attributes:
        number: number of the run, from 1.
        hosts: number of hosts, each with one process.
        faults: the faults, in their order.
    """

    number: int
    hosts: int
    faults: tuple[InjectedFault, ...]

    def __str__(self) -> str:
        head = f"run {self.number} of {self.hosts} hosts"
        return "\n".join([head, *(f"  {fault}" for fault in self.faults)])


def possible_kinds(able: Iterable[Need]) -> list[FaultSpec]:
    """The kinds of faults that need no more than `able` says."""
    has = set(able)
    return [kind for kind in KINDS.values() if kind.needs is None or kind.needs in has]


def draw_plans(faults: int, seed: int, kinds: Sequence[FaultSpec]) -> list[FaultPlan]:
    """Runs with `faults` faults in all; of equal arguments equal ones.

    Args:
        kinds: kinds that are drawn from.
    """
    rng, plans = random.Random(seed), list[FaultPlan]()
    for first in range(0, faults, FAULTS):
        hosts = rng.choice(HOSTS)
        numbers = range(first + 1, min(faults, first + FAULTS) + 1)
        others = [kind for kind in kinds if not kind.last]
        drawn = tuple(
            _draw_fault(n, hosts, kinds if n == numbers[-1] else others, rng, first=n == numbers[0])
            for n in numbers
        )
        plans.append(FaultPlan(len(plans) + 1, hosts, drawn))
    return plans


def _draw_fault(
    number: int, hosts: int, kinds: Sequence[FaultSpec], rng: random.Random, *, first: bool
) -> InjectedFault:
    kind = rng.choices(kinds, [kind.weight for kind in kinds])[0]
    lowest, end = int(kind.hosts == "others"), 1 if kind.hosts == "first" else hosts
    moments = [each for each in kind.moments if each != "start" or not first]
    moment = rng.choices(moments, [_WEIGHTS[each] for each in moments])[0]
    return InjectedFault(
        number,
        kind.name,
        rng.randrange(lowest, end),
        0 if moment == "start" else rng.randint(1, STEPS),
        moment,
        round(rng.uniform(0, DELAYS[moment]), 2),
        round(rng.uniform(*kind.lasts), 1) if kind.lasts else 0.0,
        round(rng.random(), 4),
    )

"""When the attempts of a run begin and end, on all hosts: decisions without clock or process.

One conductor, in the supervisor that leads, hears all supervisors and tells all of them::

    WAITING --- all hosts are there, the pause is over ---> RUNNING     Begin
            --- some did not come, enough others did -> RUNNING     Begin, without them
    RUNNING --- a process has ended, or is at fault ------> HALTING     Halt, at once or soon
    HALTING --- all processes have ended -----------------> WAITING     after a cause that may pass
                                                        \\-> OVER        Finish, after any other

A host that is unfit (code 8) in two attempts that it takes part in is left out, if there is a plan
for the others; where it leads, its supervisor leaves, and another one takes the lead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from enum import Enum

from mllm_jax.runtime.exits import Exit
from mllm_jax.runtime.supervised.beats import Beat
from mllm_jax.runtime.watch import LIMITS, Limits, Peer, fault
from mllm_jax.supervise.ends import End, cause
from mllm_jax.supervise.pace import Pace
from mllm_jax.supervise.policy import NONE, POLICY, Policy, Tries

#: Seconds for processes to end by themselves once one of them has: they say why.
GRACE = 6.0
#: Seconds in which the kernel must have ended a process that is killed.
UNENDING = 120.0
#: Attempts in a row in which a host is unfit until the run goes on without it.
UNFIT = 2


@dataclass(frozen=True)
class Joined:
    """A supervisor has come.

    Attributes:
        process: number of its training process.
        host: name of its machine.
        pid: id of the supervisor.
        attempt: newest attempt that it knows of.
    """

    process: int
    host: str
    pid: int
    attempt: int = 0

    def same(self, other: Joined) -> bool:
        """Whether both are of one supervisor."""
        return (self.host, self.pid) == (other.host, other.pid)


@dataclass(frozen=True)
class Left:
    """A supervisor has gone, and its training process with it."""

    process: int


@dataclass(frozen=True)
class Sign:
    """A sign of life of a training process; its times are of the conductor's clock."""

    process: int
    beat: Beat


@dataclass(frozen=True)
class Ended:
    """A training process has ended."""

    attempt: int
    end: End


@dataclass(frozen=True)
class Interrupted:
    """The supervisor that leads was asked to stop; its process, if there is one, was, too."""


Event = Joined | Left | Sign | Ended | Interrupted


@dataclass(frozen=True)
class Begin:
    """Start the training processes of an attempt.

    Attributes:
        attempt: number of the attempt.
        anew: whether no attempt has taken a step so far.
        hosts: numbers of the hosts that take part; their processes are numbered in this order.
        coordinator: where the processes of the attempt meet; empty for a single process.
        overrides: words that change the configuration for fewer hosts.
    """

    attempt: int
    anew: bool
    hosts: tuple[int, ...] = (0,)
    coordinator: str = ""
    overrides: tuple[str, ...] = ()


@dataclass(frozen=True)
class Halt:
    """End the training processes of the attempt that have not ended."""

    attempt: int


@dataclass(frozen=True)
class Finish:
    """The run is over, and the supervisors end with this code; why is empty if all is well."""

    code: int
    why: str = ""


@dataclass(frozen=True)
class Leave:
    """The supervisor that leads ends with this code, and the others go on without its host."""

    code: int
    why: str


@dataclass(frozen=True)
class Say:
    """A line for the log."""

    text: str


@dataclass(frozen=True)
class Over:
    """An attempt is over.

    Attributes:
        attempt: number of the attempt.
        seconds: seconds since its begin.
        hung: whether a process of it hung.
        again: whether another attempt follows.
        code: exit code of the process that explains the end.
        why: reason of the end.
    """

    attempt: int
    seconds: float
    hung: bool
    again: bool
    code: int
    why: str


Action = Begin | Halt | Finish | Leave | Say | Over


class Phase(Enum):
    """See above."""

    WAITING = 0
    RUNNING = 1
    HALTING = 2
    OVER = 3


@dataclass
class Place:
    """A host as the conductor knows it.

    Attributes:
        joined: its supervisor.
        busy: whether its training process has not ended.
        heard: time of the last sign of life.
        pace: how long events last on it.
    """

    joined: Joined
    busy: bool = False
    heard: float = 0.0
    pace: Pace = field(default_factory=Pace)

    @property
    def peer(self) -> Peer:
        """The training process."""
        beat, who = self.pace.beat, self.joined
        if beat is None:
            return Peer(who.process, who.host, 0, self.heard, since=self.heard)
        own = beat.event, beat.since, beat.limited, beat.waiting
        return Peer(who.process, who.host, beat.pid, self.heard, *own, waits=beat.waits)


@dataclass
class Conductor:
    """Takes the decisions for the processes of one run.

    Attributes:
        count: number of hosts.
        policy: bounds on attempts.
        limits: limits beyond which a process is at fault.
        wait: seconds to wait for hosts that are missing.
        fewer: numbers of hosts below `count` with which the run may go on.
        behind: hosts without which it goes on.
        lead: number of the host whose supervisor leads.
        attempt: number of the newest attempt.
        tries: the attempts so far.
        phase: see above.
        since: time at which the phase has begun.
    """

    count: int
    policy: Policy = POLICY
    limits: Limits = LIMITS
    wait: float = 600.0
    fewer: Collection[int] = ()
    attempt: int = 0
    tries: Tries = NONE
    phase: Phase = Phase.WAITING
    since: float = 0.0
    behind: set[int] = field(default_factory=set)
    lead: int = 0
    _unfit: Counter[int] = field(default_factory=Counter)
    _out: dict[int, Joined] = field(default_factory=dict)  # hosts that are unfit
    _places: dict[int, Place] = field(default_factory=dict)
    _ends: list[End] = field(default_factory=list)
    _known: int = 0
    _begun: float = 0.0
    _pause_ends: float = 0.0
    _fault: str = ""
    _halted: bool = False
    _interrupted: bool = False

    def hear(self, event: Event, now: float) -> list[Action]:
        """What follows from an event at the time `now`, in seconds."""
        if self.phase is Phase.OVER:
            return []
        match event:
            case Joined():
                return self._joined(event)
            case Left():
                return self._left(event.process, now)
            case Sign():
                return self._sign(event)
            case Ended():
                return self._ended(event, now)
            case Interrupted():
                self._interrupted = True
                if self.phase is Phase.WAITING:
                    return self._finish(Exit.INTERRUPTED, "interrupted between two attempts")
        return []

    def tick(self, now: float) -> list[Action]:
        """What follows from the time alone."""
        match self.phase:
            case Phase.WAITING:
                return self._begin_or_wait(now)
            case Phase.RUNNING:
                return self._watch(now)
            case Phase.HALTING:
                return self._press(now)
        return []

    def slept(self, now: float) -> None:
        """Nobody was heard for a while, as this supervisor was stopped itself: all live."""
        for place in self._places.values():
            place.heard = now

    def _joined(self, event: Joined) -> list[Action]:
        self._places[event.process] = Place(event)
        self._known = max(self._known, event.attempt)
        left_out = self._out.get(event.process)
        if left_out is not None and not left_out.same(event):
            del self._out[event.process], self._unfit[event.process]
        elif event.process not in self.behind:
            return []
        self.behind.discard(event.process)
        who = f"process {event.process} (host {event.host})"
        return [Say(f"{who} is back, and takes part from the next attempt on")]

    def _begin_or_wait(self, now: float) -> list[Action]:
        known = self._places.keys() | self.behind | self._out.keys()
        missing = [i for i in range(self.count) if i not in known]
        if missing and now - self.since > self.wait:
            return self._go_on_without(missing, now)
        if missing or now < self._pause_ends:
            return []
        hosts = self._taking_part()
        self.attempt = self._next
        self.phase, self._begun, self._fault, self._halted = Phase.RUNNING, now, "", False
        self._ends = []
        for i, place in self._places.items():
            self._places[i] = Place(place.joined, i in hosts, now, place.pace.before_attempt)
        return [Begin(self.attempt, self.tries.best == 0, hosts)]

    @property
    def _next(self) -> int:
        """Number of the attempt that would begin now: no supervisor has heard of it."""
        return max(self.attempt, self._known) + 1

    def _taking_part(self) -> tuple[int, ...]:
        """Hosts of the next attempt: as many of those that are fit as there is a plan for."""
        there = sorted(self._places.keys() - self._out.keys())
        if len(there) == self.count:
            return tuple(there)
        most = max((n for n in self.fewer if n <= len(there)), default=0)
        return tuple(there[:most])

    def _go_on_without(self, missing: list[int], now: float) -> list[Action]:
        """Leave hosts behind that did not come, if there is a plan for those that did."""
        names = f"process{'es' * (len(missing) > 1)} {', '.join(map(str, missing))}"
        told = (
            f"the supervisor{'s' * (len(missing) > 1)} of {names} of {self.count} did not come "
            f"within {self.wait:g} s (run.wait_for_hosts)"
        )
        hosts = self._taking_part()
        if not hosts:
            return self._finish(Exit.LOST_PEER, f"{told}{self._needed}")
        self.behind.update(missing)
        return [Say(f"{told}: {self._going_on(hosts)}")]

    @property
    def _needed(self) -> str:
        """How many hosts the run needs, if it does not need all."""
        least = min(self.fewer, default=None)
        return "" if least is None else f", and run.min_hosts needs {least}"

    def _going_on(self, hosts: tuple[int, ...]) -> str:
        more = len(self._places.keys() - self._out.keys()) - len(hosts)
        spare = f"; {more} more {'waits' if more == 1 else 'wait'}, for want of a plan" * bool(more)
        return f"going on with {len(hosts)} of {self.count} hosts{spare}"

    def _watch(self, now: float) -> list[Action]:
        """Name a process that is at fault, if there is one, and end the attempt."""
        busy = [place for place in self._places.values() if place.busy]
        peers = [replace(place.peer, limit=place.pace.limit(self.limits)) for place in busy]
        found = fault(peers, now, self.limits)
        if not found:
            return []
        if all(now - place.heard <= self.limits.silent for place in busy):
            for place in busy:
                place.pace = place.pace.stopped(now, self.limits)
        return self._fail(found, now)

    def _fail(self, why: str, now: float) -> list[Action]:
        self.phase, self.since, self._fault, self._halted = Phase.HALTING, now, why, True
        return [Say(f"attempt {self.attempt}: {why}"), Halt(self.attempt)]

    def _press(self, now: float) -> list[Action]:
        """Have processes ended that do not end by themselves."""
        well = all(end.code == Exit.OK for end in self._ends)
        if self._halted:
            return self._give_up(now)
        if now - self.since <= (self.limits.silent if well else GRACE):
            return []
        self.since, self._halted = now, True
        return [Halt(self.attempt)]

    def _give_up(self, now: float) -> list[Action]:
        """End the run if a process cannot be ended: the next attempt would meet it."""
        if now - self.since <= UNENDING:
            return []
        stay = [str(place.peer) for place in self._places.values() if place.busy]
        why = f"{', '.join(stay)} cannot be ended within {UNENDING:g} s: the machine is at fault"
        return self._finish(Exit.LOST_PEER, f"attempt {self.attempt} is the last: {why}")

    def _sign(self, sign: Sign) -> list[Action]:
        place = self._places.get(sign.process)
        if sign.beat.attempt != self.attempt or place is None:
            return [
                Say(
                    f"a sign of life of attempt {sign.beat.attempt} from process {sign.process} "
                    f"(pid {sign.beat.pid}) is refused: the present attempt is {self.attempt}"
                )
            ]
        place.heard, place.pace = sign.beat.time, place.pace.after(sign.beat)
        return []

    def _left(self, process: int, now: float) -> list[Action]:
        place = self._places.pop(process, None)
        if place is None or not place.busy:
            return []
        peer = place.peer
        beat = place.pace.beat
        step = beat.step if beat else 0
        ago = now - peer.since
        lost = End(process, peer.host, peer.pid, Exit.LOST_PEER, step, peer.event, ago)
        said: list[Action] = []
        if self.phase is Phase.RUNNING:
            said = self._fail(f"{peer} is gone with its supervisor; {peer.last(now)}", now)
        self._ends.append(lost)
        return said + self._judged(now)

    def _ended(self, event: Ended, now: float) -> list[Action]:
        place = self._places.get(event.end.process)
        if event.attempt != self.attempt or place is None or not place.busy:
            return [Say(f"attempt {self.attempt}: the end of another attempt is refused: {event}")]
        place.busy = False
        self._ends.append(event.end)
        if self.phase is Phase.RUNNING:
            self.phase, self.since = Phase.HALTING, now
        elif event.end.code != Exit.OK and all(e.code == Exit.OK for e in self._ends[:-1]):
            self.since = now  # the others, which were given time to finish, will now fail
        return self._judged(now)

    def _judged(self, now: float) -> list[Action]:
        """What follows once the last process of an attempt has ended."""
        if self.phase is not Phase.HALTING or any(place.busy for place in self._places.values()):
            return []
        main = cause(self._ends)
        self.tries = self.tries.after(max(end.step for end in self._ends))
        self._count_unfit()
        why = self._fault or str(main)
        followed = self._followed(main, why, now)
        again = not isinstance(followed[-1], Finish)  # a Leave, too, is followed by an attempt
        lasted = now - self._begun
        return [
            Over(self.attempt, lasted, bool(self._fault), again, int(main.code), why),
            *followed,
        ]

    def _followed(self, main: End, why: str, now: float) -> list[Action]:
        """What follows an attempt that is over."""
        if all(end.code == Exit.OK for end in self._ends):
            return self._finish(Exit.OK, "")
        if self._interrupted or (main.final and not self._fault):
            code = Exit.INTERRUPTED if self._interrupted else main.exit
            return self._finish(code, f"attempt {self.attempt} is the last: {why}")
        told = f"attempt {self.attempt} has ended after {now - self._begun:.0f} s"
        told += "" if self._fault else f": {why}"
        if unfit := [end for end in self._ends if self._unfit[end.process] >= UNFIT and end.unfit]:
            names = ", ".join(f"process {end.process} (host {end.host})" for end in unfit)
            told += f"; {names} {'is' if len(unfit) == 1 else 'are'} unfit again"
            hosts = self._without(unfit)
            if not hosts:
                return self._finish(Exit.UNFIT, f"{told}{self._needed}")
            told += f": {self._going_on(hosts)}"
            if self.lead not in hosts:
                self.phase = Phase.OVER
                return [Leave(Exit.UNFIT, told)]
        if self.tries.exhausted(self.policy):
            return self._finish(main.exit, f"{told}; it is the last, as {self._exhausted}")
        pause = self.policy.pause(self.tries.failed)
        self.phase, self.since, self._pause_ends = Phase.WAITING, now, now + pause
        return [Say(f"{told}; {self._stacks()}attempt {self._next} begins in {pause:g} s")]

    @property
    def _exhausted(self) -> str:
        """Why no restart is left."""
        if self.policy.restarts == 0:
            return "run.restarts is 0: no attempt follows another"
        return (
            f"{self.tries.failed} attempts in a row have taken no new step (run.restarts is "
            f"{self.policy.restarts})"
        )

    def _count_unfit(self) -> None:
        """Count the attempts in which a host is unfit; one that takes a new step shows all fit."""
        if self.tries.failed == 0:
            self._unfit.clear()
        self._unfit.update(end.process for end in self._ends if end.unfit)

    def _without(self, unfit: list[End]) -> tuple[int, ...]:
        """Leave hosts out; those that go on, which begin a new row of attempts."""
        places = (self._places.get(end.process) for end in unfit)
        self._out |= {place.joined.process: place.joined for place in places if place}
        self.tries = Tries(self.tries.best)
        return self._taking_part()

    def _stacks(self) -> str:
        files = [end.stacks for end in self._ends if end.stacks]
        return f"Python stacks are in {', '.join(files)}; " if files else ""

    def _finish(self, code: int, why: str) -> list[Action]:
        self.phase = Phase.OVER
        return [Finish(int(code), why)]

"""When the attempts of a run begin and end, on all hosts: decisions without clock or process.

One coordinator, in the supervisor that leads, receives events of all supervisors and orders what
all of them do::

    WAITING --- all hosts are there, the pause is over ---> RUNNING     BeginAttempt
            --- some did not come, enough others did -----> RUNNING     BeginAttempt, without them
    RUNNING --- a process has ended, or is at fault ------> HALTING     HaltAttempt, at once or soon
    HALTING --- all processes have ended -----------------> WAITING     after a cause that may pass
                                                        \\-> OVER        FinishRun, after any other

A host that is unfit (code 8) in two attempts that it takes part in is left out, if there is a plan
for the others; where it leads, its supervisor leaves, and another one takes the lead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from enum import Enum

from mllm_jax.runtime.exits import ExitCode
from mllm_jax.runtime.watch import LIMITS, PeerProcess, WatchLimits, find_fault
from mllm_jax.supervise.coordinator_events import (
    AttemptOver,
    BeginAttempt,
    CoordinatorAction,
    CoordinatorEvent,
    FinishRun,
    HaltAttempt,
    HeartbeatReceived,
    LeaderInterrupted,
    LeaveRun,
    LogLine,
    ProcessEnded,
    SupervisorJoined,
    SupervisorLeft,
)
from mllm_jax.supervise.ends import ProcessEnd, find_cause
from mllm_jax.supervise.pace import EventPace
from mllm_jax.supervise.policy import NONE, POLICY, AttemptHistory, RestartPolicy

#: Seconds for processes to end by themselves once one of them has: they say why.
GRACE = 6.0
#: Seconds in which the kernel must have ended a process that is killed.
UNENDING = 120.0
#: Attempts in a row in which a host is unfit until the run goes on without it.
UNFIT = 2


class CoordinatorState(Enum):
    """The states of the drawing above."""

    WAITING = 0
    RUNNING = 1
    HALTING = 2
    OVER = 3


@dataclass
class HostState:
    """The coordinator's record of a host.

    Attributes:
        joined: its supervisor.
        busy: whether its training process has not ended.
        heard: time of the last heartbeat.
        pace: how long events last on it.
    """

    joined: SupervisorJoined
    busy: bool = False
    heard: float = 0.0
    pace: EventPace = field(default_factory=EventPace)

    @property
    def peer(self) -> PeerProcess:
        """The training process."""
        beat, who = self.pace.beat, self.joined
        if beat is None:
            return PeerProcess(who.process, who.host, 0, self.heard, since=self.heard)
        last_event = beat.event, beat.since, beat.limited, beat.waiting
        return PeerProcess(
            who.process, who.host, beat.pid, self.heard, *last_event, waits=beat.waits
        )


@dataclass
class RunCoordinator:
    """Makes the decisions for the processes of one run.

    Attributes:
        count: number of hosts.
        policy: bounds on attempts.
        limits: limits beyond which a process is at fault.
        wait: seconds to wait for hosts that are missing.
        fewer: numbers of hosts below `count` with which the run may go on.
        left_behind: hosts without which it goes on.
        lead: number of the host whose supervisor leads.
        attempt: number of the newest attempt.
        tries: the attempts so far.
        state: see the module.
        since: time at which the state has begun.
    """

    count: int
    policy: RestartPolicy = POLICY
    limits: WatchLimits = LIMITS
    wait: float = 600.0
    fewer: Collection[int] = ()
    attempt: int = 0
    tries: AttemptHistory = NONE
    state: CoordinatorState = CoordinatorState.WAITING
    since: float = 0.0
    left_behind: set[int] = field(default_factory=set)
    lead: int = 0
    _unfit: Counter[int] = field(default_factory=Counter)
    _out: dict[int, SupervisorJoined] = field(default_factory=dict)  # hosts that are unfit
    _places: dict[int, HostState] = field(default_factory=dict)
    _ends: list[ProcessEnd] = field(default_factory=list)
    _known: int = 0
    _begun: float = 0.0
    _pause_ends: float = 0.0
    _fault: str = ""
    _halted: bool = False
    _interrupted: bool = False

    def on_event(self, event: CoordinatorEvent, now: float) -> list[CoordinatorAction]:
        """Return what follows from an event at the time `now`, in seconds."""
        if self.state is CoordinatorState.OVER:
            return []
        match event:
            case SupervisorJoined():
                return self._on_joined(event)
            case SupervisorLeft():
                return self._on_left(event.process, now)
            case HeartbeatReceived():
                return self._on_heartbeat(event)
            case ProcessEnded():
                return self._on_ended(event, now)
            case LeaderInterrupted():
                self._interrupted = True
                if self.state is CoordinatorState.WAITING:
                    return self._finish_run(
                        ExitCode.INTERRUPTED, "interrupted between two attempts"
                    )
        return []

    def on_tick(self, now: float) -> list[CoordinatorAction]:
        """Return what follows from the time alone."""
        match self.state:
            case CoordinatorState.WAITING:
                return self._begin_or_wait(now)
            case CoordinatorState.RUNNING:
                return self._watch_processes(now)
            case CoordinatorState.HALTING:
                return self._force_end(now)
        return []

    def on_wake(self, now: float) -> None:
        """Count all processes as alive: this supervisor itself was stopped and received nothing."""
        for place in self._places.values():
            place.heard = now

    def _on_joined(self, event: SupervisorJoined) -> list[CoordinatorAction]:
        self._places[event.process] = HostState(event)
        self._known = max(self._known, event.attempt)
        left_out = self._out.get(event.process)
        if left_out is not None and not left_out.is_same_supervisor(event):
            del self._out[event.process], self._unfit[event.process]
        elif event.process not in self.left_behind:
            return []
        self.left_behind.discard(event.process)
        who = f"process {event.process} (host {event.host})"
        return [LogLine(f"{who} is back, and takes part from the next attempt on")]

    def _begin_or_wait(self, now: float) -> list[CoordinatorAction]:
        known = self._places.keys() | self.left_behind | self._out.keys()
        missing = [i for i in range(self.count) if i not in known]
        if missing and now - self.since > self.wait:
            return self._go_on_without(missing, now)
        if missing or now < self._pause_ends:
            return []
        hosts = self._taking_part()
        self.attempt = self._next_attempt
        self.state, self._begun, self._fault, self._halted = (
            CoordinatorState.RUNNING,
            now,
            "",
            False,
        )
        self._ends = []
        for i, place in self._places.items():
            self._places[i] = HostState(place.joined, i in hosts, now, place.pace.before_attempt)
        return [BeginAttempt(self.attempt, self.tries.best == 0, hosts)]

    @property
    def _next_attempt(self) -> int:
        """Number of the next attempt, which no supervisor knows yet."""
        return max(self.attempt, self._known) + 1

    def _taking_part(self) -> tuple[int, ...]:
        """Hosts of the next attempt: as many of those that are fit as there is a plan for."""
        present = sorted(self._places.keys() - self._out.keys())
        if len(present) == self.count:
            return tuple(present)
        most = max((n for n in self.fewer if n <= len(present)), default=0)
        return tuple(present[:most])

    def _go_on_without(self, missing: list[int], now: float) -> list[CoordinatorAction]:
        """Leave out hosts that did not come, if there is a plan for those that did."""
        names = f"process{'es' * (len(missing) > 1)} {', '.join(map(str, missing))}"
        absence = (
            f"the supervisor{'s' * (len(missing) > 1)} of {names} of {self.count} did not come "
            f"within {self.wait:g} s (run.wait_for_hosts)"
        )
        hosts = self._taking_part()
        if not hosts:
            return self._finish_run(ExitCode.LOST_PEER, f"{absence}{self._needed_hosts}")
        self.left_behind.update(missing)
        return [LogLine(f"{absence}: {self._going_on(hosts)}")]

    @property
    def _needed_hosts(self) -> str:
        """How many hosts the run needs, if it does not need all."""
        least = min(self.fewer, default=None)
        return "" if least is None else f", and run.min_hosts needs {least}"

    def _going_on(self, hosts: tuple[int, ...]) -> str:
        more = len(self._places.keys() - self._out.keys()) - len(hosts)
        waiting = f"; {more} more {'waits' if more == 1 else 'wait'}, for want of a plan" * bool(
            more
        )
        return f"going on with {len(hosts)} of {self.count} hosts{waiting}"

    def _watch_processes(self, now: float) -> list[CoordinatorAction]:
        """Name a process that is at fault, if there is one, and end the attempt."""
        busy = [place for place in self._places.values() if place.busy]
        peers = [replace(place.peer, limit=place.pace.present_limit(self.limits)) for place in busy]
        fault = find_fault(peers, now, self.limits)
        if not fault:
            return []
        if all(now - place.heard <= self.limits.silent for place in busy):
            for place in busy:
                place.pace = place.pace.after_stop(now, self.limits)
        return self._fail_attempt(fault, now)

    def _fail_attempt(self, why: str, now: float) -> list[CoordinatorAction]:
        self.state, self.since, self._fault, self._halted = CoordinatorState.HALTING, now, why, True
        return [LogLine(f"attempt {self.attempt}: {why}"), HaltAttempt(self.attempt)]

    def _force_end(self, now: float) -> list[CoordinatorAction]:
        """End processes that do not end by themselves."""
        well = all(end.code == ExitCode.OK for end in self._ends)
        if self._halted:
            return self._give_up(now)
        if now - self.since <= (self.limits.silent if well else GRACE):
            return []
        self.since, self._halted = now, True
        return [HaltAttempt(self.attempt)]

    def _give_up(self, now: float) -> list[CoordinatorAction]:
        """End the run if a process cannot be ended: the next attempt would meet it."""
        if now - self.since <= UNENDING:
            return []
        stay = [str(place.peer) for place in self._places.values() if place.busy]
        why = f"{', '.join(stay)} cannot be ended within {UNENDING:g} s: the machine is at fault"
        return self._finish_run(ExitCode.LOST_PEER, f"attempt {self.attempt} is the last: {why}")

    def _on_heartbeat(self, event: HeartbeatReceived) -> list[CoordinatorAction]:
        place = self._places.get(event.process)
        if event.beat.attempt != self.attempt or place is None:
            return [
                LogLine(
                    f"a heartbeat of attempt {event.beat.attempt} from process {event.process} "
                    f"(pid {event.beat.pid}) is refused: the present attempt is {self.attempt}"
                )
            ]
        place.heard, place.pace = event.beat.time, place.pace.after_heartbeat(event.beat)
        return []

    def _on_left(self, process: int, now: float) -> list[CoordinatorAction]:
        place = self._places.pop(process, None)
        if place is None or not place.busy:
            return []
        peer = place.peer
        beat = place.pace.beat
        step = beat.step if beat else 0
        ago = now - peer.since
        lost = ProcessEnd(process, peer.host, peer.pid, ExitCode.LOST_PEER, step, peer.event, ago)
        actions: list[CoordinatorAction] = []
        if self.state is CoordinatorState.RUNNING:
            actions = self._fail_attempt(
                f"{peer} is gone with its supervisor; {peer.describe_last_event(now)}", now
            )
        self._ends.append(lost)
        return actions + self._judge_attempt(now)

    def _on_ended(self, event: ProcessEnded, now: float) -> list[CoordinatorAction]:
        place = self._places.get(event.end.process)
        if event.attempt != self.attempt or place is None or not place.busy:
            return [
                LogLine(f"attempt {self.attempt}: the end of another attempt is refused: {event}")
            ]
        place.busy = False
        self._ends.append(event.end)
        if self.state is CoordinatorState.RUNNING:
            self.state, self.since = CoordinatorState.HALTING, now
        elif event.end.code != ExitCode.OK and all(e.code == ExitCode.OK for e in self._ends[:-1]):
            self.since = now  # the others, which were given time to finish, will now fail
        return self._judge_attempt(now)

    def _judge_attempt(self, now: float) -> list[CoordinatorAction]:
        """Return what follows once the last process of an attempt has ended."""
        if self.state is not CoordinatorState.HALTING or any(
            place.busy for place in self._places.values()
        ):
            return []
        main = find_cause(self._ends)
        self.tries = self.tries.after_attempt(max(end.step for end in self._ends))
        self._count_unfit()
        why = self._fault or str(main)
        next_actions = self._decide_next(main, why, now)
        again = not isinstance(
            next_actions[-1], FinishRun
        )  # a Leave, too, is followed by an attempt
        lasted = now - self._begun
        return [
            AttemptOver(self.attempt, lasted, bool(self._fault), again, int(main.code), why),
            *next_actions,
        ]

    def _decide_next(self, main: ProcessEnd, why: str, now: float) -> list[CoordinatorAction]:
        """Decide what follows an attempt that is over."""
        if all(end.code == ExitCode.OK for end in self._ends):
            return self._finish_run(ExitCode.OK, "")
        if self._interrupted or (main.is_final and not self._fault):
            code = ExitCode.INTERRUPTED if self._interrupted else main.exit_code
            return self._finish_run(code, f"attempt {self.attempt} is the last: {why}")
        summary = f"attempt {self.attempt} has ended after {now - self._begun:.0f} s"
        summary += "" if self._fault else f": {why}"
        if unfit := [
            end for end in self._ends if self._unfit[end.process] >= UNFIT and end.is_host_unfit
        ]:
            names = ", ".join(f"process {end.process} (host {end.host})" for end in unfit)
            summary += f"; {names} {'is' if len(unfit) == 1 else 'are'} unfit again"
            hosts = self._leave_out(unfit)
            if not hosts:
                return self._finish_run(ExitCode.UNFIT, f"{summary}{self._needed_hosts}")
            summary += f": {self._going_on(hosts)}"
            if self.lead not in hosts:
                self.state = CoordinatorState.OVER
                return [LeaveRun(ExitCode.UNFIT, summary)]
        if self.tries.is_exhausted(self.policy):
            return self._finish_run(
                main.exit_code, f"{summary}; it is the last, as {self._exhausted_reason}"
            )
        pause = self.policy.pause_seconds(self.tries.failed)
        self.state, self.since, self._pause_ends = CoordinatorState.WAITING, now, now + pause
        return [
            LogLine(
                f"{summary}; {self._describe_stacks()}attempt {self._next_attempt} begins in "
                f"{pause:g} s"
            )
        ]

    @property
    def _exhausted_reason(self) -> str:
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
        self._unfit.update(end.process for end in self._ends if end.is_host_unfit)

    def _leave_out(self, unfit: list[ProcessEnd]) -> tuple[int, ...]:
        """Leave hosts out and return those that go on; their attempts are counted anew."""
        places = (self._places.get(end.process) for end in unfit)
        self._out |= {place.joined.process: place.joined for place in places if place}
        self.tries = AttemptHistory(self.tries.best)
        return self._taking_part()

    def _describe_stacks(self) -> str:
        files = [end.stacks for end in self._ends if end.stacks]
        return f"Python stacks are in {', '.join(files)}; " if files else ""

    def _finish_run(self, code: int, why: str) -> list[CoordinatorAction]:
        self.state = CoordinatorState.OVER
        return [FinishRun(int(code), why)]

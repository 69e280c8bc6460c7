"""One run of training under faults: it is watched from outside, struck, and waited for."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from uuid import uuid4

from benchmarks.faults.account import newest_step
from benchmarks.faults.faults import KINDS, InjectedFault
from benchmarks.faults.host import EmulatedHost, ReportLine, names_process
from benchmarks.faults.hosts import EmulatedHosts
from benchmarks.faults.processes import MARK, kill_all, list_orphans
from benchmarks.faults.strike import FaultSite, Undo, inject_fault, is_ready, steps_of
from mllm_jax.runtime.exits import ExitCode

PrintLine = Callable[[str], None]

LAUNCH = Path(__file__).parents[2] / "launch.py"
#: Port at which supervisors meet.
_PORT = 12377
#: Seconds between two looks at a run.
_LOOK = 0.02
#: Seconds after which a run that takes no new step has not recovered.
PATIENCE = 300.0
#: Seconds after which a supervisor that has ended is started again.
_AGAIN = 0.5
#: Seconds within which processes that were left must have ended.
_ENDING = 3.0
#: Codes after which a supervisor is started again, as those who run clusters do: it was killed, or
#: found a disk that is full.
_PASSING = {-signal.SIGKILL, ExitCode.OUT_OF_REACH}


class FailedError(RuntimeError):
    """A run that does not go on."""


@dataclass(frozen=True)
class StruckFault:
    """A fault that was brought about.

    Attributes:
        fault: the fault.
        what: what it has struck.
        step: newest step before.
        detected: seconds until a supervisor has reported it; None if none did.
        named: whether one named the process of the host.
        recovered: seconds until the first step that is new; None if another fault came before, or
        if the fault has ended no attempt.
    """

    fault: InjectedFault
    what: str
    step: int
    detected: float | None = None
    named: bool = False
    recovered: float | None = None

    @property
    def undetected(self) -> bool:
        """Whether no supervisor has reported it, though it always ends the attempt."""
        return KINDS[self.fault.kind].ends and self.detected is None

    def __str__(self) -> str:
        report = (
            "not reported" if self.detected is None else f"reported after {self.detected:.1f} s"
        )
        report += "" if self.detected is None or self.named else ", not by its name"
        again = "-" if self.recovered is None else f"new step after {self.recovered:.1f} s"
        return f"{self.fault}\n      {self.what}, after step {self.step}: {report}; {again}"


class FaultyRun:
    """A run of `launch.py train --supervise` on some hosts.

    Args:
        name: name of the run.
        hosts: the hosts.
        config: file of the configuration, and overrides of its keys.
        folder: folder for logs.
        print_line: prints a line of progress.

    Attributes:
        struck: the faults so far.
        left: processes that nobody tended any more.
        last_equal_step: newest step that must be as in an undisturbed run, to the bit; None: all.
            Fewer hosts sum in another order.
    """

    def __init__(
        self,
        name: str,
        hosts: EmulatedHosts,
        config: Sequence[str],
        folder: Path,
        print_line: PrintLine,
    ) -> None:
        self.mark = f"{name}-{uuid4().hex}"
        self._print_line, self._hosts, self._folder = print_line, hosts, folder
        self.run = hosts.local_folder / "runs" / name
        self.temporary = folder / "temporary"
        self.temporary.mkdir(parents=True)
        settings = [f"run.name={name}", f"run.directory={hosts.shared_folder / 'runs'}"]
        self._options = [
            "--config",
            *config,
            *settings,
            f"data.cache={hosts.shared_folder / 'data'}",
        ]
        self.hosts = [self._start_host(number) for number in range(hosts.count)]
        self._site = FaultSite(hosts, self.hosts, self.run, hosts.shared_folder / "runs" / name)
        self._undo: tuple[float, Undo] | None = None
        self._since = time.monotonic()
        self._best = 0
        self._before = set[int | None]()
        self.struck = list[StruckFault]()
        self.left: list[str] = []
        self.last_equal_step: int | None = None

    def _start_host(self, number: int) -> EmulatedHost:
        place = ["--coordinator", f"{self._hosts.address_of(0)}:{_PORT}"]
        place += ["--processes", str(self._hosts.count), "--process", str(number)]
        tied = ["setpriv", "--pdeathsig", "KILL"] if self._hosts.able else []
        command = [*self._hosts.command_prefix(number), *tied, sys.executable, str(LAUNCH), "train"]
        variables = {
            MARK: self.mark,
            "XDG_CACHE_HOME": str(self._hosts.shared_folder / "cache"),
            "TMPDIR": str(self.temporary),
        }
        log = self._folder / f"host-{number}.log"
        words = [*command, *self._options, "--supervise", *place]
        return EmulatedHost(number, words, os.environ | variables, log, self.mark)

    @property
    def newest_step(self) -> int:
        """Newest step that the run has reported."""
        return newest_step(self.run / "metrics.jsonl")

    def inject_faults(self, faults: Sequence[InjectedFault]) -> list[StruckFault]:
        """Bring faults about one after the other, and wait for the end of the run.

        Raises:
            FailedError: the run has not recovered, or has ended.
        """
        try:
            self._wait_until(lambda: self.newest_step > 0, "takes no first step")
            for fault, following in zip_longest(faults, faults[1:]):
                self._wait_for(fault)
                if self._has_ended():
                    break
                self.struck.append(self._inject_fault(fault))
                adds = following is not None and following.moment == "start"
                await_ = self._await_detection if adds else self._await_recovery
                self.struck[-1] = await_(self.struck[-1])
                self._print_line(str(self.struck[-1]))
            self._wait_until(self._has_ended, "does not end")
        except FailedError as error:
            self.struck[-1:] = map(self._with_report, self.struck[-1:])
            lines = [*map(str, self.struck[-1:]), *(host.last_words() for host in self.hosts)]
            raise FailedError("\n".join([str(error), *lines])) from None
        finally:
            self.end_run()
        return self.struck

    def end_run(self) -> None:
        """End what is left of the run; what should not have been left is noted."""
        if self._undo:
            self._undo[1]()
            self._undo = None
        living = [host.supervisor.pid for host in self.hosts if host.exit_code is None]
        self._look_for_orphans(living)
        kill_all(self.mark)
        for host in self.hosts:
            host.supervisor.wait()

    def _wait_for(self, fault: InjectedFault) -> None:
        """Wait for the moment of a fault."""
        if fault.moment != "start":
            aim = self._best + fault.steps
            self._wait_until(lambda: self.newest_step >= aim, f"does not come to step {aim}")
        self._wait_until(lambda: is_ready(fault, self._site), f"has nothing yet for a {fault.kind}")
        if fault.moment == "save":
            self._wait_until(self._is_saving, "does not save", _LOOK / 10)
        until = time.monotonic() + fault.delay
        self._wait_until(lambda: time.monotonic() >= until, "")
        host = self.hosts[fault.host]
        self._wait_until(
            lambda: host.training_process() is not None, f"starts no process on host {host.number}"
        )

    def _is_saving(self) -> bool:
        """Whether a checkpoint is being written."""
        return any((self.run / "checkpoints").glob("*.orbax-checkpoint-tmp"))

    def _inject_fault(self, fault: InjectedFault) -> StruckFault:
        if self._undo is not None:
            self._undo_fault()
        if KINDS[fault.kind].last:  # the run may go back to any of its checkpoints
            self.last_equal_step = min(steps_of(self.run), default=0)
        self._begun, self._before = (
            time.monotonic(),
            {host.training_process() for host in self.hosts},
        )
        undo, what = inject_fault(fault, self._site)
        self._struck = time.monotonic()
        if undo is not None:
            self._undo = self._struck + fault.seconds, undo
        self._best = max(self._best, self.newest_step)
        return StruckFault(fault, what, self._best)

    def _await_detection(self, struck: StruckFault) -> StruckFault:
        """A fault once it is reported, or once it is over if it ends no attempt."""
        must = KINDS[struck.fault.kind].ends

        def is_over() -> bool:
            return self._undo is None and not must

        self._wait_until(lambda: self._new_reports() != [] or is_over(), "does not report it")
        return self._with_report(struck)

    def _await_recovery(self, struck: StruckFault) -> StruckFault:
        """A fault once the run has recovered from it."""
        self._wait_until(lambda: self._goes_on(struck.fault), "takes no new step", 5 * _LOOK)
        now = time.monotonic()
        self._best = max(self._best, self.newest_step)
        struck = self._with_report(struck)
        self._look_for_orphans([host.supervisor.pid for host in self.hosts])
        if struck.detected is None:
            return struck
        return replace(struck, recovered=now - self._struck)

    @property
    def _leading_host(self) -> EmulatedHost:
        """The host with process 0 of the present attempt, or of the next one."""
        return next(host for host in self.hosts if not host.lost)

    def _goes_on(self, fault: InjectedFault) -> bool:
        """Whether a step is new; one that the attempt of the fault still takes is none."""
        reported = bool(self._new_reports())
        of_before = reported and self._leading_host.training_process() in {None, *self._before}
        if of_before or (KINDS[fault.kind].ends and not reported):
            self._best = max(self._best, self.newest_step)
            return False
        return self._undo is None and self.newest_step > self._best

    def _with_report(self, struck: StruckFault) -> StruckFault:
        lines = self._new_reports()
        if not lines:
            return struck
        named = any(names_process(line.text, struck.fault.host) for line in lines)
        return replace(struck, detected=max(0.0, lines[0].time - self._struck), named=named)

    def _new_reports(self) -> list[ReportLine]:
        """Lines that report a fault since the last one was brought about."""
        every = [line for host in self.hosts for line in host.reports]
        return sorted(
            (line for line in every if line.time > self._begun), key=lambda line: line.time
        )

    def _wait_until(self, holds: Callable[[], bool], otherwise: str, look: float = _LOOK) -> None:
        """Wait, and tend the run meanwhile."""
        until = time.monotonic() + PATIENCE
        while not holds() and not self._has_ended():
            if time.monotonic() > until:
                raise FailedError(f"the run {otherwise} within {PATIENCE:g} s")
            self._tend_hosts()
            time.sleep(look)

    def _tend_hosts(self) -> None:
        """Start supervisors again that have ended, and end what lasts no longer."""
        if self._undo is not None and time.monotonic() >= self._undo[0]:
            self._undo_fault()
        for host in self.hosts:
            code = host.exit_code
            if host.lost or code is None or code == ExitCode.OK:
                continue
            if code not in _PASSING:
                raise FailedError(
                    f"the supervisor of host {host.number} has ended with code {code}"
                )
            time.sleep(_AGAIN)
            host.start_supervisor()

    def _undo_fault(self) -> None:
        assert self._undo is not None
        self._undo[1]()
        self._undo = None

    def _has_ended(self) -> bool:
        return all(host.lost or host.exit_code == ExitCode.OK for host in self.hosts)

    def _look_for_orphans(self, supervisors: Sequence[int]) -> None:
        """Note processes that nobody tends any more, but those that are about to end."""
        until = time.monotonic() + _ENDING
        while processes := list_orphans(self.mark, supervisors):
            if time.monotonic() > until:
                self.left += [str(process) for process in processes]
                return
            time.sleep(_LOOK)

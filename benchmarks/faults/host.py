"""One host of a run: its supervisor, which is started again by whoever runs the cluster."""

from __future__ import annotations

import re
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.faults.processes import list_descendants, list_processes, send_signal

#: Lines by which supervisors report that an attempt has a fault.
TOLD = re.compile(
    r"attempt \d+: |attempt \d+ (has ended|is the last)"
    r"|the connection to the supervisor of process 0 is gone"
    r"|no heartbeat of the supervisor of process 0"
)


#: Lines that say which process an attempt has ended for; they may list others after it.
_NAMES = (
    r"attempt \d+(?: has ended after \d+ s| is the last)?: process {number} \(",
    r"(?:the connection to|no heartbeat of) the supervisor of process {number} ",
)


def names_process(text: str, number: int) -> bool:
    """Whether a line singles a process out as the one at fault, and does not only list it."""
    return any(re.search(pattern.format(number=number), text) for pattern in _NAMES)


@dataclass(frozen=True)
class ReportLine:
    """A line that reports a fault, and when it came."""

    time: float
    text: str


class EmulatedHost:
    """A host that runs the supervisor of one process.

    Args:
        number: number of the process.
        command: words of the supervisor's command.
        environment: variables of the supervisor.
        log: file for all that is said.
        mark: value of the variable that the processes of the run have.

    Attributes:
        reports: lines that report faults.
        lost: whether it is gone for good.
    """

    def __init__(
        self,
        number: int,
        command: Sequence[str],
        environment: Mapping[str, str],
        log: Path,
        mark: str,
    ) -> None:
        self.number, self._command, self._environment = number, command, environment
        self._log, self._mark = log, mark
        self.reports = list[ReportLine]()
        self.lost = False
        self.starts = 0
        self.start_supervisor()

    def start_supervisor(self) -> None:
        """Start the supervisor, for the first time or again."""
        self.starts += 1
        # The kernel ends the supervisor with this process, however this one ends.
        self.supervisor = subprocess.Popen(
            self._command,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        threading.Thread(target=self._read_lines, args=(self.supervisor,), daemon=True).start()

    def end_all(self) -> None:
        """End all that runs here, for good."""
        self.lost = True
        ended = {*self.list_processes()}
        send_signal(signal.SIGKILL, ended)
        self.supervisor.wait()
        while ended & {process.pid for process in list_processes(self._mark)}:
            time.sleep(0.01)

    @property
    def exit_code(self) -> int | None:
        """Exit code of the supervisor; None while it lives."""
        return self.supervisor.poll()

    def training_process(self) -> int | None:
        """Id of the training process; None without one."""
        processes = list_descendants(self.supervisor.pid, list_processes(self._mark))
        return next((process.pid for process in processes if process.training), None)

    def list_processes(self) -> list[int]:
        """Ids of the supervisor and of all that descends from it."""
        return [
            self.supervisor.pid,
            *(
                process.pid
                for process in list_descendants(self.supervisor.pid, list_processes(self._mark))
            ),
        ]

    def last_words(self, count: int = 15) -> str:
        """The last lines of the log."""
        lines = self._log.read_text(errors="replace").splitlines() if self._log.exists() else []
        return "\n".join(f"    host {self.number}: {line}" for line in lines[-count:])

    def _read_lines(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        with process.stdout, self._log.open("a") as log:
            for line in process.stdout:
                now = time.monotonic()
                log.write(f"{now:.2f} {line}")
                log.flush()
                if TOLD.search(line):
                    self.reports.append(ReportLine(now, line.strip()))

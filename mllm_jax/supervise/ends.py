"""How training processes end, and what follows from it: pure data and functions."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass

from mllm_jax.runtime.exits import MEANINGS, ExitCode

#: Codes after which another attempt would end in the same way, or is not wanted.
FINAL = frozenset(
    {
        ExitCode.OK,
        ExitCode.BAD_INPUT,
        ExitCode.BAD_DATA,
        ExitCode.DIVERGED,
        ExitCode.DAMAGED,
        ExitCode.INTERRUPTED,
    }
)

#: Codes that explain more or less than others do; a low rank explains the higher ones.
RANKS = {int(ExitCode.UNFIT): 1, int(ExitCode.LOST_PEER): 3, int(ExitCode.OK): 5}


@dataclass(frozen=True)
class ProcessEnd:
    """The end of one training process.

    Attributes:
        process: number of the process in its run.
        host: name of its machine.
        pid: id of the process; 0 if it is not known.
        code: exit code; below 0 the number of the signal that has ended it.
        step: newest step that it has taken in this attempt; 0 if none.
        event: its last event.
        ago: seconds from the event to the end.
        halted: whether the supervisor has ended it, as the attempt was over.
        stacks: file with the stacks of all its threads; empty if there is none.
    """

    process: int
    host: str
    pid: int
    code: int
    step: int = 0
    event: str = "start"
    ago: float = 0.0
    halted: bool = False
    stacks: str = ""

    @property
    def exit_code(self) -> int:
        """The exit code for whoever has started the supervisor: 0 to 255."""
        return self.code if self.code >= 0 else int(ExitCode.FAILED)

    @property
    def is_final(self) -> bool:
        """Whether no other attempt should follow."""
        return self.code in FINAL and not self.halted

    @property
    def is_host_unfit(self) -> bool:
        """Whether its host is not fit: devices are lost, or a self-check has failed."""
        return self.code == ExitCode.UNFIT and not self.halted

    def __str__(self) -> str:
        who = f"process {self.process} (host {self.host}, pid {self.pid})"
        return (
            f"{who} {_describe_code(self.code)}; its last event: {self.event}, {self.ago:.0f} s "
            "before"
        )


def find_cause(ends: Sequence[ProcessEnd]) -> ProcessEnd:
    """The end that explains those of the other processes of an attempt.

    A process that was killed explains others that have lost it, one that is unfit explains errors
    of others, an error that no attempt mends explains everything, and ends that the supervisors
    brought about explain nothing.
    """
    return min(ends, key=lambda end: (_rank_end(end), end.process))


def _rank_end(end: ProcessEnd) -> int:
    if end.halted:
        return 4
    return RANKS.get(end.code, 0 if end.is_final else 2)


def _describe_code(code: int) -> str:
    """`was killed by SIGKILL`, `ended with exit code 6 (another process is gone ...)`."""
    if code >= 0:
        has_meaning = code in {*ExitCode} and code != ExitCode.FAILED
        meaning = f" ({MEANINGS[ExitCode(code)]})" if has_meaning else ""
        return f"ended with exit code {code}{meaning}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"

"""The start of many processes on this machine by phases, until all have had a first collective.

No process computes anything, and each has one emulated device. They are forked from one process
that has imported all that they need, so that the phases hold what grows with their number alone.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from contextlib import closing
from multiprocessing.connection import Connection
from typing import Any

from mllm_jax.config.load import ConfigError, ParallelConfig
from mllm_jax.runtime.agreement import check_agreement, code_facts
from mllm_jax.runtime.devices import start_devices
from mllm_jax.runtime.folder import RunError
from mllm_jax.runtime.run_peers import (
    ProcessPlace,
    current_peers,
    leave_process,
    set_event_listener,
)
from mllm_jax.runtime.wire import hold_port

Row = dict[str, Any]

#: Phases in their order: processes meet, compare code and configuration, join JAX's coordinator,
#: find all devices, have a first collective, and wait for each other once more.
PHASES = ("meet", "check_agreement", "initialize", "devices", "collective", "barrier")
#: Seconds that processes wait for each other.
PATIENCE = 300.0
#: Largest ratio of seconds of twice as many processes: growth is at most linear.
LIMIT = 2.0
#: Numbers of processes: the largest, and halves of it.
HALVINGS = 3
#: Most processes that are started on this machine.
MOST = 1024


def time_joining(largest: int, print_line: Callable[[str], None]) -> list[Row]:
    """Seconds of every phase for `largest` processes, and for halves of that number.

    A phase ends when the last process has ended it. `growth` is the ratio of the whole to that of
    half the number, None for the least.

    Raises:
        ConfigError: `largest` cannot be halved as often, or is above `MOST`.
        RunError: a process ended before its start was over.
    """
    unit = 2**HALVINGS
    if largest % unit or largest < 2 * unit:
        reason = f"{largest} is no multiple of {unit} from {2 * unit} on"
        raise ConfigError("bench startup", [f"--members {reason}; valid: e.g. {2 * unit}, 64"])
    if largest > MOST:
        reason = f"{largest} processes are too many for one machine; valid: at most {MOST}"
        raise ConfigError("bench startup", [f"--members {reason}"])
    rows: list[Row] = []
    for count in (largest // 2**n for n in range(HALVINGS, -1, -1)):
        print_line(f"{count} processes")
        row = _time_start(count)
        growth = row["seconds"] / rows[-1]["seconds"] if rows else None
        rows.append(row | {"growth": growth, "limit": LIMIT if rows else None})
    return rows


def _time_start(count: int) -> Row:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    context.Process(target=_do_nothing).start()  # the process to fork from has all imports by then
    with closing(hold_port("127.0.0.1")) as port:
        address = f"127.0.0.1:{port.getsockname()[1]}"
    lines, members = [], []
    begin = time.monotonic() + _fork_seconds(count)
    for index in range(count):
        line, theirs = context.Pipe(duplex=False)
        member = context.Process(target=_run_member, args=(index, count, address, begin, theirs))
        member.start()
        theirs.close()
        lines.append(line)
        members.append(member)
    ends = [_receive_times(index, line) for index, line in enumerate(lines)]
    for member in members:
        member.join()
    last = [begin, *(max(of_phase) for of_phase in zip(*ends, strict=True))]
    phases = {
        name: round(after - before, 3)
        for name, before, after in zip(PHASES, last, last[1:], strict=False)
    }
    return {"processes": count, **phases, "seconds": round(last[-1] - begin, 3)}


def _fork_seconds(count: int) -> float:
    """Seconds in which so many processes are forked, before they begin together."""
    return 2.0 + 0.1 * count


def _receive_times(index: int, line: Connection) -> list[float]:
    try:
        ends: list[float] = line.recv()
    except EOFError:
        raise RunError(f"process {index} ended before its start was over") from None
    return ends


def _do_nothing() -> None:
    """A process that only makes its parent ready."""


def _run_member(index: int, count: int, address: str, begin: float, line: Connection) -> None:
    """One process: sends the time at which each of its phases has ended."""
    ends: list[float] = []

    def check_and_note() -> None:
        ends.append(time.monotonic())
        check_agreement("configuration and code", {"processes": count, **code_facts()})
        ends.append(time.monotonic())

    def note_end() -> None:
        # JAX's coordinator is joined; and again the last event, once devices have been found.
        if current_peers().activity.event == "JAX's coordinator is joined" and len(ends) in (2, 3):
            ends.append(time.monotonic())

    set_event_listener(note_end)
    time.sleep(max(0.0, begin - time.monotonic()))
    start_devices(
        ParallelConfig(devices=count),
        ProcessPlace(count, index, address, PATIENCE),
        check=check_and_note,
    )
    ends.append(time.monotonic())
    current_peers().gather_values("barrier", None)
    ends.append(time.monotonic())
    line.send(ends)
    line.close()
    current_peers().gather_values("all have sent their times", None)
    leave_process(0)

"""The side of a supervised process: it writes heartbeats, and ends with its supervisor.

A supervisor (`mllm_jax.supervise`) starts a training process with a `SupervisorSettings` in the
environment. The process ends when the supervisor does, however that ends. It writes its heartbeats
(`heartbeats.py`), and upon the signal `STACKS` the Python stacks of all its threads, even if it is
stuck outside Python.
"""

from __future__ import annotations

import ctypes
import faulthandler
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from mllm_jax.runtime.profile_request import PROFILE
from mllm_jax.runtime.run_peers import current_peers, set_event_listener
from mllm_jax.runtime.supervised.heartbeats import Heartbeat, write_heartbeat

#: Name of the environment variable.
VARIABLE = "MLLM_JAX_SUPERVISED"
#: The signal upon which a process writes its stacks.
STACKS = signal.SIGUSR1
#: Seconds between two heartbeats.
HEARTBEAT_SECONDS = 0.5
#: Seconds by which a supervised process judges other processes later than the supervisors do, who
#: can say more.
LATER = 15.0
#: Seconds for which a supervised process waits for the folder of its run, as the process of the
#: attempt before may be on its way out.
PATIENCE = 20.0

#: Option of `prctl` for the signal at the end of the parent, from <linux/prctl.h>.
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class SupervisorSettings:
    """The settings that a supervisor gives to its process.

    Attributes:
        attempt: number of the attempt.
        supervisor: id of the supervisor's process.
        beats: descriptor of the file for heartbeats.
        stacks: descriptor of the file for stacks.
        command: the command of the supervisor, for messages that say how to go on.
        overrides: what changes the configuration where hosts were left out.
        trained: whether an earlier attempt has taken a step.
    """

    attempt: int
    supervisor: int
    beats: int
    stacks: int
    command: tuple[str, ...]
    overrides: tuple[str, ...] = ()
    trained: bool = False

    def environment(self) -> dict[str, str]:
        """Variables for the process."""
        return {VARIABLE: json.dumps(asdict(self))}

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> SupervisorSettings | None:
        """The value that the variables hold; None if there is no supervisor."""
        if VARIABLE not in environment:
            return None
        values = json.loads(environment[VARIABLE])
        return cls(**values | {name: tuple(values[name]) for name in ("command", "overrides")})


_current: SupervisorSettings | None = None


def supervisor_settings() -> SupervisorSettings | None:
    """The settings of this process from its supervisor; None if it has none."""
    return _current


def attempt_number() -> int | None:
    """The number of the attempt that this process belongs to; None without a supervisor."""
    return _current.attempt if _current else None


def config_overrides() -> tuple[str, ...]:
    """The supervisor's overrides of the configuration."""
    return _current.overrides if _current else ()


def was_restarted() -> bool:
    """Whether this process was started again by its supervisor, or by an earlier one of the run."""
    return _current is not None and _current.attempt > 1


def apply_supervisor_settings() -> None:
    """Begin to be supervised if the environment says so; a process calls this first."""
    global _current
    _current = SupervisorSettings.from_environment(os.environ)
    if _current is None:
        return
    del os.environ[VARIABLE]  # which is not for processes that this one starts
    end_with_parent(_current.supervisor)
    signal.signal(PROFILE, signal.SIG_IGN)  # until there are steps
    faulthandler.register(STACKS, file=_current.stacks, all_threads=True)
    writer = _BeatWriter(_current)
    set_event_listener(writer.write)
    current_peers().note_activity("start", limited=False)
    threading.Thread(target=writer.write_repeatedly, name="beats", daemon=True).start()


def end_with_parent(parent: int) -> None:
    """Let the kernel kill this process as soon as its parent has ended, however that happens.

    Args:
        parent: id of the parent; this process ends at once if its parent has ended already.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) has failed")
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def original_command() -> tuple[str, ...]:
    """The words of the command that has begun this run: the supervisor's, if there is one."""
    return tuple(sys.orig_argv) if _current is None else _current.command


class _BeatWriter:
    """Writes heartbeats: upon every event, and while there is none."""

    def __init__(self, settings: SupervisorSettings) -> None:
        self._settings, self._lock = settings, threading.Lock()

    def write_repeatedly(self) -> None:
        """Write as long as this process lives."""
        while True:
            self.write()
            time.sleep(HEARTBEAT_SECONDS)

    def write(self) -> None:
        """Write one."""
        with self._lock:
            write_heartbeat(self._settings.beats, self._make_heartbeat())

    def _make_heartbeat(self) -> Heartbeat:
        group = current_peers()
        activity = group.present_activity
        return Heartbeat(
            attempt=self._settings.attempt,
            pid=os.getpid(),
            step=group.step,
            event=activity.event,
            since=activity.since,
            limited=activity.limited,
            waiting=activity.waiting,
            time=time.monotonic(),
            allowed=activity.allowed,
            waits=group.waits,
        )

"""The part that this process has in a run: alone, or as one of several processes."""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any

from data.waits import current
from mllm_jax.runtime.exits import ExitCode
from mllm_jax.runtime.wire import HostAddress


class JoinError(RuntimeError):
    """Processes that were started in ways that do not fit together."""


class PeerError(RuntimeError):
    """An error of another process, which is gone or never came."""


@dataclass(frozen=True)
class ProcessPlace:
    """Place of this process among those of one run.

    Attributes:
        count: processes of the run.
        index: number of this one, 0 to `count` - 1.
        coordinator: `host:port` at which process 0 listens; None for a single process.
        join_seconds: how long they wait for each other at the start.
    """

    count: int = 1
    index: int = 0
    coordinator: str | None = None
    join_seconds: float = 60.0

    def __post_init__(self) -> None:
        """Refuse a place that does not exist.

        Raises:
            JoinError: the index is out of range, or several processes have no coordinator, or
                one without a port.
        """
        if not 0 <= self.index < self.count:
            raise JoinError(
                f"--process {self.index} is not one of --processes {self.count}; "
                f"valid: 0 to {self.count - 1}"
            )
        if self.count > 1 and self.coordinator is None:
            raise JoinError(
                f"--processes {self.count} needs --coordinator HOST:PORT, where process 0 listens"
            )
        if self.coordinator is not None:
            try:
                HostAddress.parse(self.coordinator)
            except ValueError as error:
                raise JoinError(f"--coordinator {error}") from None


#: Most values of one name that wait for process 0 to look at them.
POSTS = 2**16

#: The place of a process that has no others.
ALONE = ProcessPlace()


@dataclass(frozen=True)
class ProcessActivity:
    """The present activity of a process.

    Attributes:
        event: the last event of the process, in words.
        since: time of the event, by `time.monotonic`.
        limited: whether the activity should not take long.
        waiting: whether the process only waits for others.
        key: key of the configuration that names a place which may hold the activity up.
        allowed: seconds for which a place that holds it up now is tried again; 0 without one.
    """

    event: str = "start"
    since: float = 0.0
    limited: bool = False
    waiting: bool = False
    key: str = ""
    allowed: float = 0.0


class RunPeers:
    """A process that is alone; `mllm_jax.runtime.peers` has one among others.

    Attributes:
        index: number of this process.
        count: number of processes.
        activity: present activity of this process.
        step: newest step that this process has taken since it started; 0 before the first.
        waits: begins and ends, counted together, of the waits for all processes in this one: equal
            numbers are equal places of the program.
        host: address of this machine at which the others reach it; None if there is none.
    """

    host: str | None = None
    index = 0
    count = 1
    activity = ProcessActivity()
    step = 0
    waits = 0
    _held_up = 0.0

    def __init__(self) -> None:
        self._posts = defaultdict[str, deque[tuple[int, Any]]](lambda: deque(maxlen=POSTS))

    def gather_values(self, name: str, value: Any) -> list[Any]:
        """Every process's value for `name`, in their order; all must call in the same order.

        Args:
            value: JSON.
        """
        del name
        return [value]

    def post_value(self, name: str, value: Any) -> None:
        """Send a value to process 0, and go on at once; processes without a channel keep it.

        Args:
            value: JSON.
        """
        self._posts[name].append((self.index, value))

    def take_posts(self, name: str) -> list[tuple[int, Any]]:
        """Numbers of processes and the values that have come from them since the last call."""
        posts, taken_posts = self._posts[name], list[tuple[int, Any]]()
        while posts:
            taken_posts.append(posts.popleft())
        return taken_posts

    @property
    def present_activity(self) -> ProcessActivity:
        """The present activity, or the call to a place that holds it up, for the messages of
        others.

        After such a call the activity begins anew.
        """
        activity = self.activity
        wait = current(activity.key) if activity.key else None
        if wait is None:
            return replace(activity, since=max(activity.since, self._held_up))
        self._held_up = time.monotonic()
        event = f"{activity.event}, from {wait.place} (retry_seconds {wait.seconds:g})"
        return replace(activity, event=event, since=wait.since, allowed=wait.seconds)

    def note_activity(self, event: str, *, limited: bool = True, key: str = "") -> None:
        """Note the present activity of this process.

        Args:
            limited: whether it should not take long.
            key: as of `ProcessActivity`.
        """
        self._set_activity(ProcessActivity(event, time.monotonic(), limited, key=key))

    def note_step(self, step: int) -> None:
        """Note that this process has taken a step."""
        self.step = step
        _on_event()

    def _set_activity(self, activity: ProcessActivity) -> None:
        self.activity = activity
        _on_event()

    @contextmanager
    def noting_activity(self, event: str, *, limited: bool, key: str = "") -> Iterator[None]:
        """Note an activity of this process within the context; then the earlier one continues."""
        before = self.activity
        self.note_activity(event, limited=limited, key=key)
        yield
        self._set_activity(replace(before, since=time.monotonic()))

    @contextmanager
    def watching_collective(self, what: str) -> Iterator[None]:
        """Context of a collective of JAX's on the host: a wait that is too long ends the process.

        Args:
            what: is done together, for the message.
        """
        yield

    @contextmanager
    def watching_wait(
        self, what: str, *, limited: bool = True, by_all: bool = True
    ) -> Iterator[None]:
        """Context of a wait for work of all processes: a wait that is too long ends the process.

        Args:
            what: is waited for, for the message.
            limited: whether no process should then be at what may take long, such as compiling.
            by_all: whether all processes wait at this place, so that waits are counted alike.
        """
        with self.noting_activity(f"waiting for {what}", limited=limited):
            yield

    def leave_run(self, code: int, reason: str = "") -> None:
        """Tell the others that this process ends, and with `code` other than 0, why."""


_current: RunPeers = RunPeers()
_on_event: Callable[[], None] = lambda: None  # noqa: E731 - replaced by `on_events`


def set_event_listener(listener: Callable[[], None]) -> None:
    """Let `listener` be called upon every event of this process, in whichever thread it happens."""
    global _on_event
    _on_event = listener


def current_peers() -> RunPeers:
    """The processes of this run, as of the last `set_peers`."""
    return _current


def set_peers(group: RunPeers) -> None:
    """Let `current_peers` return `group` from now on."""
    global _current
    _current = group


def waiting_for_peers(
    what: str, *, limited: bool = True, by_all: bool = True
) -> AbstractContextManager[None]:
    """`RunPeers.watching_wait` of the processes of this run."""
    return current_peers().watching_wait(what, limited=limited, by_all=by_all)


@contextmanager
def exit_after(seconds: float | None, why: str | Callable[[], str]) -> Iterator[None]:
    """Context for a wait that ignores signals: the process ends if the wait takes too long.

    Args:
        seconds: the longest wait; None: any.
        why: message of the process's end, whose code is that of a lost process; or what makes it
            once the time is over.
    """
    if seconds is None:
        yield
        return

    def end() -> None:
        end_process(ExitCode.LOST_PEER, why if isinstance(why, str) else why())

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def end_process(code: int, why: str) -> None:
    """End this process from any thread, whatever the others are stuck in."""
    sys.stderr.write(f"error: {why}\n")
    leave_process(code)


def leave_process(code: int) -> None:
    """End this process at once: JAX would wait for processes that do not come any more."""
    for child in multiprocessing.active_children():
        child.kill()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)

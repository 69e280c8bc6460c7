"""Plans for fewer hosts that `launch.py plan` searches during the run (`run.fallback: plan`).

The search loads what computes, and takes seconds to minutes, so that it is a separate process; it
begins with the supervisor of process 0, and is over long before a host is missed. Until then, and
where it finds nothing, the configured plans with fewer replicas hold.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

logger = logging.getLogger(__name__)

#: A program that becomes another, which the kernel kills once the supervisor has ended, however it
#: ends: prctl(PR_SET_PDEATHSIG, SIGKILL) outlives `exec`.
_TIED = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)
if os.getppid() != int(sys.argv[1]):
    os._exit(1)
os.execvp(sys.argv[2], sys.argv[2:])
"""
#: Reads the overrides in a file that the search has written for so many devices.
Read = Callable[[Path, int], tuple[str, ...]]


class FallbackPlans(Mapping[int, tuple[str, ...]]):
    """Overrides by the number of hosts that they are for; one thread adds while others read.

    Every addition makes a dictionary anew, so that none changes while it is gone through.

    Args:
        first: the plans that are known from the start.
    """

    def __init__(self, first: Mapping[int, tuple[str, ...]]) -> None:
        self._known = {**first}

    def add_plan(self, hosts: int, words: tuple[str, ...]) -> None:
        """Add the plan for a number of hosts, or replace it."""
        self._known = {**self._known, hosts: words}

    def __getitem__(self, hosts: int) -> tuple[str, ...]:
        return self._known[hosts]

    def __iter__(self) -> Iterator[int]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


class FallbackSearch:
    """Searches plans on a separate thread, the most hosts first.

    Args:
        command: words of the search, without the devices and the file.
        devices: devices by number of hosts.
        folder: folder for the plans.
        read: reads a plan.
        plans: plans that are replaced as the search ends.
    """

    def __init__(
        self,
        command: Sequence[str],
        devices: dict[int, int],
        folder: Path,
        read: Read,
        plans: FallbackPlans,
    ) -> None:
        self._command, self._devices, self._folder = command, devices, folder
        self._read, self._plans = read, plans
        self._running: subprocess.Popen[str] | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._search_plans, name="plans", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the search."""
        self._over.set()
        if self._running is not None:
            self._running.kill()
        self._thread.join()

    def _search_plans(self) -> None:
        for hosts, devices in sorted(self._devices.items(), reverse=True):
            if self._over.is_set():
                return
            file = self._folder / f"hosts-{hosts}.yaml"
            words = [*self._command, f"parallel.devices={devices}", "--output", str(file)]
            tied = [sys.executable, "-c", _TIED, str(os.getpid()), *words]
            self._running = subprocess.Popen(
                tied, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
            )
            if self._over.is_set():  # set while the process was being started
                self._running.kill()
            _, stderr = self._running.communicate()
            if self._over.is_set():
                return
            why = (
                self._accept_plan(hosts, devices, file) if self._running.returncode == 0 else stderr
            )
            if why:
                last = why.strip().splitlines()[-1]
                details = hosts, devices, last
                logger.warning("no plan exists for %d hosts (%d devices): %s", *details)

    def _accept_plan(self, hosts: int, devices: int, file: Path) -> str:
        """Take a plan of the search; why not, if it cannot be taken."""
        try:
            self._plans.add_plan(hosts, self._read(file, devices))
        except ValueError as error:
            return str(error)
        return ""

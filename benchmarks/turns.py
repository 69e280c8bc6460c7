"""Processes that take turns, so that each is measured alone and all on the same machine.

A worker answers one request at a time, and sleeps between them. Requests and answers are lines of
JSON on its standard input and output; what else it prints goes to standard error.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


class WorkerError(RuntimeError):
    """A worker has ended before it answered."""


class TurnWorker(AbstractContextManager["TurnWorker"]):
    """A process that runs a module which calls `serve_requests`.

    Args:
        module: dotted name of the worker's module.
        arguments: arguments of its command line.
        environment: variables that it has besides those of this process.
    """

    def __init__(
        self, module: str, *arguments: str, environment: Mapping[str, str] | None = None
    ) -> None:
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        self.module = module
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": path, **(environment or {})},
        )

    def ask(self, action: str, **arguments: Any) -> Any:
        """The answer of the worker.

        Raises:
            WorkerError: the worker has ended; its standard error says why.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps([action, arguments]) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # it has ended, as the missing answer shows
        answer = self._process.stdout.readline()
        if not answer:
            code = self._process.wait()
            raise WorkerError(f"{self.module} has ended with code {code} at {action!r}")
        return json.loads(answer)

    def __exit__(self, *raised: object) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()


def serve_requests(actions: Mapping[str, Callable[..., Any]]) -> None:
    """Answer requests until there are no more."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        action, arguments = json.loads(line)
        answers.write(json.dumps(actions[action](**arguments)) + "\n")
        answers.flush()


def peak_bytes() -> int:
    """The most memory that this process has had, in bytes.

    By `getrusage`, a process begins with that of the one that started it.
    """
    text = Path("/proc/self/status").read_text(encoding="ascii")
    (kibibytes,) = re.findall(r"^VmHWM:\s+(\d+) kB$", text, flags=re.MULTILINE)
    return int(kibibytes) * 1024

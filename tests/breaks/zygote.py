"""Runs sessions of pytest, each in a fork of a process that has imported what is not the project's.

A program of its own (`python zygote.py`), which imports nothing of the project: each session sees
the tree as it is. It reads a request per line, `{"arguments": [...], "log": path, "seconds": 60}`,
and answers with `[code, seconds]`: the exit code of pytest, below 0 for a session that was ended,
and the seconds of CPU time that it took. Seconds of the request are of CPU time, too, so that other
programs on the machine change nothing; one that only waits is ended after sixty times as many.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import resource
import signal
import sys
import threading
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any


def main() -> None:
    """Answer requests until there are no more."""
    sys.path.insert(0, str(Path.cwd()))
    for name in json.loads(sys.stdin.readline()):
        with suppress(Exception):  # a module that needs what is not installed here
            importlib.import_module(name)
    # A test of what is written to stderr meets none of the handlers that an import has made.
    logging.getLogger().handlers.clear()
    for line in sys.stdin:
        sys.stdout.write(f"{json.dumps(_session(json.loads(line)))}\n")
        sys.stdout.flush()


def _session(request: dict[str, Any]) -> tuple[int, float]:
    child = os.fork()
    if not child:
        _run(request)

    def leave(*_: object) -> None:
        _end(child)
        os._exit(1)

    signal.signal(signal.SIGTERM, leave)
    timer = threading.Timer(60 * request["seconds"], lambda: _end(child))
    timer.start()
    _, status, used = os.wait4(child, 0)
    timer.cancel()
    _end(child)  # what its tests have left
    return os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime


def _end(group: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGTERM)
        time.sleep(0.2)
        os.killpg(group, signal.SIGKILL)


def _run(request: dict[str, Any]) -> None:
    """The session, in the fork; does not return."""
    os.setpgid(0, 0)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    seconds = max(1, round(request["seconds"]))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 2))
    log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for ours, theirs in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(ours, theirs)
    code = 70
    try:
        import pytest

        code = int(pytest.main(request["arguments"]))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


if __name__ == "__main__":
    main()

"""CPU seconds from the start of a command to its answer about the configuration.

Or the seconds until many processes have joined (`benchmarks.joining`).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.joining import time_joining
from mllm_jax.config.load import ExperimentConfig, to_yaml

#: Processes of which the fastest counts: others on the machine only slow one down.
TURNS = 5

LAUNCH = Path(__file__).parents[1] / "launch.py"


def bench_startup(
    config: ExperimentConfig,
    print_line: Callable[[str], None] = lambda text: None,
    members: int | None = None,
) -> list[dict[str, Any]]:
    """Start `launch.py` in processes of its own, with cached bytecode and without any.

    Args:
        members: join up to so many processes instead, see `time_joining`.

    Returns:
        For the help, a misspelt key and the whole configuration checked and printed: `cached` and
        `uncached` CPU seconds of user and system, the least of `TURNS`; without cached bytecode
        all packages are compiled that are imported, Python's own too.
    """
    if members is not None:
        return time_joining(members, print_line)
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "config.yaml"
        file.write_text(to_yaml(config), encoding="utf-8")
        configured = ["config", "--config", str(file)]
        cases = {
            "help": ["--help"],
            "a misspelt key": [*configured, "train.stepz=3"],
            "config": configured,
        }
        rows: list[dict[str, Any]] = []
        for case, arguments in cases.items():
            print_line(f"{case}: {2 * TURNS} processes")
            # Every process has a folder of its own, so that none uses another's bytecode.
            folders = [f"{name}/{case} {turn}" for turn in range(TURNS)]
            uncached = min(_cpu_seconds(arguments, folder) for folder in folders)
            cached = min(_cpu_seconds(arguments, folder) for folder in folders)
            rows.append(
                {"command": case, "cached": round(cached, 3), "uncached": round(uncached, 3)}
            )
    return rows


def _cpu_seconds(arguments: Sequence[str], bytecode: str) -> float:
    """CPU seconds of one process that reads and writes cached bytecode in a folder."""
    command = [sys.executable, str(LAUNCH), *arguments]
    # An empty value is none: bytecode is written whatever the environment says.
    setting = {"PYTHONPYCACHEPREFIX": bytecode, "PYTHONDONTWRITEBYTECODE": ""}
    process = subprocess.Popen(
        command,
        env={**os.environ, **setting},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime

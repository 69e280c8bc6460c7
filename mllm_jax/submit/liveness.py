"""A file that a process touches as long as it lives, for the probes of a container.

    MLLM_JAX_LIVENESS_FILE=/var/run/mllm-jax/liveness python launch.py train ...
    python -m mllm_jax.submit.liveness 60        # ends with 0 if the file was touched within 60 s

A process that is stopped, or whose interpreter is stuck, touches nothing. Processes that wait for
each other for ever are found by the watch of the processes (`mllm_jax.runtime.peers`).
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

#: Name of the environment variable that names the file.
LIVENESS_VARIABLE = "MLLM_JAX_LIVENESS_FILE"
#: Seconds after which the file is touched again.
TOUCH_SECONDS = 5.0


def start_touching() -> None:
    """Touch the file from now on, if the environment names one; the first time before returning.

    Raises:
        OSError: the file cannot be made.
    """
    if LIVENESS_VARIABLE in os.environ:
        # Processes that this one starts touch no file: this one restarts them itself.
        file = Path(os.environ.pop(LIVENESS_VARIABLE))
        file.touch()
        threading.Thread(
            target=_touch_repeatedly, args=(file,), name="liveness", daemon=True
        ).start()


def _touch_repeatedly(file: Path) -> None:
    while True:
        time.sleep(TOUCH_SECONDS)
        file.touch()


def main(words: Sequence[str]) -> int:
    """Exit code of a probe: 0 if the file was touched within so many seconds, else 1."""
    file, seconds = Path(os.environ[LIVENESS_VARIABLE]), float(words[0])
    try:
        age = time.time() - file.stat().st_mtime
    except FileNotFoundError:
        sys.stderr.write(f"{file} is not there: the process has not begun yet\n")
        return 1
    if age > seconds:
        sys.stderr.write(f"{file} was touched {age:.0f} s ago; {seconds:g} s are allowed\n")
    return int(age > seconds)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

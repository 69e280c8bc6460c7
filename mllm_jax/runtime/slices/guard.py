"""Starts a control daemon of MPS and ends it when its standard input ends.

A launcher holds the other end of that input, so that the daemon ends with the launcher, however
that ends. This file is a program of its own: it loads nothing but the standard library.

python guard.py FOLDER PROGRAM [OPTIONS...]
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading

#: Seconds for the daemon to end.
PATIENCE = 10.0


def main(folder: str, command: list[str]) -> int:
    """Run the daemon until the input ends, and return its exit code.

    Args:
        folder: folder of its pipes and logs, which is removed in the end.
        command: words of its command.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    daemon = subprocess.Popen([*command, "-f"], stdin=subprocess.DEVNULL)
    threading.Thread(target=_end_when_told, args=(daemon, command[0]), daemon=True).start()
    code = daemon.wait()
    shutil.rmtree(folder, ignore_errors=True)
    return code


def _end_when_told(daemon: subprocess.Popen[bytes], program: str) -> None:
    while os.read(0, 1):
        pass
    try:
        done = subprocess.run([program], input=b"quit\n", timeout=PATIENCE, check=False)
        daemon.wait(0 if done.returncode else PATIENCE)
    except subprocess.TimeoutExpired:
        daemon.kill()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))

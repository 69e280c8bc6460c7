"""A server that speaks S3, on this machine: moto's, in a process of its own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.train.test_run import free_port

BUCKET = "runs"


def soon(holds: Callable[[], bool]) -> None:
    """Wait for something that should not take long."""
    until = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.02)


class ObjectStore:
    """The server, with an empty bucket whenever it is started; clients find it by the environment.

    Args:
        log: file for what it says.
    """

    def __init__(self, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._log, self._port = log, free_port()
        self._server: subprocess.Popen[bytes] | None = None
        variables = {
            "AWS_ACCESS_KEY_ID": "a",
            "AWS_SECRET_ACCESS_KEY": "b",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self._port}",
            "AWS_MAX_ATTEMPTS": "1",  # what is tried again, and for how long, is our own choice
        }
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    def start(self) -> None:
        """Start the server, and make the bucket."""
        import s3fs

        words = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self._port)]
        with self._log.open("a") as log:
            self._server = subprocess.Popen(words, stdout=log, stderr=log, env=os.environ)
        soon(self._listens)
        s3fs.S3FileSystem.clear_instance_cache()  # a test before may have made one without keys
        s3fs.S3FileSystem(skip_instance_cache=True).mkdir(BUCKET)

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self._port)) == 0

    def stop(self) -> None:
        """Kill the server; all that it held is lost."""
        if self._server is not None:
            self._server.kill()
            self._server.wait()
            self._server = None

"""Object stores on this machine, each a server in a process of its own: S3 and Google Cloud's."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import fsspec
import pytest

from tests.timing import soon
from tests.train.test_run import free_port

BUCKET = "runs"
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Service:
    """A kind of object store.

    Attributes:
        scheme: of its URLs.
        server, client: modules.
        options: words after the server's, but for its port.
        environment: variables by which the client finds the server, whose port is `{port}`.
    """

    scheme: str
    server: str
    client: str
    options: tuple[str, ...]
    environment: dict[str, str]


S3 = Service(
    *("s3", "moto.server", "s3fs", ("-H", "127.0.0.1")),
    {
        "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": "b",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": "http://127.0.0.1:{port}",
        "AWS_MAX_ATTEMPTS": "1",  # what is tried again, and for how long, is our own choice
    },
)
GOOGLE = Service(
    *("gs", "tests.stores.google_server", "gcsfs", ("start", "-M", "-H", "127.0.0.1")),
    {
        "STORAGE_EMULATOR_HOST": "http://127.0.0.1:{port}",
        "NO_GCE_CHECK": "true",  # which would look for credentials for seconds
        # It would ask for the kind of the bucket by gRPC, of which the server knows nothing.
        "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",
    },
)


class ObjectStore:
    """The server, with an empty bucket whenever it is started; clients find it by the environment.

    Args:
        log: file for what it says.
    """

    def __init__(self, service: Service, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.service, self._log, self._port = service, log, free_port()
        self._server: subprocess.Popen[bytes] | None = None
        for name, value in service.environment.items():
            monkeypatch.setenv(name, value.format(port=self._port))

    @property
    def url(self) -> str:
        """URL of the bucket."""
        return f"{self.service.scheme}://{BUCKET}"

    def start(self) -> None:
        """Start the server, and make the bucket."""
        words = [sys.executable, "-m", self.service.server, *self.service.options]
        with self._log.open("a") as log:
            words += ["--port", str(self._port)]
            self._server = subprocess.Popen(words, stdout=log, stderr=log, env=os.environ, cwd=ROOT)
        soon(self._listens)
        self.forget()
        fsspec.filesystem(self.service.scheme, skip_instance_cache=True).mkdir(BUCKET)

    def forget(self) -> None:
        """Let no test have the client of another one, which may have had other keys."""
        fsspec.get_filesystem_class(self.service.scheme).clear_instance_cache()

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self._port)) == 0

    def stop(self) -> None:
        """Kill the server; all that it held is lost."""
        if self._server is not None:
            self._server.kill()
            self._server.wait()
            self._server = None

    @contextmanager
    def away(self) -> Iterator[None]:
        """The server is gone, and back afterwards with an empty bucket."""
        self.stop()
        try:
            yield
        finally:
            self.start()


@contextmanager
def object_store(service: Service, log: Path) -> Iterator[ObjectStore]:
    """A store that has started; the test is skipped where its packages are missing."""
    pytest.importorskip(service.server)
    with pytest.MonkeyPatch.context() as monkeypatch:
        store = ObjectStore(service, log, monkeypatch)
        pytest.importorskip(service.client)  # which reads some of the variables once
        store.start()
        yield store
        store.forget()
        store.stop()

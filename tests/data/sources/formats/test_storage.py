"""Files wherever they are: the same bytes, found in the same order, and no failure lost."""

from __future__ import annotations

import ftplib
import io
import os
import pickle
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO

import fsspec
import pytest
from fsspec.config import conf
from fsspec.implementations.memory import MemoryFileSystem
from hypothesis import given
from hypothesis import strategies as st

from data.sample import DataError, StorageError, UnreachableError
from data.sources.formats import patience
from data.sources.formats.patience import PatientFileSystem, timeout_options
from data.sources.formats.storage import SourceFile, find_files, local_file, local_path, open_remote
from mllm_jax.runtime.exits import ExitCode, exit_code_of
from tests.timing import Clock

DATA = bytes(range(256)) * 4


@dataclass
class Failing:
    """A file system that fails from some byte on, or gives too little."""

    limit: int
    error: Exception | None = None

    def cat_file(self, path: str, start: int, end: int) -> bytes:
        if end > self.limit and self.error:
            raise self.error
        return DATA[start : min(end, self.limit)]


Operation = tuple[str, int]
operations = st.lists(
    st.one_of(
        st.tuples(st.just("read"), st.integers(0, 400)),
        st.tuples(st.just("set"), st.integers(0, 900)),
        st.tuples(st.just("move"), st.integers(-300, 300)),
        st.tuples(st.just("end"), st.integers(-700, 50)),
    ),
    max_size=12,
)


def walk(file: Any, operations: list[Operation]) -> list[bytes]:
    """The bytes that are read on a walk through a file."""
    results = []
    for operation, number in operations:
        if operation == "read":
            results.append(file.read(number))
        elif operation == "set":
            file.seek(number)
        elif operation == "move":
            file.seek(max(0, file.tell() + number))
        else:
            file.seek(number, os.SEEK_END)
    return results


SIGNED = "of https://h/x?sig=s3cret"


@given(operations=operations, start=st.integers(0, 200), chunk=st.integers(1, 900))
def test_a_part_of_a_file_is_read_as_a_file_of_its_own(
    operations: list[Operation], start: int, chunk: int
) -> None:
    size = 700
    file = SourceFile("x", len(DATA), "", PatientFileSystem(Failing(len(DATA)), 0))
    with file.open(chunk, start, size) as part, io.BytesIO(DATA[start : start + size]) as content:
        assert walk(part, operations) == walk(content, operations)


@pytest.mark.parametrize(
    ("system", "message"),
    [
        (Failing(300, PermissionError("x")), "cannot read x: PermissionError: x"),
        # What gives access is left out of messages.
        (Failing(300, PermissionError(SIGNED)), r"PermissionError: of https://h/x\?sig=\.\.\.$"),
        (Failing(300, ConnectionError(SIGNED)), r"ConnectionError: of https://h/x\?sig=\.\.\.$"),
        (
            Failing(300, ConnectionError("gone")),
            r"x has been out of reach for .* s \(retry_seconds 0\), .* ConnectionError: gone",
        ),
        (Failing(300), "x ends 212 bytes before byte 512: it has changed, or is not whole"),
    ],
)
def test_a_failed_read_ends_the_file_and_is_told_after(system: Failing, message: str) -> None:
    file = SourceFile("x", len(DATA), "", PatientFileSystem(system, 0))
    with pytest.raises(StorageError, match=message), file.open(256) as stream:
        _library(stream)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    result = Clock()
    monkeypatch.setattr(patience, "time", result)
    return result


class Flaky(MemoryFileSystem):
    """Files in memory, out of reach as often as `failures` says, at every call."""

    protocol = "flaky"
    failures = left = 0
    error: Exception = ConnectionError("reset by peer")

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(super()._strip_protocol(path.replace("flaky://", "memory://", 1)))

    def _try(self) -> None:
        cls = type(self)
        cls.left = cls.failures if cls.left < 0 else cls.left
        cls.left -= 1
        if cls.left >= 0:
            raise cls.error

    def info(self, path: str, **options: Any) -> Any:
        self._try()
        return super().info(path, **options)

    def cat_file(self, path: str, start: Any = None, end: Any = None, **options: Any) -> bytes:
        self._try()
        return bytes(super().cat_file(path, start, end, **options))


@pytest.fixture
def flaky(monkeypatch: pytest.MonkeyPatch) -> type[Flaky]:
    fsspec.register_implementation("flaky", Flaky, clobber=True)
    fsspec.filesystem("memory").pipe({"/shelf/a.bin": DATA, "/shelf/b.bin": DATA})
    monkeypatch.setattr(Flaky, "failures", 3)
    monkeypatch.setattr(Flaky, "left", 3)
    return Flaky


def test_a_place_that_comes_back_is_read(
    flaky: type[Flaky], clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    files = find_files("flaky://shelf", (".bin",), 60)
    assert [file.name for file in files] == ["a.bin", "b.bin"]
    clock.pauses.clear()
    assert files[0].read(3, 5) == DATA[3:8]
    for pause, most in zip(clock.pauses, (0.5, 1.0, 2.0), strict=True):
        assert most / 2 <= pause <= most
    message = "flaky://shelf/a.bin is out of reach, and is tried again for 60 s: ConnectionError"
    assert caplog.text.count(message) == 1
    assert "flaky://shelf/a.bin is in reach again, after" in caplog.text


def test_a_place_that_stays_away_is_named_once_the_time_is_up(
    flaky: type[Flaky], clock: Clock
) -> None:
    (file, _) = find_files("flaky://shelf", (".bin",), 60)
    flaky.left = 10**6
    clock.pauses.clear()
    with pytest.raises(
        UnreachableError, match=r"flaky://shelf/a.bin has been out of reach for 60 s"
    ):
        file.read(0, 4)
    assert sum(clock.pauses) == pytest.approx(60)
    with pytest.raises(UnreachableError, match="flaky://shelf has been out of reach for 0 s"):
        find_files("flaky://shelf", (".bin",))
    error = UnreachableError("x")
    assert exit_code_of(pickle.loads(pickle.dumps(error))) == ExitCode.OUT_OF_REACH


def test_pauses_grow_up_to_a_bound(flaky: type[Flaky], clock: Clock) -> None:
    (file, _) = find_files("flaky://shelf", (".bin",), 200)
    flaky.left = 10**6
    clock.pauses.clear()
    with pytest.raises(UnreachableError, match="out of reach for 200 s"):
        file.read(0, 4)
    assert 15 <= max(clock.pauses) <= 30
    assert len(clock.pauses) > 9


def told(module: str, name: str, **attributes: Any) -> Exception:
    """An error as a package that need not be here raises it."""
    error: Exception = type(name, (Exception,), {"__module__": module})("x")
    error.__dict__ |= attributes
    return error


#: Of gcsfs 2026.10, huggingface_hub 2.4 and botocore 1.43.
GOOGLE = ("gcsfs.retry", "HttpError")
HUB = ("huggingface_hub.errors", "HfHubHTTPError")
REFUSALS = [
    FileNotFoundError("x"),
    PermissionError("x"),
    OSError("Forbidden: https://storage.googleapis.com/b\nno storage.objects.list access"),
    told(*GOOGLE, code=401, message="Invalid Credentials, 401"),
    told(*HUB, response=SimpleNamespace(status_code=403)),
    told("botocore.exceptions", "NoCredentialsError"),
    told("google.auth.exceptions", "DefaultCredentialsError"),
]
PASSING = [
    OSError(5, "Forbidden: not for long"),
    told(*GOOGLE, code=503),
    told(*GOOGLE, code=None),
    told(*HUB, response=SimpleNamespace(status_code=429)),
    told("botocore.exceptions", "EndpointConnectionError"),
]


@pytest.mark.parametrize("error", PASSING, ids=repr)
def test_what_may_pass_is_tried_again(
    error: Exception, flaky: type[Flaky], clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flaky, "error", error)
    assert len(find_files("flaky://shelf", (".bin",), 60)) == 2
    assert len(clock.pauses) == 3


@pytest.mark.parametrize("error", REFUSALS, ids=repr)
def test_what_does_not_pass_is_not_tried_again(
    error: Exception, flaky: type[Flaky], clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    (file, _) = find_files("flaky://shelf", (".bin",), 60)
    clock.pauses.clear()
    monkeypatch.setattr(flaky, "error", error)
    with pytest.raises(StorageError, match=type(error).__name__):
        file.read(0, 4)
    assert clock.pauses == []


class Answers(BaseHTTPRequestHandler):
    """Gives `DATA` after as many answers with `status` as `failures` says."""

    status, failures = 503, 0

    def do_GET(self) -> None:
        server = type(self)
        server.failures -= 1
        if server.failures >= 0:
            self.send_error(server.status)
            return
        match = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        data = DATA[int(match[1]) : int(match[2]) + 1] if match else DATA
        self.send_response(206 if match else 200)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data)

    do_HEAD = do_GET  # noqa: N815 -- named by the library

    def log_message(self, *_: Any) -> None:
        """Nothing is told."""


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """URL of a file."""
    monkeypatch.setattr(Answers, "failures", 0)
    monkeypatch.setattr(Answers, "status", 503)
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/a.bin"
        server.shutdown()
        thread.join()


def test_a_site_that_comes_back_is_read(
    site: str, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    # `info` asks twice: for the head, and for the file.
    Answers.failures = 4
    (file,) = find_files(site, (".bin",), 60)
    assert len(clock.pauses) == 2
    assert "is tried again for 60 s: ClientResponseError: 503, message='Service Unavailable'" in (
        caplog.text
    )
    assert (file.size, file.stamp) == (len(DATA), "Last-Modified Thu, 01 Jan 2026 00:00:00 GMT")
    Answers.failures = 2
    assert file.read(3, 5) == DATA[3:8]
    assert len(clock.pauses) == 4


class Opened(Flaky):
    """Connects when it is opened, as FTP does."""

    protocol = "opened"
    cachable = False

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._try()


@pytest.mark.parametrize(
    ("error", "kind"),
    [(ConnectionError("refused"), UnreachableError), (ftplib.error_perm("530"), DataError)],
)
def test_a_place_is_tried_again_while_it_is_opened(
    flaky: type[Flaky], clock: Clock, error: Exception, kind: type[Exception]
) -> None:
    fsspec.register_implementation("opened", Opened, clobber=True)
    Opened.left, Opened.error = 3, ConnectionError("refused")
    system, path = open_remote("opened://shelf", 60)
    assert len(clock.pauses) == 3
    assert system.display_name(f"{path}/a.bin") == "opened://shelf/a.bin"
    Opened.left, Opened.error = 10**6, error
    with pytest.raises(kind, match="opened://shelf") as caught:
        find_files("opened://shelf", (".bin",), 60)
    assert type(caught.value) is kind


def test_a_place_is_named_as_it_is_configured() -> None:
    """fsspec's own names have no host."""
    system, path = open_remote("webhdfs://host:9870/data/*.jsonl", 0)
    assert (
        system.display_name(f"{path.rpartition('/')[0]}/a.jsonl")
        == "webhdfs://host:9870/data/a.jsonl"
    )


@pytest.mark.parametrize("status", [401, 403, 404])
def test_an_answer_that_stays_is_told_at_once(site: str, clock: Clock, status: int) -> None:
    Answers.failures, Answers.status = 10**6, status
    message = "no such file" if status == 404 else f"cannot list {site}: {status}, message="
    with pytest.raises(DataError, match=message) as caught:
        find_files(site, (".bin",), 60)
    assert exit_code_of(caught.value) == ExitCode.BAD_DATA
    assert clock.pauses == []


def test_what_gives_access_is_in_no_message_about_a_place(site: str, clock: Clock) -> None:
    Answers.failures, Answers.status = 10**6, 401
    with pytest.raises(DataError, match=r"cannot list http://.*sig=\.\.\. 401") as listed:
        find_files(f"{site}?sig=s3cret", (".bin",), 60)
    with pytest.raises(DataError, match=r"cannot open nosuch://h/x\?sig=\.\.\. ") as opened:
        find_files("nosuch://h/x?sig=s3cret", (".bin",), 60)
    system = SimpleNamespace(unstrip_protocol=lambda path: f"ftp://me:s3cret@h/{path}")
    said = [listed.value, opened.value, PatientFileSystem(system, 0).display_name("a")]
    assert said[2] == "ftp://...@h/a"
    assert all("s3cret" not in str(message) for message in said)


def test_a_site_that_stays_away_may_come_back_for_a_later_start(site: str, clock: Clock) -> None:
    gone = "http://127.0.0.1:1/a.bin"  # where nobody listens
    Answers.failures = 10**6
    for place, why in ((site, "503"), (gone, "ClientConnectorError")):
        with pytest.raises(UnreachableError, match=rf"out of reach for 60 s .*{why}") as caught:
            find_files(place, (".bin",), 60)
        assert exit_code_of(caught.value) == ExitCode.OUT_OF_REACH
        assert sum(clock.pauses) == pytest.approx(60)
        clock.pauses.clear()


@pytest.fixture
def silent() -> Iterator[str]:
    """Address of a server that accepts connections, and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_a_server_that_never_answers_is_out_of_reach(
    silent: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(patience, "SHORTEST", 0.2)
    begin = time.monotonic()
    with pytest.raises(
        UnreachableError, match=r"out of reach for .* s \(retry_seconds 0\.5\)"
    ) as caught:
        find_files(f"http://{silent}/a.bin", (".bin",), 0.5)
    elapsed = time.monotonic() - begin
    (stated,) = re.findall(r"for ([\d.]+) s", str(caught.value))
    assert 0.5 <= float(stated) < 1.01 * elapsed  # three digits


@pytest.mark.parametrize("scheme", ["s3", "gs", "ftp"])
def test_stores_have_limits_of_silence_too(scheme: str) -> None:
    (options,) = timeout_options(f"simplecache::{scheme}://bucket/a", 12).values()
    if scheme == "s3":
        assert options["config_kwargs"] | {"retries": None} == {
            "connect_timeout": 5,
            "read_timeout": 12,
            "retries": None,
        }
    elif scheme == "gs":
        assert (
            options["requests_timeout"].sock_read == options["requests_timeout"].sock_connect == 12
        )
    else:
        assert options == {"timeout": 12}
    assert timeout_options("memory://a", 12) == {}


def test_limits_leave_what_fsspec_is_configured_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(conf, "http", {"client_kwargs": {"trust_env": True}})
    (options,) = timeout_options("https://site/a", 300).values()
    assert options["client_kwargs"].keys() == {"timeout", "trust_env"}
    assert options["client_kwargs"]["timeout"].sock_read == patience.SILENCE


def _library(stream: BinaryIO) -> None:
    """Reads 512 bytes, and has an error of its own for a file that ends too soon."""
    assert stream.read(256) == DATA[:256]
    if len(stream.read(256)) < 256:
        raise ValueError("truncated")


def test_a_file_that_shrinks_is_told(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(DATA)
    file = local_file(tmp_path / "a")
    assert file.read(10, 20) == DATA[10:30]
    (tmp_path / "a").write_bytes(DATA[:15])
    with pytest.raises(StorageError, match="ends 15 bytes before byte 30"):
        file.read(10, 20)
    (tmp_path / "a").unlink()
    with pytest.raises(StorageError, match=r"cannot read .*FileNotFoundError"):
        file.read(10, 20)


# ---- finding -------------------------------------------------------------------------------------


@pytest.fixture(params=["local", "file", "memory"])
def put(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str, bytes], str]:
    """Writes a file under a name and tells the place of the folder that it is in."""
    roots = {
        "local": str(tmp_path),
        "file": f"file://{tmp_path}",
        "memory": f"memory://{tmp_path.name}",
    }
    root = roots[request.param]

    def write(name: str, data: bytes) -> str:
        with fsspec.open(f"{root}/{name}", "wb", auto_mkdir=True) as file:
            file.write(data)
        return root

    return write


def names(place: str, *suffixes: str) -> list[str]:
    return [file.name for file in find_files(place, suffixes or (".bin",))]


def test_files_folders_and_patterns_are_found(put: Callable[[str, bytes], str]) -> None:
    for name in ("b-0.bin", "a-0.bin", "deep/c.bin", "read.me", ".cache/d.bin", "deep/.e.bin"):
        root = put(name, name.encode())
    assert names(root) == ["a-0.bin", "b-0.bin", "c.bin"]
    assert names(f"{root}/*-0.bin") == ["a-0.bin", "b-0.bin"]
    assert names(f"{root}/**/*.bin")[-1] == "c.bin"
    assert names(f"{root}/read.me") == ["read.me"]
    assert names(root, ".me", ".bin") == ["a-0.bin", "b-0.bin", "c.bin", "read.me"]
    (file,) = find_files(f"{root}/deep/c.bin", ())
    assert (file.size, file.read(2, 3)) == (10, b"ep/")
    again = pickle.loads(pickle.dumps(file))
    assert again == file
    assert again.read(0, 4) == b"deep"


def test_a_stamp_changes_with_the_file(put: Callable[[str, bytes], str]) -> None:
    place = put("a.bin", b"123") + "/a.bin"
    (before,), (same,) = find_files(place, ()), find_files(place, ())
    put("a.bin", b"124")
    (after,) = find_files(place, ())
    assert before == same != after


def test_a_folder_of_several_splits_is_refused(put: Callable[[str, bytes], str]) -> None:
    put("data/train-00000-of-00002.bin", b"")
    root = put("data/train-00001-of-00002.bin", b"")
    assert len(names(root)) == 2
    put("data/test-00000-of-00001.bin", b"")
    with pytest.raises(DataError, match=r"holds the splits test, train; valid: .*/test-\*"):
        names(root)
    assert len(names(f"{root}/data/train-*")) == 2


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("{}/nothing", "no such file, nor a folder of .bin"),
        ("{}/*.none", "no such file, nor a folder of .bin"),
        ("{}", "no such file, nor a folder of .bin"),
        ("memory://{}", "no such file, nor a folder of .bin"),
        ("oss://bucket/folder", "cannot open oss://bucket/folder: Install ossfs"),
        ("nosuch://bucket", "cannot open nosuch://bucket: Protocol not known"),
    ],
)
def test_what_is_not_there_is_named(place: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message):
        names(place.format(tmp_path))


def test_links_are_followed_as_hubs_keep_their_files(tmp_path: Path) -> None:
    (tmp_path / "blobs").mkdir()
    (tmp_path / "snapshot").mkdir()
    (tmp_path / "blobs" / "0123").write_bytes(DATA)
    (tmp_path / "snapshot" / "a.bin").symlink_to("../blobs/0123")
    (file,) = find_files(str(tmp_path / "snapshot"), (".bin",))
    assert (file.size, file.read(0, 5)) == (len(DATA), DATA[:5])


def test_what_is_local() -> None:
    assert local_path("a/b") == Path("a/b") != local_path("file:///a/b") == Path("/a/b")
    assert local_path("c:d") == Path("c:d")
    assert local_path("s3://a/b") is local_path("simplecache::s3://a/b") is None

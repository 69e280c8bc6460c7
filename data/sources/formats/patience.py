"""File systems that are tried again while they are out of reach."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fsspec import get_filesystem_class
from fsspec.config import conf
from fsspec.implementations.local import LocalFileSystem

from data.credentials import hidden
from data.sample import UnreachableError
from data.waits import SOURCE, waiting

logger = logging.getLogger(__name__)

#: Seconds between the first two attempts; each pause is twice as long as the one before.
FIRST, LONGEST = 0.5, 30.0
#: Seconds for which a server may be silent before an attempt has failed, at most and at least.
SILENCE, SHORTEST = 30.0, 5.0
#: Seconds that s3fs waits for a connection, and for an answer, unless they are configured.
_S3_SECONDS = {"connect_timeout": 5.0, "read_timeout": 15.0}
#: Errors that another attempt does not mend.
_DEFINITE = (
    FileNotFoundError,
    PermissionError,
    IsADirectoryError,
    NotADirectoryError,
    NotImplementedError,
    ImportError,
    TypeError,
    ValueError,
)
#: Likewise, of packages that need not be installed: module and name.
_DEFINITE_ELSEWHERE = {
    ("botocore.exceptions", "NoCredentialsError"),
    ("botocore.exceptions", "ParamValidationError"),
    ("botocore.exceptions", "PartialCredentialsError"),
    ("botocore.exceptions", "ProfileNotFound"),
    ("google.auth.exceptions", "DefaultCredentialsError"),
    ("ftplib", "error_perm"),
}
#: Beginning of what gcsfs says of HTTP's 403, as an OSError without a number.
_FORBIDDEN = "Forbidden: "
#: Answers of HTTP that say that there is nothing.
_NOTHING = (404, 410)
#: Answers of HTTP to what another attempt may get (RFC 9110): a time is over, too early, too many.
_LATER = (408, 425, 429)


def call_patiently(
    call: Callable[[], Any], named: Callable[[], str], seconds: float, key: str
) -> Any:
    """What `call` returns, which is tried again after errors that may pass.

    Args:
        named: gives the name of the place, for messages.
        seconds: how long it is tried again; an attempt that has begun is not cut short.
        key: key of the configuration that names the place.

    Raises:
        UnreachableError: no attempt has succeeded. Others: those of `call` that do not pass.
    """
    with waiting(key, named(), seconds):
        return _call_repeatedly(call, named, seconds, key)


def _call_repeatedly(
    call: Callable[[], Any], named: Callable[[], str], seconds: float, key: str
) -> Any:
    begin, pause = time.monotonic(), FIRST
    while True:
        try:
            result = call()
        except Exception as raised:  # every file system has errors of its own
            error = _root_cause(raised)
            if _is_definite(error):
                raise error from error.__cause__
            elapsed = time.monotonic() - begin
            left = seconds - elapsed
            why = hidden(f"{type(error).__name__}: {error}")
            if left <= 0:
                raise UnreachableError(
                    f"{key}: {named()} has been out of reach for {elapsed:.3g} s "
                    f"(retry_seconds {seconds:g}), at last with {why}"
                ) from error
            if pause == FIRST:
                logger.warning(
                    "%s is out of reach, and is tried again for %.0f s: %s", named(), left, why
                )
            time.sleep(min(pause * random.uniform(0.5, 1), left))
            pause = min(2 * pause, LONGEST)
        else:
            if pause > FIRST:
                elapsed = time.monotonic() - begin
                logger.warning("%s is in reach again, after %.1f s", named(), elapsed)
            return result


def timeout_options(place: str, seconds: float) -> dict[str, dict[str, Any]]:
    """Options of fsspec's file systems for a URL by protocol, by which silence ends an attempt.

    What fsspec's own configuration says stays. Other protocols than these have limits of their own,
    or none: fsspec does not know how they are given.

    Args:
        seconds: how long a call is tried again.
    """
    options = {}
    for protocol in (part.partition("://")[0] for part in place.split("::")):
        if defaults := _protocol_timeouts(
            protocol, min(SILENCE, max(SHORTEST, seconds or SILENCE))
        ):
            options[protocol] = _merge_options(defaults, protocol)
    return options


def _protocol_timeouts(protocol: str, silence: float) -> dict[str, Any]:
    if protocol in ("http", "https", "gs", "gcs"):
        get_filesystem_class(protocol)  # says what it needs if that is not installed
        import aiohttp

        timeout = aiohttp.ClientTimeout(total=None, sock_connect=silence, sock_read=silence)
        over_http = protocol.startswith("http")
        return (
            {"client_kwargs": {"timeout": timeout}} if over_http else {"requests_timeout": timeout}
        )
    if protocol in ("s3", "s3a"):
        timeouts = {key: min(usual, silence) for key, usual in _S3_SECONDS.items()}
        # s3fs makes five attempts itself.
        return {"config_kwargs": {**timeouts, "retries": {"total_max_attempts": 1}}}
    if protocol == "ftp":
        return {"timeout": silence}
    if protocol == "github":
        return {"timeout": (silence, silence)}
    return {}


def _merge_options(defaults: dict[str, Any], protocol: str) -> dict[str, Any]:
    """Options over which those of fsspec's configuration go."""
    names = get_filesystem_class(protocol).protocol
    for name in (names,) if isinstance(names, str) else names:
        for key, value in conf.get(name, {}).items():
            if key in defaults:
                defaults[key] = (
                    {**defaults[key], **value} if isinstance(defaults[key], dict) else value
                )
    return defaults


@dataclass(frozen=True)
class PatientFileSystem:
    """fsspec's file system, whose calls are tried again after errors that may pass.

    Pauses grow, and are drawn from their second half, so that the hosts of a run do not come back
    all at once. Every call raises UnreachableError if no attempt within `seconds` has succeeded;
    errors that do not pass, such as FileNotFoundError, PermissionError, HTTP's 401 and 403 in
    the forms of s3fs, gcsfs, huggingface_hub and aiohttp, and credentials that are missing, are
    raised at once.

    Attributes:
        system: file system of fsspec.
        seconds: how long a call is tried again.
        key: key of the configuration that names the place, for messages.
        head: what precedes the paths of the file system in the place that is configured, such as
            its host; None: as the file system itself says.
    """

    system: Any
    seconds: float
    key: str = SOURCE
    head: str | None = None

    def cat_file(self, path: str, start: int = 0, end: int | None = None) -> bytes:
        # By their names: in some file systems other parameters come first.
        return bytes(
            self._call_patiently(path, lambda: self.system.cat_file(path, start=start, end=end))
        )

    def info(self, path: str) -> Any:
        return self._call_patiently(path, lambda: self.system.info(path))

    def isdir(self, path: str) -> bool:
        return bool(self._call_patiently(path, lambda: self.system.isdir(path)))

    def glob(self, path: str, **options: Any) -> Any:
        return self._call_patiently(path, lambda: self.system.glob(path, **options))

    def find(self, path: str, **options: Any) -> Any:
        return self._call_patiently(path, lambda: self.system.find(path, **options))

    def pipe_file(self, path: str, value: bytes) -> None:
        self._call_patiently(path, lambda: self.system.pipe_file(path, value))

    def put_file(self, here: str, path: str) -> None:
        if isinstance(self.system, LocalFileSystem):  # which alone needs the folder beforehand
            self.system.makedirs(self.system._parent(path), exist_ok=True)
        self._call_patiently(path, lambda: self.system.put_file(here, path))

    def get_file(self, path: str, here: str) -> None:
        self._call_patiently(path, lambda: self.system.get_file(path, here))

    def mv(self, path: str, to: str, *, recursive: bool = False) -> None:
        if isinstance(self.system, LocalFileSystem):  # as in `put_file`
            self.system.makedirs(self.system._parent(to), exist_ok=True)
        self._call_patiently(path, lambda: self.system.mv(path, to, recursive=recursive))

    def rm(self, path: str) -> None:
        self._call_patiently(path, lambda: self.system.rm(path, recursive=True))

    def unstrip_protocol(self, path: str) -> str:
        return str(self.system.unstrip_protocol(path))

    def _call_patiently(self, path: str, call: Callable[[], Any]) -> Any:
        return call_patiently(call, lambda: self.display_name(path), self.seconds, self.key)

    def display_name(self, path: str) -> str:
        """`path` as a URL, for messages."""
        if self.head is not None:
            return hidden(self.head + path)
        try:
            return hidden(self.unstrip_protocol(path))
        except (AttributeError, ValueError):  # file systems that have no protocol
            return hidden(path)


def _root_cause(error: Exception) -> Exception:
    """The error that caused another.

    Over HTTP fsspec reports every failure of `info` as a missing file, with its cause: the answer's
    status, or a connection that was not made.
    """
    cause = error.__cause__
    if not isinstance(error, FileNotFoundError) or not isinstance(cause, Exception):
        return error
    over_http = type(cause).__module__.startswith("aiohttp.") or isinstance(cause, TimeoutError)
    return cause if over_http and _http_status(cause) not in _NOTHING else error


def _is_definite(error: Exception) -> bool:
    """Whether another attempt would end in the same way."""
    status = _http_status(error)
    if status is not None:
        return 400 <= status < 500 and status not in _LATER
    kinds = {(kind.__module__, kind.__qualname__) for kind in type(error).__mro__}
    return isinstance(error, _DEFINITE) or bool(kinds & _DEFINITE_ELSEWHERE) or _is_forbidden(error)


def _is_forbidden(error: Exception) -> bool:
    return type(error) is OSError and error.errno is None and str(error).startswith(_FORBIDDEN)


def _http_status(error: Exception) -> int | None:
    """The status of HTTP's answer that an error has, if it has one.

    aiohttp has it in `status`, gcsfs in `code`, huggingface_hub in its response.
    """
    response = getattr(error, "response", None)
    for owner, name in ((error, "status"), (response, "status_code"), (error, "code")):
        status = getattr(owner, name, None)
        if isinstance(status, int):
            return status
    return None

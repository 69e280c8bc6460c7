"""File systems that are tried again while they are out of reach."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fsspec.implementations.local import LocalFileSystem

from data.credentials import hidden
from data.sample import AwayError
from data.waits import SOURCE, waiting

logger = logging.getLogger(__name__)

#: Seconds between the first two attempts; each pause is twice as long as the one before.
FIRST, LONGEST = 0.5, 30.0
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
}
#: Beginning of what gcsfs says of HTTP's 403, as an OSError without a number.
_FORBIDDEN = "Forbidden: "
#: Answers of HTTP that say that there is nothing.
_NOTHING = (404, 410)
#: Answers of HTTP to what another attempt may get (RFC 9110): a time is over, too early, too many.
_LATER = (408, 425, 429)


@dataclass(frozen=True)
class Patient:
    """fsspec's file system, whose calls are tried again after errors that may pass.

    Pauses grow, and are drawn from their second half, so that the hosts of a run do not come back
    all at once. Every call raises AwayError if no attempt within `seconds` has succeeded; errors
    that do not pass, such as FileNotFoundError, PermissionError, HTTP's 401 and 403 in the forms of
    s3fs, gcsfs, huggingface_hub and aiohttp, and credentials that are missing, are raised at once.

    Attributes:
        system: file system of fsspec.
        seconds: how long a call is tried again.
        key: key of the configuration that names the place, for messages.
    """

    system: Any
    seconds: float
    key: str = SOURCE

    def cat_file(self, path: str, start: int = 0, end: int | None = None) -> bytes:
        # By their names: in some file systems other parameters come first.
        return bytes(self._call(path, lambda: self.system.cat_file(path, start=start, end=end)))

    def info(self, path: str) -> Any:
        return self._call(path, lambda: self.system.info(path))

    def isdir(self, path: str) -> bool:
        return bool(self._call(path, lambda: self.system.isdir(path)))

    def glob(self, path: str, **options: Any) -> Any:
        return self._call(path, lambda: self.system.glob(path, **options))

    def find(self, path: str, **options: Any) -> Any:
        return self._call(path, lambda: self.system.find(path, **options))

    def pipe_file(self, path: str, value: bytes) -> None:
        self._call(path, lambda: self.system.pipe_file(path, value))

    def put_file(self, here: str, path: str) -> None:
        if isinstance(self.system, LocalFileSystem):  # which alone needs the folder beforehand
            self.system.makedirs(self.system._parent(path), exist_ok=True)
        self._call(path, lambda: self.system.put_file(here, path))

    def get_file(self, path: str, here: str) -> None:
        self._call(path, lambda: self.system.get_file(path, here))

    def mv(self, path: str, to: str, *, recursive: bool = False) -> None:
        if isinstance(self.system, LocalFileSystem):  # as in `put_file`
            self.system.makedirs(self.system._parent(to), exist_ok=True)
        self._call(path, lambda: self.system.mv(path, to, recursive=recursive))

    def rm(self, path: str) -> None:
        self._call(path, lambda: self.system.rm(path, recursive=True))

    def unstrip_protocol(self, path: str) -> str:
        return str(self.system.unstrip_protocol(path))

    def _call(self, path: str, call: Callable[[], Any]) -> Any:
        with waiting(self.key, self.named(path), self.seconds):
            return self._tried(path, call)

    def _tried(self, path: str, call: Callable[[], Any]) -> Any:
        begin, pause = time.monotonic(), FIRST
        while True:
            try:
                found = call()
            except Exception as told:  # every file system has errors of its own
                error = _true(told)
                if _is_definite(error):
                    raise error from error.__cause__
                left = self.seconds - (time.monotonic() - begin)
                self._note(path, error, left, pause == FIRST)
                time.sleep(min(pause * random.uniform(0.5, 1), left))
                pause = min(2 * pause, LONGEST)
            else:
                if pause > FIRST:
                    spent = time.monotonic() - begin
                    logger.warning("%s is in reach again, after %.1f s", self.named(path), spent)
                return found

    def _note(self, path: str, error: Exception, left: float, first: bool) -> None:
        """Tell of a failed attempt. Raises AwayError if it was the last one."""
        why = hidden(f"{type(error).__name__}: {error}")
        if left <= 0:
            raise AwayError(
                f"{self.key}: {self.named(path)} has been out of reach for "
                f"{self.seconds:g} s (retry_seconds), at last with {why}"
            ) from error
        if first:
            logger.warning(
                "%s is out of reach, and is tried again for %.0f s: %s", self.named(path), left, why
            )

    def named(self, path: str) -> str:
        """`path` as a URL, for messages."""
        try:
            return hidden(self.unstrip_protocol(path))
        except (AttributeError, ValueError):  # file systems that have no protocol
            return hidden(path)


def _true(error: Exception) -> Exception:
    """The error behind another.

    Over HTTP fsspec tells every failure of `info` as a missing file, with its cause: the answer's
    status, or a connection that was not made.
    """
    cause = error.__cause__
    if not isinstance(error, FileNotFoundError) or not isinstance(cause, Exception):
        return error
    over_http = type(cause).__module__.startswith("aiohttp.") or isinstance(cause, TimeoutError)
    return cause if over_http and _status(cause) not in _NOTHING else error


def _is_definite(error: Exception) -> bool:
    """Whether another attempt would end in the same way."""
    status = _status(error)
    if status is not None:
        return 400 <= status < 500 and status not in _LATER
    kinds = {(kind.__module__, kind.__qualname__) for kind in type(error).__mro__}
    return isinstance(error, _DEFINITE) or bool(kinds & _DEFINITE_ELSEWHERE) or _forbids(error)


def _forbids(error: Exception) -> bool:
    return type(error) is OSError and error.errno is None and str(error).startswith(_FORBIDDEN)


def _status(error: Exception) -> int | None:
    """The status of HTTP's answer that an error tells of, if it does.

    aiohttp has it in `status`, gcsfs in `code`, huggingface_hub in its response.
    """
    response = getattr(error, "response", None)
    for owner, name in ((error, "status"), (response, "status_code"), (error, "code")):
        status = getattr(owner, name, None)
        if isinstance(status, int):
            return status
    return None

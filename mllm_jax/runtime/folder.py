"""The folder of a run: it takes files, and has room for them."""

from __future__ import annotations

import logging
import os
import platform
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from data.folders import may_pass
from mllm_jax.runtime.records import RecordDamageError, check_text, signed_text, write_atomically

logger = logging.getLogger(__name__)

#: A run folder with less room than this is refused; checkpoints are checked by their size.
FREE_BYTES = 64 * 2**20
#: File that tells the run of a folder from others that were there before.
IDENTITY = ".identity"
#: File in which process 0 keeps the figures of steps.
METRICS = "metrics.jsonl"
#: File with the configuration of the run, every default filled in.
RESOLVED = "resolved.yaml"


class RunError(RuntimeError):
    """A run that cannot start or cannot go on."""


class UnwritableError(RunError):
    """A folder of a run that cannot be written at the moment; a later start may succeed."""


def prepare_folder(folder: Path, *, lenient: bool = False) -> None:
    """Make the run's folder and see that it takes files.

    Args:
        lenient: warn of a disk that is full or does not answer, and go on.

    Raises:
        RunError: the folder cannot be written.
        UnwritableError: its disk is full, or does not answer.
    """
    # Processes of several hosts may do that at once.
    probe = folder / f".writable-{os.getpid()}-{platform.node()}"
    with report_write_errors(f"folder {folder}", lenient=lenient):
        folder.mkdir(parents=True, exist_ok=True)
        try:
            probe.write_bytes(b"x")
        finally:
            probe.unlink(missing_ok=True)
    check_space(folder, 0, lenient=lenient)


def has_trained(folder: Path) -> bool:
    """Whether the folder of a run has figures of a step."""
    path = folder / METRICS
    return path.is_file() and path.stat().st_size > 0


def steps_in(folder: Path) -> list[int]:
    """Steps whose checkpoints are complete in the folder of a run."""
    return sorted(
        int(path.name) for path in (folder / "checkpoints").glob("*") if path.name.isdigit()
    )


@contextmanager
def report_write_errors(what: str, *, lenient: bool = False) -> Iterator[None]:
    """Context that writes to a run's folder; OSErrors become errors of the run.

    Args:
        what: what is written, for people.
        lenient: as of `prepare_folder`.

    Raises:
        RunError: instead of an OSError. UnwritableError: the disk is full, or does not answer.
    """
    try:
        yield
    except OSError as error:
        message = (
            f"{what} cannot be written: {error.strerror}; choose another run.directory (or "
            "--output, where it is given)"
        )
        if not may_pass(error):
            raise RunError(message) from error
        _report_problem(message, lenient=lenient)


@contextmanager
def created_folder(folder: Path, *ignored: str, lenient: bool = False) -> Iterator[None]:
    """Context in which `folder` is there; an error removes a new one that nothing was written to.

    Args:
        ignored: names of files in it that count as nothing.
        lenient: as of `prepare_folder`.

    Raises:
        RunError: as of `prepare_folder`.
    """
    new = not folder.exists()
    prepare_folder(folder, lenient=lenient)
    try:
        yield
    except BaseException:
        if new and {path.name for path in folder.iterdir()} <= {*ignored}:
            shutil.rmtree(folder, ignore_errors=True)
        raise


def ensure_identity(folder: Path) -> str:
    """Return the identity of the run in a folder; the first start creates it."""
    identity = read_identity(folder)
    if identity is None:
        identity = secrets.token_hex(8)
        write_identity(folder, identity)
    return identity


def write_identity(folder: Path, identity: str) -> None:
    """Write the identity of the run in a folder, with a checksum."""
    write_atomically(
        folder / IDENTITY, signed_text(f"{identity}\n"), part=f"{IDENTITY}-{os.getpid()}"
    )


def read_identity(folder: Path) -> str | None:
    """The identity of the run in a folder; None if it has none. A damaged one is removed."""
    path = folder / IDENTITY
    if not path.exists():
        return None
    with suppress(RecordDamageError):
        check_text(path)
        text = path.read_bytes().partition(b"\n")[0]
        if re.fullmatch(rb"[0-9a-z]+", text):
            return text.decode()
    path.unlink(missing_ok=True)
    logger.warning("%s is damaged and removed: snapshots in memory count as another run's", path)
    return None


def check_space(folder: Path, needed_bytes: int, *, lenient: bool = False) -> None:
    """Check that there is room for `needed_bytes` of checkpoints, and for logs.

    Args:
        lenient: as of `prepare_folder`.

    Raises:
        UnwritableError: there is not.
    """
    free = shutil.disk_usage(folder).free
    needed = FREE_BYTES + needed_bytes
    if free < needed:
        _report_problem(
            f"run folder {folder}: {free / 2**20:.0f} MiB are free, checkpoints and logs need "
            f"{needed / 2**20:.0f} MiB; free some space or choose another run.directory",
            lenient=lenient,
        )


def _report_problem(what: str, *, lenient: bool) -> None:
    if not lenient:
        raise UnwritableError(what)
    logger.warning("%s. Training goes on; what cannot be saved is logged, and tried again", what)

"""The place of a run's copies, and its files.

A checkpoint is copied beside training as soon as it is whole in the run's folder::

    <checkpoint.copy_to>/<run.name>/<step>/...               its files, as they lie in the folder
                                   /<step>-0-of-2.json       what process 0 has copied: written last
                                   /metrics.jsonl, ...       records of the run, see `RECORDS`

Each process copies a part of the files. A copy is whole when all of its processes have said, within
one start of the run, what they have copied.
"""

from __future__ import annotations

import logging
import os
import platform
import re
import shutil
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pydantic import BaseModel, ConfigDict, ValidationError

from data.credentials import hidden
from data.sample import StorageError
from data.sources.formats.storage import open_remote
from mllm_jax.config.load import ExperimentConfig
from mllm_jax.runtime.folder import RESOLVED, RunError, read_identity, write_identity
from mllm_jax.runtime.records import write_atomically
from mllm_jax.train.state.saved import quarantine_checkpoint, verify_checkpoint

logger = logging.getLogger(__name__)

#: Files of the run's folder that are copied as well, as `report` and a continued run read them.
RECORDS = (RESOLVED, "metrics.jsonl", "skipped.jsonl", "summary.json")
#: Beginning of the names of folders of what is being fetched.
FETCH_PREFIX = "fetched-"
#: Key of the configuration that names the place.
KEY = "checkpoint.copy_to"
_NOTE = re.compile(r"(\d+)-(\d+)-of-(\d+)\.json")


@dataclass(frozen=True)
class CheckpointMirror:
    """A whole copy of a checkpoint.

    Attributes:
        step: step of the checkpoint.
        run: identity of the run that has saved it.
        files: paths of its files in its folder.
    """

    step: int
    run: str
    files: tuple[str, ...]


class _MirrorNote(BaseModel):
    """What a process has copied in a start of a run; earlier versions did not name the start."""

    model_config = ConfigDict(strict=True)
    run: str
    start: str = ""
    files: list[str]


class MirrorStore:
    """The copies of one run.

    Errors of the file system become a StorageError, or an UnreachableError if the place stays out
    of reach.

    Args:
        config: configuration of the run, which has `checkpoint.copy_to`.

    Raises:
        DataError: the URL cannot be opened.
    """

    def __init__(self, config: ExperimentConfig) -> None:
        settings = config.checkpoint
        assert settings.copy_to is not None, "a store has a place"
        self._system, base = open_remote(settings.copy_to, settings.retry_seconds, KEY)
        self._base = f"{base.rstrip('/')}/{config.run.name}"

    def __str__(self) -> str:
        return self._system.display_name(self._base)

    @property
    def retry_seconds(self) -> float:
        """Seconds for which the place is tried again while it is out of reach."""
        return self._system.seconds

    def list_copies(self) -> list[CheckpointMirror]:
        """The whole copies, the newest first."""
        notes_by_copy: dict[tuple[int, int, str], list[_MirrorNote]] = defaultdict(list)
        with self._asking_file_system():
            for path, note in self._readable_notes():
                step, _, count = map(int, _note_parts(path))
                notes_by_copy[step, count, note.start].append(note)
        complete = [
            CheckpointMirror(
                step, notes[0].run, tuple(name for note in notes for name in note.files)
            )
            for (step, count, _), notes in notes_by_copy.items()
            if len(notes) == count
        ]
        return sorted(complete, key=lambda copy: copy.step, reverse=True)

    def copy_part(self, folder: Path, run: str, place: tuple[int, int], start: str = "") -> None:
        """Copy a part of a checkpoint.

        Args:
            folder: folder of the checkpoint.
            run: identity of the run.
            place: number of this process, and of all.
            start: name of this start of the run.

        Raises:
            StorageError: the place takes no files, or the checkpoint is not there any more.
        """
        process, count = place
        with self._asking_file_system():
            names = [p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()]
            names_of_process = sorted(names)[process::count]
            for name in names_of_process:
                self._system.put_file(str(folder / name), f"{self._base}/{folder.name}/{name}")
            note = (
                _MirrorNote(run=run, start=start, files=names_of_process).model_dump_json().encode()
            )
            self._system.pipe_file(f"{self._base}/{folder.name}-{process}-of-{count}.json", note)

    def put_records(self, run: Path) -> None:
        """Copy the records in a run's folder, which are small.

        Raises:
            StorageError: the place takes no files, or a record cannot be read.
        """
        with self._asking_file_system():
            for name in RECORDS:
                if (run / name).is_file():
                    self._system.put_file(str(run / name), f"{self._base}/{name}")

    def fetch_records(self, run: Path) -> None:
        """Get the records that a run's folder lacks.

        Raises:
            OSError: they cannot be written here.
        """
        for name in RECORDS:
            path = f"{self._base}/{name}"
            if (run / name).exists():
                continue
            with self._asking_file_system():
                content = self._system.cat_file(path) if self._system.glob(path) else None
            if content is not None:
                write_atomically(run / name, content)

    def fetch_checkpoint(
        self, copy: CheckpointMirror, directory: Path, *, replaces: bool = False
    ) -> None:
        """Get a checkpoint into the folder of a run's checkpoints, whole or not at all.

        Several processes may do it at once.

        Args:
            replaces: whether a checkpoint of that step is there that is damaged, and is set aside.

        Raises:
            CheckpointDamageError: it has changed since it was written.
            OSError: it cannot be written here.
        """
        draft = directory / f"{FETCH_PREFIX}{copy.step}-{platform.node()}-{os.getpid()}"
        folder, final = draft / str(copy.step), directory / str(copy.step)
        try:
            for name in copy.files:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                with self._asking_file_system():
                    self._system.get_file(f"{self._base}/{copy.step}/{name}", str(folder / name))
            verify_checkpoint(folder)
            if replaces:
                quarantine_checkpoint(final, "damaged")
            if not final.exists():
                folder.rename(final)
        finally:
            shutil.rmtree(draft, ignore_errors=True)

    def keep_steps(self, steps: Sequence[int]) -> None:
        """Remove the copies of all steps but these and the newest."""
        steps = [*steps, *(copy.step for copy in self.list_copies()[:1])]
        with self._asking_file_system():
            for path in self._note_paths():
                step = _note_parts(path)[0]
                if int(step) not in steps:
                    self._system.rm(path)
                    with suppress(FileNotFoundError):  # another process has removed them
                        self._system.rm(f"{self._base}/{step}")

    def steps_of_other_starts(self, newest: int, start: str) -> list[int]:
        """Steps after `newest` of which another start has copied something."""
        with self._asking_file_system():
            starts = (
                (int(_note_parts(path)[0]), note.start) for path, note in self._readable_notes()
            )
            return sorted(
                {step for step, start_of_note in starts if step > newest and start_of_note != start}
            )

    def quarantine_newer(self, newest: int) -> list[int]:
        """Move copies of steps after `newest` to `newer-<step>-<time>`, where nothing finds them.

        They are of a course that the run has left. Returns their steps.
        """
        with self._asking_file_system():
            notes = [path for path in self._note_paths() if int(_note_parts(path)[0]) > newest]
            steps = sorted({int(_note_parts(path)[0]) for path in notes})
            to = {step: f"{self._base}/newer-{step}-{time.time_ns()}" for step in steps}
            for path in notes:  # first, as a copy without notes is none
                self._system.mv(path, f"{to[int(_note_parts(path)[0])]}/{PurePosixPath(path).name}")
            for step in steps:
                with suppress(FileNotFoundError):
                    self._system.mv(f"{self._base}/{step}", f"{to[step]}/{step}", recursive=True)
        return steps

    def remove_all(self) -> None:
        """Remove all copies."""
        with self._asking_file_system(), suppress(FileNotFoundError):  # there are none
            self._system.rm(self._base)

    def check_same(self, run: Path, copies: Sequence[CheckpointMirror]) -> None:
        """Check that copies belong to a run; a new run takes over their identity.

        Raises:
            RunError: they are of another one.
        """
        if not copies:
            return
        identity = read_identity(run)
        if identity is None:
            run.mkdir(parents=True, exist_ok=True)
            write_identity(run, copies[0].run)
        elif identity != copies[0].run:
            raise RunError(
                f"{KEY}: the checkpoints in {self} are of run {copies[0].run}, and {run} is "
                f"{identity}; choose another run.name or {KEY}, or remove one of them"
            )

    @contextmanager
    def _asking_file_system(self) -> Iterator[None]:
        """Context for calls of the file system."""
        try:
            yield
        except StorageError:
            raise
        except Exception as error:  # every file system has errors of its own
            raise StorageError(hidden(f"{KEY}: {self}: {type(error).__name__}: {error}")) from error

    def _note_paths(self) -> list[str]:
        self._system.system.invalidate_cache()  # which would not show what others have written
        paths = self._system.glob(f"{self._base}/*.json")
        return [path for path in paths if _NOTE.fullmatch(PurePosixPath(path).name)]

    def _readable_notes(self) -> Iterator[tuple[str, _MirrorNote]]:
        """Paths and contents of all notes that can be read."""
        for path in self._note_paths():
            with suppress(FileNotFoundError):  # another process has removed it
                content = self._system.cat_file(path)
                try:
                    note = _MirrorNote.model_validate_json(content)
                except ValidationError as error:
                    what = error.errors()[0]["msg"]
                    logger.warning(
                        "%s is no note of a copy: %s", self._system.display_name(path), what
                    )
                else:
                    yield path, note


def _note_parts(path: str) -> tuple[str, ...]:
    """Step, process and number of processes in the name of a note."""
    match = _NOTE.fullmatch(PurePosixPath(path).name)
    assert match is not None, path
    return match.groups()

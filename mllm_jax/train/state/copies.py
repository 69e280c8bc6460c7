"""Copies of checkpoints behind a URL: `s3://`, `gs://`, or any other file system of fsspec.

A checkpoint is copied beside training as soon as it is whole in the run's folder::

    <checkpoint.copy_to>/<run.name>/<step>/...               its files, as they lie in the folder
                                   /<step>-0-of-2.json       what process 0 has copied: written last
                                   /metrics.jsonl, ...       records of the run, see `RECORDS`

Each process copies a part of the files. A copy is whole when all of its processes have said what
they have copied; a start whose folder lacks the checkpoint fetches it from there, and so does what
reads a run whose folder has none. Records follow every checkpoint, and the end of the run. A place
that is out of reach holds up nothing: it is tried again, and what has no copy is told.
"""

from __future__ import annotations

import json
import logging
import os
import platform
import re
import shutil
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from data.sample import DataError
from data.sources.formats.storage import remote
from mllm_jax.config.load import ExperimentConfig, load
from mllm_jax.runtime.folder import IDENTITY, RunError, identity
from mllm_jax.runtime.part import peers
from mllm_jax.train.records.resolved import RESOLVED
from mllm_jax.train.records.sinks import write_atomically
from mllm_jax.train.state.saved import DamageError, SavedParameters, check_whole

logger = logging.getLogger(__name__)

#: Seconds between two looks for a checkpoint that is whole.
LOOK = 1.0
#: Files of the run's folder that are copied as well, as `report` and a continued run read them.
RECORDS = (RESOLVED, "metrics.jsonl", "skipped.jsonl", "summary.json")
_KEY = "checkpoint.copy_to"
#: Beginning of the names of folders of what is being fetched.
_DRAFT = "fetched-"
_NOTE = re.compile(r"(\d+)-(\d+)-of-(\d+)\.json")


@dataclass(frozen=True)
class Copy:
    """A whole copy of a checkpoint.

    Attributes:
        step: step of the checkpoint.
        run: identity of the run that has saved it.
        files: paths of its files in its folder.
    """

    step: int
    run: str
    files: tuple[str, ...]


class Store:
    """The copies of one run.

    Args:
        config: configuration of the run, which has `checkpoint.copy_to`.

    Raises:
        DataError: the URL cannot be opened.
    """

    def __init__(self, config: ExperimentConfig) -> None:
        own = config.checkpoint
        assert own.copy_to is not None, "a store has a place"
        self._system, base = remote(own.copy_to, own.retry_seconds, _KEY)
        self._base = f"{base.rstrip('/')}/{config.run.name}"

    def __str__(self) -> str:
        return self._system.named(self._base)

    def copies(self) -> list[Copy]:
        """The whole copies, the newest first.

        Raises:
            AwayError: the place stays out of reach.
        """
        notes: dict[tuple[int, int], list[Copy]] = defaultdict(list)
        for path in self._notes():
            step, _, count = map(int, _parts(path))
            told = json.loads(self._system.cat_file(path))
            notes[step, count].append(Copy(step, told["run"], tuple(told["files"])))
        whole = [
            Copy(step, parts[0].run, tuple(name for part in parts for name in part.files))
            for (step, count), parts in notes.items()
            if len(parts) == count
        ]
        return sorted(whole, key=lambda copy: copy.step, reverse=True)

    def put(self, folder: Path, run: str, place: tuple[int, int]) -> None:
        """Copy a part of a checkpoint.

        Args:
            folder: folder of the checkpoint.
            run: identity of the run.
            place: number of this process, and of all.

        Raises:
            OSError: the checkpoint is not there any more.
            StorageError: the place takes no files, or stays out of reach.
        """
        process, count = place
        names = sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())
        own = names[process::count]
        for name in own:
            self._system.put_file(str(folder / name), f"{self._base}/{folder.name}/{name}")
        note = json.dumps({"run": run, "files": own}).encode()
        self._system.pipe_file(f"{self._base}/{folder.name}-{process}-of-{count}.json", note)

    def put_records(self, run: Path) -> None:
        """Copy the records that a run's folder has; they are small.

        Raises:
            OSError: a record cannot be read.
            StorageError: the place takes no files, or stays out of reach.
        """
        for name in RECORDS:
            if (run / name).is_file():
                self._system.put_file(str(run / name), f"{self._base}/{name}")

    def fetch_records(self, run: Path) -> None:
        """Get the records that a run's folder lacks.

        Raises:
            OSError: they cannot be written here.
            StorageError: they cannot be read there.
        """
        for name in RECORDS:
            path = f"{self._base}/{name}"
            if not (run / name).exists() and self._system.glob(path):
                write_atomically(run / name, self._system.cat_file(path).decode())

    def fetch(self, copy: Copy, directory: Path) -> None:
        """Get a checkpoint into the folder of a run's checkpoints, whole or not at all.

        Several processes may do it at once.

        Raises:
            DamageError: it has changed since it was written.
            OSError: it cannot be written here.
            StorageError: it cannot be read there.
        """
        draft = directory / f"{_DRAFT}{copy.step}-{platform.node()}-{os.getpid()}"
        folder, whole = draft / str(copy.step), directory / str(copy.step)
        try:
            for name in copy.files:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                self._system.get_file(f"{self._base}/{copy.step}/{name}", str(folder / name))
            check_whole(folder)
            if not whole.exists():
                folder.rename(whole)
        finally:
            shutil.rmtree(draft, ignore_errors=True)

    def keep(self, steps: Sequence[int]) -> None:
        """Remove the copies of all steps but these and the newest.

        Raises:
            StorageError: the place stays out of reach.
        """
        steps = [*steps, *(copy.step for copy in self.copies()[:1])]
        for path in self._notes():
            step = _parts(path)[0]
            if int(step) not in steps:
                self._system.rm(path)
                with suppress(FileNotFoundError):  # another process has removed them
                    self._system.rm(f"{self._base}/{step}")

    def set_aside(self, newest: int) -> list[int]:
        """Move copies of steps after `newest` to `newer-<step>-<time>`, where nothing finds them.

        They are of a course that the run has left. Returns their steps.

        Raises:
            StorageError: the place stays out of reach.
        """
        notes = [path for path in self._notes() if int(_parts(path)[0]) > newest]
        steps = sorted({int(_parts(path)[0]) for path in notes})
        to = {step: f"{self._base}/newer-{step}-{time.time_ns()}" for step in steps}
        for path in notes:  # first, as a copy without notes is none
            self._system.mv(path, f"{to[int(_parts(path)[0])]}/{PurePosixPath(path).name}")
        for step in steps:
            with suppress(FileNotFoundError):
                self._system.mv(f"{self._base}/{step}", f"{to[step]}/{step}", recursive=True)
        return steps

    def clear(self) -> None:
        """Remove all copies.

        Raises:
            StorageError: the place stays out of reach.
        """
        with suppress(FileNotFoundError):  # there are none
            self._system.rm(self._base)

    def _notes(self) -> list[str]:
        self._system.system.invalidate_cache()  # which would not show what others have written
        found = self._system.glob(f"{self._base}/*.json")
        return [path for path in found if _NOTE.fullmatch(PurePosixPath(path).name)]


def _parts(path: str) -> tuple[str, ...]:
    """Step, process and number of processes in the name of a note."""
    match = _NOTE.fullmatch(PurePosixPath(path).name)
    assert match is not None, path
    return match.groups()


def fetch(config: ExperimentConfig, step: int | None = None, *, beside_others: bool = True) -> None:
    """Get the newest checkpoint that the run's folder lacks, or that of `step`, if there is a copy.

    Process 0 does it, for all that see the folder; the others wait.

    Args:
        config: configuration of the run.
        step: step of the checkpoint; None for the newest.
        beside_others: whether a newer one is fetched if the folder has checkpoints.

    Raises:
        RunError: the copies are of another run.
        DataError: the URL cannot be opened. AwayError: it stays out of reach.
    """
    wanted = config.checkpoint.copy_to is not None and config.checkpoint.enabled
    if wanted and peers().index == 0 and (beside_others or not _steps(config.run.path)):
        for left in (config.run.path / "checkpoints").glob(f"{_DRAFT}*"):  # of a start that ended
            shutil.rmtree(left, ignore_errors=True)
        _fetch(Store(config), config.run.path, step)
    if wanted:
        peers().gather("checkpoints are fetched", None)


def saved_parameters(run: Path) -> SavedParameters:
    """The parameters of a run's newest checkpoint, which is fetched if its folder has none.

    Raises:
        CheckpointError: there is none, here or in a store that the run's configuration names.
        ConfigError: the configuration in the folder is none. Exception: as of `fetch`.
    """
    kept = run / RESOLVED
    if not _steps(run) and kept.is_file():
        config = load(kept)
        if config.checkpoint.copy_to is not None:
            _fetch(Store(config), run, None)
    return SavedParameters(run / "checkpoints")


def _steps(run: Path) -> list[int]:
    """Steps whose checkpoints are whole in a run's folder."""
    folder = run / "checkpoints"
    return sorted(int(path.name) for path in folder.glob("*") if path.name.isdigit())


def _fetch(store: Store, run: Path, step: int | None) -> None:
    directory, here = run / "checkpoints", _steps(run)
    copies = store.copies()
    _check_same(store, run, copies)
    newest = max(here, default=0)
    for copy in copies:
        if copy.step in here or (copy.step <= newest if step is None else copy.step != step):
            continue
        try:
            store.fetch(copy, directory)
        except DamageError as error:
            logger.warning(
                "the copy of step %d in %s: %s; trying an older one", copy.step, store, error
            )
            continue
        store.fetch_records(run)
        logger.info("the checkpoint of step %d is fetched from %s", copy.step, store)
        return


def _check_same(store: Store, run: Path, copies: Sequence[Copy]) -> None:
    """See that copies are of this run; a run without a past goes on with theirs."""
    if not copies:
        return
    path = run / IDENTITY
    if not path.exists():
        run.mkdir(parents=True, exist_ok=True)
        path.write_text(copies[0].run)
    if path.read_text() != copies[0].run:
        raise RunError(
            f"{_KEY}: the checkpoints in {store} are of run {copies[0].run}, and {run} is "
            f"{path.read_text()}; choose another run.name or {_KEY}, or remove one of them"
        )


@contextmanager
def copying(config: ExperimentConfig) -> Iterator[None]:
    """Context in which the run's checkpoints are copied; its end waits for the last.

    Raises:
        DataError: the URL cannot be opened.
    """
    if config.checkpoint.copy_to is None or not config.checkpoint.enabled:
        yield
        return
    copier = _Copier(Store(config), config.run.path)
    try:
        yield
    except KeyboardInterrupt:  # which has saved what there is
        copier.finish()
        raise
    copier.finish()


def copy_records(config: ExperimentConfig) -> None:
    """Copy the records of a run that has ended beside its checkpoints; a failure is told."""
    if config.checkpoint.copy_to is not None and config.checkpoint.enabled and not peers().index:
        _put_records(Store(config), config.run.path)


def _put_records(store: Store, run: Path) -> None:
    try:
        store.put_records(run)
    except (OSError, DataError) as error:
        logger.warning("the records of the run have no copy in %s: %s", store, error)


class _Copier:
    """Copies, on a thread of its own."""

    def __init__(self, store: Store, run: Path) -> None:
        self._store, self._run = store, run
        self._identity, self._place = identity(run), (peers().index, peers().count)
        newest = max(_steps(run), default=0)
        if self._place[0] == 0 and (left := store.set_aside(newest)):
            told = ", ".join(map(str, left))
            logger.warning(
                "the run goes on after step %d: copies of steps %s in %s are set aside (newer-...)",
                *(newest, told, store),
            )
        self._copied = {copy.step for copy in store.copies() if copy.step <= newest}
        self._failed: set[int] = set()
        self._kept: list[int] = []
        self._over = threading.Event()
        # A daemon: a process that ends with an error waits for no store.
        self._thread = threading.Thread(target=self._go_on, name="copies", daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """Wait for the copies of what is saved."""
        self._over.set()
        with peers().doing("copying the last checkpoint", limited=False):
            self._thread.join()

    def _go_on(self) -> None:
        while True:
            over = self._over.wait(LOOK)
            steps = _steps(self._run)
            if steps and steps[-1] not in self._copied | self._failed:
                self._copy(steps[-1])
            self._tidy(steps)
            if over and _steps(self._run)[-1:] in ([], steps[-1:]):
                return

    def _copy(self, step: int) -> None:
        """Copy a checkpoint; a failure is told, and the next one is tried in its turn."""
        try:
            self._store.put(self._run / "checkpoints" / str(step), self._identity, self._place)
            self._copied.add(step)
            if self._place[0] == 0:
                _put_records(self._store, self._run)
        except (OSError, DataError) as error:
            self._failed.add(step)
            last = max(self._copied, default=None)
            newest = "none is there" if last is None else f"the newest there is that of step {last}"
            logger.warning(
                "the checkpoint of step %d has no copy in %s: %s; %s, and training goes on",
                *(step, self._store, error, newest),
            )

    def _tidy(self, steps: list[int]) -> None:
        """Remove copies of steps that are not kept here any more."""
        if self._place[0] or steps == self._kept or steps[-1:] != [max(self._copied, default=0)]:
            return
        try:
            self._store.keep(steps)
        except DataError as error:
            logger.warning("copies of older checkpoints are left in %s: %s", self._store, error)
        self._kept = steps

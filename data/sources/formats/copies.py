"""Local copies of files at URLs, for libraries that read local files alone."""

from __future__ import annotations

import hashlib
from pathlib import Path

from data.folders import put_folder
from data.media.file_bytes import STREAM
from data.sources.cache import in_cache
from data.sources.formats.storage import SourceFile


def local_copy(file: SourceFile, cache: Path) -> Path:
    """The path of a local file, or of a copy in `cache`, which is made once.

    Raises:
        DataError: there is no room for it, or the file cannot be reached.
    """
    if file.system is None:
        return Path(file.path)
    name = hashlib.sha256(f"{file.path} {file.size} {file.stamp}".encode()).hexdigest()[:16]
    folder = cache / f"copy-{name}"
    if not folder.is_dir():
        with in_cache(folder):
            put_folder(folder, lambda draft: _download_file(file, draft / file.name))
    return folder / file.name


def _download_file(file: SourceFile, path: Path) -> None:
    with path.open("wb") as copy:
        for start in range(0, file.size, STREAM):
            copy.write(file.read(start, min(STREAM, file.size - start)))

"""Folders that exist completely or not at all."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path


def put_folder(folder: Path, write: Callable[[Path], None], *, replace: bool = False) -> None:
    """Make `folder` with the contents that `write` puts into the folder given to it.

    It is written under another name and then renamed, so that a reader sees the whole folder or
    none, and nothing is left behind if `write` fails. If several processes make the same folder at
    once, the first one wins. With `replace` the folder may exist already; processes that have
    mapped its files keep them.

    Raises:
        OSError: the folder cannot be written.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    names = "draft-", "old-"
    draft, old = (Path(tempfile.mkdtemp(prefix=name, dir=folder.parent)) for name in names)
    try:
        write(draft)
        draft.chmod(0o755)
        try:
            if replace and folder.is_dir():
                folder.rename(old)
            draft.rename(folder)
        except OSError:
            # Another process may have put the same contents there first.
            if not folder.is_dir():
                raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)

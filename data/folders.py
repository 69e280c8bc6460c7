"""Folders that are there whole or not at all."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path


def put_folder(folder: Path, write: Callable[[Path], None]) -> None:
    """Make `folder` of what `write` writes into the folder that it is given.

    It is written under another name and then renamed, so that a reader sees all of it or nothing,
    and nothing is left behind if `write` fails. Of processes that put the same contents into the
    same place at once, the first one wins.

    Raises:
        OSError: it cannot be written.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix="draft-", dir=folder.parent))
    try:
        write(draft)
        draft.chmod(0o755)
        draft.rename(folder)
    except OSError:
        # Another process may have put the same contents there first.
        if not folder.is_dir():
            raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)

"""Caches of one session of tests, shared by all of its processes; imported before all else.

What one test has compiled, the next need not, and nothing lands in the user's caches. Where the
environment keeps Python from writing bytecode, the session has a folder for that, too: each process
of pytest-xdist, and many that tests start, would compile all that it imports. The main process
imports most of it before they start.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path


def _begun() -> Path | None:
    """The folder, where this process is the session's first."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        return None
    folder = Path(tempfile.mkdtemp(prefix="mllm_jax-caches-"))
    os.environ["XDG_CACHE_HOME"] = str(folder)
    if sys.dont_write_bytecode:
        sys.dont_write_bytecode, sys.pycache_prefix = False, str(folder / "bytecode")
        os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    return folder


_FOLDER = _begun()


def remove() -> None:
    """Remove what this process has begun."""
    if _FOLDER is not None:
        shutil.rmtree(_FOLDER, ignore_errors=True)

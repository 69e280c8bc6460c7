"""Caches of one session of tests, shared by all of its processes; imported before all else.

What one test has compiled, the next need not, and nothing is left in the user's caches.

Where the environment keeps Python from writing bytecode, bytecode has a folder of its own: each
process of pytest-xdist, and many that tests start, would compile all that it imports. The main
process imports most of it before they start. The next session finds it there, but for that of
files which tests have written.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: Bytecode of all sessions in this working tree; `make clean` removes it.
BYTECODE = ROOT / ".cache" / "bytecode"


def _begun() -> Path | None:
    """The folder, where this process is the session's first."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        return None
    folder = Path(tempfile.mkdtemp(prefix="mllm_jax-caches-"))
    os.environ["XDG_CACHE_HOME"] = str(folder)
    if sys.dont_write_bytecode:
        sys.dont_write_bytecode, sys.pycache_prefix = False, str(BYTECODE)
        os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    return folder


_FOLDER = _begun()


def remove() -> None:
    """Remove what this process has begun, and bytecode of files that no longer exist."""
    if _FOLDER is not None:
        shutil.rmtree(_FOLDER, ignore_errors=True)
        shutil.rmtree(temporary_bytecode(), ignore_errors=True)


def temporary_bytecode() -> Path:
    """Where the bytecode of temporary files lies."""
    folder = Path(tempfile.gettempdir()).resolve()
    return BYTECODE / folder.relative_to(folder.anchor)

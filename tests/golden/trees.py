"""Two trees of the project, and what their commands write."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parents[2]


class CommandError(Exception):
    """A command has failed."""


@dataclass(frozen=True)
class Tree:
    """A working tree, and the folder in which its commands run.

    Attributes:
        code: root of the working tree.
        home: folder of runs, caches and whatever else its commands write.
    """

    code: Path
    home: Path

    def launch(self, *arguments: str, **environment: str) -> str:
        """Run `launch.py` in `home`; what it prints on stdout.

        Raises:
            CommandError: the exit code is not 0.
        """
        self.home.mkdir(parents=True, exist_ok=True)
        # The tree's own packages come before those of an editable install.
        more = {"PYTHONPATH": str(self.code), "JAX_PLATFORMS": "cpu"} | environment
        done = subprocess.run(
            [sys.executable, str(self.code / "launch.py"), *arguments],
            cwd=self.home,
            env={**os.environ, **more},
            capture_output=True,
            text=True,
        )
        if done.returncode:
            told = f"{done.stdout}{done.stderr}".strip()[-2000:]
            raise CommandError(f"{self.code}: {' '.join(arguments)}: {done.returncode}\n{told}")
        return done.stdout

    def config(self, path: str) -> str:
        """A file of the tree's `configs`."""
        return str(self.code / "configs" / path)


def machine() -> str:
    """Short digest of what the bits of a computation depend on, beside the program."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    cpu = sorted({line for line in lines if re.match(r"model name|flags", line)})
    what = [*cpu, str(os.cpu_count()), platform.python_version(), version("jax"), version("jaxlib")]
    return hashlib.sha256("\n".join(what).encode()).hexdigest()[:12]


def commit_of(name: str) -> str:
    """The full name of a commit."""
    return _git("rev-parse", "--verify", f"{name}^{{commit}}").strip()


@contextmanager
def checked_out(commit: str, folder: Path) -> Iterator[Path]:
    """Context with the working tree of a commit, which is removed after it."""
    path = folder / f"tree-{commit[:12]}"
    if path.exists():
        _git("worktree", "remove", "--force", str(path))
    _git("worktree", "add", "--detach", "--quiet", str(path), commit)
    try:
        yield path
    finally:
        _git("worktree", "remove", "--force", str(path))


def emptied(folder: Path) -> Path:
    """A folder without anything in it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, check=True, stdout=subprocess.PIPE)
    return done.stdout.decode()

"""A copy of the working tree, in which breaks are made and tests run; the tree stays as it is."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.breaks.points import Break

#: Tests that `make test` runs.
MARKED = "not slow and not gpu and not slurm"
#: Warning of plugins that are imported before pytest begins.
IMPORTED = "ignore:Module already imported so cannot:pytest.PytestAssertRewriteWarning"
#: Exit codes of pytest: all tests have passed, and no test was found.
PASSED, NONE = 0, 5
#: That of a fork in which pytest itself raises an error.
FAILED_TO_RUN = 70
#: What the tests import, listed but for modules of the project.
_LIST = """
import json, sys
from pathlib import Path
import _pytest.assertion.rewrite, tests.conftest, mllm_jax.train.trainer, mllm_jax.api
root = str(Path.cwd())
files = {n: getattr(m, "__file__", None) or "" for n, m in sys.modules.items()}
own = {n.split(".")[0] for n, f in files.items() if f.startswith(root) and ".venv" not in f}
print(json.dumps([n for n in files if n.split(".")[0] not in own and n != "__main__"]))
"""


@dataclass(frozen=True)
class Outcome:
    """How a session of tests has ended.

    Attributes:
        code: exit code of pytest; below 0 if the session took too long.
        test: the first test that failed, or what else has ended the session; empty if none.
        seconds: seconds of CPU time.
    """

    code: int
    test: str
    seconds: float

    @property
    def passed(self) -> bool:
        """Whether no test has failed."""
        return self.code in (PASSED, NONE)

    @property
    def late(self) -> bool:
        """Whether the session took too long."""
        return self.code < 0


class Copied:
    """A copy of the tree, and the process whose forks run its tests."""

    def __init__(self, folder: Path) -> None:
        self._folder, self.root = folder, folder / "tree"
        self._made = 0
        self._zygote = subprocess.Popen(
            [sys.executable, "tests/breaks/zygote.py"],
            cwd=self.root,
            env=self._environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        listed = [sys.executable, "-c", _LIST]
        names = subprocess.run(
            listed, cwd=self.root, env=self._environment(), check=True, stdout=subprocess.PIPE
        ).stdout
        self._tell(json.loads(names.splitlines()[-1]))

    def check(self, files: Iterable[str]) -> None:
        """Check that some files of tests can be collected without any break.

        Raises:
            RuntimeError: they cannot, so that every break would count as noticed.
        """
        code, _, log = self._session(["--collect-only", *sorted({*files})], seconds=3600.0)
        if code not in (PASSED, NONE):
            raise RuntimeError(f"tests cannot be collected without a break: {log[-2000:]}")

    def run(self, files: Sequence[str], seconds: float) -> Outcome:
        """Run the quick tests of some files till one fails, or for so many seconds of CPU time."""
        code, used, log = self._session(["-x", *files], seconds)
        found = [] if code < 0 or code in (PASSED, NONE) else _failed(log)
        told = found[0] if found else f"pytest ended with code {code}"
        return Outcome(code, "" if code < 0 or code in (PASSED, NONE) else told, used)

    def failing(self, tests: Iterable[str]) -> set[str]:
        """Those of some tests, `file::function`, that fail without any break."""
        chosen = sorted(set(tests))
        if not chosen:
            return set()
        code, _, log = self._session(chosen, seconds=3600.0)
        if code < 0:
            raise RuntimeError("the tests that noticed breaks take too long without one")
        return {name.partition("[")[0] for name in _failed(log)}

    def _session(self, arguments: Sequence[str], seconds: float) -> tuple[int, float, str]:
        """Exit code, seconds of CPU time and output of a session of pytest."""
        log, temporary = self._folder / "log", self._folder / "tmp"
        temporary.mkdir(exist_ok=True)
        options = ["-q", "-n", "0", "-m", MARKED, "-p", "no:cacheprovider"]
        # Limits of tests are of a clock, on which other programs count.
        options += ["-W", IMPORTED, "--timeout", "0", "--order", "written"]
        self._tell({"arguments": [*options, *arguments], "log": str(log), "seconds": seconds})
        assert self._zygote.stdout is not None
        code, used = json.loads(self._zygote.stdout.readline())
        shutil.rmtree(temporary, ignore_errors=True)
        told = log.read_text(errors="replace")
        if code == FAILED_TO_RUN:
            raise RuntimeError(f"pytest has not run: {told[-2000:]}")
        return code, used, told

    @contextmanager
    def broken(self, own: Break) -> Iterator[None]:
        """Context in which the copy has a break."""
        path = self.root / own.path
        source, times = path.read_bytes(), path.stat()
        path.write_bytes(own.made(source))
        # Bytecode belongs to a source by its size and its time in seconds, another one for each.
        self._made += 1
        os.utime(path, (times.st_atime, times.st_mtime + self._made))
        try:
            yield
        finally:
            path.write_bytes(source)
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))

    def close(self) -> None:
        """End the process, and the tests that it runs."""
        self._zygote.terminate()
        self._zygote.communicate()

    def _tell(self, what: object) -> None:
        assert self._zygote.stdin is not None
        self._zygote.stdin.write(f"{json.dumps(what)}\n")
        self._zygote.stdin.flush()

    def _environment(self) -> dict[str, str]:
        own = {"PYTHONPATH": str(self.root), "TMPDIR": str(self._folder / "tmp")}
        (self._folder / "tmp").mkdir(exist_ok=True)
        return os.environ | own


def _failed(log: str) -> list[str]:
    """Names of the tests that failed, up to the first blank in the name of a case."""
    return re.findall(r"^(?:FAILED|ERROR) (\S+)", log, re.MULTILINE)


@contextmanager
def copied(root: Path) -> Iterator[Copied]:
    """Context with a copy of what git knows, or does not ignore, of the working tree."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=root, check=True, stdout=subprocess.PIPE, text=True).stdout
    with tempfile.TemporaryDirectory(prefix="mllm_jax-breaks-", ignore_cleanup_errors=True) as own:
        for name in names.split("\0"):
            if name and (root / name).is_file():
                (Path(own) / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(root / name, Path(own) / "tree" / name)
        if (root / ".venv").exists():
            (Path(own) / "tree" / ".venv").symlink_to((root / ".venv").resolve())
        copy = Copied(Path(own))
        try:
            yield copy
        finally:
            copy.close()

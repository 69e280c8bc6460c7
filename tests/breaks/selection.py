"""Which modules are broken, and which tests run for each.

The tests of a module are those of its path, `tests/` in place of the package `mllm_jax`. They run
in two groups until a test fails, each in this order::

    mllm_jax/train/state/checksums.py
      1  tests/train/state/test_checksums*.py, tests/train/state/checksums/     of its name
         files of tests/train/state/ that import it
      2  files of tests/train/ that import it
         all other files of tests/train/state/, but not of its folders for other rooms

Where a room has no folder of tests, that of the room around it stands in.
"""

from __future__ import annotations

import ast
from pathlib import Path, PurePosixPath

#: Rooms with modules that hold what is learnt, kept, searched or decided; without the rooms within.
ROOMS = (
    "data/planning",
    "data/loading",
    "data/workers.py",
    "data/text",
    "mllm_jax/train",
    "mllm_jax/train/components",
    "mllm_jax/train/state",
    "mllm_jax/train/state/mirrors",
    "mllm_jax/train/state/snapshots",
    "mllm_jax/train/step",
    "mllm_jax/supervise",
    "mllm_jax/layers",
    "scheduling/costs",
    "scheduling/search",
    "sharding",
)


def modules(root: Path, rooms: tuple[str, ...] = ROOMS) -> list[str]:
    """The modules of some rooms; a room may be a single module."""
    found = []
    for room in rooms:
        paths = [root / room] if room.endswith(".py") else sorted((root / room).glob("*.py"))
        found += [path.relative_to(root).as_posix() for path in paths]
    return found


class Selection:
    """Chooses the tests of modules.

    Args:
        root: the working tree.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._imports: dict[str, set[str]] = {}

    def of(self, module: str) -> list[list[str]]:
        """Groups of files of tests, none of them empty."""
        home = self._home(module)
        top = "/".join(PurePosixPath(home).parts[:2])
        room = self._of_room(home)
        named = [path for path in room if self._is_named_after(path, module)]
        dotted = module.removesuffix(".py").replace("/", ".")
        near = [path for path in room if dotted in self._imported(path)]
        far = [path for path in self._files(top) if dotted in self._imported(path)]
        first = list(dict.fromkeys([*named, *near]))
        others = [path for path in dict.fromkeys([*far, *room]) if path not in first]
        return [group for group in (first, others) if group]

    def _home(self, module: str) -> str:
        """The folder of tests that stands for a module's room."""
        parts = PurePosixPath(module).parent.parts
        folder = PurePosixPath("tests", *parts[parts[0] == "mllm_jax" :])
        while not [*(self._root / folder).glob("test_*.py")]:
            folder = folder.parent
        return folder.as_posix()

    def _of_room(self, home: str) -> list[str]:
        """The files of a folder, and of those within it that stand for no room."""
        others = {
            path
            for path in self._files(home)
            for folder in PurePosixPath(path).relative_to(home).parents
            if folder.name and self._is_room(f"{home}/{folder}")
        }
        return [path for path in self._files(home) if path not in others]

    def _is_room(self, folder: str) -> bool:
        own = folder.removeprefix("tests/")
        return any((self._root / place).is_dir() for place in (own, f"mllm_jax/{own}"))

    def _files(self, folder: str) -> list[str]:
        found = (self._root / folder).rglob("test_*.py")
        return sorted(path.relative_to(self._root).as_posix() for path in found)

    @staticmethod
    def _is_named_after(path: str, module: str) -> bool:
        name, own = PurePosixPath(module).stem, PurePosixPath(path)
        return own.stem.startswith(f"test_{name}") or name in own.parent.parts[-1:]

    def _imported(self, path: str) -> set[str]:
        """Names of the modules that a file of tests, or what it takes from other tests, imports."""
        if path not in self._imports:
            self._imports[path] = set()
            found = set(_names(self._root / path))
            for name in sorted(found):
                helper = f"{name.replace('.', '/')}.py"
                if name.startswith("tests.") and (self._root / helper).exists():
                    found |= self._imported(helper)
            self._imports[path] = found
        return self._imports[path]


def _names(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            found.update(own.name for own in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found.update(f"{node.module}.{own.name}" for own in node.names)
    return found

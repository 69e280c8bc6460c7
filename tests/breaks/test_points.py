"""Breaks are single changes that can be compiled, and leave alone what says nothing."""

from __future__ import annotations

import ast
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.breaks.__main__ import drawn
from tests.breaks.copied import Copied
from tests.breaks.points import breaks_of
from tests.breaks.selection import ROOMS, Selection, modules
from tests.configs import ROOT

#: The program that runs sessions of pytest, and the option that the project adds to pytest's.
ZYGOTE = "tests/breaks/zygote.py"
OPTION = "def pytest_addoption(parser): parser.addoption('--order')"


def found(tmp_path: Path, source: str) -> set[tuple[str, str]]:
    (tmp_path / "m.py").write_text(source)
    return {(own.before, own.after) for own in breaks_of(tmp_path, "m.py")}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("x = a < b", {("a < b", "(a <= b)")}),
        ("x = a is not b", {("a is not b", "(a is b)")}),
        ("x = a < b <= c", {("a < b <= c", "(a <= b <= c)"), ("a < b <= c", "(a < b < c)")}),
        ("x = a and b", {("a and b", own) for own in ("(a or b)", "a", "b")}),
        ("x = not a", {("not a", "a")}),
        ("x = -a", {("-a", "a")}),
        ("x = a // b", {("a // b", "(a * b)")}),
        ("x += a", {("x += a", "x -= a")}),
        ("x = f(True)", {("True", "False")}),
        ("x = 7", {("7", "8"), ("7", "6")}),
        ("x = 0", {("0", "1"), ("0", "(-1)")}),
        ("x = 0.5", {("0.5", "1.0")}),
        ("x = max(a)", {("max", "min")}),
        ("x = [a, *b]", {("[a, *b]", "([a])")}),
        ("if a:\n    pass", {("a", "(not a)")}),
        ("x = [a for a in b if a.c]", {("a.c", "(not a.c)")}),
        ("x = b if f(a) else c", {("f(a)", "(not f(a))")}),
    ],
)
def test_what_is_broken_and_how(tmp_path: Path, source: str, expected: Any) -> None:
    assert found(tmp_path, source) == expected


@pytest.mark.parametrize(
    "source",
    [
        "x: a | b",
        "def f(x: a | 3) -> b | None: ...",
        "@f(1)\ndef g(): ...",
        "assert a < 1, b",
        "x = f'{a + 1}'",
        "logger.warning('%d', a + 1)",
        "__all__ = ['a', *b]",
        "Both = int | Path",
        "if TYPE_CHECKING:\n    x = 1",
        "x = 'a' + b",
    ],
)
def test_what_is_left_alone(tmp_path: Path, source: str) -> None:
    assert found(tmp_path, source) == set()


def test_a_break_is_one_change_wherever_it_stands(tmp_path: Path) -> None:
    source = 'x = "é" + f(a\n      < b) * 2  # no\ny = 3\n'
    (tmp_path / "m.py").write_text(source)
    made = {own.made(source.encode()).decode() for own in breaks_of(tmp_path, "m.py")}
    assert made == {
        'x = "é" + f((a <= b)) * 2  # no\ny = 3\n',
        'x = "é" + (f(a < b) / 2)  # no\ny = 3\n',
        'x = "é" + f(a\n      < b) * 3  # no\ny = 3\n',
        'x = "é" + f(a\n      < b) * 1  # no\ny = 3\n',
        'x = "é" + f(a\n      < b) * 2  # no\ny = 4\n',
        'x = "é" + f(a\n      < b) * 2  # no\ny = 2\n',
    }


def test_drawn_breaks_can_be_compiled_and_a_seed_draws_the_same() -> None:
    rooms = ["data/text", "mllm_jax/train/components/checkpoint_saver.py"]
    own = drawn(ROOT, rooms, 3, 40)
    assert own == drawn(ROOT, rooms, 3, 40)
    assert len({*own}) == 40
    assert own != drawn(ROOT, rooms, 4, 40)
    for each in own:
        source = (ROOT / each.path).read_bytes()
        assert ast.dump(ast.parse(each.made(source))) != ast.dump(ast.parse(source)), each


def test_every_room_has_modules_and_tests() -> None:
    """Tests of a module's name, and those of its room that import it, come first."""
    selection = Selection(ROOT)
    for room in ROOMS:
        groups = selection.of(modules(ROOT, (room,))[-1])
        files = [path for group in groups for path in group]
        assert files
        assert len(files) == len({*files})
        assert all((ROOT / path).is_file() for path in files)
    first, others = selection.of("mllm_jax/train/state/checksums.py")
    assert first[0] == "tests/train/state/test_checksums.py"
    assert "tests/train/state/test_damage.py" in first
    assert "tests/train/state/test_regroup.py" in others
    assert "tests/train/state/snapshots/test_resharding.py" not in others
    assert not [path for path in others if path.startswith("tests/train/test_")]


def bare(tree: Path, conftest: str, test: str) -> None:
    """Write the least that a copy needs, and one file of tests."""
    files = dict.fromkeys(
        ["tests/__init__.py", "tests/conftest.py", "mllm_jax/train/trainer.py"], ""
    )
    files |= {"mllm_jax/api.py": "", "conftest.py": conftest, "tests/test_own.py": test}
    for path, source in (files | {ZYGOTE: (ROOT / ZYGOTE).read_text()}).items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text(source)


@pytest.mark.parametrize(
    ("conftest", "test", "told"),
    [
        pytest.param(OPTION, "def test(): assert False", "", id="nothing"),
        pytest.param(OPTION, "import not_there", "No module named 'not_there'", id="import"),
        pytest.param("", "def test(): pass", "unrecognized arguments: --order", id="option"),
    ],
)
def test_what_cannot_be_collected_without_a_break_ends_all(
    tmp_path: Path, conftest: str, test: str, told: str
) -> None:
    """Otherwise every break would count as noticed."""
    bare(tmp_path / "tree", conftest, test)
    copy = Copied(tmp_path)
    try:
        with pytest.raises(RuntimeError, match=told) if told else nullcontext():
            copy.check(["tests/test_own.py"])
    finally:
        copy.close()


def test_a_break_is_undone(tmp_path: Path) -> None:
    copy = Copied.__new__(Copied)
    copy.root, copy._made = tmp_path, 0
    path = tmp_path / "m.py"
    path.write_text("x = 7\n")
    before = path.stat()
    times = set()
    for own in breaks_of(tmp_path, "m.py"):
        with suppress(KeyError), copy.broken(own):
            assert path.read_text() == f"x = {own.after}\n"
            times.add(int(path.stat().st_mtime))
            raise KeyError
        assert path.read_text() == "x = 7\n"
        assert path.stat().st_mtime_ns == before.st_mtime_ns
    # Bytecode of one break is not taken for that of another.
    assert len(times | {int(before.st_mtime)}) == 3

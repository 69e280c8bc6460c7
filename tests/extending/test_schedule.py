"""docs/extending/schedule.md, followed to the letter."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mllm_jax.config.strict_yaml import parse_yaml
from scheduling.schedules.check import check_schedule
from tests.extending.breadth_first.breadth_first import breadth_first

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "extending" / "schedule.md").read_text()
CODE = re.findall(r"```python\n(.*?)```", PAGE, re.S)
(YAML,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.S)
LINES = re.findall(r"^\| `(\S+\.py)`(?:, in `(\w+)`)? \| `(.*)` \|$", PAGE, re.M)
#: Prints how the demonstration's schedule is made with the settings of the page.
CONFIGURED = """
import sys
from pathlib import Path
from mllm_jax.config.configured_step import configure_step
from mllm_jax.config.load import load_config
own = configure_step(load_config(Path(sys.argv[1]), sys.argv[2:]))
print(own.strategy.kind, own.strategy.chunks["decoder"], own.schedule.modules[0].name)
"""


def put(text: str, place: str, line: str) -> str:
    """`text` with a line at the head of its imports, or first in what is assigned at `place`."""
    if not place:
        return text.replace("\nfrom scheduling", f"\n{line}\nfrom scheduling", 1)
    head = re.search(rf"^{place}\b.*?= (?:\{{|Literal\[)", text, re.M)
    assert head is not None, f"no {place} in the file"
    return f"{text[: head.end()]}{line.rstrip(',')}, {text[head.end() :]}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the scheduling package in which the steps of the page have been done."""
    folder = tmp_path_factory.mktemp("extended")
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "scheduling", folder / "scheduling", ignore=ignored)
    (folder / "scheduling" / "schedules" / "breadth_first.py").write_text(CODE[0])
    for name, place, line in LINES:
        path = folder / name
        path.write_text(put(path.read_text(), place, line))
    return folder


def run(folder: Path, code: str, *arguments: str) -> str:
    environment = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_the_page_shows_the_code() -> None:
    assert CODE[0] == (ROOT / "tests/extending/breadth_first/breadth_first.py").read_text()


def test_the_comparison_of_the_page_runs(folder: Path) -> None:
    (shown,) = re.findall(r"^prints\n\n```\n(.*?)```", PAGE, re.S | re.M)
    assert run(folder, CODE[1]) == shown


def test_the_configuration_of_the_page_is_taken(folder: Path) -> None:
    values = parse_yaml(YAML)["schedule"]
    overrides = [
        f"schedule.kind={values['kind']}",
        f"schedule.chunks.decoder={values['chunks']['decoder']}",
    ]
    printed = run(folder, CONFIGURED, str(ROOT / "configs" / "demo_pipeline.yaml"), *overrides)
    assert printed.split() == ["breadth_first", "2", "decoder"]


@given(st.integers(1, 4), st.integers(1, 3), st.integers(1, 9))
def test_every_size_is_legal(stages: int, chunks: int, microbatches: int) -> None:
    check_schedule(breadth_first(stages, chunks, microbatches))

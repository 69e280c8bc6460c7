"""docs/extending/balancer.md, followed to the letter."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from data.config import DataConfig
from data.planning.balance import assign_items, fingerprints
from data.planning.problem import BalanceProblem
from mllm_jax.config.load import load_config
from mllm_jax.config.strict_yaml import parse_yaml
from scheduling.costs.work import ModuleWork
from tests.extending.differencing.balancing import assign

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "extending" / "balancer.md").read_text()
CODE = re.findall(r"```python\n(.*?)```", PAGE, re.S)
(YAML,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.S)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the page's module, from which modules are imported."""
    (tmp_path / "balancing.py").write_text(CODE[0])
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "balancing", raising=False)
    return tmp_path


def test_the_page_shows_the_code() -> None:
    assert CODE[0] == (ROOT / "tests/extending/differencing/balancing.py").read_text()


def test_the_configuration_of_the_page_is_taken(folder: Path) -> None:
    values = parse_yaml(YAML)["data"]
    algorithm = values["balancing"]["decoder"]["algorithm"]
    overrides = [
        f"data.balance={values['balance']}",
        f"data.balancing.decoder.algorithm={algorithm}",
    ]
    config = load_config(ROOT / "configs" / "demo.yaml", overrides)
    assert config.data.balancing["decoder"].algorithm == algorithm
    assert isinstance(config.data, DataConfig)
    (key,) = fingerprints(config.data)
    assert key == f"source of data.balancing.decoder.algorithm {algorithm}"


def test_the_comparison_of_the_page_runs(folder: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-c", CODE[1]]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=True
    )
    (shown,) = re.findall(r"^prints\n\n```\n(.*?)```", PAGE, re.S | re.M)
    assert done.stdout == shown


@pytest.mark.parametrize("seed", range(5))
def test_rows_that_are_packed_to_the_brim_keep_their_limits(folder: Path, seed: int) -> None:
    """As in training: the method itself knows no limits, and exceeds them."""
    draw = np.random.default_rng(seed)
    rows = [np.diff(np.sort([0, *draw.integers(1, 312, 5), 312])) for _ in range(8)]
    lengths = np.concatenate(rows)
    problem = BalanceProblem(
        lengths, len(rows), ModuleWork(1.0, 0.1), needs=lengths[:, None], limits=(330,)
    )
    rank = assign_items(problem, "balancing:assign")
    assert (np.bincount(rank[rank >= 0], lengths[rank >= 0], len(rows)) <= 330).all()
    assert problem.loads(rank).max() <= problem.loads(np.repeat(np.arange(8), 6)).max()


@pytest.mark.parametrize("seed", range(5))
def test_every_item_has_a_rank_and_sums_are_even(folder: Path, seed: int) -> None:
    draw = np.random.default_rng(seed)
    lengths = draw.integers(1, 1000, int(draw.integers(0, 40)))
    problem = BalanceProblem(lengths, int(draw.integers(1, 7)), ModuleWork(1.0, 0.01))
    items = sorted(item for rank in assign(problem) for item in rank)
    assert items == [*range(len(lengths))]
    loads = problem.loads(assign_items(problem, "balancing:assign"))
    assert loads.sum() == problem.costs.sum()
    # The spread of the method is at most the largest item.
    assert loads.max(initial=0) <= problem.bound + problem.costs.max(initial=0)

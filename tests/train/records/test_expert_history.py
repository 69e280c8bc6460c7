"""The load of a run's experts, read from its metrics and drawn."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

from mllm_jax.console import replace_non_finite
from mllm_jax.runtime.folder import RunError
from mllm_jax.train.records.expert_history import draw_history, read_expert_history
from mllm_jax.train.records.expert_loads import expert_loads

#: Shares of two layers with four experts each: the second one collapses onto its last expert.
FIRST = [[0.5, 0.5, 0.5, 0.5], [0.5, 0.5, 0.5, 0.5]]
LAST = [[0.8, 0.4, 0.4, 0.4], [0.0, 0.4, 0.6, 1.0]]


def write(path: Path, *lines: object) -> Path:
    path.write_text("".join(json.dumps(replace_non_finite(line)) + "\n" for line in lines))
    return path


def line(step: int, shares: list[list[float]]) -> dict[str, object]:
    return {"step": step, "experts": [asdict(own) for own in expert_loads((1, 3), [shares])]}


@pytest.fixture
def metrics(tmp_path: Path) -> Path:
    broken = [[float("nan")] * 4, LAST[1]]
    lines = line(10, FIRST), {"step": 10, "heldout_loss": 1.0}, line(20, broken), line(30, LAST)
    path = write(tmp_path / "metrics.jsonl", *lines)
    with path.open("a") as file:
        file.write('{"step": 40, "exp')  # a process was killed while it wrote
    return path


def test_loads_are_read_by_step_layer_and_expert(metrics: Path) -> None:
    found = read_expert_history(metrics)
    assert (found.steps.tolist(), found.layers) == ([10, 20, 30], (1, 3))
    np.testing.assert_allclose(found.load[0], 1)
    np.testing.assert_allclose(found.load[2], 2 * np.array(LAST))
    assert np.isnan(found.load[1, 0]).all()
    assert np.isfinite(found.load[1, 1]).all()
    np.testing.assert_allclose(found.imbalance[2], [1.6, 2.0])
    assert [row[:1] + row[2:4] for row in found.rows] == [(1, 0, 1), (3, 3, 0)]


def test_the_heat_map_tells_busy_experts_from_idle_ones(metrics: Path, tmp_path: Path) -> None:
    file = draw_history(read_expert_history(metrics), tmp_path / "pictures")
    assert file == tmp_path / "pictures" / "experts.png"
    with PIL.Image.open(file) as image:
        red, _, blue = (np.asarray(image.convert("RGB"), np.int16)[..., n] for n in range(3))
    left = slice(0, red.shape[1] // 2)
    warm, cold = (red - blue)[:, left] > 60, (blue - red)[:, left] > 60
    rows, columns = np.nonzero(warm)
    idle_rows, idle_columns = np.nonzero(cold)
    assert np.median(columns) > np.median(idle_columns)  # the last expert, and the first one
    assert min(len(rows), len(idle_rows)) > 1000


def test_a_run_without_loads_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"metrics.jsonl is not there; valid: .* has begun"):
        read_expert_history(tmp_path / "metrics.jsonl")
    path = write(tmp_path / "metrics.jsonl", {"step": 10, "experts": []})
    with pytest.raises(RunError, match="no loads of experts; valid: a run whose decoder has"):
        read_expert_history(path)

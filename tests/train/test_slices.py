"""The graphs of configs/slices train and are evaluated on drawn samples, on two slices."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from rich.console import Console

from data.config import LlavaSource
from data.sources.shapes import write_example
from mllm_jax.config.load import load_config
from mllm_jax.train.trainer import train
from tests.configs import ROOT

#: What an evaluation of a graph measures; of others it may be anything.
MEASURED = {
    "towers": {"recall_at_1"},
    "bound": {"recall_at_1"},
    "mllm": {"heldout_loss", "exact_match"},
    "apart": {"heldout_loss", "exact_match"},
    "heads": {"heldout_loss", "exact_match"},
}
GRAPHS = sorted((ROOT / "configs" / "slices").glob("*.yaml"))


@pytest.mark.slow
@pytest.mark.parametrize("path", GRAPHS, ids=lambda path: path.stem)
def test_a_graph_trains_and_is_evaluated(path: Path, tmp_path: Path) -> None:
    made = write_example(tmp_path / "my_data", 40, seed=0).folder
    source = load_config(path).data.source
    assert isinstance(source, LlavaSource)
    name = Path(source.path).name.removeprefix("train")
    changes = [
        f"data.source.path={made}/train{name}",
        f"data.source.heldout={made}/heldout{name}",
        f"data.source.media={made}/media",
        f"data.cache={tmp_path / 'cache'}",
        "data.workers=0",
        f"run.directory={tmp_path / 'runs'}",
        "train.steps=2",
        "train.warmup_steps=1",
    ]
    summary = train(load_config(path, changes), Console(quiet=True))
    assert math.isfinite(summary["final_loss"])
    assert {*summary} >= MEASURED.get(path.stem, set())

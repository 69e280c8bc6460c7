"""The worked example of docs/extending/media.md on a kind of media, in a copy of the repository."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PAGE = ROOT / "docs" / "extending" / "media.md"
SECTION = '''class CloudConfig(MediumConfig):
    """Point clouds."""

    placeholder: str = "<cloud>"  # stands for a point cloud in the text


'''
FIELDS = "    cloud: str | None = None\n    cloud_encoder: str | None = None\n"
IMPORT = "from data.media.cloud.{} import {}\n"
#: Run in the copy: records with clouds and images become batches, measured before and when read.
SCRIPT = """
import sys
from dataclasses import asdict

import numpy as np

from data.config import DataConfig
from data.media.image.row_spec import ImageRowSpec
from data.rows.pack import empty_rows, write_medium
from data.rows.tokens import TokenSpec
from data.loading.loader import DataLoader
from data.loading.on_read import MeasuringDataLoader, SingleHost
from data.planning.stream import TrainingDemand
from data.processing.processor import make_processor
from data.sources.make import make_source
from data.media.cloud.row_spec import CloudRowSpec
from scheduling.costs.work import ModuleWork

text, clouds, coarse = TokenSpec("decoder"), CloudRowSpec("points", 4), CloudRowSpec("coarse", 8)
rows = {name: [0, 1] for name in ("decoder", "vision", "points", "coarse")}
work = ModuleWork(linear=1.0, quadratic=0.01)
config = DataConfig.model_validate({
    "source": {"kind": "llava", "path": sys.argv[1], "fields": {"cloud": "scan"}},
    "budgets": {"tokens": 256, "segments": 16, "vision": 64, "points": 128, "coarse": 128},
    "rows": 2, "lookahead": 8, "tokenizer": "bytes",
})
processor = make_processor(config, [text, ImageRowSpec("vision"), clouds, coarse])
source = make_source(config)
measured = processor.measure(source[0, 0])
assert measured.counts("points") == (10,), measured
assert processor.process(source[0, 0]).lengths == measured
consumer = TrainingDemand(dict.fromkeys(rows, work))
loaders = (
    DataLoader(source, processor, config, 0, rows, consumer=consumer),
    MeasuringDataLoader(source, processor, config, 0, [rows], None, consumer, SingleHost()),
)
one, other = (next(loader).batch for loader in loaders)
np.testing.assert_equal(asdict(one), asdict(other))
assert one.rows["points"].array("radius").any()
assert (one.text_rows.merges["points"] >= 0).any()
sketched = empty_rows(clouds, 1, 16)
write_medium(sketched, clouds, 0, 0, 1, clouds.sketch(np.random.default_rng(0), 3))
assert clouds.merged_outputs_mask(sketched).tolist() == [[True, True, True, False]]
for loader in loaders:
    loader.close()
print("packed")
"""


@pytest.mark.parametrize("name", ["row_spec", "media_type"])
@pytest.mark.parametrize("kind", ["cloud", "graph"])
def test_the_page_shows_the_code(kind: str, name: str) -> None:
    code = (HERE / kind / f"{name}.py").read_text()
    assert f"```python\n{code}```" in PAGE.read_text(), f"{name}.py is not as in {PAGE}"


#: Lines that the page names: file, the text before which a line is inserted, the line.
LINES = (
    ("data/config.py", "class ChatConfig", SECTION),
    ("data/config.py", "    image_encoder: str", FIELDS),
    ("data/config.py", "    cache: LocalPath", "    cloud: CloudConfig = CloudConfig()\n"),
    ("data/media/registry.py", "VideoType())", "CloudType(), "),
    ("data/media/registry.py", "from data.media.image", IMPORT.format("media_type", "CloudType")),
)


def _copied(folder: Path) -> Path:
    root = folder / "copy"
    for name in ("data", "mllm_jax", "scheduling", "sharding"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    return root


def _insert_lines(root: Path, lines: Sequence[tuple[str, str, str]]) -> None:
    for file, before, line in lines:
        text = (root / file).read_text()
        assert text.count(before) == 1, (file, before)
        (root / file).write_text(text.replace(before, line + before))


def _named(root: Path) -> None:
    shutil.copytree(HERE / "cloud", root / "data" / "media" / "cloud")
    _insert_lines(root, LINES)


def _run(root: Path, folder: Path, script: str) -> None:
    """Run a script, which gets the records, in a copy of the repository."""
    (folder / "run.py").write_text(script)
    done = subprocess.run(
        [sys.executable, str(folder / "run.py"), str(folder / "train.json")],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "packed" in done.stdout


def test_the_page_is_followed_to_the_letter(tmp_path: Path) -> None:
    root = _copied(tmp_path)
    _named(root)
    rng = np.random.default_rng(0)
    records: list[dict[str, Any]] = []
    for number, count in enumerate([10, 7, 16, 4, 9, 12]):
        np.save(tmp_path / f"{number}.npy", rng.normal(size=(count, 3)))
        turns = [{"from": "human", "value": "<cloud> ?"}, {"from": "gpt", "value": "yes"}]
        records.append({"scan": f"{number}.npy", "conversations": turns})
    parts = [{"type": "cloud", "cloud": "0.npy"}, {"type": "text", "text": "?"}]
    messages = [{"role": "user", "content": parts}, {"role": "assistant", "content": "yes"}]
    records.append({"messages": messages})
    (tmp_path / "train.json").write_text(json.dumps(records))
    _run(root, tmp_path, SCRIPT)


# ---- drawn anew, with an axis for edges ----------------------------------------------------------

GRAPH_SECTION = """class GraphConfig(MediumConfig):
    placeholder: str = "<graph>"  # stands for a graph in the text
    nodes: int = 32  # most nodes that are drawn of a graph


"""
GRAPH_LINES = (
    ("data/config.py", "class ChatConfig", GRAPH_SECTION),
    ("data/config.py", "    cache: LocalPath", "    graph: GraphConfig = GraphConfig()\n"),
    ("data/media/registry.py", "VideoType())", "GraphType(), "),
    (
        "data/media/registry.py",
        "from data.media.image",
        "from data.media.graph.media_type import GraphType\n",
    ),
)
#: Run in the copy: neighbourhoods are drawn anew in every epoch, and packed with their edges.
GRAPH_SCRIPT = """
import sys
from dataclasses import asdict
from itertools import product

import numpy as np

from data.config import DataConfig
from data.loading.loader import DataLoader
from data.loading.on_read import MeasuringDataLoader, SingleHost
from data.media.graph.row_spec import GraphRowSpec
from data.planning.stream import TrainingDemand
from data.processing.processor import make_processor
from data.rows.pack import read_medium
from data.rows.tokens import TokenSpec
from data.sources.make import make_source
from scheduling.costs.work import ModuleWork

spec = GraphRowSpec("graphs")
rows = {name: [0, 1] for name in ("decoder", "graphs")}
demand = TrainingDemand(dict.fromkeys(rows, ModuleWork(linear=1.0, quadratic=0.01)))
STEPS, SEEN = 12, {}


def check(microbatch, source, processor, epochs):
    used = np.zeros((2, 2), int)
    encoder = microbatch.batch.rows["graphs"]
    for placement in microbatch.stats.placements:
        medium = processor.process(source[placement.key]).media["graphs"][0]
        epochs.setdefault(placement.index, {})[placement.epoch] = len(medium.inputs)
        lengths = placement.lengths.of("graphs")[0]
        (row, start, _), offsets = placement.media["graphs"][0], placement.offsets["graphs"][0]
        packed = read_medium(encoder, spec, row, start, lengths, offsets)
        np.testing.assert_equal(packed.arrays, medium.arrays)
        edges = encoder.array("edges")[row, offsets[0] : offsets[0] + lengths.entries[0]]
        assert ((start <= edges) & (edges < start + lengths.count)).all()
        used[row] += lengths.count, lengths.entries[0]
    assert (used <= (96, 70)).all(), used
    return used


WAYS = product(("none", "per_phase"), ("tokens", "samples"), (DataLoader, MeasuringDataLoader))
for balance, batch, kind in WAYS:
    config = DataConfig.model_validate({
        "source": {"kind": "llava", "path": sys.argv[1]},
        "budgets": {"tokens": 256, "segments": 16, "graphs": 96, "graphs_edges": 70},
        "rows": 2, "tokenizer": "bytes", "balance": balance, "batch": batch,
        "lengths": "cached" if kind is DataLoader else "on_read",
        **({"samples": 3} if batch == "samples" else {"lookahead": 8}),
    })
    processor = make_processor(config, [TokenSpec("decoder"), spec])
    source, epochs = make_source(config), {}
    measures = kind is MeasuringDataLoader
    last = ([rows], None, demand, SingleHost()) if measures else (rows, None, demand)
    with kind(source, processor, config, 0, *last) as loader:
        microbatches = [next(loader) for _ in range(STEPS)]
    most = [check(own, source, processor, epochs) for own in microbatches]
    assert np.max(most, axis=(0, 1))[1] > 50, "edges never fill a row"
    assert any(len({*own.values()}) > 1 for own in epochs.values()), "drawn once for all epochs"
    skipped = [str(fault) for own in microbatches for _, fault in own.skipped]
    assert any("graphs_edges, above data.budgets' 70" in text for text in skipped), skipped
    seen = SEEN.setdefault((balance, batch), microbatches)
    for one, other in zip(seen, microbatches, strict=True):
        np.testing.assert_equal(asdict(one.batch), asdict(other.batch))
        assert one.state == other.state
print("packed")
"""


def test_graphs_are_drawn_anew_and_packed_with_their_edges(tmp_path: Path) -> None:
    root = _copied(tmp_path)
    shutil.copytree(HERE / "graph", root / "data" / "media" / "graph")
    _insert_lines(root, GRAPH_LINES)
    rng, records = np.random.default_rng(0), []
    for number, nodes in enumerate([10, 7, 40, 30, 9, 60]):
        edges = rng.integers(0, nodes, (4 * nodes, 2))
        features = rng.normal(size=(nodes, 4))
        np.savez(tmp_path / f"{number}.npz", features=features, edges=edges)
        turns = [{"from": "human", "value": "<graph> ?"}, {"from": "gpt", "value": "yes"}]
        records.append({"graph": f"{number}.npz", "conversations": turns})
    (tmp_path / "train.json").write_text(json.dumps(records))
    _run(root, tmp_path, GRAPH_SCRIPT)


# ---- with an encoder -----------------------------------------------------------------------------

POINTS = {
    "run": {"name": "points"},
    "model": {
        "decoder": {"layers": 2, "d_model": 16, "heads": 2, "d_ff": 16, "vocab": 300},
        "encoders": {
            "points": {
                "family": "points",
                "layers": 2,
                "d_model": 16,
                "heads": 2,
                "d_ff": 16,
                "connector": {"stack": 4},
            }
        },
    },
    "parallel": {
        "platform": "cpu",
        "devices": 2,
        "decoder": {"stage": 2},
        "encoders": {"points": {"data": 2}},
    },
    "data": {
        "source": {"kind": "llava", "path": "train.json"},
        "rows": 2,
        "tokenizer": "bytes",
        "balance": "per_phase",
        "budgets": {"tokens": 128, "segments": 8, "points": 64},
    },
    "train": {"steps": 1, "learning_rate": 0.001, "accumulate": 2},
    "evaluate": {"enabled": False},
    "checkpoint": {"enabled": False},
}


@pytest.mark.parametrize("command", ["train", pytest.param("verify", marks=pytest.mark.slow)])
def test_an_encoder_of_the_kind_is_verified_and_trained(tmp_path: Path, command: str) -> None:
    """Both with its work in the bubbles of two stages; training balances the clouds of a file."""
    for name in ("configs", "data", "mllm_jax", "scheduling", "sharding"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "launch.py", tmp_path)
    _named(tmp_path)
    shutil.copytree(HERE / "points", tmp_path / "mllm_jax" / "families" / "points")
    rng, records = np.random.default_rng(0), []
    for number in range(16):
        np.save(tmp_path / f"{number}.npy", rng.normal(size=(rng.integers(4, 30), 3)))
        turns = [{"from": "human", "value": "<cloud> ?"}, {"from": "gpt", "value": "yes"}]
        records.append({"cloud": f"{number}.npy", "conversations": turns})
    (tmp_path / "train.json").write_text(json.dumps(records))
    (tmp_path / "points.yaml").write_text(json.dumps(POINTS))
    answer = _answer(tmp_path, command)
    if command == "verify":
        assert answer["ok"] is True
        assert {*answer["worst"]} == {"decoder", "points"}
    else:
        assert 0 < answer["final_loss"] < 20


def _answer(root: Path, command: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "launch.py", command, "--config", "points.yaml", "--json"],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer

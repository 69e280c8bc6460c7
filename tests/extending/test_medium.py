"""The worked example of docs/extending/media.md on a kind of media, in a copy of the repository."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
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
from data.loading.loader import Loader
from data.loading.on_read import LoneHost, ReadingLoader
from data.planning.stream import TrainingDemand
from data.processing.processor import make_processor
from data.sources.make import make_source
from data.media.cloud.row_spec import CloudRowSpec
from scheduling.costs.work import TowerWork

clouds, coarse = CloudRowSpec("points", 4), CloudRowSpec("coarse", 8)
rows = {name: [0, 1] for name in ("decoder", "vision", "points", "coarse")}
work = TowerWork(linear=1.0, quadratic=0.01)
config = DataConfig.model_validate({
    "source": {"kind": "llava", "path": sys.argv[1], "fields": {"cloud": "scan"}},
    "budgets": {"tokens": 256, "segments": 16, "vision": 64, "points": 128, "coarse": 128},
    "rows": 2, "lookahead": 8, "tokenizer": "bytes",
})
processor = make_processor(config, [ImageRowSpec("vision"), clouds, coarse])
source = make_source(config)
measured = processor.measure(source[0, 0])
assert measured.media["points"] == (10,), measured
assert processor.process(source[0, 0]).lengths == measured
consumer = TrainingDemand(dict.fromkeys(rows, work))
loaders = (
    Loader(source, processor, config, 0, rows, consumer=consumer),
    ReadingLoader(source, processor, config, 0, [rows], None, consumer, LoneHost()),
)
one, other = (next(loader).batch for loader in loaders)
np.testing.assert_equal(asdict(one), asdict(other))
assert one.rows["points"].arrays["radius"].any()
assert (one.decoder.merges["points"] >= 0).any()
sketched = empty_rows(clouds, 1, 16)
write_medium(sketched, clouds, 0, 0, 1, clouds.sketch(np.random.default_rng(0), 3))
assert clouds.lands(sketched).tolist() == [[True, True, True, False]]
for loader in loaders:
    loader.close()
print("packed")
"""


@pytest.mark.parametrize("name", ["row_spec", "media_type"])
def test_the_page_shows_the_code(name: str) -> None:
    code = (HERE / "cloud" / f"{name}.py").read_text()
    assert f"```python\n{code}```" in PAGE.read_text(), f"{name}.py is not as in {PAGE}"


#: Lines that the page names: file, the text before which a line is inserted, the line.
LINES = (
    ("data/config.py", "class ChatConfig", SECTION),
    ("data/config.py", "    image_encoder: str", FIELDS),
    ("data/config.py", "    cache: LocalPath", "    cloud: CloudConfig = CloudConfig()\n"),
    ("data/media/registry.py", "VideoType())", "CloudType(), "),
    ("data/media/registry.py", "from data.media.image", IMPORT.format("media_type", "CloudType")),
)


def _named(root: Path) -> None:
    shutil.copytree(HERE / "cloud", root / "data" / "media" / "cloud")
    for file, before, line in LINES:
        text = (root / file).read_text()
        assert text.count(before) == 1, (file, before)
        (root / file).write_text(text.replace(before, line + before))


def test_the_page_is_followed_to_the_letter(tmp_path: Path) -> None:
    root = tmp_path / "copy"
    for name in ("data", "mllm_jax", "scheduling", "sharding"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
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
    (tmp_path / "run.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "run.py"), str(tmp_path / "train.json")],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "packed" in done.stdout


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

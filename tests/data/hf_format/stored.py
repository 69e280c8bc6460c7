"""The stored results of released processors, see tests/parity/README.md."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from data.config import DataConfig
from data.hf_format import files
from data.hf_format.files import ReleasedFiles
from data.processing import processor
from data.processing.processor import Processor
from data.rows.spec import RowSpec
from mllm_jax.families.processors import released_processors

ROOT = Path(__file__).parents[2] / "parity"
CHATTING = ("llama3", "qwen2_5", "llava", "llava_onevision", "qwen2_audio")
DAY = date(2024, 7, 26)


@cache
def arrays(*parts: str) -> dict[str, NDArray[Any]]:
    with np.load(ROOT.joinpath(*parts)) as stored:
        return {key: stored[key] for key in stored.files}


def read_json(*parts: str) -> Any:
    return json.loads(ROOT.joinpath(*parts).read_text())


def read_folder(folder: Path) -> ReleasedFiles:
    """A folder of any family."""
    return files.read_folder(folder, released_processors())


def make_processor(config: DataConfig, specs: Sequence[RowSpec]) -> Processor:
    """A processor that knows the classes of all families."""
    return processor.make_processor(config, specs, released=released_processors())


def image(name: str) -> NDArray[np.uint8]:
    return arrays("media.npz")[f"image.{name}"]


def wave(name: str) -> NDArray[np.float32]:
    return arrays("media.npz")[f"clip.{name}"].astype(np.float32) / np.float32(32768)


def composed(folder: Path, media: str, text: str = "qwen2_5") -> Path:
    """A folder with the text files of one family and the media's of another."""
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(ROOT / text / name, folder / name)
    shutil.copy(ROOT / media / "preprocessor_config.json", folder)
    return folder


def changed(folder: Path, name: str, **changes: Any) -> None:
    """Change keys of a JSON file; `...` takes one out."""
    path = folder / name
    values = json.loads(path.read_text()) if path.exists() else {}
    values = {k: v for k, v in (values | changes).items() if v is not ...}
    path.write_text(json.dumps(values))

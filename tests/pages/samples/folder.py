"""A configuration of a user's folder with two bad samples, for previews."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.configs import values
from tests.train.llava_folder import write_folder


def content(folder: Path, **changes: Any) -> dict[str, Any]:
    """Values of a configuration that trains on `folder`, which is written."""
    write_folder(folder)
    own: dict[str, Any] = {
        "run": {"name": "mine", "directory": str(folder / "runs")},
        "data__source": {
            "kind": "llava",
            "path": str(folder / "train.json"),
            "media": str(folder / "media"),
        },
        "data__tokenizer": "bytes",
        "data__image": {"max_patches": 16},
        "data__rows": 2,
        "data__lookahead": 12,
        "data__budgets": {"tokens": 128, "segments": 6, "vision": 64, "audio": 96},
        "data__cache": str(folder / "cache"),
        "parallel": {
            "devices": 2,
            "decoder": {"data": 2},
            "encoders": {"vision": {"data": 2}, "audio": {"data": 2}},
        },
        "evaluate": {"enabled": False},
    }
    return values(**own | changes)

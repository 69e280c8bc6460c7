"""A small valid configuration for tests to bend."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

from mllm_jax.config.load import ExperimentConfig, resolve_config

ROOT = Path(__file__).parent.parent
#: Pages of the documentation, those of docs/ by folder.
#: Pages of the log, which tell of what was.
LOG = sorted((ROOT / "docs" / "log").glob("*-*.md"))
#: All other pages, which tell of what is.
PAGES = [
    ROOT / "README.md",
    *(path for path in sorted((ROOT / "docs").rglob("*.md")) if path not in LOG),
]
#: Configurations of experiments: descriptions of hardware and of clusters, and sizes of benchmarks,
#: have tests of their own.
EXPERIMENTS = sorted(
    path
    for path in (ROOT / "configs").rglob("*.yaml")
    if path.parent.name not in ("hardware", "clusters") and path.stem != "sizes"
)

VALUES: dict[str, Any] = {
    # All that a process of tests holds would be looked through at the begin of every run.
    "run": {"name": "test", "gc_every": None},
    "model": {
        "decoder": {"family": "llama", "layers": 1, "d_model": 16, "heads": 2, "d_ff": 32},
        "encoders": {
            "vision": {
                "family": "siglip",
                "layers": 1,
                "d_model": 16,
                "heads": 2,
                "d_ff": 32,
                "patch": [16, 8],
                "channels": 1,
                "grid": [1, 8],
            },
            "audio": {
                "family": "whisper",
                "layers": 1,
                "d_model": 16,
                "heads": 2,
                "d_ff": 32,
                "mels": 8,
                "connector": {"stack": 4},
            },
        },
    },
    "parallel": {
        "devices": 4,
        "decoder": {"data": 2, "tensor": 2},
        "encoders": {"vision": {"data": 4}, "audio": {"data": 2, "tensor": 2}},
    },
    "data": {
        "source": {"kind": "demo"},
        "rows": 4,
        "budgets": {"tokens": 64, "segments": 8, "vision": 64, "audio": 128},
        "image": {"height": 16},
        "audio": {"sample_rate": 8000, "hop": 80, "window": 200},
    },
    "train": {"steps": 4, "learning_rate": 1e-3, "optimizer": {"kind": "adamw"}},
}


def values(**changes: Any) -> dict[str, Any]:
    """`VALUES` with dotted keys replaced; dots are written as two underscores."""
    changed = copy.deepcopy(VALUES)
    for name, value in changes.items():
        *parents, last = name.split("__")
        node = changed
        for part in parents:
            node = node.setdefault(part, {})
        node[last] = copy.deepcopy(value)  # later changes may go into it
    return changed


def config(**changes: Any) -> ExperimentConfig:
    """The small configuration with changes, e.g. `config(train__steps=2)`."""
    return resolve_config(values(**changes), source="test")


#: The plans of a run on one device: less to compile where no test looks at the devices.
ONE_DEVICE: dict[str, Any] = {
    "devices": 1,
    "decoder": {},
    "encoders": {"vision": {}, "audio": {}},
}
#: Of the one small run on real data that tests share, compiled once for all of a process.
CHANGES: dict[str, Any] = {
    "data__source": {"kind": "demo", "train": 64, "heldout": 8, "clips": 16, "variants": 2},
    "data__lookahead": 16,
    "data__budgets": {"tokens": 64, "segments": 8, "vision": 64, "audio": 320},
    "train__optimizer": {"kind": "adamw", "epsilon": 1e-3},
}

#: Sections `parallel` of these modules in groups with devices of their own, out of four.
MEDIA_APART: dict[str, Any] = {
    "devices": 4,
    "decoder": {"tensor": 2},
    "encoders": {"vision": {"data": 2}, "audio": {"context": 2}},
    "groups": {
        "text": {"modules": ["decoder"], "devices": [0, 1]},
        "media": {"modules": ["vision", "audio"], "devices": [2, 3]},
    },
}
VISION_APART: dict[str, Any] = {
    "devices": 4,
    "decoder": {"fsdp": 2},
    "encoders": {"vision": {}, "audio": {"data": 2}},
    "groups": {
        "text": {"modules": ["decoder", "audio"], "devices": [1, 2]},
        "images": {"modules": ["vision"], "devices": [3, 3]},
    },
}
#: Stages need a layer each.
STAGES_APART: dict[str, Any] = {
    "devices": 4,
    "decoder": {"stage": 2},
    "encoders": {"vision": {}, "audio": {}},
    "groups": {
        "sounds": {"modules": ["audio"], "devices": [3, 3]},
        "text": {"modules": ["decoder"], "devices": [0, 1]},
        "images": {"modules": ["vision"], "devices": [2, 2]},
    },
}
#: A device for the decoder, and half of the other one for each encoder.
ENCODERS_HALVED: dict[str, Any] = {
    "devices": 2,
    "decoder": {},
    "encoders": {"vision": {}, "audio": {}},
    "groups": {
        "text": {"modules": ["decoder"], "devices": [0, 0]},
        "images": {"modules": ["vision"], "devices": [1, 1], "quota": 0.5},
        "sounds": {"modules": ["audio"], "devices": [1, 1], "quota": 0.5},
    },
}
HALVED: dict[str, Any] = {
    "devices": 2,
    "decoder": {"fsdp": 2},
    "encoders": {"vision": {"data": 2}, "audio": {"data": 2}},
    "groups": {
        "text": {"modules": ["decoder"], "quota": 0.5},
        "media": {"modules": ["vision", "audio"], "quota": 0.5},
    },
}

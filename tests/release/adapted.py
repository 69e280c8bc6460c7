"""A run with adapters and a connector that trains, whose numbers are drawn by name, and its export.

Numbers that are drawn are the same under every version of jax, so that exports can be stored.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import jax
import numpy as np

import launch
from mllm_jax.layers.trainable import ADAPTERS
from mllm_jax.runtime.exits import ExitCode
from mllm_jax.train.state.regroup import leaf_name
from mllm_jax.train.state.stored_names import StoredNames
from tests.release.test_import import PARITY, SHARDED, begun, imported, planned

#: What peft loaded, and what LLaVA computes with it; see `tests.release.by_peft`.
STORED = PARITY / "llava_lora_exported"
RANK, ALPHA = 2, 3.0
TARGETS = (
    "decoder.layers.self_attn.[ko]_proj",
    "decoder.layers.mlp.[gd]*_proj",
    "decoder.lm_head",
    "vision.layers.self_attn.v_proj",
    "vision.layers.mlp.fc2",
)


def exported(folder: Path) -> Path:
    """The export of the adapters, in a new folder within `folder`."""
    values = imported(folder / "run", PARITY / "llava")
    lora = {"targets": [*TARGETS], "rank": RANK, "alpha": ALPHA}
    values["train"] |= {"lora": lora, "freeze": ["vision"]}
    begun(planned(values, **SHARDED), draw_adapters)
    out = folder / "adapters"
    line = ["export", "--run", str(folder / "run"), "--adapters", "--out", str(out)]
    assert launch.main(line) == ExitCode.OK
    return out


def draw_adapters(state: Any) -> Any:
    """A state with other adapters and another connector."""
    return {**state, "params": jax.tree_util.tree_map_with_path(_value, state["params"])}


def _value(path: Any, leaf: jax.Array) -> jax.Array:
    name = StoredNames("decoder", frozenset({"vision"})).on_disk(leaf_name(path))
    if not name.endswith(ADAPTERS) and ".connector." not in name:
        return leaf
    assert leaf.dtype == np.float32, name
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    return jax.device_put(rng.normal(0, 0.2, leaf.shape).astype(np.float32), leaf.sharding)

"""One of two processes that save a state and restore it: see test_replicas.py.

python -m tests.train.state.pair INDEX ADDRESS FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import tensorstore as ts
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from data.planning.stream import LoaderState
from mllm_jax.config.run import ParallelConfig
from mllm_jax.config.sections import CheckpointConfig
from mllm_jax.runtime.devices import disconnect_processes, start_devices
from mllm_jax.runtime.run_peers import ProcessPlace, current_peers
from mllm_jax.train.state.checkpoint import CheckpointManager
from mllm_jax.train.state.progress import Progress
from mllm_jax.train.state.regroup import LayerRegrouping

CONFIG = {name: {"x": 1} for name in ("run", "model", "data", "train")}


def state() -> Any:
    """Two tables that both processes hold, and one of which each holds a half."""
    mesh = Mesh(np.array(jax.devices()).reshape(2, 2), ("data", "fsdp"))
    specs = {
        "first": PartitionSpec("fsdp"),
        "second": PartitionSpec(None, "fsdp"),
        "split": PartitionSpec(("data", "fsdp")),
    }
    make = np.random.default_rng(0)
    found = {}
    for name, spec in specs.items():
        values = make.normal(size=(1024, 512)).astype(np.float32)
        layout = NamedSharding(mesh, spec)
        found[name] = jax.make_array_from_callback(values.shape, layout, values.__getitem__)
    return {"params": found}


def bytes_read() -> int:
    """Bytes of files that TensorStore has read."""
    metrics = ts.experimental_collect_matching_metrics("/tensorstore/kvstore/file/bytes_read")
    return sum(int(value["value"]) for metric in metrics for value in metric["values"])


def main(index: int, address: str, folder: str) -> None:
    """Save, restore, compare; prints the bytes that were read for it."""
    start_devices(ParallelConfig(devices=4), ProcessPlace(2, index, address))
    saved = state()
    checkpoints = CheckpointManager(Path(folder), CheckpointConfig(), LayerRegrouping(1, None))
    checkpoints.save_state(1, saved, Progress(1, LoaderState(0, step=1)).to_json(), CONFIG)
    checkpoints.wait_for_saves()
    current_peers().gather_values("all is saved", None)
    before = bytes_read()
    target = jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding), saved
    )
    found = checkpoints.restore_state(target)
    assert found is not None
    for own, back in zip(jax.tree.leaves(saved), jax.tree.leaves(found.state), strict=True):
        for one, other in zip(own.addressable_shards, back.addressable_shards, strict=True):
            np.testing.assert_array_equal(one.data, other.data)
    print(bytes_read() - before)  # noqa: T201 - for the test
    checkpoints.close()
    disconnect_processes()
    current_peers().leave_run(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3])

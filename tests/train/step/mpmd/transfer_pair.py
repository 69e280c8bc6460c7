"""One of three processes of two devices each that move arrays: see test_transfer.py.

python -m tests.train.step.mpmd.transfer_pair INDEX ADDRESS
"""

from __future__ import annotations

import sys

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from mllm_jax.config.run import ParallelConfig
from mllm_jax.runtime.devices import disconnect_processes, start_devices
from mllm_jax.runtime.run_peers import ProcessPlace, current_peers
from mllm_jax.train.step.mpmd.transfer import transfer_arrays

#: Devices and layouts that arrays have one after the other: of one process, of two, of three.
ROUTE = (
    ((0, 1), PartitionSpec("x")),
    ((2, 3), PartitionSpec()),
    ((3, 2), PartitionSpec("x")),
    ((4,), PartitionSpec()),
    ((5,), PartitionSpec()),
    ((0, 2), PartitionSpec(None, "x")),
    ((1, 3, 4), PartitionSpec("x")),
    ((5, 0), PartitionSpec("x")),
)


def main(index: int, address: str) -> None:
    """Move a tree from layout to layout and compare what has arrived with what was sent."""
    devices = start_devices(ParallelConfig(devices=6), ProcessPlace(3, index, address))
    values = np.arange(24, dtype=np.float32).reshape(6, 4)
    sent: dict[str, np.ndarray] = {"floats": values, "bytes": values.astype(np.int8)}
    layouts = [
        NamedSharding(Mesh(np.array([devices[number] for number in numbers]), ("x",)), spec)
        for numbers, spec in ROUTE
    ]
    arrays = {
        name: jax.make_array_from_callback(x.shape, layouts[0], x.__getitem__, dtype=x.dtype)
        for name, x in sent.items()
    }
    for layout in layouts[1:]:
        arrays = transfer_arrays(arrays, layout)
        for array in arrays.values():
            assert array.sharding == layout
            for shard in array.addressable_shards:
                np.testing.assert_array_equal(np.asarray(shard.data), values[shard.index])
    print("arrived")  # noqa: T201 - for the test
    disconnect_processes()
    current_peers().leave_run(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])

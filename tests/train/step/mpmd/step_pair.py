"""One of two processes whose groups of modules train: see test_processes.py.

python -m tests.train.step.mpmd.step_pair INDEX ADDRESS CASE
"""

from __future__ import annotations

import sys

import jax
import numpy as np

from mllm_jax.check.verify import compare_gradients
from mllm_jax.config.load import TrainConfig
from mllm_jax.config.run import ParallelConfig
from mllm_jax.runtime.devices import disconnect_processes, start_devices
from mllm_jax.runtime.run_peers import ProcessPlace, current_peers
from mllm_jax.train.step.batch_placement import (
    gather_to_host,
    local_rows,
    place_microbatches,
    select_rows,
)
from mllm_jax.train.step.mpmd.build import build_mpmd_step
from mllm_jax.train.step.mpmd.transfer import transfer_arrays
from sharding.plan import DeviceNumbers, ParallelPlan
from tests.models.test_objectives import ROWS, batches, model, on_one_device, parameters

#: Plans of modules and their devices, two of which each process has.
CASES: dict[str, tuple[dict[str, ParallelPlan], dict[str, DeviceNumbers]]] = {
    "a process each": (
        {
            "decoder": ParallelPlan(data=2),
            "image": ParallelPlan(data=2),
            "vision": ParallelPlan(context=2),
        },
        {"decoder": (0, 1), "image": (2, 3), "vision": (2, 3)},
    ),
    "both in both": (
        {
            "decoder": ParallelPlan(data=2),
            "image": ParallelPlan(fsdp=2),
            "vision": ParallelPlan(data=2),
        },
        {"decoder": (0, 2), "image": (1, 3), "vision": (1, 3)},
    ),
}


def main(index: int, address: str, case: str) -> None:
    """Compare gradients with those of one device, and take steps."""
    start_devices(ParallelConfig(devices=4), ProcessPlace(2, index, address))
    step = build_mpmd_step(model(), *CASES[case], train=TrainConfig(steps=4, learning_rate=1e-3))
    params = jax.tree.map(
        lambda x, like: jax.make_array_from_callback(
            x.shape, like.sharding, x.__getitem__, dtype=x.dtype
        ),
        jax.tree.map(np.asarray, step.form.to_stored(parameters())),
        step.abstract_state["params"],
    )
    rows = local_rows(step, ROWS)
    batch = place_microbatches([select_rows(own, rows) for own in batches(3)], step)
    with jax.default_matmul_precision("highest"):
        gradients, loss = step.gradients(params, batch)
    on_host = step.form.to_canonical(jax.tree.map(gather_to_host, gradients))
    result = compare_gradients((np.asarray(loss), on_host), on_one_device())
    assert result.ok, result
    state = step.init(jax.random.key(0))
    for _ in range(3):
        state, results = step.update(state, batch)
        assert np.isfinite(results["loss"]), "every process can read the results"
    saved = step.to_saved(state)
    assert all(leaf.addressable_shards for leaf in jax.tree.leaves(saved))
    back = step.from_saved(transfer_arrays(saved, jax.tree.map(lambda x: x.sharding, saved)))
    for leaf, own in zip(jax.tree.leaves(back), jax.tree.leaves(state), strict=True):
        assert leaf.sharding.is_equivalent_to(own.sharding, leaf.ndim)
        for shard, other in zip(leaf.addressable_shards, own.addressable_shards, strict=True):
            np.testing.assert_array_equal(np.asarray(shard.data), np.asarray(other.data))
    print("as one device")  # noqa: T201 - for the test
    disconnect_processes()
    current_peers().leave_run(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3])

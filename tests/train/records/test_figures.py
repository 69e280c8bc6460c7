"""What the record of a step says of its microbatches."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from data.planning.stream import LoaderState
from mllm_jax.train.events import Taken
from mllm_jax.train.feed import open_loader
from mllm_jax.train.figures import Recording

SCALARS = {
    "loss": 1.0,
    "grad_norm": 1.0,
    "targets": 1,
    "aux": {},
    "loads": None,
    "trust_ratios": None,
}


def test_outputs_for_another_host_move_there_and_their_gradients_back(experiment: Any) -> None:
    """Beside the samples that a host has read for another one."""
    with open_loader(experiment, LoaderState(0)) as loader:
        own = next(loader)
    crossing = {"vision": 5, "audio": 2}
    sent = [replace(own, stats=replace(own.stats, crossing=crossing, sent=n)) for n in (0, 100)]
    taken = Taken(1, 1.0, sent, SCALARS, 0.1)
    width = experiment.config.model.decoder.d_model * 4  # float32
    assert Recording(experiment).record(taken).moved_bytes == 2 * (2 * 7 * width) + 100

"""Loads of encoders that one program of a step must run alike: partial, uneven and empty ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import replace

from data.batch import PackedBatch
from mllm_jax.models.model_config import ModelConfig

#: Whether a bucket has media in a row of a microbatch: from the number of the bucket, of the
#: microbatch and of the row.
Holds = Callable[[int, int, int], bool]

#: Loads of which the media are a part of the full one's.
LOADS: dict[str, Holds] = {
    # Every other microbatch: independent microbatches feed several.
    "partial": lambda bucket, m, row: m % 2 == 0,
    # Each bucket in another row and other microbatches.
    "uneven": lambda bucket, m, row: (bucket + m // 2 + row) % 2 == 0,
    # One bucket has nothing to do, and the others in the last microbatches alone.
    "late": lambda bucket, m, row: bucket > 0 and m > 1,
    "empty": lambda bucket, m, row: False,
}


def make_loads(
    microbatches: Sequence[PackedBatch], model: ModelConfig
) -> Iterator[tuple[str, list[PackedBatch]]]:
    """Names of `LOADS`, and the microbatches with these media alone.

    Args:
        microbatches: those of the full load, as of `mllm_jax.check.synthetic`.
        model: resolved model configuration.
    """
    for name, holds in LOADS.items():
        yield name, [_keep_media(batch, model, m, holds) for m, batch in enumerate(microbatches)]


def _keep_media(batch: PackedBatch, model: ModelConfig, m: int, holds: Holds) -> PackedBatch:
    """A microbatch with the media of some rows of each bucket alone."""
    batch = deepcopy(batch)
    places_of_bucket = {}
    for bucket, (name, index) in enumerate(batch.text_rows.merges.items()):
        module_rows, places = batch.rows[name], (batch.places or {})[name]
        rows = len(module_rows.segment_ids)
        outputs = module_rows.segment_ids.shape[1] // model.reduction(name)
        for row in (row for row in range(rows) if not holds(bucket, m, row)):
            module_rows.segment_ids[row] = 0
            index[(index >= 0) & (index // outputs == row)] = -1
            places = places[places[:, 0] != row]
        places_of_bucket[name] = places
    return replace(batch, places=places_of_bucket)

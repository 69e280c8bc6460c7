"""Samples that one process cannot read are left out by the one that holds their texts."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from data.batch import NEXT_TOKEN
from data.loading.loader import DataLoader, Microbatch
from data.planning.stream import TrainingDemand
from data.processing.processor import Processor
from mllm_jax.runtime.run_peers import RunPeers
from mllm_jax.train.loading import batches
from tests.data.samples import (
    WORK,
    ListSource,
    MakeConfig,
    Picture,
    all_rows,
    assert_same_arrays,
    make_sample,
)

#: Rows of both processes: the first holds all texts, the second all images.
TEXTS = {"decoder": [0, 1], "vision": [], "audio": []}
IMAGES = {"decoder": [], "vision": [0, 1], "audio": [0, 1]}


class Other(RunPeers):
    """One of two processes; the other one tells what it has found."""

    count = 2

    def __init__(self, other: Any) -> None:
        super().__init__()
        self._other = other

    def gather_values(self, name: str, value: Any) -> list[Any]:
        return [value, self._other]


@pytest.fixture
def source() -> ListSource:
    every = [make_sample(name, [40]) for name in ("a", "b", "c", "d")]
    every[1] = replace(every[1], media={"image": (Picture(16, 40, claimed=(16, 60)),)})
    return ListSource(every)


def test_the_text_beside_an_image_that_another_process_cannot_read_is_left_out(
    source: ListSource,
    processor: Processor,
    make_config: MakeConfig,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = make_config(rows=2, lookahead=4, balance="per_phase")

    def read(rows: dict[str, list[int]]) -> Microbatch:
        with DataLoader(source, processor, data, 0, rows, None, TrainingDemand(WORK)) as loader:
            return next(loader)

    alone, texts, images = map(read, (all_rows(2), TEXTS, IMAGES))
    assert not texts.missing
    (bad,) = images.missing
    assert alone.missing == images.missing
    assert [name for name, _ in images.skipped] == ["b"]
    model = SimpleNamespace(backbone="decoder", buckets={"vision": "vision", "audio": "audio"})
    experiment = SimpleNamespace(config=SimpleNamespace(data=data, model=model), step=None)
    monkeypatch.setattr(batches, "local_rows", lambda step, rows: TEXTS)
    monkeypatch.setattr(batches, "current_peers", lambda: Other([[bad]]))
    before = texts.batch.text_rows.targets[NEXT_TOKEN].weights.sum()
    batches.mask_missing_samples(experiment, [texts])  # type: ignore[arg-type]
    assert_same_arrays(texts.batch.text_rows, alone.batch.text_rows)
    assert 0 < texts.batch.text_rows.targets[NEXT_TOKEN].weights.sum() < before

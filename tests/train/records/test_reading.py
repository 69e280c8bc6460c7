"""One reader feeds all devices of a process, beside the steps, whose waits are measured."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from data.loading.loader import DataLoader
from data.planning.stream import LoaderState
from data.processing.processor import Processor
from mllm_jax.train import trainer as loop
from mllm_jax.train.events import Phase
from mllm_jax.train.experiment import Experiment
from mllm_jax.train.loading import loader as run_loader
from mllm_jax.train.loading.loader import open_loader
from mllm_jax.train.state.progress import Progress
from mllm_jax.train.step.batch_placement import PlacedBatch, place_microbatches
from tests.timing import soon
from tests.train.runs import take_steps


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each text and each medium has been read."""
    found: Counter[str] = Counter()
    text, medium, lock = Processor.process_text, Processor.read_medium, threading.Lock()

    def note(what: str) -> None:
        with lock:
            found[what] += 1

    def noted_text(self: Any, sample: Any, lengths: Any) -> Any:
        note(f"{sample.name} text")
        return text(self, sample, lengths)

    def noted_medium(self: Any, sample: Any, encoder: str, number: int, lengths: Any) -> Any:
        note(f"{sample.name} {encoder} {number}")
        return medium(self, sample, encoder, number, lengths)

    monkeypatch.setattr(Processor, "process_text", noted_text)
    monkeypatch.setattr(Processor, "read_medium", noted_medium)
    return found


def test_one_reader_feeds_all_devices(
    experiment: Experiment, reads: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []

    def counted(*arguments: Any) -> Any:
        made.append(DataLoader(*arguments))
        return made[-1]

    monkeypatch.setattr(run_loader, "DataLoader", counted)
    with open_loader(experiment, LoaderState(0)) as loader:
        own = next(loader)
    assert len(made) == 1
    assert reads
    assert set(reads.values()) == {1}, "devices that share a sample's row share its reading"
    tokens = place_microbatches([own.batch], experiment.step).rows["decoder"].inputs
    shards = tokens.addressable_shards
    assert {shard.device for shard in shards} == set(experiment.step.devices)
    assert len(experiment.step.devices) == 4
    for shard in shards:
        np.testing.assert_array_equal(shard.data, own.batch.text_rows.inputs[None][shard.index])


def test_the_next_batches_are_made_while_nobody_asks_for_them(
    experiment: Experiment, reads: Counter[str]
) -> None:
    with open_loader(experiment, LoaderState(0)) as loader:
        first = next(loader)
        mine = np.count_nonzero(np.diff(first.batch.text_rows.segment_ids, prepend=0) > 0)
        # A step runs now, and reads nothing.
        soon(lambda: _texts(reads) > mine)


def _texts(reads: Counter[str]) -> int:
    return sum(name.endswith(" text") for name in list(reads))


class Slow(Iterator[Any]):
    """A loader whose batches take long to come."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def __next__(self) -> Any:
        time.sleep(self._seconds)
        return _Nothing()


class _Nothing:
    """A microbatch of which nothing is used but the state after it."""

    state, skipped = LoaderState(0), ()
    stats = type("Stats", (), {"group": None})


@pytest.mark.parametrize("seconds", [0.0, 0.2])
def test_what_a_step_waits_for_data_is_measured(
    experiment: Experiment, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    @contextmanager
    def opened(*_: Any) -> Iterator[Slow]:
        yield Slow(seconds)

    results = {"loss": jnp.zeros(()), "learning_rate": 0.1, "carried": {}}
    batch: Any = None
    placed = PlacedBatch(batch, {}, "")
    monkeypatch.setattr(loop, "open_loader", opened)
    monkeypatch.setattr(loop, "place_step", lambda *_: placed)
    # The experiment of other tests may have its program already: a property comes before it.
    update = property(lambda _: lambda state, batch: (state, results))
    monkeypatch.setattr(Experiment, "update", update)
    waits: list[float] = []

    def listen(event: Any) -> None:
        match event:
            case Phase("read", seconds=float(seconds)):
                waits.append(seconds)

    progress = Progress(0, LoaderState(0), sources={})
    list(take_steps(loop.StepRunner(experiment, {}, progress, listen)))
    assert len(waits) == experiment.config.train.steps
    assert min(waits) >= seconds
    assert seconds or min(waits) < 0.1, "without a slow loader nothing is waited for"

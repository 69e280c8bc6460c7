"""Samples that are measured when they are read: the batches of known lengths, on any hosts."""

from __future__ import annotations

import multiprocessing
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
import pytest

from data.config import DataConfig
from data.loading.loader import DataLoader, Microbatch
from data.loading.on_read import HostGroup, MeasuringDataLoader, SingleHost, _PlaceStream
from data.planning.groups.group import HostGroupSpec, make_groups
from data.planning.stream import LoaderState, TrainingDemand
from data.processing.processor import Processor
from data.rows.pack import Words
from data.sample import SampleError
from tests.data.loading.test_loader import assert_same_microbatch, take
from tests.data.samples import (
    WORK,
    ListSource,
    MakeConfig,
    Noise,
    Picture,
    all_rows,
    assert_same_arrays,
    make_sample,
    mixed_source,
)
from tests.timing import PATIENCE

#: By number of hosts, the rows of each.
HOSTS = {
    1: [all_rows(4)],
    2: [
        {"decoder": [0, 1], "vision": [1], "audio": [3, 2, 1, 0]},
        {"decoder": [2, 3], "vision": [0, 3, 2], "audio": []},
    ],
    3: [
        {"decoder": [0, 1], "vision": [1], "audio": [0]},
        {"decoder": [0, 1, 2], "vision": [0, 3, 2], "audio": [1, 2]},
        {"decoder": [3], "vision": [], "audio": [3]},
    ],
}


class Board:
    """The messages between hosts that are threads of this process."""

    def __init__(self, count: int) -> None:
        self.count, self.moved = count, np.zeros((count, count), np.int64)
        self._barrier, self._slots = threading.Barrier(count, timeout=PATIENCE), [None] * count

    def share(self, index: int, value: Any) -> list[Any]:
        """The values of all hosts."""
        self._slots[index] = value
        self._barrier.wait()
        values = list(self._slots)
        self._barrier.wait()
        return values


@dataclass(frozen=True)
class Thread:
    """A host that is a thread."""

    index: int
    board: Board

    @property
    def count(self) -> int:
        return self.board.count

    def gather(self, numbers: Words) -> Callable[[], list[Words]]:
        message = self.board.share(self.index, numbers)
        return lambda: message

    def exchange(self, parts: Sequence[Words], sizes: np.ndarray) -> Callable[[], list[Words]]:
        assert len(parts[self.index]) == 0
        assert [len(part) for part in parts] == sizes[self.index].tolist()
        sent = self.board.share(self.index, (parts, sizes))
        for _, other in sent:
            np.testing.assert_array_equal(other, sizes)
        self.board.moved[self.index] += sizes[self.index]
        received = [words[self.index] for words, _ in sent]
        return lambda: received


def read(
    count: int,
    source: ListSource | Any,
    processor: Processor,
    config: DataConfig,
    hosts: int,
    state: LoaderState | None = None,
    board: Board | None = None,
) -> list[list[Microbatch]]:
    """Steps of every host."""
    rows, board = HOSTS[hosts], board or Board(hosts)
    if config.rows == 1:
        rows = [all_rows(1)]

    def run(index: int) -> list[Microbatch]:
        cluster: HostGroup = Thread(index, board) if hosts > 1 else SingleHost()
        consumer = TrainingDemand(WORK, microbatches=2)
        arguments = (source, processor, config, 5, rows, state, consumer, cluster)
        with MeasuringDataLoader(*arguments) as loader:
            return [next(loader) for _ in range(count)]

    with ThreadPoolExecutor(hosts) as pool:
        return list(pool.map(run, range(hosts)))


@pytest.mark.parametrize("hosts", [1, 2, 3])
@pytest.mark.parametrize(
    "changes",
    [
        {"balance": "per_phase"},
        {"balance": "backbone"},
        {"balance": "per_phase", "batch": "samples", "samples": 21},
    ],
    ids=["per_phase", "backbone", "samples"],
)
def test_batches_are_those_of_known_lengths(
    hosts: int, changes: dict[str, Any], processor: Processor, make_config: MakeConfig
) -> None:
    source, config = mixed_source(60), make_config(lookahead=30, **changes)
    source.samples[11] = "no conversation"
    for rows, microbatches in zip(
        HOSTS[hosts], read(6, source, processor, config, hosts), strict=True
    ):
        expected = take(6, source, processor, config, rows=rows)
        for microbatch, target in zip(microbatches, expected, strict=True):
            assert_same_microbatch(microbatch, target)


@pytest.mark.parametrize("balance", ["none", "per_phase"])
def test_it_continues_on_another_number_of_hosts(
    balance: str, processor: Processor, make_config: MakeConfig
) -> None:
    source, config = mixed_source(60), make_config(lookahead=30, balance=balance)
    expected = take(6, source, processor, config)
    for hosts, done in ((2, 1), (1, 3), (2, 4)):
        state = expected[done - 1].state
        parts = read(6 - done, source, processor, config, hosts, state)
        for rows, microbatches in zip(HOSTS[hosts], parts, strict=True):
            for actual, target in zip(microbatches, expected[done:], strict=True):
                assert actual.state == target.state
                mine = actual.batch.text_rows.inputs
                np.testing.assert_array_equal(mine, target.batch.text_rows.inputs[rows["decoder"]])


def test_it_continues_within_a_step(processor: Processor, make_config: MakeConfig) -> None:
    source = mixed_source(60)
    config = make_config(batch="samples", samples=21, balance="per_phase")
    ((*microbatches,),) = read(6, source, processor, config, 1)
    for done in (1, 2, 3):
        (others,) = read(6 - done, source, processor, config, 1, microbatches[done - 1].state)
        for actual, expected in zip(others, microbatches[done:], strict=True):
            assert_same_microbatch(actual, expected)


def test_each_sample_is_read_once_and_only_what_must_move_does(
    processor: Processor, make_config: MakeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two hosts load each medium once; hosts that hold all rows receive nothing twice."""
    loads: Counter[int] = Counter()
    for kind in (Picture, Noise):
        load = kind.load

        def counted(self: Any, *args: Any, load: Any = load) -> Any:
            loads[id(self)] += 1
            return load(self, *args)

        monkeypatch.setattr(kind, "load", counted)
    source, config = mixed_source(200), make_config(lookahead=20, balance="per_phase")
    board = Board(2)
    microbatches = read(3, source, processor, config, 2, board=board)
    assert max(loads.values()) == 1
    assert board.moved.sum() > 0
    assert not board.moved.diagonal().any()
    # One microbatch more has been sent than was taken.
    assert 0 < sum(microbatch.stats.sent for microbatch in microbatches[0]) < 4 * board.moved.sum()
    # All that arrives is written: three words a token, and the inputs of media.
    tokens = sum(
        microbatch.batch.text_rows.segment_ids.astype(bool).sum() for microbatch in microbatches[0]
    )
    media = sum(
        int(encoder.segment_ids.astype(bool).sum()) * (encoder.inputs.shape[-1] + 3)
        for batch in (microbatch.batch for microbatch in microbatches[0])
        for encoder in (batch.rows[name] for name in batch.text_rows.merges)
    )
    assert 0 < board.moved[1, 0] < 3 * tokens + media


@pytest.mark.parametrize("balance", ["backbone", "per_phase"])
def test_rows_go_where_their_samples_have_been_read(
    balance: str, processor: Processor, make_config: MakeConfig
) -> None:
    """Each host has half of the rows; less moves, and the losses' inputs are the same."""
    config = make_config(lookahead=40, balance=balance)
    rows = [{t: list(range(a, b)) for t in all_rows(4)} for a, b in ((0, 2), (2, 4))]
    hosts = {module: [0, 0, 1, 1] for module in all_rows(4)}
    moved, texts = [], []
    for readers in (1, 2):
        board, consumer = Board(2), TrainingDemand(WORK, hosts, readers=readers)

        def run(
            index: int, board: Board = board, consumer: TrainingDemand = consumer
        ) -> list[Microbatch]:
            source, cluster = mixed_source(60), Thread(index, board)
            arguments = (source, processor, config, 5, rows, None, consumer, cluster)
            with MeasuringDataLoader(*arguments) as loader:
                return [next(loader) for _ in range(4)]

        with ThreadPoolExecutor(2) as pool:
            microbatches = list(pool.map(run, range(2)))
        moved.append(sum(microbatch.stats.sent for microbatch in microbatches[0]))
        tokens = [
            np.concatenate([a.batch.text_rows.inputs, b.batch.text_rows.inputs])
            for a, b in zip(*microbatches, strict=True)
        ]
        texts.append([sorted(row.tobytes() for row in microbatch) for microbatch in tokens])
    assert texts[0] == texts[1]  # the same rows, in another order
    assert moved[1] < 0.95 * moved[0]


def test_groups_read_and_exchange_by_themselves(
    processor: Processor, make_config: MakeConfig
) -> None:
    """Four hosts in two groups; a group's hosts know nothing of the others."""
    config = make_config(lookahead=40, balance="per_phase")
    rows: list[dict[str, Sequence[int]]] = [{t: [host] for t in all_rows(4)} for host in range(4)]
    hosts = {module: [0, 1] for module in all_rows(4)}
    consumed = []
    for group in make_groups(config, rows, 2):
        board = Board(2)
        consumer = TrainingDemand(WORK, hosts, 2, readers=2, group=group)

        def run(
            index: int,
            group: HostGroupSpec = group,
            board: Board = board,
            consumer: TrainingDemand = consumer,
        ) -> list[Microbatch]:
            group_rows, cluster = [rows[host] for host in group.hosts], Thread(index, board)
            arguments = (
                mixed_source(60),
                processor,
                config,
                5,
                group_rows,
                None,
                consumer,
                cluster,
            )
            with MeasuringDataLoader(*arguments) as loader:
                return [next(loader) for _ in range(6)]

        with ThreadPoolExecutor(2) as pool:
            microbatches = list(pool.map(run, range(2)))
        for host, host_microbatches in zip(group.hosts, microbatches, strict=True):
            arguments = (mixed_source(60), processor, config, 5, rows[host], None, consumer)
            with DataLoader(*arguments) as known:
                for actual in host_microbatches:
                    expected = next(known)
                    assert_same_microbatch(actual, expected)
                    assert actual.stats.samples == expected.stats.samples
                    assert actual.stats.capacity["tokens"] == 2 * config.budgets["tokens"]
        consumed.append(microbatches[0][-1].state)
    assert consumed[0] != consumed[1]


def test_samples_that_fit_in_no_row_are_not_kept(
    processor: Processor, make_config: MakeConfig
) -> None:
    source = mixed_source(20)
    for index in range(0, 20, 3):
        source.samples[index] = make_sample(f"long{index}", answer="1 " * 400)
    config = make_config(lookahead=10, balance="per_phase")
    consumer, rows = TrainingDemand(WORK), [all_rows(4)]
    arguments = (source, processor, config, 5, rows, None, consumer, SingleHost())
    with MeasuringDataLoader(*arguments) as loader:
        for _ in range(12):
            next(loader)
        waiting = set(loader._waiting.examples)
        assert waiting - loader._planner.waiting_positions <= set(loader._planner.missing_positions)
        assert len(loader._waiting.examples) <= 2 * config.on_offer(2)


@pytest.mark.slow
def test_worker_processes_change_nothing(processor: Processor, make_config: MakeConfig) -> None:
    source, changes = mixed_source(40), {"lookahead": 20, "balance": "per_phase"}
    (expected,) = read(3, source, processor, make_config(**changes), 1)
    (actual,) = read(3, source, processor, make_config(workers=2, **changes), 1)
    for microbatch, target in zip(actual, expected, strict=True):
        assert_same_microbatch(microbatch, target)
    # Grain kills a worker that does not end in time, and does not wait for that.
    for child in multiprocessing.active_children():
        child.join(timeout=PATIENCE)
    assert not multiprocessing.active_children()
    assert not [t for t in threading.enumerate() if t.name.startswith("grain")]


def test_reading_goes_on_after_what_has_been_taken() -> None:
    """Two hosts have two workers each; samples that were carried over come first."""
    group = HostGroupSpec(1, 2)
    for index, positions in enumerate([[5, 21, 25, 29], [3, 7, 23, 27]]):
        places = _PlaceStream(
            mixed_source(30), LoaderState(3, 0, 20, (3, 4, 5, 7)), index, 2, 0, group
        )
        assert [position for position, _, _ in islice(iter(places), 4)] == positions
    state = LoaderState(3, position=20, carry=(3, 6, 11, 15))
    for index in range(2):
        places = _PlaceStream(mixed_source(30), state, index, 2)
        every = list(islice(iter(places), 12))
        assert [position for position, _, _ in every[:3]] == [[6, 20, 22], [3, 11, 15]][index]
        for consumed in (1, 2, 5):
            for worker in range(2):
                others = _PlaceStream(mixed_source(30), state, index, 2, consumed)
                others.set_slice(slice(worker, None, 2))
                assert list(islice(iter(others), 3)) == every[consumed + worker :: 2][:3]


def test_a_header_that_lies_harms_nothing(processor: Processor, make_config: MakeConfig) -> None:
    """The length is that of the image, so the sample is no bad one."""
    config = make_config(rows=1, lookahead=3, balance="per_phase")
    honest = make_sample("b", [40])
    liar = replace(honest, media={**honest.media, "image": (Picture(16, 40, claimed=(16, 60)),)})
    ((microbatch,),) = read(1, ListSource([liar]), processor, config, 1)
    (expected,) = take(1, ListSource([honest]), processor, config)
    assert not microbatch.skipped
    assert_same_arrays(microbatch.batch, expected.batch)


def test_a_bad_sample_is_raised_by_name_on_every_host(
    processor: Processor, make_config: MakeConfig
) -> None:
    source = mixed_source(8)
    source.samples[5] = "no conversation"
    config = make_config(on_error="raise", lookahead=16)
    with pytest.raises(SampleError, match="sample bad5: no conversation"):
        read(3, source, processor, config, 2)

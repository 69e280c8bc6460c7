"""The loader: exact resumption, any workers, any hosts, nothing left behind."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from data import waits
from data.batch import NEXT_TOKEN
from data.config import DataConfig
from data.faults import FaultKind, SampleFault
from data.loading import prefetch
from data.loading.loader import DataLoader, Microbatch
from data.planning.stream import LoaderState, TrainingDemand
from data.processing.processor import Processor, make_processor
from data.sample import DataError, SampleError
from data.sources.source import Source
from data.waits import SLOT
from tests.configs import ROOT
from tests.data.samples import (
    AUDIO,
    TEXT,
    VISION,
    WORK,
    ListSource,
    MakeConfig,
    Picture,
    all_rows,
    arrays,
    assert_same_arrays,
    make_sample,
)
from tests.supervise.test_supervisor import gone
from tests.timing import soon


def assert_same_microbatch(actual: Microbatch, expected: Microbatch) -> None:
    assert actual.state == expected.state
    assert actual.skipped == expected.skipped
    assert actual.stats.used == expected.stats.used
    assert_same_arrays(actual.batch, expected.batch)


def take(
    count: int,
    source: Source,
    processor: Processor,
    config: DataConfig,
    state: LoaderState | None = None,
    rows: dict[str, list[int]] | None = None,
) -> list[Microbatch]:
    rows = rows or all_rows(config.rows)
    consumer = TrainingDemand(WORK, microbatches=2)
    with DataLoader(source, processor, config, 5, rows, state, consumer) as loader:
        return [next(loader) for _ in range(count)]


@pytest.mark.parametrize("balance", ["none", "per_phase"])
def test_a_loader_continues_from_the_state_of_every_microbatch(
    balance: str, demo: Source, processor: Processor, make_config: MakeConfig
) -> None:
    config = make_config(balance=balance, lookahead=96)
    microbatches = take(8, demo, processor, config)  # several epochs of the small demo
    assert microbatches[-1].state.position >= 2 * len(demo)
    for done in range(1, 8):
        state = LoaderState.from_json(microbatches[done - 1].state.to_json())
        others = take(8 - done, demo, processor, config, state)
        for actual, expected in zip(others, microbatches[done:], strict=True):
            assert_same_microbatch(actual, expected)


@pytest.mark.parametrize("balance", [pytest.param("none", marks=pytest.mark.slow), "per_phase"])
def test_worker_processes_change_nothing_and_leave_nothing(
    balance: str, demo: Source, processor: Processor, make_config: MakeConfig
) -> None:
    expected = take(5, demo, processor, make_config(balance=balance))
    busy = make_config(workers=2, balance=balance)
    microbatches = take(3, demo, processor, busy)
    microbatches += take(2, demo, processor, busy, microbatches[-1].state)
    for actual, target in zip(microbatches, expected, strict=True):
        assert_same_microbatch(actual, target)
        assert actual.stats.sent == 0
        owners = [type(a) for _, a in arrays(actual.batch)]
        assert set(owners) == {np.ndarray}  # and not a view of shared memory
    assert not multiprocessing.active_children()
    assert not [t for t in threading.enumerate() if t.name.startswith("grain")]


def test_workers_that_are_killed_lose_no_sample_and_repeat_none(
    demo: Source,
    processor: Processor,
    make_config: MakeConfig,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One of two is killed within a step; a second death is one too many."""
    monkeypatch.setattr(prefetch, "RESTARTS", 1)
    expected = take(15, demo, processor, make_config())
    busy = make_config(workers=2, prefetch=1)  # what is ready when one is killed still comes
    rows, consumer = all_rows(4), TrainingDemand(WORK, microbatches=2)
    with DataLoader(demo, processor, busy, 5, rows, None, consumer) as loader:
        microbatches = [next(loader) for _ in range(3)]
        killed = kill_a_worker()
        microbatches += [next(loader) for _ in range(12)]
        for actual, target in zip(microbatches, expected, strict=True):
            assert_same_microbatch(actual, target)
        ours = [record for record in caplog.records if record.name == prefetch.logger.name]
        (message,) = [record.getMessage() for record in ours]
        assert f"a worker process of the loader ({killed}) was killed by SIGKILL" in message
        kill_a_worker()
        with pytest.raises(DataError, match="SIGKILL, after workers had been started again 1"):
            list(islice(loader, 12))
    assert not multiprocessing.active_children()


def kill_a_worker() -> int:
    """Ends a worker process as the kernel does when memory runs out; its number."""
    number = multiprocessing.active_children()[0].pid or 0
    os.kill(number, signal.SIGKILL)
    return number


def test_a_worker_leaves_interrupts_to_the_parent(
    demo: Source, processor: Processor, make_config: MakeConfig
) -> None:
    expected = take(6, demo, processor, make_config())
    busy = make_config(workers=1, prefetch=1)  # all but two are made after the signal
    consumer = TrainingDemand(WORK, microbatches=2)
    with DataLoader(demo, processor, busy, 5, all_rows(4), consumer=consumer) as loader:
        microbatches = [next(loader)]
        for worker in multiprocessing.active_children():
            os.kill(worker.pid or 0, signal.SIGINT)
        microbatches += [next(loader) for _ in range(5)]
        (table,) = waits._tables
        assert os.fstat(table._file).st_size == SLOT  # the worker tells what it waits for
    assert not waits._tables
    for actual, target in zip(microbatches, expected, strict=True):
        assert_same_microbatch(actual, target)
    assert not multiprocessing.active_children()


def test_a_worker_ends_with_a_parent_that_is_killed(
    processes: list[subprocess.Popen[str]], tmp_path: Path
) -> None:
    words = [sys.executable, "-m", "tests.data.loading.left_workers", str(tmp_path)]
    parent = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    processes.append(parent)
    assert parent.stdout is not None
    (worker,) = map(int, parent.stdout.readline().split())
    assert not gone(worker)
    parent.kill()
    soon(lambda: gone(worker))


def test_closing_twice_and_early_leaves_no_thread(
    demo: Source, processor: Processor, config: DataConfig
) -> None:
    before = threading.active_count()
    loader = DataLoader(demo, processor, config, seed=0, rows=all_rows(4))
    loader.close()
    loader = DataLoader(demo, processor, config, seed=0, rows=all_rows(4))
    next(loader)
    assert threading.active_count() > before
    loader.close()
    loader.close()
    assert threading.active_count() == before
    with pytest.raises(StopIteration):
        next(loader)


@pytest.mark.parametrize("balance", ["none", "backbone", "per_phase"])
def test_hosts_get_the_rows_of_the_single_host_batch(
    balance: str, demo: Source, processor: Processor, make_config: MakeConfig
) -> None:
    config = make_config(balance=balance)
    complete = take(3, demo, processor, config)
    hosts = [
        {"decoder": [0, 1], "vision": [1], "audio": [3, 2, 1, 0]},
        {"decoder": [2, 3], "vision": [0, 3, 2], "audio": []},
    ]
    for rows in hosts:
        parts = take(3, demo, processor, config, rows=rows)
        for part, microbatch in zip(parts, complete, strict=True):
            assert part.state == microbatch.state
            assert part.stats.used == microbatch.stats.used
            expected = dict(arrays(microbatch.batch))
            for name, array in arrays(part.batch):
                field, module, *_ = name.split(".")
                target = expected[name][rows[module]] if field == "rows" else expected[name]
                np.testing.assert_array_equal(array, target, err_msg=name)


@pytest.mark.parametrize("balance", ["none", "per_phase"])
def test_other_hosts_go_on_with_the_same_samples(
    balance: str, demo: Source, processor: Processor, make_config: MakeConfig
) -> None:
    """One host becomes two, and two become three, whose rows overlap."""
    config = make_config(balance=balance)
    complete = take(6, demo, processor, config)
    shares = {
        2: [(0, 2), (2, 4)],
        3: [(0, 2), (1, 3), (3, 4)],
    }
    state = complete[1].state
    for at, hosts in ((2, 2), (4, 3)):
        for first, last in shares[hosts]:
            rows = {module: list(range(first, last)) for module in all_rows(4)}
            parts = take(2, demo, processor, config, state, rows)
            for part, microbatch in zip(parts, complete[at : at + 2], strict=True):
                expected = microbatch.batch.text_rows.inputs[first:last]
                np.testing.assert_array_equal(part.batch.text_rows.inputs, expected)
        state = parts[-1].state
    assert state == complete[-1].state


def test_statistics_count_the_arrays(
    demo: Source, processor: Processor, config: DataConfig
) -> None:
    for microbatch in take(3, demo, processor, config):
        rows = dict(microbatch.batch.rows)
        counts = {"tokens": np.count_nonzero(rows.pop("decoder").segment_ids)} | {
            name: np.count_nonzero(media.segment_ids) for name, media in rows.items()
        }
        assert microbatch.stats.used == counts
        assert microbatch.stats.capacity == {"tokens": 4 * 312, "vision": 4 * 72, "audio": 4 * 640}
        assert microbatch.stats.padding_shares["audio"] == 1 - counts["audio"] / (4 * 640)
        assert microbatch.stats.samples == len(microbatch.stats.lengths["decoder"])
        assert microbatch.stats.lengths["vision"].sum() == counts["vision"]


def test_a_sample_that_turns_out_bad_leaves_a_hole(
    processor: Processor, make_config: MakeConfig
) -> None:
    config = make_config(rows=1, lookahead=3)
    good = [make_sample("a", [30], [900]), make_sample("b", [40], [800]), make_sample("c", [9])]
    liar = replace(good[1], media={**good[1].media, "image": (Picture(16, 40, claimed=(16, 60)),)})
    honest = replace(good[1], media={**good[1].media, "image": (Picture(16, 60),)})
    (complete,) = take(1, ListSource([good[0], honest, good[2]]), processor, config)
    (microbatch,) = take(1, ListSource([good[0], liar, good[2]]), processor, config)
    assert [name for name, _ in microbatch.skipped] == ["b"]
    assert microbatch.stats.used == complete.stats.used  # the plan knows nothing of it
    missing = {
        name: expected != actual
        for (name, actual), (_, expected) in zip(
            arrays(microbatch.batch), arrays(complete.batch), strict=True
        )
    }
    hole = missing["rows.decoder.segment_ids"]
    assert hole.sum() == processor.measure(honest).total("decoder")
    assert not microbatch.batch.text_rows.targets[NEXT_TOKEN].weights[hole].any()
    assert not missing["rows.decoder.inputs"][~hole].any()
    assert missing["rows.vision.segment_ids"].sum() == 8
    assert not microbatch.batch.rows["vision"].inputs[missing["rows.vision.inputs"]].any()


def test_a_sample_that_turns_out_bad_is_raised_by_name(
    processor: Processor, make_config: MakeConfig
) -> None:
    liar = replace(make_sample("liar", [40]), media={"image": (Picture(16, 40, claimed=(16, 60)),)})
    with pytest.raises(SampleError, match="sample liar: was measured as"):
        take(1, ListSource([liar]), processor, make_config(on_error="raise"))


def test_an_error_in_a_worker_names_the_sample(
    processor: Processor, make_config: MakeConfig
) -> None:
    source = ListSource([make_sample("mute", answer="")])
    with pytest.raises(SampleError, match="sample mute: turn 1 is an empty answer"):
        take(1, source, processor, make_config(on_error="raise", workers=1))
    assert not multiprocessing.active_children()


def test_a_sample_longer_than_the_budget_is_skipped_or_raised(
    processor: Processor, make_config: MakeConfig
) -> None:
    long = make_sample("long", answer="1 " * 400)
    source = ListSource([long, make_sample("short")])
    (microbatch,) = take(1, source, processor, make_config(lookahead=4))
    fault = SampleFault(FaultKind.BUDGET, "needs 406 tokens, above data.budgets' 312 for a row")
    assert set(microbatch.skipped) == {("long", fault)}
    with pytest.raises(SampleError, match="sample long: needs 406 tokens"):
        take(1, source, processor, make_config(on_error="raise"))


def test_a_state_of_another_seed_and_an_empty_source_are_refused(
    demo: Source, processor: Processor, config: DataConfig
) -> None:
    with pytest.raises(DataError, match=r"has the seed 4, but train\.seed is 5; valid: 4"):
        take(1, demo, processor, config, LoaderState(4))
    with pytest.raises(DataError, match=r"data\.source has no samples"):
        take(1, ListSource([]), processor, config)


def test_text_only_samples_need_no_encoder(make_config: MakeConfig) -> None:
    config = make_config(budgets={"tokens": 64, "segments": 8}, rows=2)
    processor = make_processor(config, [TEXT])
    rows = {"decoder": [0, 1]}
    source = ListSource([make_sample(name) for name in "abcd"])
    (microbatch,) = take(1, source, processor, config, rows=rows)
    assert {*microbatch.batch.rows} == {"decoder"}
    assert microbatch.stats.samples > 2


def test_budgets_of_other_encoders_are_refused(
    demo: Source, config: DataConfig, make_config: MakeConfig
) -> None:
    processor = make_processor(config, [TEXT, VISION, AUDIO])
    other = make_config(budgets={"tokens": 64, "segments": 8, "vision": 64})
    with pytest.raises(DataError, match=r"valid: exactly \['tokens', 'vision', 'audio'"):
        take(1, demo, processor, other)

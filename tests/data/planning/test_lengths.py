"""The table of lengths: equal to measuring, kept once, found again, and no lie about the data."""

from __future__ import annotations

import json
import multiprocessing
import os
import pickle
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest

import data.planning.lengths
from data.config import DataConfig
from data.faults import FaultKind, SampleFault
from data.loading.assemble import BatchAssembler
from data.loading.loader import DataLoader, Microbatch
from data.loading.on_read import MeasuringDataLoader, SingleHost
from data.media.audio.media_type import AudioType
from data.planning.lengths import LengthTable, lengths_folder, measure, open_lengths
from data.planning.stream import BatchPlanner, LoaderState, TrainingDemand
from data.processing.processor import Processor, make_processor
from data.sample import DataError, Lengths, Sample, SampleError
from data.sources.cache import KEPT
from data.sources.make import make_source
from data.sources.source import SampleKey
from tests.data.samples import (
    AUDIO,
    CAPACITY,
    TEXT,
    VISION,
    WORK,
    ListSource,
    MakeConfig,
    all_rows,
    assert_same_arrays,
    make_sample,
    mixed_source,
)


@dataclass
class Named(ListSource):
    """A source with a fingerprint, kept in `home`."""

    samples: list[Sample | str]
    home: Path
    fingerprint: str | None = "one"
    asked: list[int] = field(default_factory=list)


@pytest.fixture
def source(tmp_path: Path) -> Named:
    samples = mixed_source(40).samples
    samples[7] = "no conversation"
    return Named(samples, tmp_path / "home")


def same(table: LengthTable, source: ListSource, processor: Processor) -> None:
    """Every entry is what measuring gives."""
    assert len(table) == len(source)
    for index in range(len(source)):
        found = table[index]
        if isinstance(found, SampleFault):
            with pytest.raises(SampleError, match=found.text):
                processor.measure(source[index, 0])
        else:
            assert found == processor.measure(source[index, 0])


def test_the_table_is_what_measuring_gives(source: Named, processor: Processor) -> None:
    table = measure(source, processor)
    same(table, source, processor)
    assert table[7] == SampleFault(FaultKind.RECORD, "no conversation")
    same(pickle.loads(pickle.dumps(table)), source, processor)


def test_lengths_are_measured_once_and_found_again(
    source: Named, processor: Processor, config: DataConfig, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", "data.planning.lengths"):
        first = open_lengths(source, processor, config)
        assert len(source.asked) == 1 + 40  # one is looked at before all
        again = open_lengths(source, processor, config)
    assert source.asked[41:] == [7]  # an unusable one may have been mended
    folder = lengths_folder(source, processor, config)
    assert caplog.messages == [f"measuring 40 samples, once, into {folder}"]
    for table in (first, again, pickle.loads(pickle.dumps(again))):
        same(table, source, processor)
    assert isinstance(again.tokens, np.memmap)
    assert len(pickle.dumps(again)) < 500  # the name of the folder, and not the arrays
    assert [path.name for path in source.home.iterdir()] == [first.folder.name]  # type: ignore[union-attr]


def test_lengths_of_a_few_settings_are_kept_and_none_that_is_in_use(
    source: Named, make_config: MakeConfig
) -> None:
    def opened(height: int) -> LengthTable:
        config = make_config(image={"height": height})
        return open_lengths(source, make_processor(config, [TEXT, VISION, AUDIO]), config)

    tables = [opened(16 * (number + 1)) for number in range(KEPT + 1)]
    assert all(own.folder and own.folder.is_dir() for own in tables)  # each is in use
    gone = [tables[1].folder, tables[2].folder]
    folder, kept = tables[0].folder, tables[3:]
    assert folder is not None
    os.utime(folder, (1, 1))
    del tables
    again = opened(16)  # used now, so it stays
    opened(16 * 99)
    opened(16 * 98)
    assert folder.is_dir()
    assert again.folder == folder
    assert not any(own.is_dir() for own in gone if own)
    assert all(own.folder and own.folder.is_dir() for own in kept)
    assert len([*folder.parent.iterdir()]) <= KEPT + 1


def test_a_source_without_a_whole_record_ends_at_once(
    processor: Processor, make_config: MakeConfig
) -> None:
    source = ListSource(["seen: it is not read"] * 1000)
    with pytest.raises(DataError, match=r"no sample is usable \(64 of 1000 .*bad0: seen: it is"):
        open_lengths(source, processor, make_config())
    assert len(source.asked) == 64
    with pytest.raises(DataError, match=r"no sample is usable \(2\); the first, bad0: seen"):
        measure(ListSource(["seen", "seen"]), processor)


def test_processes_measure_what_one_measures(
    source: Named, processor: Processor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data.planning.lengths, "SAMPLES_A_PROCESS", 8)
    monkeypatch.setattr(data.planning.lengths, "_CHUNK", 8)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    same(measure(source, processor), source, processor)
    assert not multiprocessing.active_children()


@pytest.mark.parametrize(
    "change",
    [
        {"image": {"height": 24}},
        {"image": {"height": 16, "max_pixels": 100}},
        {"audio": {"sample_rate": 8000, "hop": 160, "window": 200}},
        {"tokenizer": "bytes"},
    ],
)
def test_another_processor_has_other_lengths(
    change: dict[str, Any], source: Named, processor: Processor, make_config: MakeConfig
) -> None:
    other = make_processor(make_config(**change), [TEXT, VISION, AUDIO])
    config = make_config()
    assert lengths_folder(source, processor, config) != lengths_folder(source, other, config)


def test_what_decides_no_length_changes_no_fingerprint(
    source: Named, processor: Processor, make_config: MakeConfig
) -> None:
    config = make_config(image={"height": 16, "mean": [0.1], "std": [0.2]}, rows=2)
    other = make_processor(config, [TEXT, VISION, AUDIO])
    assert lengths_folder(source, processor, config) == lengths_folder(source, other, config)


def test_other_data_or_encoders_have_other_lengths(
    source: Named, processor: Processor, config: DataConfig
) -> None:
    folder = lengths_folder(source, processor, config)
    fewer = make_processor(config, [TEXT, VISION])
    assert folder != lengths_folder(source, fewer, config)
    source.fingerprint = "two"
    assert folder != lengths_folder(source, processor, config)
    source.fingerprint = None
    assert lengths_folder(source, processor, config) is None


def test_sources_have_fingerprints_of_their_contents(
    tmp_path: Path, make_config: MakeConfig
) -> None:
    turns = [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]
    prints = []
    for text in ("x", "y", "x"):
        turns[0]["value"] = text
        path = tmp_path / "records.json"
        path.write_text(json.dumps([{"conversations": turns}]))
        found = make_source(make_config(source={"kind": "llava", "path": path}))
        assert found.home.parent == make_config().cache
        prints.append(found.fingerprint)
    assert prints[0] == prints[2] != prints[1]
    base = {"kind": "demo", "train": 20, "heldout": 8, "clips": 4, "variants": 1}
    demos = [
        make_source(make_config(source=base | change), split)
        for change in ({}, {"seed": 1}, {"pairs": 0.5})
        for split in ("train", "heldout")
    ]
    assert len({demo.fingerprint for demo in demos}) == 6


def test_a_folder_that_cannot_be_written_is_named(
    source: Named, processor: Processor, make_config: MakeConfig, tmp_path: Path
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    config = make_config(lengths_folder=blocked)
    with pytest.raises(DataError, match=f"cannot be kept in {blocked}.*data.lengths_folder"):
        open_lengths(source, processor, config)


def test_a_medium_that_was_missing_is_found_again(
    tmp_path: Path, make_config: MakeConfig, caplog: pytest.LogCaptureFixture
) -> None:
    turns = [{"from": "human", "value": "<image> what ?"}, {"from": "gpt", "value": "1"}]
    path = tmp_path / "records.json"
    path.write_text(json.dumps([{"image": f"{i}.png", "conversations": turns} for i in range(3)]))
    config = make_config(source={"kind": "llava", "path": path})
    processor = make_processor(config, [TEXT, VISION, AUDIO])
    caplog.set_level("INFO", "data.planning.lengths")
    for number, usable in ((0, [0]), (2, [0, 2]), (1, [0, 1, 2])):
        PIL.Image.new("L", (40, 16)).save(tmp_path / f"{number}.png")
        for _ in range(2):
            caplog.clear()
            table = open_lengths(make_source(config), processor, config)
            assert [i for i in range(3) if isinstance(table[i], Lengths)] == usable
    assert not caplog.messages  # nothing is bad, nothing is measured
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    moved = make_config(source={"kind": "llava", "path": path, "media": elsewhere})
    table = open_lengths(make_source(moved), processor, moved)
    assert isinstance(table[0], SampleFault)
    assert table[0].kind == FaultKind.MISSING
    # An earlier version wrote reasons alone.
    assert table.folder
    listed = json.dumps({i: str(fault) for i, fault in table.unusable.items()})
    (table.folder / "unusable.json").write_text(listed)
    assert open_lengths(make_source(moved), processor, moved).unusable == table.unusable


def cut(array: np.ndarray) -> np.ndarray:
    return array[:-1]


def one_more(array: np.ndarray) -> np.ndarray:
    """Lengths that may be, and are wrong."""
    return np.where(array < 0, array, array + 1)


def zeros(array: np.ndarray) -> np.ndarray:
    return np.zeros_like(array)


@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("vision.lengths.npy", None),
        ("vision.lengths.npy", zeros),
        ("tokens.npy", one_more),
        ("vision.starts.npy", cut),
        ("vision.offsets.npy", cut),
        ("tokens.npy", cut),
        ("unusable.json", "null"),
        ("unusable.json", "{}"),
        ("unusable.json", '{"one": "two"}'),
    ],
)
def test_a_damaged_folder_is_told_and_measured_again(
    file: str,
    change: Any,
    source: Named,
    processor: Processor,
    config: DataConfig,
    caplog: pytest.LogCaptureFixture,
) -> None:
    table = open_lengths(source, processor, config)
    folder, before = table.folder, [table[i] for i in range(len(source))]
    assert folder is not None
    if callable(change):
        np.save(folder / file, change(np.load(folder / file)))
    elif change:
        (folder / file).write_text(change)
    else:
        (folder / file).unlink()
    for _ in range(2):
        again = open_lengths(source, processor, config)
        assert [again[i] for i in range(len(source))] == before
    told = [line for line in caplog.messages if "are damaged" in line]
    assert len(told) == 1
    assert f"lengths in {folder} are damaged and are made again: {file}" in told[0]


# ---- when the data are not what they were --------------------------------------------------------


@pytest.mark.parametrize("balance", ["none", "per_phase"])
def test_data_that_changed_since_are_an_error_that_names_the_sample(
    balance: str, tmp_path: Path, make_config: MakeConfig
) -> None:
    """The records are the same; an image is another one."""
    turns = [{"from": "human", "value": "<image> what ?"}, {"from": "gpt", "value": "1"}]
    path = tmp_path / "records.json"
    path.write_text(json.dumps([{"image": "a.png", "conversations": turns}]))
    PIL.Image.new("L", (40, 16)).save(tmp_path / "a.png")
    config = make_config(source={"kind": "llava", "path": path}, balance=balance, rows=1)
    processor = make_processor(config, [TEXT, VISION, AUDIO])
    for width in (40, 60):
        PIL.Image.new("L", (width, 16)).save(tmp_path / "a.png")
        source = make_source(config)
        lengths = open_lengths(source, processor, config)
        planner = BatchPlanner(
            source, lengths, config, CAPACITY, LoaderState(0), TrainingDemand(WORK)
        )
        plan = planner.plan()
        assemble = BatchAssembler(source, processor, config, all_rows(1), balance == "per_phase")
        if width == 40:
            assert not assemble(plan.placements, plan.capacity)[1]
        else:
            with pytest.raises(DataError, match=r"records.json\[0\].*have changed since"):
                assemble(plan.placements, plan.capacity)


# ---- of media that are drawn anew ----------------------------------------------------------------


class DrawnSource(ListSource):
    """Samples with a clip that is another one in every epoch."""

    fingerprint = "drawn"

    def __getitem__(self, key: SampleKey) -> Sample:
        index, epoch = key
        self.asked.append(index)
        frames = np.random.default_rng(key).integers(1, 60)
        return make_sample(f"drawn{index} of {epoch}", [], [80 * int(frames)], "1 2 3")


@pytest.mark.parametrize("loader", ["cached", "on_read"])
def test_drawn_media_are_those_of_their_epoch(
    loader: str, tmp_path: Path, make_config: MakeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every epoch has other clips, planned with their lengths; a resumed loader has the same."""
    monkeypatch.setattr(AudioType, "is_drawn", True)
    config = make_config(lengths=loader, rows=2, cache=tmp_path)
    source, processor = DrawnSource([""] * 9), make_processor(config, [TEXT, VISION, AUDIO])
    assert processor.is_drawn

    def microbatches(state: LoaderState | None, count: int) -> list[Microbatch]:
        common = source, processor, config, 3
        with (
            DataLoader(*common, all_rows(2), state, TrainingDemand(WORK))
            if loader == "cached"
            else MeasuringDataLoader(
                *common, [all_rows(2)], state, TrainingDemand(WORK), SingleHost()
            )
        ) as batches:
            return [next(batches) for _ in range(count)]

    every = microbatches(None, 6)
    placed = [p for microbatch in every for p in microbatch.stats.placements]
    assert len({p.epoch for p in placed}) > 2
    for p in placed:
        assert p.lengths == processor.measure(source[p.key])
    assert len({p.lengths.counts("audio") for p in placed if p.index == 4}) > 1
    again = microbatches(every[2].state, 3)
    for one, other in zip(every[3:], again, strict=True):
        assert_same_arrays(one.batch, other.batch)
    assert not list(tmp_path.rglob("tokens.npy")), "lengths of one epoch are kept for all"

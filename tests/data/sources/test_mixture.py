"""Mixtures: members of any kind, lengths measured once, runs that resume, weights that hold."""

from __future__ import annotations

import json
import logging
import pickle
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from data.config import DataConfig, MixtureSource
from data.loading.loader import DataLoader
from data.loading.on_read import MeasuringDataLoader, SingleHost
from data.planning.lengths import open_lengths
from data.planning.stream import BatchPlanner, LoaderState, TrainingDemand
from data.planning.suggest import suggest_budgets
from data.processing.processor import make_processor
from data.sample import DataError, SampleError
from data.sources.make import make_source
from data.sources.mixture import SourceMixture
from tests.data.loading.test_loader import assert_same_microbatch
from tests.data.samples import AUDIO, CAPACITY, TEXT, VISION, WORK, MakeConfig, all_rows
from tests.data.sources.formats.writers import FORMATS, SAMPLES

WEIGHTS = {"json_list": 3.0, "webdataset": 1.0, "arrayrecord": 0.5}
COUNTS = {"json_list": 2, "webdataset": 4, "arrayrecord": 6}
BUDGETS = {"tokens": 400, "vision": 72, "audio": 640, "segments": 24}


@pytest.fixture
def mixture(make_config: MakeConfig, tmp_path: Path) -> Any:
    """A configuration of a mixture of the named formats, with weights."""

    written: dict[str, Any] = {}

    def make(weights: dict[str, float], **changes: Any) -> DataConfig:
        members = {}
        for name, weight in weights.items():
            if name not in written:
                folder = tmp_path / name
                folder.mkdir()
                written[name] = FORMATS[name](folder, SAMPLES[: COUNTS[name]])
            members[name] = {"weight": weight, "source": written[name]}
        base = {
            "source": {"kind": "mixture", "members": members},
            "budgets": BUDGETS,
            "tokenizer": "bytes",
            "rows": 1,
            "lookahead": 4,
            "cache": tmp_path / "cache",
        }
        return make_config(**(base | changes))

    return make


def test_it_holds_every_sample_of_every_member_once(mixture: Any) -> None:
    source = make_source(mixture(WEIGHTS))
    assert len(source) == 2 + 4 + 6
    names = [source.name(index) for index in range(len(source))]
    assert names[0] == "json_list/train.json[0]"
    assert names[2] == "webdataset/0.tar:deep/000000"
    assert names[-1].startswith("arrayrecord/train-00001-of-00002.array_record[")
    again = pickle.loads(pickle.dumps(source))
    for index, plain in enumerate([*SAMPLES[:2], *SAMPLES[:4], *SAMPLES]):
        for own in (source, again):
            assert [(turn.role, turn.text) for turn in own[index, 0].turns] == plain.texts()
    with pytest.raises(IndexError):
        source[len(source), 0]


def test_a_sample_has_one_name(mixture: Any, tmp_path: Path) -> None:
    """A sample has the same name wherever it is met, and no other sample has it."""
    config = mixture(WEIGHTS)
    for name in ("one", "two"):  # files of the same name
        folder = tmp_path / "more" / name
        folder.mkdir(parents=True)
        bad = [{"id": 1}, {"conversations": [{"from": "gpt", "value": "x"}], "image": "../a.png"}]
        (folder / "train.json").write_text(json.dumps(bad))
    more = {"source": {"kind": "llava", "path": str(tmp_path / "more")}}
    members = config.source.model_dump()["members"] | {"bad": more}
    config = mixture({}, source={"kind": "mixture", "members": members})
    source, processor = make_source(config), make_processor(config, [TEXT, VISION, AUDIO])
    names = [source.name(index) for index in range(len(source))]
    assert len({*names}) == len(names)
    for index, name in enumerate(names):
        if name.startswith("bad/"):
            with pytest.raises(SampleError, match=f"^sample {re.escape(name)}: "):
                processor.measure(source[index, 0])
        else:
            assert source[index, 0].name == name
    assert names[-4:] == [f"bad/{part}/train.json[{n}]" for part in ("one", "two") for n in (0, 1)]


def test_lengths_are_those_of_the_members_and_weights_change_none(
    mixture: Any, caplog: pytest.LogCaptureFixture
) -> None:
    config = mixture(WEIGHTS)
    source, processor = make_source(config), make_processor(config, [TEXT, VISION, AUDIO])
    table = open_lengths(source, processor, config)
    assert [table[i] for i in range(len(table))] == [
        processor.measure(source[i, 0]) for i in range(len(source))
    ]
    caplog.set_level(logging.INFO, "data.planning.lengths")
    caplog.clear()
    for weights in ({**WEIGHTS, "json_list": 1.0}, {"webdataset": 1.0}):
        other = mixture(weights)
        open_lengths(make_source(other), processor, other)
    (message,) = caplog.messages  # members were measured, the smaller mixture is put together
    assert message.startswith("joining the lengths of 4 samples")


def test_plans_have_the_members_in_proportion(mixture: Any) -> None:
    config = mixture({"json_list": 3.0, "webdataset": 1.0}, lookahead=8)
    source, processor = make_source(config), make_processor(config, [TEXT, VISION, AUDIO])
    lengths = open_lengths(source, processor, config)
    planner = BatchPlanner(source, lengths, config, CAPACITY, LoaderState(0), TrainingDemand(WORK))
    count: Counter[str] = Counter()
    while planner.state.position < 640:
        count.update(source.name(p.index).split("/")[0] for p in planner.plan().placements)
    assert count["json_list"] / count.total() == pytest.approx(0.75, abs=0.02)
    assert {source.name(i) for i in range(len(source))} == {
        source.name(planner._stream[p][0]) for p in range(planner._stream.epoch_size)
    }


def test_budgets_are_those_of_what_comes_up(mixture: Any) -> None:
    """Text alone in one member, images in the other: more of it, more patches to a token."""
    ratios = []
    for weight in (0.1, 1.0, 10.0):
        config = mixture({"json_list": 1.0, "webdataset": weight})
        source, processor = make_source(config), make_processor(config, [TEXT, VISION, AUDIO])
        lengths = open_lengths(source, processor, config)
        encoders = list(processor.specs.values())
        budgets = suggest_budgets(lengths, encoders, 1, 64, order=source.make_order(0))  # type: ignore[attr-defined]
        ratios.append(budgets["vision"] / budgets["tokens"])
    assert ratios[0] < 0.9 * ratios[1] < 0.9 * ratios[2]


@pytest.mark.parametrize("batch", [{}, {"batch": "samples", "samples": 5, "rows": 2}])
def test_a_run_resumes_at_every_microbatch(batch: Any, mixture: Any) -> None:
    config = mixture(WEIGHTS, **batch)
    source, processor = make_source(config), make_processor(config, [TEXT, VISION, AUDIO])
    rows, consumer = all_rows(config.rows), TrainingDemand(WORK, microbatches=2)

    def planned(state: LoaderState | None) -> Any:
        return DataLoader(source, processor, config, 3, rows, state, consumer)

    def reading(state: LoaderState | None) -> Any:
        return MeasuringDataLoader(
            source, processor, config, 3, [rows], state, consumer, SingleHost()
        )

    with planned(None) as loader:
        microbatches = [next(loader) for _ in range(6)]
    for opened in (planned, reading):
        for done in range(5):
            state = LoaderState.from_json(microbatches[done].state.to_json())
            with opened(state) as loader:
                for microbatch in microbatches[done + 1 :]:
                    assert_same_microbatch(next(loader), microbatch)


def test_workers_make_the_same_microbatches(mixture: Any) -> None:
    config = mixture(WEIGHTS)
    source, processor = make_source(config), make_processor(config, [TEXT, VISION, AUDIO])
    more = config.model_copy(update={"workers": 1})
    with (
        DataLoader(source, processor, config, 0, all_rows(1)) as first,
        DataLoader(source, processor, more, 0, all_rows(1)) as second,
    ):
        for _ in range(3):
            assert_same_microbatch(next(first), next(second))


def test_held_out_samples_are_of_all_members_that_have_some(mixture: Any) -> None:
    config = mixture(WEIGHTS)
    with pytest.raises(DataError, match="no member with the split 'heldout'"):
        make_source(config, "heldout")
    values = config.source.model_dump()
    for name in ("json_list", "arrayrecord"):
        values["members"][name]["source"]["heldout"] = values["members"][name]["source"]["path"]
    source = make_source(
        config.model_copy(update={"source": type(config.source)(**values)}), "heldout"
    )
    names = [source.name(index).split("/")[0] for index in range(len(source))]
    assert Counter(names) == {"json_list": 2, "arrayrecord": 6}
    assert set(names[:4]) == {"json_list", "arrayrecord"}


def test_a_member_without_samples_is_named(mixture: Any, tmp_path: Path) -> None:
    config = mixture(WEIGHTS)
    (tmp_path / "json_list" / "train.json").write_text("[]")
    with pytest.raises(DataError, match=r"data.source.members.json_list has no samples"):
        make_source(config)
    (tmp_path / "json_list" / "train.json").unlink()
    with pytest.raises(DataError, match="cannot read"):
        SourceMixture(config, "train", make_source)


def test_messages_about_a_member_name_its_keys(mixture: Any, tmp_path: Path) -> None:
    """A mixture has no fields of its own, and ignores nothing."""
    config = mixture({"json_list": 1.0, "webdataset": 1.0})
    turns = [{"from": "gpt", "value": "a"}]
    records = [{"conversations": turns, "seen": 1}] * 2
    (tmp_path / "json_list" / "train.json").write_text(json.dumps(records))
    prefix = r"data\.source\.members\.json_list\.source"
    with pytest.raises(SampleError, match=prefix + r"\.ignore: \[seen\]"):
        make_source(config)[0, 0]
    members = {name: member.model_dump() for name, member in config.source.members.items()}
    members["json_list"]["source"]["ignore"] = ["image"]
    source = {"kind": "mixture", "members": members}
    with pytest.raises(DataError, match=prefix + r"\.ignore: 'image' decides what is learnt"):
        make_source(config.model_copy(update={"source": MixtureSource(**source)}))


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"json_list": 0.0}, "greater than 0"),
        ({"json_list": float("inf")}, "finite number"),
        ({"json_list": 1e-6, "webdataset": 1.0}, r"members.json_list.weight: 1e-06 is less than"),
        ({}, "at least 1 item"),
    ],
)
def test_weights_that_cannot_be_are_refused(weights: Any, message: str, mixture: Any) -> None:
    with pytest.raises(ValidationError, match=message):
        mixture(weights)

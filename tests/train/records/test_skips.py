"""Unusable samples: told once, listed by name, counted by a closed set of kinds."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from data.faults import FaultKind, SampleFault
from mllm_jax.runtime.records import read_record_lines
from mllm_jax.train.records.forms import SKIPPED
from mllm_jax.train.records.skips import TOLD, SkippedSamples

GONE = SampleFault(FaultKind.MISSING, "'gone.png' is missing")
LONG = SampleFault(FaultKind.BUDGET, "needs 400 tokens")


def test_a_sample_is_told_once_and_counted_each_time(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, skips = tmp_path / "skipped.jsonl", SkippedSamples()
    skips.listed_in(path, 0)
    assert not path.exists()
    for step in range(1, 5):
        skips.note_skipped(
            step, [("a[0]", GONE), ("a[1]", GONE)] + ([("a[2]", LONG)] if step > 2 else [])
        )
    assert caplog.messages == [
        "skipped sample a[0]: 'gone.png' is missing",
        "skipped sample a[1]: 'gone.png' is missing",
        "skipped sample a[2]: needs 400 tokens",
    ]
    reasons = {"missing file": 2, "longer than a row": 1}
    assert skips.make_summary() == {"samples": 3, "times": 10, "reasons": reasons}
    lines = read_record_lines(path, SKIPPED).values
    assert [(line["step"], line["sample"]) for line in lines] == [
        (1, "a[0]"),
        (1, "a[1]"),
        (3, "a[2]"),
    ]
    assert lines[2] == {"step": 3, "sample": "a[2]", "reason": LONG.kind, "text": LONG.text}


def test_a_resumed_run_knows_what_has_been_skipped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, first = tmp_path / "skipped.jsonl", SkippedSamples()
    first.listed_in(path, 0)
    first.note_skipped(1, [("a[0]", GONE)])
    saved = dict(first.times), dict(first.samples)
    first.note_skipped(4, [("a[1]", GONE)])
    again = SkippedSamples.from_json(*json.loads(json.dumps(saved)))
    again.listed_in(path, 2)  # what came after the checkpoint is yet to come
    caplog.clear()
    again.note_skipped(3, [("a[0]", GONE), ("a[1]", GONE)])
    assert caplog.messages == ["skipped sample a[1]: 'gone.png' is missing"]
    assert again.make_summary() == {"samples": 2, "times": 3, "reasons": {"missing file": 2}}


@pytest.mark.parametrize("recurs", [True, False])
def test_a_damaged_line_of_the_list_changes_no_count(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, recurs: bool
) -> None:
    path, first = tmp_path / "skipped.jsonl", SkippedSamples()
    first.listed_in(path, 0)
    first.note_skipped(1, [("a[0]", GONE), ("a[1]", LONG), ("a[2]", GONE)])
    path.write_bytes(path.read_bytes().replace(b"a[0]", b"a[9]"))
    again = SkippedSamples.from_json(first.times, first.samples)
    caplog.clear()
    again.listed_in(path, 1)
    assert caplog.messages == [
        f"{tmp_path}: skipped.jsonl is damaged, and left out: line 1 (its checksum does not hold)"
    ]
    assert again.make_summary() == first.make_summary()
    for skips in (first, again):
        skips.note_skipped(2, [("a[0]", GONE)] * recurs + [("a[3]", LONG)])
    assert again.make_summary() == first.make_summary()


def test_many_samples_are_listed_and_not_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, skips = tmp_path / "skipped.jsonl", SkippedSamples()
    skips.listed_in(path, 0)
    skips.note_skipped(1, [(f"a[{i}]", GONE) for i in range(10 * TOLD)])
    assert len(caplog.records) == TOLD + 1
    assert str(path) in caplog.messages[-1]
    assert len(path.read_text().splitlines()) == 10 * TOLD


def test_reasons_of_earlier_versions_are_counted_as_one_kind() -> None:
    saved = {"'gone.png' is missing in the media folder m": 2, "missing file": 1, "not JSON": 3}
    times = SkippedSamples.from_json(saved, {}).times
    assert times == {FaultKind.UNKNOWN: 5, FaultKind.MISSING: 1}
    assert SkippedSamples.from_json(times, {}).times == times


def test_nothing_is_listed_without_a_folder(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        SkippedSamples().note_skipped(1, [("a[0]", GONE)])
    assert len(caplog.records) == 1


def test_a_run_goes_on_without_its_list(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    skips = SkippedSamples()
    skips.listed_in(tmp_path / "removed" / "skipped.jsonl", 0)
    for step in (1, 2):
        skips.note_skipped(step, [(f"a[{step}]", GONE)])
    assert sum("no longer listed" in message for message in caplog.messages) == 1
    assert skips.make_summary()["samples"] == 2

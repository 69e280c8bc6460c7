"""A report of a run whose files are damaged: what changed is named, and in no figure."""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.planning.stream import LoaderState
from mllm_jax.config.load import ExperimentConfig
from mllm_jax.pages.run.files import RunFiles, read_run
from mllm_jax.pages.run.page import render_page
from mllm_jax.train.listeners.stragglers.heat import FORM
from mllm_jax.train.records.forms import SAMPLES
from mllm_jax.train.records.sinks import JsonlSink
from mllm_jax.train.records.skips import SkippedSamples
from mllm_jax.train.state.checksums import write_checksums
from mllm_jax.train.state.progress import Progress
from tests.pages.run.runs import ended, report

RECORDS = (
    *("metrics.jsonl", "ranks.jsonl", "samples.jsonl", "skipped.jsonl", "summary.json"),
    *("attempts/1.json", "attempts/2.json", "attempts/1.supervisor.json"),
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> ExperimentConfig:
    own = ended(tmp_path_factory.mktemp("runs"), steps=range(10, 40, 10))
    samples = JsonlSink(own.run.path / "samples.jsonl", form=SAMPLES)
    for step in (1, 2):
        samples.log_values(step, {"samples": [step, 62, 200]})
    return own


@pytest.fixture(scope="module")
def whole(run: ExperimentConfig) -> RunFiles:
    return read_run(run.run.path)


@pytest.fixture
def copied(run: ExperimentConfig, tmp_path: Path) -> Path:
    return shutil.copytree(run.run.path, tmp_path / "small")


def changed(path: Path, at: int, mask: int) -> None:
    data = bytearray(path.read_bytes())
    data[at % len(data)] ^= mask
    path.write_bytes(data)


def figures(run: RunFiles) -> dict[str, list[object]]:
    """All values of a run by the file that holds them."""
    return {
        "metrics.jsonl": [*run.lines],
        "ranks.jsonl": [*run.times],
        "skipped.jsonl": [*run.skipped],
        "summary.json": [run.summary] if run.summary else [],
        "attempts": [*run.attempts.times_spent, *run.attempts.watched],
    }


@settings(max_examples=40)
@given(st.sampled_from(RECORDS), st.integers(0, 10**6), st.integers(1, 255))
def test_a_changed_byte_costs_one_record_at_most_and_is_named(
    run: ExperimentConfig, whole: RunFiles, name: str, at: int, mask: int
) -> None:
    path = run.run.path / name
    written = path.read_bytes()
    logging.disable(logging.WARNING)
    try:
        changed(path, at, mask)
        found = read_run(run.run.path)
    finally:
        logging.disable(logging.NOTSET)
        path.write_bytes(written)
    before, after = figures(whole), figures(found)
    told = " ".join(found.damage)
    for file, values in after.items():
        assert all(value in before[file] for value in values)
        lost = len(before[file]) - len(values)
        assert lost in ((0, 1) if name.startswith(file) else (0,))
        assert not lost or path.name in told
    assert render_page(found)


@pytest.mark.parametrize("name", RECORDS)
def test_a_run_goes_on_without_a_damaged_record(
    copied: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = copied / name
    before, size = path.read_bytes().count(b"\n"), path.stat().st_size
    changed(path, size // 2, 4)
    resumed(copied)
    if name.endswith(".jsonl"):
        assert path.read_bytes().count(b"\n") == before - 1
        assert f"{copied}: {name} is damaged, and left out: line " in caplog.text
        lost = "metrics.jsonl has no report of step 20"
        assert all(own.startswith(lost) for own in read_run(copied).damage)
    assert render_page(read_run(copied))


def resumed(folder: Path) -> None:
    """Open all files as a run does that goes on after its last step."""
    JsonlSink(folder / "metrics.jsonl", 1000)
    JsonlSink(folder / "samples.jsonl", 1000, SAMPLES)
    JsonlSink(folder / "ranks.jsonl", 1000, FORM)
    SkippedSamples().listed_in(folder / "skipped.jsonl", 1000)


def test_the_page_and_the_log_name_what_is_left_out(
    copied: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name, old, new in (
        ("metrics.jsonl", b'"loss"', b'"lnss"'),
        ("skipped.jsonl", b"alert", b"blert"),
        ("summary.json", b'"steps"', b'"stfps"'),
        ("attempts/1.json", b'"began"', b'"begun"'),
        ("resolved.yaml", b"seed: 0", b"seed: 8"),
    ):
        text = (copied / name).read_bytes()
        assert old in text, name
        (copied / name).write_bytes(text.replace(old, new, 1))
    shown = render_page(read_run(copied))
    for sentence in (
        "metrics.jsonl is damaged, and left out: line 2 (its checksum does not hold)",
        "skipped.jsonl is damaged, and left out: line 1 (its checksum does not hold)",
        "summary.json is damaged, and left out: its checksum does not hold",
        "1.json is damaged, and left out: its checksum does not hold",
    ):
        assert sentence in shown
        assert f"{copied}: {sentence}" in caplog.messages
    told = "resolved.yaml has changed since the run wrote it: its checksum, in the last line, does"
    assert told in shown
    assert f"{copied}: {told} not hold" in caplog.messages
    assert "seed: 8" not in shown


@pytest.mark.parametrize("end", ["# crc 0123456", "# crc 0123456x\n", "# crc 01234567"])
def test_a_configuration_with_a_damaged_checksum_is_not_believed(
    copied: Path, end: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = copied / "resolved.yaml"
    text, _, crc = path.read_text().rpartition("# crc ")
    path.write_text(text + end)
    found = read_run(copied)
    assert found.config is None
    assert f"{copied}: {found.trouble}" in caplog.messages
    path.write_text(f"{text}# {{rc {crc}")  # the digits hold
    assert read_run(copied).config is not None
    path.write_text(text)  # as an earlier version wrote it
    assert "resolved.yaml" in read_run(copied).unchecked


def test_a_missing_configuration_is_told(copied: Path, caplog: pytest.LogCaptureFixture) -> None:
    (copied / "resolved.yaml").unlink()
    assert read_run(copied).trouble
    assert f"{copied}: There is no resolved.yaml in the folder" in caplog.text


def test_records_of_checkpoints_and_the_identity_are_looked_at(
    copied: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for step in (1, 2, 3):
        _checkpoint(copied, step)
    assert not read_run(copied).damage
    assert not caplog.messages
    for name in ("1/config/metadata", "2/progress/metadata", "3/state/checksums.json"):
        changed(copied / "checkpoints" / name, 3, 1)
    (copied / ".identity").write_text("# crc 01234567\n")
    damage = read_run(copied).damage
    for told, begun in zip(damage, (".identity has changed", *CHECKPOINTS), strict=True):
        assert told.startswith(begun)
        assert f"{copied}: {told}" in caplog.messages


CHECKPOINTS = (
    "checkpoint of step 1: config/metadata has changed since it was written",
    "checkpoint of step 2: progress/metadata has changed since it was written",
    "checkpoint of step 3: ",
)


def _checkpoint(run: Path, step: int) -> None:
    """A checkpoint without arrays."""
    progress = Progress(step, LoaderState(0)).to_json()
    config: dict[str, Any] = {key: {} for key in ("run", "model", "data", "train")}
    for item, value in (("config", config), ("progress", progress), ("state", {})):
        folder = run / "checkpoints" / str(step) / item
        folder.mkdir(parents=True)
        (folder / "metadata").write_text(json.dumps(value))
        write_checksums(folder)


def test_a_run_of_an_earlier_version_has_no_checksums(copied: Path) -> None:
    path = copied / "metrics.jsonl"
    path.write_text('{"step": 1, "heldout_loss": 2.5}\n')
    assert "An earlier version wrote metrics.jsonl" in render_page(read_run(copied))


def edited(folder: Path, change: Any) -> list[str]:
    """Sentences about a run of which `change` makes other lines of `metrics.jsonl`."""
    path = folder / "metrics.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(change(lines)))
    return [*read_run(folder).damage]


#: Lines are a value at step 0, reports of the steps 10, 20 and 30, and a value at the end.
EDITS: dict[str, tuple[Any, str]] = {
    "deleted": (
        lambda own: [*own[:2], *own[3:]],
        "metrics.jsonl has no report of step 20, though run.log_every is 10: lines are lost, or",
    ),
    "first deleted": (lambda own: own[2:], "metrics.jsonl has no report of step 10, though"),
    "duplicated": (lambda own: [*own[:3], *own[2:]], "lines out of order: step 20 twice"),
    "swapped": (
        lambda own: [own[0], own[2], own[1], *own[3:]],
        "metrics.jsonl has lines out of order: step 10 after step 20",
    ),
    "last lost": (
        lambda own: own[:3],
        "metrics.jsonl ends with step 20, and summary.json tells of 30 steps: lines are lost",
    ),
    "empty": (lambda own: [], "metrics.jsonl has no report, and summary.json tells of 30 steps"),
}


@pytest.mark.parametrize("name", EDITS)
def test_whole_lines_that_are_lost_or_out_of_order_are_told(
    copied: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    change, told = EDITS[name]
    (sentence,) = edited(copied, change)
    assert told in sentence
    assert f"{copied}: {sentence}" in caplog.messages
    assert sentence in render_page(read_run(copied))


def test_a_run_that_goes_on_or_went_on_after_its_end_has_lost_nothing(copied: Path) -> None:
    sink = JsonlSink(copied / "metrics.jsonl", 30)
    sink.write_report(report(40))
    assert not read_run(copied).damage
    (copied / "summary.json").unlink()
    assert not edited(copied, lambda own: own[:3])


@pytest.mark.parametrize("name", ["summary.json", "attempts/1.json"])
def test_a_document_without_its_checksum_is_told(
    copied: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = copied / name
    values = json.loads(path.read_bytes())
    del values["crc"]
    path.write_text(json.dumps(values))
    found = read_run(copied)
    assert found.unchecked == [name]
    assert f"An earlier version wrote {name}, or they were changed" in render_page(found)
    assert f"An earlier version wrote {name}" in caplog.text

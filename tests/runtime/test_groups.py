"""Four processes balance in groups of two: every sample once, resumed exactly, figures of all."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from mllm_jax.runtime.exits import ExitCode
from tests.configs import CHANGES
from tests.train.runs import keep_until
from tests.train.test_run import finish, free_port, losses, start, write_config

PLAN = {
    "devices": 4,
    "decoder": {"data": 4},
    "encoders": {"vision": {"data": 4}, "audio": {"data": 2, "tensor": 2}},
}


def four(folder: Path, name: str, code: int = 0, **changes: Any) -> list[list[str]]:
    """What each of four processes has read for the run `name`."""
    return grouped(folder, name, 4, code, **{"data__balance_group": 2, "parallel": PLAN} | changes)


def grouped(folder: Path, name: str, count: int, code: int, **changes: Any) -> list[list[str]]:
    """What each of `count` processes has read for the run `name`."""
    changes = {"evaluate": {"enabled": False}} | changes
    config, port = write_config(folder, name, **changes), free_port()
    files = [folder / f"{name}{index}.txt" for index in range(count)]
    options = ["--coordinator", f"127.0.0.1:{port}", "--processes", str(count), "--process"]
    train = ["train", "--config", str(config), *options]
    started = [
        start("-m", "tests.train.reads", str(file), *train, str(index))
        for index, file in enumerate(files)
    ]
    try:
        said = [finish(process, code) for process in started]
    finally:
        for process in started:
            process.kill()
    return [
        file.read_text().splitlines() if not code else own[1].splitlines()
        for file, own in zip(files, said, strict=True)
    ]


@pytest.mark.multihost
@pytest.mark.slow
@pytest.mark.parametrize(("lengths", "size"), [("cached", "auto"), ("on_read", 2)])
def test_a_run_in_groups_reads_each_sample_once_and_resumes_exactly(lengths, size, tmp_path):
    how = {
        "data__lengths": lengths,
        "data__balance_group": size,
        "schedule__hardware": "h100" if size == "auto" else None,
    }
    reads = four(tmp_path, "grouped", **how)
    assert all(reads)
    counts = sum(map(Counter, reads), Counter())
    # A row of audio lies on both hosts of a group, which each read it if its length is known.
    once = [n for line, n in counts.items() if lengths == "on_read" or " audio " not in line]
    assert max(once) == 1
    samples = [{line.partition(" ")[0] for line in own} for own in reads]
    assert not (samples[0] | samples[1]) & (samples[2] | samples[3])
    (tmp_path / "again").mkdir()
    keep_until(tmp_path / "grouped/checkpoints", tmp_path / "again/checkpoints", step=2)
    rest = four(tmp_path, "again", **how)
    assert losses(tmp_path / "again") == losses(tmp_path / "grouped")[2:]
    assert all({*later} < {*own} for later, own in zip(rest, reads, strict=True))


@pytest.mark.multihost
@pytest.mark.slow
@pytest.mark.parametrize(("lengths", "size"), [("cached", 45), ("cached", 1), ("on_read", 1)])
def test_groups_of_a_run_are_in_the_same_epoch(lengths, size, tmp_path):
    """A step has samples of one epoch alone, and each epoch has every sample once.

    Of one sample in all, one of two groups waits in every step.
    """
    plan = {"devices": 4, "decoder": {"data": 4}, "encoders": {"vision": {"data": 4}}}
    plan["encoders"]["audio"] = {"data": 4}
    source = {**CHANGES["data__source"], "train": size}
    how = {"parallel": plan, "data__source": source, "data__lengths": lengths}
    how |= {"data__balance_group": 1, "train__steps": 12, "run__list_samples": True}
    grouped(tmp_path, "few", 2, 0, **how)
    steps: dict[int, list[int]] = {}
    waits = 0
    files = sorted((tmp_path / "few").glob("samples*.jsonl"))
    assert len(files) == 2
    for line in (json.loads(own) for file in files for own in file.read_text().splitlines()):
        steps.setdefault(line["step"], []).extend(line["samples"])
        waits += not line["samples"]
    assert {*steps} == {*range(1, 13)}
    assert waits == 12 or size > 1
    epochs = [{position // size for position in own} for own in steps.values()]
    assert [len(own) for own in epochs] == [1] * 12
    last = max(min(own) for own in epochs)
    assert last > 1
    every = sorted(position for own in steps.values() for position in own)
    assert [position for position in every if position < last * size] == [*range(last * size)]


@pytest.mark.multihost
@pytest.mark.slow
def test_encoders_with_microbatches_of_their_own_teach_groups_the_same(tmp_path):
    """A group knows the media of its own rows; all run one schedule, and join in each exchange."""
    plan = {
        "devices": 4,
        "decoder": {"data": 2, "stage": 2},
        "encoders": {"vision": {"data": 4}, "audio": {"data": 4}},
    }
    how = {"parallel": plan, "model__decoder__layers": 2, "train__accumulate": 4}
    how |= {"data__balance_group": 1, "train__steps": 3}
    own = {"independent_microbatches": True}
    grouped(tmp_path, "usual", 2, 0, **how)
    grouped(tmp_path, "own", 2, 0, **how, schedule=own, train__check_schedules=True)
    usual = losses(tmp_path / "usual")
    assert len(usual) == 3
    assert losses(tmp_path / "own") == pytest.approx(usual, rel=2e-6)


@pytest.mark.multihost
@pytest.mark.slow
def test_a_group_that_does_not_divide_the_processes_is_refused(tmp_path):
    for said in four(tmp_path, "three", code=ExitCode.BAD_DATA, data__balance_group=3):
        text = " ".join(said)
        assert (
            "data.balance_group: 3 does not divide 4, the number of hosts; valid: 2, 4, or null"
            in text
        )
        assert "Traceback" not in text

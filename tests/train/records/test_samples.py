"""The list of the samples of every step."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import pytest

from data.planning.groups.group import WHOLE, HostGroupSpec
from data.planning.stream import LoaderState
from mllm_jax.runtime.records import read_record_lines
from mllm_jax.train.experiment import Experiment
from mllm_jax.train.loading.loader import open_loader
from mllm_jax.train.records.forms import SAMPLES
from mllm_jax.train.records.samples import SampleList


def microbatches(*positions: tuple[int, ...], group: HostGroupSpec = WHOLE) -> list[Any]:
    stats = [SimpleNamespace(stream_positions=own, group=group) for own in positions]
    return [SimpleNamespace(stats=own) for own in stats]


def listed(path: Path) -> list[Any]:
    return [*read_record_lines(path, SAMPLES).values]


def test_every_sample_of_the_stream_is_listed_once(experiment: Experiment) -> None:
    with open_loader(experiment, LoaderState(0)) as loader:
        taken = list(islice(loader, 12))
    positions, end = [p for own in taken for p in own.stats.stream_positions], taken[-1].state
    assert sorted(positions) == sorted({*range(end.position)} - {*end.carry})
    assert all(len(own.stats.stream_positions) == own.stats.samples for own in taken)


def test_a_step_is_a_line_and_lost_steps_are_listed_anew(tmp_path: Path) -> None:
    first = SampleList(tmp_path, 0)
    first.note_step(1, microbatches((0, 2), (1,)))
    first.note_step(2, microbatches((3,)))
    first.note_step(3, microbatches((4,)))
    first.close()
    again = SampleList(tmp_path, 1)
    again.note_step(2, microbatches((3, 5)))
    again.close()
    assert listed(tmp_path / "samples.jsonl") == [
        {"step": 1, "samples": [0, 2, 1]},
        {"step": 2, "samples": [3, 5]},
    ]


def test_the_first_process_of_a_group_lists_the_samples_of_its_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jax, "process_count", lambda: 4)
    for process in range(4):
        monkeypatch.setattr(jax, "process_index", lambda own=process: own)
        hosts = (0, 1) if process < 2 else (2, 3)
        group = HostGroupSpec(process // 2, 2, hosts, {"decoder": (0,)})
        own = SampleList(tmp_path, 0)
        own.note_step(1, microbatches((process,), group=group))
        own.close()
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["samples-process-0.jsonl", "samples-process-2.jsonl"]
    assert listed(tmp_path / names[1]) == [{"step": 1, "samples": [2]}]

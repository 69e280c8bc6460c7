"""The work of the loop besides stepping."""

import logging
import re
from dataclasses import asdict

import jax
import numpy as np
import pytest

from data.planning.stream import LoaderState
from mllm_jax.train import events
from mllm_jax.train.feed import open_loader
from mllm_jax.train.records.metrics import Sums
from mllm_jax.train.state.changes import tell_changes
from mllm_jax.train.state.progress import Progress, ProgressError
from mllm_jax.train.step.batch import place
from tests.train.runs import run


def test_a_resumed_run_tells_what_has_changed(caplog):
    saved = {
        "run": {"log_every": 10},
        "model": {"a": 1, "b": {"c": 2}},
        "parallel": {"decoder": {"data": 2, "tensor": 1}},
        "schedule": {"kind": "1f1b"},
        "data": {"rows": 8, "workers": 0},
        "train": {"steps": 4},
    }
    now = {
        "run": {"log_every": 10},
        "model": {"a": 1, "b": {"c": 3}},
        "parallel": {"decoder": {"data": 1, "tensor": 2}},
        "schedule": {"kind": "gpipe"},
        "data": {"rows": 4, "workers": 2},
        "train": {"steps": 4, "x": 1},
    }
    caplog.set_level(logging.INFO)
    tell_changes(saved, saved)
    assert not caplog.records
    tell_changes(saved, now)
    told = {level: [] for level in ("WARNING", "INFO")}
    for entry in caplog.records:
        told[entry.levelname].append(entry.message.partition(": ")[2])
    assert told == {
        "WARNING": ["model.b.c: 2 -> 3", "data.rows: 8 -> 4", "train.x: None -> 1"],
        "INFO": [
            "parallel.decoder.data: 2 -> 1",
            "parallel.decoder.tensor: 1 -> 2",
            "schedule.kind: 1f1b -> gpipe",
            "data.workers: 0 -> 2",
        ],
    }


def test_progress_survives_json(experiment, fresh_state):
    _, progress = fresh_state()
    progress.step = 4
    progress.figures = Sums(steps=3, seconds=1.5, used={"tokens": 4}, capacity={"tokens": 8})
    progress.skipped.times["missing file"] = 2
    assert Progress.from_json(progress.to_json()) == progress


@pytest.mark.parametrize(
    ("where", "value", "said"),
    [
        ("step", -1, "step: Input should be greater than or equal to 0"),
        ("seconds", float("inf"), "seconds: Input should be a finite number"),
        ("figures.seconds", float("nan"), "figures.seconds: Input should be a finite number"),
        ("figures.flops", -1.0, "figures.flops: Input should be greater than or equal to 0"),
        ("figures.used.tokens", 9, "figures.used.tokens 9 is more than its capacity 8"),
        ("figures.steps", 9, "figures.steps 9 is behind step 4"),
        ("good", 9, "good 9 is behind step 4"),
        ("skipped.gone", -1, "skipped.gone: Input should be greater than or equal to 0"),
    ],
)
def test_figures_that_no_run_has_are_refused(where, value, said):
    progress = Progress(4, LoaderState(0, step=4)).to_json()
    progress["figures"] = asdict(Sums(used={"tokens": 4}, capacity={"tokens": 8}))
    assert Progress.from_json(progress).to_json() == progress
    *parents, last = where.split(".")
    node = progress
    for part in parents:
        node = node[part]
    node[last] = value
    with pytest.raises(ProgressError, match=re.escape(said)):
        Progress.from_json(progress)


def test_a_batch_without_anything_to_learn_changes_no_gradient(experiment, fresh_state):
    state, progress = fresh_state()
    loader = open_loader(experiment, progress.loader)
    batch = next(loader).batch
    loader.close()
    batch["decoder"]["loss_weight"] = np.zeros_like(batch["decoder"]["loss_weight"])
    new, scalars = experiment.step.update(state, place([batch], experiment.step))
    assert float(scalars["loss"]) == 0
    assert float(scalars["grad_norm"]) == 0
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(new["params"]))


def test_time_spent_in_evaluation_is_not_part_of_a_step(experiment, fresh_state, monkeypatch):
    clock = iter(range(10_000_000))
    monkeypatch.setattr(events.time, "perf_counter", lambda: float(next(clock)))

    def pause(state, progress):
        for _ in range(1000):
            next(clock)
        progress.paused += 1000

    state, progress = fresh_state()
    run(experiment, state, progress, pause)
    assert progress.seconds < 100

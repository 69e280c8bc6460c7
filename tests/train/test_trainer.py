"""The work of the loop besides stepping."""

import json
import logging
import re
from dataclasses import asdict, replace
from io import StringIO
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from rich.console import Console

from data.planning.stream import LoaderState
from mllm_jax.models.module import abstract_parameters
from mllm_jax.models.module_rows import NEXT_TOKEN
from mllm_jax.train import events
from mllm_jax.train import trainer as loop
from mllm_jax.train.components import components, start
from mllm_jax.train.components.evaluator import StoppedError
from mllm_jax.train.components.start import print_start, warn_of_passed_trace
from mllm_jax.train.experiment import Experiment
from mllm_jax.train.loading.loader import open_loader
from mllm_jax.train.records.metrics import FigureSums, FigureTotals
from mllm_jax.train.state.changes import log_config_changes
from mllm_jax.train.state.optimizer import learning_rate
from mllm_jax.train.state.progress import Progress, ProgressError
from mllm_jax.train.step.batch_placement import place_microbatches
from mllm_jax.train.trainer import StepRunner, training_steps
from sharding.layerstack.partition import partition
from tests.configs import MEDIA_APART
from tests.train.runs import initial_state, run, take_steps


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
    log_config_changes(saved, saved)
    assert not caplog.records
    log_config_changes(saved, now)
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


def test_the_start_tells_what_a_run_is_too_short_for(experiment, caplog):
    train = experiment.config.train.model_copy(update={"warmup_steps": 20})
    run = experiment.config.run.model_copy(update={"log_every": 20})
    config = experiment.config.model_copy(update={"train": train, "run": run})
    print_start(replace(experiment, config=config), Console(quiet=True))
    assert f"run.log_every {20} is not reached" in caplog.text
    assert f"train.warmup_steps {20} leaves no step" in caplog.text


def test_the_start_tells_what_trains_where_not_all_does(experiment):
    def told(frozen):
        trained = SimpleNamespace(frozen=SimpleNamespace(partition=lambda params: (params, frozen)))
        step = SimpleNamespace(program=trained, abstract_state=experiment.step.abstract_state)
        console = Console(file=StringIO())
        print_start(replace(experiment, step=step), console)
        return console.file.getvalue()

    assert "M parameters on\n" in told({})
    assert re.search(r"M parameters, of which \d+\.\d\dM train, on\n", told({"fixed": 1}))


def test_the_start_tells_the_devices_of_groups(small_config):
    console = Console(file=StringIO(), width=100)
    print_start(Experiment.build(small_config(parallel=MEDIA_APART)), console)
    lines = [line.strip() for line in console.file.getvalue().splitlines()]
    assert lines[1:3] == [
        "group text: decoder on devices 0 to 1",
        "group media: vision, audio on devices 2 to 3",
    ]
    own = lines[lines.index("devices 2, 3") :]
    assert [line.split()[0] for line in own[1:]] == ["grid", "vision", "audio"]


def test_a_step_to_measure_that_a_run_has_passed_is_told(experiment, tmp_path, caplog):
    changes = {"trace_step": 3, "directory": str(tmp_path), "name": "it"}
    run = experiment.config.run.model_copy(update=changes)
    config = experiment.config.model_copy(update={"run": run})
    warn_of_passed_trace(config, 2)
    assert not caplog.text
    warn_of_passed_trace(config, 3)
    assert "no timeline is written, as the run goes on after step 3" in caplog.text
    caplog.clear()
    run.path.mkdir()
    (run.path / "step-3.json").touch()
    warn_of_passed_trace(config, 3)
    assert not caplog.text


def test_a_run_without_steps_left_is_evaluated(experiment, tmp_path, monkeypatch):
    """Nobody asks it to stop then."""

    class Asking:
        """An evaluation that looks once whether it is to stop."""

        def __init__(self, _):
            pass

        def __call__(self, params, stopping):
            if stopping():
                raise StoppedError
            return {"heldout_loss": 2.5}

    own = experiment.config
    changes = {"directory": str(tmp_path), "self_check": False}
    config = own.model_copy(
        update={
            "run": own.run.model_copy(update=changes),
            "evaluate": own.evaluate.model_copy(update={"loss": True}),
        }
    )
    complete = Progress(config.train.steps, LoaderState(0), loss=3.0)
    monkeypatch.setattr(loop, "restore_or_init", lambda *_: ({"params": {}}, complete))
    monkeypatch.setattr(loop, "check_sources", lambda _: {})
    monkeypatch.setattr(components, "LossEvaluator", Asking)
    left = training_steps(replace(experiment, config=config), Console(quiet=True))
    with pytest.raises(StopIteration) as ended:
        next(left)
    assert ended.value.value["heldout_loss"] == 2.5


def test_progress_survives_json(experiment, fresh_state):
    _, progress = fresh_state()
    progress.step = 4
    timed = FigureSums(steps=3, seconds=1.5, used={"tokens": 4}, capacity={"tokens": 8})
    progress.figures = FigureTotals(
        FigureSums(4, 9.5, used={"tokens": 5}, capacity={"tokens": 9}), timed
    )
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
        ("figures.steps", 9, "figures.steps 9 is after step 4"),
        (
            *("figures_of_all.used.tokens", 9),
            "figures_of_all.used.tokens 9 is more than its capacity 8",
        ),
        ("figures_of_all.steps", 9, "figures_of_all.steps 9 is after step 4"),
        ("good", 9, "good 9 is after step 4"),
        ("skipped.gone", -1, "skipped.gone: Input should be greater than or equal to 0"),
    ],
)
def test_figures_that_no_run_has_are_refused(where, value, said):
    progress = Progress(4, LoaderState(0, step=4)).to_json()
    for key in ("figures", "figures_of_all"):
        progress[key] = asdict(FigureSums(used={"tokens": 4}, capacity={"tokens": 8}))
    assert Progress.from_json(progress).to_json() == progress
    *parents, last = where.split(".")
    node = progress
    for part in parents:
        node = node[part]
    node[last] = value
    with pytest.raises(ProgressError, match=re.escape(said)):
        Progress.from_json(progress)


def test_sums_that_an_older_run_has_saved_are_read():
    progress = Progress(4, LoaderState(0, step=4)).to_json()
    progress["figures"] = asdict(FigureSums(steps=4, independent_microbatches={"vision": 6}))
    expected = Progress.from_json(progress)
    assert expected.figures.timed.encoder_microbatches == {"vision": 1.5}
    progress["figures"]["units"] = progress["figures"].pop("independent_microbatches")
    assert Progress.from_json(progress) == expected


def test_a_batch_without_anything_to_learn_changes_no_gradient(experiment, fresh_state):
    state, progress = fresh_state()
    loader = open_loader(experiment, progress.loader)
    batch = next(loader).batch
    loader.close()
    batch.text_rows.targets[NEXT_TOKEN].weights[:] = 0
    new, scalars = experiment.step.update(state, place_microbatches([batch], experiment.step))
    assert float(scalars["loss"]) == 0
    assert float(scalars["grad_norm"]) == 0
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(new["params"]))


#: As large as steps of the fresh model's are, whose signs would tell rounding apart.
EPSILON = 1e-3
LAMB = {"kind": "lamb", "epsilon": EPSILON}


def lamb(weights, grads, axes, rate):
    """Parameters after the first step of LAMB, and the trust ratios of all matrices, in numpy."""
    ratios = []

    def moved(own, w, g):
        # The first means of Adam are the gradient and its square.
        step = g / (np.abs(g) + np.float32(EPSILON))
        stacks = sum(name in ("chunks", "layers", "experts") for name in own)
        # Biases of heads have two dimensions as well, and begin at zero.
        if w.ndim - stacks < 2 or not w.any():
            return w - rate * step
        step += np.float32(0.3) * w
        dims = tuple(range(stacks, w.ndim))
        norms = [np.sqrt(np.sum(x * x, axis=dims, keepdims=True)) for x in (w, step)]
        known = (norms[0] > 0) & (norms[1] > 0)
        ratio = np.where(known, norms[0] / np.where(known, norms[1], 1), 1)
        ratios.extend(ratio[known])
        return w - rate * ratio * step

    is_axes = lambda node: isinstance(node, tuple)  # noqa: E731
    return jax.tree.map(moved, axes, weights, grads, is_leaf=is_axes), ratios


def _nodes(optimizer):
    """Parts of an optimizer's state, however deep."""
    return jax.tree.leaves(optimizer, is_leaf=lambda own: hasattr(own, "mu"))


@pytest.mark.slow
def test_a_step_of_lamb_is_that_of_its_definition_and_its_ratios_are_kept(
    experiment, fresh_state, small_config, tmp_path, monkeypatch
):
    monkeypatch.setattr(start, "initial_state", lambda own, console: initial_state(own.step))
    config = small_config(
        train__optimizer=LAMB,
        train__learning_rate=0.05,
        train__weight_decay=0.3,
        train__warmup_steps=0,
        train__steps=6,
        run__directory=str(tmp_path),
        run__log_every=1,
        evaluate={"enabled": False},
        checkpoint={"enabled": False},
    )
    state, progress = fresh_state()
    weights = jax.tree.map(np.array, state["params"])  # the step takes their memory
    trainer = StepRunner(experiment, state, progress)
    next(take_steps(trainer))
    state = trainer.state
    (adam,) = (own for own in _nodes(state["optimizer"]) if hasattr(own, "mu"))
    grads = jax.tree.map(lambda mean: np.asarray(mean) / np.float32(0.1), adam.mu)
    _, axes = abstract_parameters(config.model)
    trained = [partition(tree, grads)[0] for tree in (weights, axes)]
    expected, ratios = lamb(trained[0], grads, trained[1], np.float32(0.05))
    taken = [
        (each.loss, jax.tree.map(np.array, each.state["params"]))
        for each in training_steps(Experiment.build(config), Console(quiet=True))
    ]
    jax.tree.map(
        lambda own, wanted: np.testing.assert_allclose(own, wanted, rtol=1e-5, atol=1e-6),
        partition(taken[0][1], grads)[0],
        expected,
    )
    lines = (tmp_path / "test" / "metrics.jsonl").read_text().splitlines()
    told = [own for own in map(json.loads, lines) if "loss" in own]
    first = {"least": min(ratios), "mean": sum(ratios) / len(ratios), "greatest": max(ratios)}
    assert told[0]["trust_ratios"] == pytest.approx(first, rel=1e-4)
    assert [own["loss"] for own in told] == pytest.approx([loss for loss, _ in taken], rel=1e-6)
    rates = [float(learning_rate(config.train)(n)) for n in range(6)]
    assert [own["learning_rate"] for own in told] == pytest.approx(rates)
    assert (rates[0], rates[-1]) == pytest.approx((0.05, 0.005))
    assert taken[-1][0] < taken[0][0] - 0.1


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

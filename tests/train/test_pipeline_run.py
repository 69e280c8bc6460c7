"""Runs with a pipeline: checkpoints of other plans, real batches, evaluation, traces."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from data.planning.groups.group import HostGroupSpec
from data.planning.stream import LoaderState
from mllm_jax.check.trace import write_trace
from mllm_jax.check.verify import verify_plans
from mllm_jax.config.load import CheckpointConfig, ExperimentConfig
from mllm_jax.runtime.folder import RunError
from mllm_jax.train.components.evaluator import LossEvaluator
from mllm_jax.train.events import Phase, StepEnded
from mllm_jax.train.experiment import Experiment
from mllm_jax.train.listeners.figures import StepRecorder, independent_positions, pipeline_figures
from mllm_jax.train.loading.batches import place_step, read_steps
from mllm_jax.train.loading.loader import open_loader
from mllm_jax.train.records.metrics import FigureMeter
from mllm_jax.train.records.scalars import report_scalars as scalars_of
from mllm_jax.train.state.checkpoint import CheckpointManager
from mllm_jax.train.state.progress import Progress
from mllm_jax.train.state.saved import CheckpointError
from mllm_jax.train.trainer import StepRunner
from tests.train.runs import compilations, initial_state, run, take_steps
from tests.train.runs import save as write

CONFIG = CheckpointConfig(asynchronous=False)
PIPELINED: dict[str, Any] = {
    "parallel__decoder": {"data": 2, "stage": 2},
    "parallel__encoders": {"vision": {"data": 4}, "audio": {"data": 2, "stage": 2}},
    "schedule": {"pad_layers": True},
}
MODEL: dict[str, Any] = {
    "model__decoder__layers": 3,
    "model__decoder__vocab": 129,  # padded by every plan
    "model__encoders__audio__layers": 2,
    "data__rows": 4,
    "train__accumulate": 2,
}
Make = Callable[..., ExperimentConfig]


def save(experiment: Experiment, folder: Path) -> Any:
    """A checkpoint of fresh state; returns its parameters, layers in their order."""
    state = with_moments(initial_state(experiment.step, seed=1))
    checkpoints = CheckpointManager(folder, CONFIG, experiment.step.form.regrouping)
    try:
        write(checkpoints, experiment, state, Progress(1, LoaderState(0)))
        checkpoints.wait_for_saves()
    finally:
        checkpoints.close()
    return canonical(experiment, state)


def with_moments(state: Any) -> Any:
    """`state` with moments that tell which parameter they belong to."""
    params = {
        jax.tree_util.keystr(path): leaf
        for path, leaf in jax.tree_util.tree_leaves_with_path(state["params"])
    }

    def fill(path: Any, leaf: Any) -> Any:
        name = jax.tree_util.keystr(path)
        own = [param for param in params if name.endswith(param)]
        return (2 + ("nu" in name)) * params[own[0]] if own else leaf

    return state | {"optimizer": jax.tree_util.tree_map_with_path(fill, state["optimizer"])}


def canonical(experiment: Experiment, state: Any) -> Any:
    return jax.tree.map(np.asarray, experiment.step.form.to_canonical(state["params"]))


def restore(experiment: Experiment, folder: Path) -> Any:
    checkpoints = CheckpointManager(folder, CONFIG, experiment.step.form.regrouping)
    try:
        found = checkpoints.restore_state(experiment.step.abstract_state)
    finally:
        checkpoints.close()
    assert found is not None
    return found.state


def losses(config: ExperimentConfig) -> list[float]:
    experiment = Experiment.build(config)
    state = initial_state(experiment.step)
    trainer = StepRunner(experiment, state, Progress(0, LoaderState(0)))
    return [float(ended.results["loss"]) for ended in take_steps(trainer)]


@pytest.mark.slow
def test_encoder_microbatches_of_their_own_teach_the_same(
    small_config: Make, tmp_path: Path
) -> None:
    """Media move to other microbatches of their encoder; one program runs all of the steps.

    The same rows in twice as many microbatches are distributed over more ranks of the encoders than
    each microbatch has rows.
    The steps with the decoder's microbatches run with a step that is measured tick by tick.
    """
    change = MODEL | PIPELINED | {"data__balance": "per_phase", "train__steps": 3}
    change |= {"data__budgets": {"tokens": 64, "segments": 8, "vision": 96, "audio": 640}}
    change |= {"data__image": {"height": 16, "max_patches": 24}}
    with compilations() as programs:
        written = {"directory": str(tmp_path), "name": "usual", "trace_step": 2}
        (tmp_path / "usual").mkdir()
        usual = losses(small_config(**change, run=written))
        own: dict[str, Any] = {"pad_layers": True, "independent_microbatches": True}
        own |= {"independent_budgets": {"vision": 48}}
        own |= {"independent_rows": {"vision": 2, "audio": 2}}
        checked = {"schedule": own, "train__check_schedules": True}
        checked |= {"parallel__decoder": {"stage": 2, "tensor": 2}, "data__rows": 1}
        checked |= {"train__accumulate": 8}
        programs.clear()
        followed = losses(small_config(**change | checked))
    np.testing.assert_allclose(followed, usual, rtol=2e-6)
    # The initial state, and the step.
    assert len(programs) == 2, programs


def test_of_own_microbatches_the_number_and_the_padding_of_what_runs_are_told(
    small_config: Make,
) -> None:
    """Against the rows of the step as they lie on the devices; no step is taken."""
    change = MODEL | PIPELINED | {"data__balance": "per_phase", "data__rows": 2}
    change |= {"data__budgets": {"tokens": 64, "segments": 8, "vision": 96, "audio": 640}}
    change |= {"data__image": {"height": 16, "max_patches": 24}, "train__accumulate": 4}
    schedule: dict[str, Any] = {"pad_layers": True, "independent_microbatches": True}
    schedule |= {"independent_budgets": {"vision": 48}, "independent_rows": {"vision": 2}}
    experiment = Experiment.build(small_config(**change | {"schedule": schedule}))
    recorder, meter = StepRecorder(experiment), FigureMeter(steps=1)
    with open_loader(experiment, LoaderState(0)) as loader:
        read = next(read_steps(experiment, loader, 1))
    own, placed = read.microbatches, place_step(experiment, None, read, None)
    batch, units = placed.batch, placed.microbatches
    recorder(Phase("place", 1, 0.0, placed))
    scalars = {"loss": 1.0, "grad_norm": 1.0, "targets": 1, "aux": {}}
    scalars |= {"loads": None, "trust_ratios": None}
    record = recorder.make_record(StepEnded(1, 1.0, own, scalars, 0.1))
    report = meter.add_step(record)
    assert report is not None
    for name, each in (("vision", 2 * 48), ("audio", 640)):
        ids = np.asarray(batch.rows[name].segment_ids)
        computed = int(ids.any(axis=(1, 2)).sum())
        assert 0 < computed == units[name] == report.encoder_microbatches[name]
        assert record.capacity[name] == computed * 2 * each
        assert report.padding[name] == pytest.approx(1 - (ids > 0).sum() / record.capacity[name])
        assert record.capacity[name] < sum(one.stats.capacity[name] for one in own)
    assert meter.summary_figures()["encoder_microbatches"] == report.encoder_microbatches
    assert scalars_of(report)["encoder_microbatches/vision"] == units["vision"]
    # A group of hosts has a part of the rows; the microbatches are those of all groups.
    half = independent_positions(experiment, units, HostGroupSpec(0, 2))
    assert half == {name: record.capacity[name] // 2 for name in units}


@pytest.mark.slow
def test_checkpoints_move_between_plans(small_config: Make, tmp_path: Path) -> None:
    """No pipeline, two chunks, one padded chunk and no pipeline again keep the same values.

    The vocabulary is padded to 130 entries, to 132 and to 130.
    """
    plain = Experiment.build(small_config(**MODEL))
    two = {
        "parallel__decoder": {"stage": 2, "tensor": 2},
        "parallel__encoders": {"vision": {"data": 4}, "audio": {"stage": 2, "tensor": 2}},
        "schedule": {"chunks": {"decoder": 2}, "pad_layers": True},
    }
    chunked = Experiment.build(small_config(**MODEL | two))
    padded = Experiment.build(small_config(**MODEL, **PIPELINED))
    expected = save(plain, tmp_path / "plain")
    source = tmp_path / "plain"
    for number, experiment in enumerate((chunked, padded, plain)):
        state = restore(experiment, source)
        for leaf, like in zip(
            jax.tree.leaves(state), jax.tree.leaves(experiment.step.abstract_state), strict=True
        ):
            assert (leaf.shape, leaf.sharding) == (like.shape, like.sharding)
        jax.tree.map(np.testing.assert_array_equal, canonical(experiment, state), expected)
        jax.tree.map(np.testing.assert_array_equal, state, with_moments(state))
        source = tmp_path / str(number)
        checkpoints = CheckpointManager(source, CONFIG, experiment.step.form.regrouping)
        write(checkpoints, experiment, state, Progress(1, LoaderState(0)))
        checkpoints.close()
    assert state["params"]["decoder"]["embed_tokens"]["embedding"].shape[0] == 130
    # As many entries as the checkpoint has with its padding.
    other = Experiment.build(small_config(**MODEL | {"model__decoder__vocab": 130}))
    with pytest.raises(CheckpointError, match="129 entries in the checkpoint, 130 in the model"):
        restore(other, tmp_path / "plain")


@pytest.mark.slow
def test_a_pipelined_run_equals_a_plain_one(small_config: Make, tmp_path: Path) -> None:
    """Losses of three steps on real samples, what the loop writes, and an evaluation."""
    written = {"directory": str(tmp_path), "name": "piped", "trace_step": 2}
    changes = MODEL | {"train__steps": 3}
    plain = Experiment.build(small_config(**changes))
    piped = Experiment.build(small_config(**changes, **PIPELINED, run=written))
    results = [trained(experiment) for experiment in (plain, piped)]
    (expected, first), (losses, second) = results
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    trace = json.loads((tmp_path / "piped" / "step-2.json").read_text())
    assert len(trace["traceEvents"]) > 50
    assert (tmp_path / "piped" / "step-2.png").stat().st_size > 1000
    figures = pipeline_figures(piped)
    assert 0 < figures["encoder_hidden"] < 1
    assert 0 < figures["bubble_share"] < 0.5 < 1 < figures["tick_imbalance"]
    assert pipeline_figures(plain) == {}
    evaluated = [
        LossEvaluator(experiment)(state["params"])
        for experiment, state in ((plain, first), (piped, second))
    ]
    assert evaluated[0]["evaluated"] == evaluated[1]["evaluated"]
    assert evaluated[0]["heldout_loss"] == pytest.approx(evaluated[1]["heldout_loss"], rel=1e-5)


def trained(experiment: Experiment) -> tuple[list[float], Any]:
    state = initial_state(experiment.step)
    experiment.config.run.path.mkdir(parents=True, exist_ok=True)
    trainer = StepRunner(experiment, state, Progress(0, LoaderState(0)))
    losses = [float(ended.loss) for ended in take_steps(trainer)]
    return losses, trainer.state


@pytest.mark.slow
def test_a_run_that_works_ahead_goes_on_where_it_stopped(
    small_config: Make, tmp_path: Path
) -> None:
    """Encoders make outputs of the next step; after a restart they are made again."""
    frozen = ["vision", "vision.connector", "audio", "audio.connector"]
    changes = MODEL | PIPELINED | {"train__accumulate": 4, "train__freeze": frozen}
    experiment = Experiment.build(small_config(**changes, train__steps=3))
    assert experiment.step.program.prefetched_microbatches
    state, progress = initial_state(experiment.step), Progress(0, LoaderState(0))
    checkpoints = CheckpointManager(tmp_path, CONFIG, experiment.step.form.regrouping)

    def save(state: Any, progress: Progress) -> None:
        if progress.step == 1:
            write(checkpoints, experiment, state, progress)

    losses, last = run(experiment, state, progress, save)
    checkpoints.wait_for_saves()
    found = checkpoints.restore_state(experiment.step.abstract_state)
    checkpoints.close()
    assert found is not None
    again, same = run(experiment, found.state, found.progress)
    assert again == losses[1:]
    jax.tree.map(np.testing.assert_array_equal, same, last)

    plain = Experiment.build(
        small_config(**MODEL | {"train__accumulate": 4, "train__freeze": frozen}, train__steps=3)
    )
    state, progress = initial_state(plain.step), Progress(0, LoaderState(0))
    expected, _ = run(plain, state, progress)
    np.testing.assert_allclose(losses, expected, rtol=1e-5)


@pytest.mark.slow
def test_a_measured_trace_runs_what_training_runs(small_config: Make, tmp_path: Path) -> None:
    """Encoders are frozen, with and without a connector that trains, each in two pieces."""
    freeze = ["vision", "audio", "audio.connector"]
    schedule = PIPELINED["schedule"] | {"chunks": {"vision": 2, "audio": 1}}
    changes = {"model__encoders__vision__layers": 2, "train__freeze": freeze}
    config = small_config(**MODEL | PIPELINED | changes | {"schedule": schedule})
    result = write_trace(config, tmp_path, measure=True)
    assert set(result.to_json()) == {"hardware", "predicted", "measured", "files"}
    lines = result.written.timelines
    assert lines["measured"].makespan > 0
    figures = ["seconds", "bubble_share", "encoder_hidden", "tick_imbalance"]
    assert list(result.to_json()["predicted"]) == figures
    assert {file.name for file in result.written.files} == {"schedule.json", "schedule.png"}


def test_no_timeline_is_measured_where_every_step_has_its_own_schedule(
    small_config: Make, tmp_path: Path
) -> None:
    schedule = {"pad_layers": True, "independent_microbatches": True}
    changes = {"data__balance": "per_phase", "schedule": schedule}
    config = small_config(**MODEL | PIPELINED | changes)
    with pytest.raises(RunError, match=r"--measure: .*own; valid: trace without --measure, or "):
        write_trace(config, tmp_path / "new", measure=True)
    assert not (tmp_path / "new").exists()
    twice = [write_trace(config, tmp_path / "new", measure=False) for _ in range(2)]
    assert twice[0].rows == twice[1].rows
    assert twice[0].written.files
    label, hardware = twice[0].rows[0]
    assert label == "predicted for"
    assert re.search(
        r"devices on \d+ cores of .* TFLOP/s \(float32, the best measured here, stored in ",
        hardware,
    )


def test_a_trace_into_a_file_is_refused(small_config: Make, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="cannot be written"):
        write_trace(small_config(**MODEL, **PIPELINED), tmp_path / "file", measure=False)


@pytest.mark.slow
def test_verify_holds_for_a_pipeline(small_config: Make) -> None:
    result = verify_plans(small_config(**MODEL, **PIPELINED))
    assert result.ok, result
    frozen = small_config(**MODEL, **PIPELINED, train__freeze=["vision", "audio.connector"])
    result = verify_plans(frozen)
    assert result.ok, result


def test_the_plan_of_another_schedule_is_refused(small_config: Make) -> None:
    """A schedule that breaks a rule does not reach the devices."""
    from scheduling.lowering.lower import lower_schedule
    from scheduling.schedules.schedule import ScheduleError

    schedule = Experiment.build(small_config(**MODEL, **PIPELINED)).step.program.schedule
    assert schedule is not None
    broken = replace(schedule, ticks=schedule.ticks[::-1])
    with pytest.raises(ScheduleError, match="tick"):
        lower_schedule(broken, "full")

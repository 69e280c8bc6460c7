"""A run that is stopped anywhere goes on as if it had not been."""

import json
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from mllm_jax.check.verify import leaf_errors
from mllm_jax.config.load import CheckpointConfig
from mllm_jax.train.experiment import Experiment
from mllm_jax.train.state.checkpoint import CheckpointManager
from mllm_jax.train.state.fit import check_same_model
from mllm_jax.train.state.progress import Progress
from mllm_jax.train.state.regroup import LayerRegrouping
from mllm_jax.train.state.saved import CheckpointError
from tests.train.runs import compilations, keep_until, run, save

STEPS = 4
KEEP = CheckpointConfig(keep=10, every=1)


@dataclass(frozen=True)
class Run:
    losses: list[float]
    state: Any
    checkpoints: Path
    compiled: list[int]  # compilations so far, after each step


@pytest.fixture(scope="module")
def whole_run(experiment, fresh_state, tmp_path_factory) -> Run:
    """Four steps without a stop, with a checkpoint after each."""
    folder = tmp_path_factory.mktemp("run") / "checkpoints"
    after_step: list[int] = []
    checkpoints = CheckpointManager(folder, KEEP, experiment.step.form.regrouping)

    def after(state: Any, progress: Progress) -> None:
        checkpoints.save_state(
            progress.step, state, progress.to_json(), experiment.config.model_dump(mode="json")
        )
        after_step.append(len(compiled))

    state, progress = fresh_state()
    with closing(checkpoints), compilations() as compiled:
        jax.jit(lambda x: x + 1)(0)  # is heard, whoever has compiled the step before
        losses, last = run(experiment, state, progress, after)
    return Run(losses, last, folder, after_step)


def restored(folder: Path, experiment: Experiment) -> tuple[Any, Progress]:
    checkpoints = CheckpointManager(folder, KEEP, experiment.step.form.regrouping)
    try:
        found = checkpoints.restore_state(experiment.step.abstract_state)
    finally:
        checkpoints.close()
    assert found is not None
    return found.state, found.progress


def assert_equal(got: Any, expected: Any) -> None:
    for (path, a), b in zip(
        jax.tree_util.tree_leaves_with_path(got), jax.tree.leaves(expected), strict=True
    ):
        np.testing.assert_array_equal(a, b, err_msg=jax.tree_util.keystr(path))


def test_training_changes_the_loss(whole_run):
    assert len(set(whole_run.losses)) == STEPS


def test_nothing_is_compiled_after_the_first_step(whole_run):
    first, *later = whole_run.compiled
    assert first > 0
    assert later == [first] * (STEPS - 1)


@pytest.mark.parametrize("stop", range(1, STEPS + 1))
def test_resuming_after_any_step_is_bitwise_the_same(experiment, whole_run, tmp_path, stop):
    folder = keep_until(whole_run.checkpoints, tmp_path / "checkpoints", stop)
    state, progress = restored(folder, experiment)
    assert progress.step == stop
    losses, state = run(experiment, state, progress)
    assert losses == whole_run.losses[stop:]
    assert_equal(state, whole_run.state)


def test_resuming_on_another_plan_is_the_same_within_rounding(
    small_config: Callable[..., Any], whole_run, tmp_path
):
    other = Experiment.build(
        small_config(
            parallel__devices=2,
            parallel__decoder={"fsdp": 2},
            parallel__encoders={"vision": {"tensor": 2}, "audio": {"data": 2}},
        )
    )
    folder = keep_until(whole_run.checkpoints, tmp_path / "checkpoints", 2)
    losses, state = run(other, *restored(folder, other))
    # The exact gradient of key biases is zero; the configuration's epsilon keeps Adam from blowing
    # its rounding up to whole steps.
    np.testing.assert_allclose(losses, whole_run.losses[2:], rtol=1e-5)
    errors = leaf_errors(state["params"], whole_run.state["params"])
    assert max(errors.values()) < 1e-5, errors


def truncate(folder: Path, step: int) -> None:
    """Cut the data files that a process wrote for a checkpoint in half."""
    for file in (folder / str(step) / "state").glob("**/d/*"):
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def test_a_truncated_checkpoint_gives_way_to_the_newest_whole_one(
    experiment, whole_run, tmp_path, caplog
):
    folder = keep_until(whole_run.checkpoints, tmp_path / "checkpoints", 3)
    truncate(folder, 3)
    state, progress = restored(folder, experiment)
    assert progress.step == 2
    assert "step 3: leaf " in caplog.text
    checkpoints = CheckpointManager(folder, KEEP, experiment.step.form.regrouping)

    def after(state: Any, progress: Progress) -> None:
        checkpoints.save_state(
            progress.step, state, progress.to_json(), experiment.config.model_dump(mode="json")
        )

    losses, _ = run(experiment, state, progress, after)
    assert losses == whole_run.losses[2:]
    checkpoints.close()
    # The damaged step is saved anew, and what was damaged is still there to look at.
    state, progress = restored(folder, experiment)
    assert progress.step == STEPS
    assert_equal(jax.tree.map(np.asarray, state), whole_run.state)
    assert {"1", "2", "3", "4"} <= {path.name for path in folder.iterdir()}
    assert len(list(folder.glob("damaged-3-*"))) == 1


def test_only_truncated_checkpoints_are_an_error_that_names_a_leaf(experiment, whole_run, tmp_path):
    folder = keep_until(whole_run.checkpoints, tmp_path / "checkpoints", 1)
    truncate(folder, 1)
    with pytest.raises(CheckpointError, match=r"no readable checkpoint .*\n.*step 1: leaf \w+\."):
        restored(folder, experiment)


def test_a_checkpoint_of_another_model_is_refused_by_leaf(small_config, whole_run, tmp_path):
    wider = Experiment.build(small_config(model__decoder__d_ff=64))
    folder = keep_until(whole_run.checkpoints, tmp_path / "checkpoints", 2)
    with pytest.raises(
        CheckpointError, match=r"another model(.*\n)+.*mlp\..*shape \(1, .*32"
    ) as error:
        restored(folder, wider)
    assert "embed_tokens" not in str(error.value)


def test_adapters_of_another_rank_are_refused_by_the_key():
    """Not by the shapes of their matrices alone."""

    class Fits:
        vocab = None

        def can_become(self, name, stored, wanted):
            return stored == wanted

    target = {"q": {"lora_a": jax.ShapeDtypeStruct((2, 64, 8), np.float32)}}
    message = r"another model:\n  train\.lora\.rank: 4 in the checkpoint, 8 here\n  q\.lora_a: "
    with pytest.raises(CheckpointError, match=message):
        check_same_model("it", {"q.lora_a": (2, 64, 4)}, target, Fits(), {})


def test_an_optimizer_that_groups_parameters_otherwise_is_named():
    target = {"optimizer": {"lamb": {"mu": {"kernel": jax.ShapeDtypeStruct((2, 4), np.float32)}}}}
    message = "it has this model's parameters with the state of another optimizer, .*lamb.mu.kernel"
    with pytest.raises(CheckpointError, match=f"(?s){message}.*launch.py export") as error:
        check_same_model(
            "it", {"optimizer.adamw.mu.kernel": (2, 4)}, target, LayerRegrouping(8, None), {}
        )
    assert "optimizer.adamw.mu.kernel: not in the model" in str(error.value)


def test_the_head_of_older_runs_that_did_not_learn_to_write_is_named():
    """Of others it is a leaf like all that the model lacks."""
    stored, scene = {"params.decoder.lm_head.kernel": (8, 8)}, {"scene": {"kind": "regression"}}
    for objectives, message in (
        (scene, "a head of the vocabulary, .* older versions; begin another run.name"),
        ({}, "another model:"),
    ):
        config = {"model": {"objectives": objectives}}
        with pytest.raises(CheckpointError, match=message):
            check_same_model("it", stored, {}, LayerRegrouping(8, None), config)


def test_the_first_eight_leaves_of_another_model_are_listed():
    stored = {f"w{number}": (2,) for number in range(10)}
    with pytest.raises(CheckpointError) as error:
        check_same_model("it", stored, {}, LayerRegrouping(8, None), {})
    assert str(error.value).count("not in the model") == 8


def test_only_the_newest_checkpoints_are_kept(experiment, fresh_state, tmp_path):
    state, progress = fresh_state()
    two = CheckpointConfig(keep=2, every=1)
    checkpoints = CheckpointManager(tmp_path / "checkpoints", two, experiment.step.form.regrouping)
    try:
        for step in (1, 2, 3):
            progress.step = step
            save(checkpoints, experiment, state, progress)
        checkpoints.wait_for_saves()
        assert checkpoints.steps == [2, 3]
    finally:
        checkpoints.close()
    stored = json.loads((tmp_path / "checkpoints" / "3" / "config" / "metadata").read_text())
    assert stored == experiment.config.model_dump(mode="json")

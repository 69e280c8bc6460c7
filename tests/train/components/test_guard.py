"""Steps that go wrong: what is left out, what ends a run, and which states survive."""

from __future__ import annotations

import gc
import logging
import math
import os
import resource
import shutil
import signal
import sys
import time
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rich.console import Console

from data.planning.stream import LoaderState
from data.sample import DataError
from mllm_jax.config.load import ExperimentConfig
from mllm_jax.config.sections import GuardConfig
from mllm_jax.runtime.exits import ExitCode, exit_code_of
from mllm_jax.runtime.folder import RunError
from mllm_jax.runtime.interrupt import interrupt_message
from mllm_jax.runtime.run_peers import RunPeers
from mllm_jax.train import trainer as loop
from mllm_jax.train.components import checkpoint_saver, components, start
from mllm_jax.train.components import evaluator as evaluate
from mllm_jax.train.components.checkpoint_saver import SaveError
from mllm_jax.train.components.evaluator import StoppedError
from mllm_jax.train.components.guard import DivergedError, StepGuard, not_finite
from mllm_jax.train.events import StepEnded
from mllm_jax.train.experiment import Experiment
from mllm_jax.train.loading.loader import open_loader
from mllm_jax.train.records.step_record import StepRecord
from mllm_jax.train.state.progress import Progress
from mllm_jax.train.step.batch_placement import place_microbatches
from mllm_jax.train.trainer import Trainer
from tests.configs import ONE_DEVICE
from tests.train.runs import compilations, first_states, initial_state

NAN = math.nan


def record(step: int, loss: float, norm: float = 1.0, *, skips: bool = False) -> StepRecord:
    return StepRecord(step, loss, 0.1, norm, 1.0, 0.0, {}, {}, 0.0, skips=skips)


def guarded(losses: Sequence[float], **config: Any) -> StepGuard:
    """A guard that has seen these losses."""
    guard = StepGuard(GuardConfig(**config), Progress(0, LoaderState(0)), "usual: {}".format)
    for step, loss in enumerate(losses, 1):
        guard.watch_step(record(step, loss))
    guard.check_all()
    return guard


@pytest.mark.parametrize(("loss", "norm"), [(NAN, 1.0), (math.inf, 1.0), (1.0, NAN)])
def test_a_step_that_is_not_finite_ends_the_run(loss, norm):
    guard = guarded([2.0, 1.0])
    guard.watch_step(record(3, loss, norm))
    with pytest.raises(DivergedError, match=r"is (nan|inf) at step 3\. usual: 2"):
        guard.check_all()


def test_a_router_whose_logits_are_not_finite_is_told_by_its_layer():
    guard = StepGuard(GuardConfig(), Progress(0, LoaderState(0)), str, expert_layers=(1, 3, 5))
    loads = np.array([[1.0, 1.0], [NAN, NAN], [NAN, NAN]])
    guard.watch_step(replace(record(3, NAN), expert_loads=loads))
    with pytest.raises(DivergedError, match="step 3, logits of the router of layer 3 are not fin"):
        guard.check_all()


def test_a_router_without_finite_logits_makes_a_bad_step_though_the_loss_is_finite(caplog):
    guard = StepGuard(
        GuardConfig(skip=1), Progress(0, LoaderState(0)), str, expert_layers=(1, 3, 5)
    )
    finite, nonfinite = np.ones((3, 2)), np.array([[1.0, 1.0], [NAN, NAN], [1.0, 1.0]])
    for step, loads in enumerate((finite, nonfinite, finite, nonfinite), 1):
        guard.watch_step(replace(record(step, 2.0), expert_loads=loads))
    guard.check_all()
    assert (guard.usual_step, guard._progress.skipped_updates) == (3, 2)
    told = "logits of the router of layer 3 are not finite at step {}".format
    assert f"{told(4)}: its update is left out (1 of 1 in a row)" in caplog.text
    guard.watch_step(replace(record(5, 2.0), expert_loads=nonfinite))
    with pytest.raises(DivergedError, match=rf"^{told(5)}, after 1 updates left out\. 3$"):
        guard.check_all()


def test_updates_that_are_left_out_before_a_cut_count_after_it(caplog):
    progress = guarded([2.0, NAN, NAN], skip=2)._progress
    progress.step = 3
    resumed = StepGuard(GuardConfig(skip=2), Progress.from_json(progress.to_json()), str)
    resumed.watch_step(record(4, NAN))
    with pytest.raises(DivergedError, match="nan at step 4, after 2 updates left out"):
        resumed.check_all()


def test_a_bounded_number_of_updates_in_a_row_is_left_out(caplog):
    guard = guarded([2.0, NAN, NAN, 2.0, NAN, NAN], skip=2)
    assert guard._progress.skipped_updates == 4
    assert "the loss is nan at step 3: its update is left out (2 of 2 in a row)" in caplog.text
    guard.watch_step(record(7, NAN))
    with pytest.raises(DivergedError, match="nan at step 7, after 2 updates left out"):
        guard.check_all()


def test_a_spike_ends_the_run_if_it_is_asked_to():
    usual = [2.0] * 30
    assert guarded([*usual, 7.0, 1e6, 2.0]).usual_step == 33
    assert guarded([*usual, 7.0]).usual_step == 30
    with pytest.raises(DivergedError, match=r"loss is 7 at step 31, 3.5 times its usual 2 .*spike"):
        guarded([*usual, 7.0], spike=3)
    guarded([*usual, 5.9], spike=3)
    guarded(list(np.geomspace(1.0, 30.0, 400)), spike=3)  # a slow rise is none


def test_a_step_is_looked_at_when_it_must_be_over():
    """Never the newest two, which may be running."""
    guard, looked = guarded([]), []

    @dataclass
    class Loss:
        step: int

        def __float__(self) -> float:
            looked.append(self.step)
            return 1.0

    for step in range(1, 6):
        guard.watch_step(record(step, Loss(step)))
        assert max(looked, default=0) == max(0, step - 2)


#: One device, and encoders that do not train: few arrays to save, which is what these runs do.
FEW: dict[str, Any] = {
    "parallel": ONE_DEVICE,
    "train__freeze": ["vision", "vision.connector", "audio", "audio.connector"],
}


@pytest.fixture(scope="module")
def experiment(small_config) -> Experiment:
    return Experiment.build(small_config(**FEW))


@pytest.fixture(scope="module")
def new_state(experiment) -> Callable[[], tuple[Any, Progress]]:
    return first_states(experiment)


def test_leaves_that_are_not_finite_are_named(new_state):
    state, _ = new_state()
    assert not_finite(state) == []
    spoilt = jax.tree_util.tree_map_with_path(
        lambda path, x: x.at[..., 0].set(NAN) if "embed_tokens" in str(path) else x, state
    )
    names = not_finite(spoilt)
    assert names
    assert all("embed_tokens" in name for name in names)
    guard = guarded([1.0])
    with pytest.raises(DivergedError, match=r"after step 9, \S+ and 2 more is not finite"):
        guard.check_state(9, spoilt)


# ---- the whole run, with losses instead of steps -------------------------------------------------


@dataclass
class Runs:
    """Runs of one name whose steps have given losses; the state of each is its step's."""

    make: Callable[..., ExperimentConfig]
    folder: Path
    monkeypatch: pytest.MonkeyPatch
    told: list[str]
    paused: list[float] = field(default_factory=list)

    def __call__(
        self, losses: Sequence[float], from_step: int | None = None, **changes: Any
    ) -> dict[str, Any]:
        """Train; other arguments are those of `prepare`."""
        return loop.train(self.prepare(losses, **changes), Console(quiet=True), from_step)

    def prepare(
        self,
        losses: Sequence[float],
        at: dict[int, Callable[[], None]] | None = None,
        checkpoint: dict[str, Any] | None = None,
        evaluated: bool = False,
        **changes: Any,
    ) -> ExperimentConfig:
        """A run of as many steps as there are losses in all; `at` happens before steps."""

        def train_step(trainer: Trainer) -> StepEnded:
            progress, state = trainer.progress, trainer.state
            self.paused.append(progress.paused)
            loss = losses[progress.step]
            progress.step += 1
            (at or {}).get(progress.step, lambda: None)()
            value = jnp.int32(progress.step)
            trainer.state = state | {"step": jax.device_put(value, state["step"].sharding)}
            results = {
                "loss": loss,
                "grad_norm": 1.0,
                "targets": 0,
                "aux": {},
                "loads": None,
                "trust_ratios": None,
            }
            return StepEnded(progress.step, 1.0, [], results, 0.1)

        self.monkeypatch.setattr(Trainer, "train_step", train_step)
        return self.make(
            train__steps=len(losses),
            run={
                "name": "run",
                "directory": str(self.folder),
                "log_every": 1,
                "gc_every": None,
            },
            evaluate={"enabled": evaluated},
            checkpoint={"every": 1, "keep": 2, "asynchronous": False} | (checkpoint or {}),
            **changes,
        )

    @property
    def kept(self) -> list[int]:
        folders = (self.folder / "run" / "checkpoints").iterdir()
        return sorted(int(path.name) for path in folders if path.name.isdigit())


@pytest.fixture
def runs(small_config, experiment, new_state, tmp_path, monkeypatch, caplog) -> Runs:
    def same(config: ExperimentConfig) -> Experiment:
        return Experiment(config, experiment.grid, experiment.processor, experiment.step)

    monkeypatch.setattr(Experiment, "build", same)
    monkeypatch.setattr(start, "initial_state", lambda experiment, console: new_state()[0])
    monkeypatch.setattr(checkpoint_saver, "_PAUSE", 0.001)
    caplog.set_level(logging.WARNING)
    return Runs(partial(small_config, **FEW), tmp_path, monkeypatch, [])


def test_states_that_diverge_do_not_replace_a_good_one(runs):
    runs([4.0, 3.9, 3.8])
    assert runs.kept == [2, 3]
    bad = [4.0, 3.9, 3.8, 3.7, 1e7, 1e8, NAN]
    with pytest.raises(
        DivergedError, match=r"loss is nan at step 7.* of step 3: .*--from-step 3 "
    ) as error:
        runs(bad)
    assert exit_code_of(error.value) == ExitCode.DIVERGED
    assert runs.kept == [3, 5, 6]
    with pytest.raises(DivergedError, match="--from-step 3 "):  # neither does a restart lose it
        runs(bad)
    assert runs([4.0, 3.9, 3.8, 3.7], from_step=3)["steps"] == 4
    assert runs.kept == [3, 4]
    aside = [path.name[:7] for path in (runs.folder / "run/checkpoints").glob("newer-*")]
    assert sorted(aside) == ["newer-5", "newer-6"]


def test_a_run_that_diverges_at_once_has_no_good_checkpoint(runs):
    with pytest.raises(DivergedError, match="No checkpoint of the run is known to be good"):
        runs([4.0, 1e7, 1e8, NAN])


def test_a_checkpoint_that_a_run_goes_on_from_is_not_good_before_a_loss_says_so(runs):
    runs([4.0])
    with pytest.raises(DivergedError, match="No checkpoint of the run is known to be good"):
        runs([4.0, 1e7, NAN])
    with pytest.raises(DivergedError, match="known to be good is that of step 3: go on"):
        runs([4.0, 1e7, 1e8, 4.0, NAN], checkpoint={"every": 3})


def test_every_nth_checkpoint_is_kept(runs):
    runs([4.0] * 9, checkpoint={"keep_every": 4})
    assert runs.kept == [4, 8, 9]


def test_other_data_are_refused_unless_they_are_accepted(runs, small_config, caplog):
    source = small_config().data.source.model_dump() | {"train": 60}
    runs([4.0, 4.0])
    for asked in (None, 1):  # and nothing is set aside
        with pytest.raises(DataError, match=r"other data:\n  data.source: 64 -> 60 samples\n"):
            runs([4.0] * 3, from_step=asked, data__source=source)
        assert sorted(runs.kept) == [1, 2]
    runs([4.0] * 3, data__source=source, data__accept_changes=True)
    assert "going on with other data: data.source: 64 -> 60 samples" in caplog.text
    runs([4.0] * 4, data__source=source)
    with pytest.raises(DataError, match="60 -> 64 samples"):
        runs([4.0] * 5)


def test_a_checkpoint_is_evaluated_with_the_tokenizer_of_its_training(
    runs, small_config, monkeypatch, caplog
):
    class Evaluated:
        def __init__(self, experiment: Experiment) -> None:
            pass

        def __call__(self, params: Any) -> dict[str, Any]:
            return {"heldout_loss": 1.5}

    def asked(**changes: Any) -> dict[str, Any]:
        run = {"name": "run", "directory": str(runs.folder)}
        return evaluate.evaluate_run(runs.make(run=run, **changes))

    monkeypatch.setattr(evaluate, "LossEvaluator", Evaluated)
    runs([4.0])
    source = small_config().data.source.model_dump() | {"train": 60}
    assert asked(data__source=source) == {"step": 1, "heldout_loss": 1.5}  # no matter what trained
    with pytest.raises(DataError, match=r"data.tokenizer: other contents\n.*accept_changes=true"):
        asked(data__tokenizer="bytes")
    assert asked(data__tokenizer="bytes", data__accept_changes=True)["step"] == 1
    assert "evaluating with another one: data.tokenizer: other contents" in caplog.text


# What Orbax has begun when a write fails complains when it is collected.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore:coroutine:RuntimeWarning")
@pytest.mark.parametrize("asynchronous", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_save_that_fails_is_told_and_the_run_goes_on(runs, caplog, asynchronous):
    """Real writes, of which none may be longer than some bytes for a while."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def limit(size: int) -> Callable[[], None]:
        return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))

    keep = {"asynchronous": asynchronous, "keep": 9, "failures": 4}
    try:
        summary = runs([4.0] * 7, at={3: limit(600), 6: limit(limits[0])}, checkpoint=keep)
    finally:
        limit(limits[0])()
    assert summary["steps"] == 7
    assert {1, 6, 7} <= set(runs.kept)
    assert not {3, 4} & set(runs.kept)
    told = [r.getMessage() for r in caplog.records if "cannot be saved" in r.getMessage()]
    failed = [message.split(" cannot")[0][-1] for message in told]
    # Those of steps 2 and 5 may have been running when the limit came and went.
    assert [step for step in failed if step not in ("2", "5")] == ["3", "4"]
    gc.collect()
    others = [r for r in caplog.records if r.name == "asyncio" or "Event loop" in r.getMessage()]
    assert not others


def test_saves_fail_a_bounded_number_of_times(runs, monkeypatch):
    usage = shutil.disk_usage(runs.folder)._replace(free=0)

    def full() -> None:
        monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)

    reason = r"step 5 cannot be saved: .*No space left.*0 MiB are free.*3 saves in a row"
    monkeypatch.setattr(sys, "orig_argv", ["python", "launch.py", "train", "--from-step", "1"])
    with pytest.raises(SaveError, match=reason) as error:
        runs([4.0] * 9, at={3: full}, checkpoint={"failures": 2})
    assert str(error.value).endswith("then go on with\n  python launch.py train")
    assert runs.kept == [1, 2]


def test_a_run_whose_folder_is_removed_goes_on(runs, caplog):
    def remove() -> None:
        shutil.rmtree(runs.folder / "run")

    assert runs([4.0] * 6, at={3: remove})["steps"] == 6
    assert runs.kept == [5, 6]
    assert "step 3 cannot be saved: " in caplog.text
    assert "the folder is gone" in caplog.text


def test_the_last_save_is_tried_again(runs, caplog):
    def remove() -> None:
        shutil.rmtree(runs.folder / "run")

    def remove_and_stop() -> None:
        remove()
        os.kill(os.getpid(), signal.SIGTERM)

    runs([4.0] * 3, at={3: remove})
    assert runs.kept == [3]
    with pytest.raises(KeyboardInterrupt):
        runs([4.0] * 9, at={5: remove_and_stop})
    assert runs.kept == [5]


def test_what_is_done_with_steps_is_no_part_of_them(runs):
    config = runs.prepare([4.0] * 3, evaluated=False)
    for _ in loop.training_steps(Experiment.build(config), Console(quiet=True)):
        time.sleep(0.05)
    start, first, second = runs.paused  # before each step
    assert start == 0
    assert first > 0.05
    assert second - first > 0.05


@pytest.mark.parametrize(("count", "valid"), [(1, "0, as there is one process"), (2, "0 to 1")])
def test_a_process_that_is_not_there_writes_no_profile(runs, monkeypatch, count, valid):
    monkeypatch.setattr(RunPeers, "count", count)
    said = (
        rf"run\.profile_processes: 3 in \[0, 3\] would be after the last process; valid: {valid}$"
    )
    with pytest.raises(RunError, match=said):
        runs([4.0], run__profile_processes=[0, 3])


def test_a_signal_in_the_last_step_leaves_the_evaluation_to_the_same_command(runs, monkeypatch):
    class Evaluated:
        def __init__(self, experiment: Experiment) -> None:
            pass

        def __call__(self, params: Any, stopping: Callable[[], bool]) -> dict[str, Any]:
            return {"heldout_loss": 1.5}

    def stop() -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(components, "LossEvaluator", Evaluated)
    monkeypatch.setattr(sys, "orig_argv", ["python", "launch.py", "train", "--from-step=1"])
    with pytest.raises(KeyboardInterrupt):
        runs([4.0] * 3, at={3: stop}, evaluated=True)
    assert runs.kept == [2, 3]
    place = runs.folder / "run" / "checkpoints" / "3"
    assert interrupt_message() == (
        f"interrupted: training is complete, step 3 is saved in {place}; evaluate it with\n"
        "  python launch.py train"
    )
    assert runs([4.0] * 3, evaluated=True)["heldout_loss"] == 1.5
    # Without an evaluation nothing is left out.
    assert runs([4.0] * 5, at={5: stop})["steps"] == 5


def test_a_signal_ends_an_evaluation_between_steps_and_saves(runs, monkeypatch):
    batches = []

    class Evaluated:
        def __init__(self, experiment: Experiment) -> None:
            pass

        def __call__(self, params: Any, stopping: Callable[[], bool]) -> NoReturn:
            while not stopping():
                batches.append(None)
                os.kill(os.getpid(), signal.SIGTERM)
            raise StoppedError

    monkeypatch.setattr(components, "LossEvaluator", Evaluated)
    for checkpoint in ({"every": 100}, {"every": 2}):  # not saved yet, and saved
        batches.clear()
        with pytest.raises(KeyboardInterrupt):
            runs([4.0] * 5, checkpoint=checkpoint, evaluated=True, evaluate__every=2)
        assert len(batches) == 1
    assert runs.kept == [2, 4]
    assert interrupt_message().startswith("interrupted after step 4, which is saved in ")


# ---- the step itself -----------------------------------------------------------------------------


def test_an_update_that_is_not_finite_changes_nothing(small_config):
    """Neither parameters nor optimizer nor counters; the next one is as if it had not been."""
    frozen = ["audio", "audio.connector"]  # less to compile
    experiment = Experiment.build(small_config(train__guard={"skip": 1}, train__freeze=frozen))
    step, state = experiment.step, initial_state(experiment.step)
    with open_loader(experiment, LoaderState(0)) as loader:
        good = next(loader).batch
    bad = deepcopy(good)
    bad.rows["vision"].inputs[:] = NAN
    before = jax.tree.map(np.array, state)
    state, scalars = step.update(state, place_microbatches([bad], step))
    assert not math.isfinite(float(scalars["loss"]))
    for leaf, old in zip(jax.tree.leaves(state), jax.tree.leaves(before), strict=True):
        for shard in leaf.addressable_shards:
            np.testing.assert_array_equal(shard.data, old[shard.index])
    assert int(state["step"]) == int(before["step"])
    with compilations() as compiled:
        state, scalars = step.update(state, place_microbatches([good], step))
    assert math.isfinite(float(scalars["loss"]))
    assert int(state["step"]) == int(before["step"]) + 1
    assert not compiled

"""The training loop: restore, then load, step, tell, save, evaluate.

It tells what happens as events (`events.py`); metrics, log line and what the other processes
are told are made of them by listeners (`listeners.py`), which it does not know.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from typing import Any

import jax
from rich.console import Console

from data.loading.identity import Identities
from data.loading.loader import Step
from mllm_jax.config.load import ExperimentConfig
from mllm_jax.runtime.devices import is_primary
from mllm_jax.runtime.folder import prepare_folder
from mllm_jax.runtime.interrupt import stands
from mllm_jax.runtime.lock import locked
from mllm_jax.runtime.part import peers
from mllm_jax.runtime.standing import finished, saved, unsaved
from mllm_jax.runtime.stop import StopSignal
from mllm_jax.runtime.together import compiled_together
from mllm_jax.train.batches import batch_of, microbatches
from mllm_jax.train.evaluate import Evaluator
from mllm_jax.train.events import (
    Dispatched,
    Done,
    Evaluated,
    Evaluating,
    Listener,
    Placed,
    Read,
    Reading,
    Saved,
    Saving,
    Stopwatch,
    Taken,
    nobody,
)
from mllm_jax.train.experiment import Experiment
from mllm_jax.train.feed import check_sources, open_loader
from mllm_jax.train.guard import Guard
from mllm_jax.train.listeners import listeners
from mllm_jax.train.saves import Saves
from mllm_jax.train.start import announce, restore_or_init
from mllm_jax.train.state.checkpoint import Checkpoints
from mllm_jax.train.state.optimizer import learning_rate
from mllm_jax.train.state.progress import Progress
from mllm_jax.train.traced import traced


def train(
    config: ExperimentConfig, console: Console, from_step: int | None = None
) -> dict[str, Any]:
    """Train to `train.steps`, or go on where the run of this name stopped; then evaluate.

    Args:
        from_step: of the checkpoint to go on from; newer ones are set aside. None: the newest.

    Returns:
        The content of `summary.json`.

    Raises:
        RunError: the folder cannot be written.
        DivergedError: loss, gradients or parameters are no longer finite.
        SaveError: saving has failed too often.
        DataError: the data cannot be used, or are not those that the run was trained on.
        CheckpointError: no checkpoint of the run can be read, or they are of another model.
        KeyboardInterrupt: SIGINT or SIGTERM came; a checkpoint has been saved. In the last step or
            behind it, no evaluation has been made.
        LockedError: another run has the folder.
        AgreementError: the processes of the run differ.
    """
    sources = check_sources(config)
    experiment = Experiment.build(config)
    kept = (config.checkpoint.keep + 1) * config.checkpoint.enabled
    prepare_folder(config.run.path, kept * experiment.state_bytes())
    with locked(config.run.path) if is_primary() else nullcontext():
        peers().gather("the run's folder is locked", None)
        return _train(experiment, console, sources, from_step)


def _train(
    experiment: Experiment, console: Console, sources: Identities, from_step: int | None
) -> dict[str, Any]:
    """`train` in a folder that no other run writes to."""
    config = experiment.config
    announce(experiment, console)
    checkpoints = Checkpoints(
        config.run.path / "checkpoints", config.checkpoint, experiment.step.form.regrouping
    )
    try:
        peers().note("restoring or making the state", limited=False)
        state, progress = restore_or_init(experiment, checkpoints, console, sources, from_step)
        with listeners(experiment, progress, console) as tell:
            result = _run(experiment, state, progress, checkpoints, tell)
    finally:
        checkpoints.close()
    return tell.finish(config.run.path, result)


def _run(
    experiment: Experiment,
    state: Any,
    progress: Progress,
    checkpoints: Checkpoints,
    tell: Listener,
) -> dict[str, Any]:
    """All steps that are left, with what happens between them; what the evaluation has given."""
    config = experiment.config
    evaluator = Evaluator(experiment) if config.evaluate.enabled else None
    saves = Saves(checkpoints, config, progress)
    guard = Guard(config.train.guard, progress, saves.advice)
    with StopSignal() as stop:
        for state, taken in steps(experiment, state, progress, tell):  # noqa: B020 - the old is donated
            stop.listen()
            stands(unsaved(config))
            guard.watch(taken)
            tell(taken)
            last = progress.step == config.train.steps
            reporting = last or progress.step % config.run.log_every == 0
            # Processes agree on stopping by a gather, which must not be part of every step.
            stopping = (jax.process_count() == 1 or reporting) and stop.requested()
            saving = stopping or last or progress.step % config.checkpoint.every == 0
            if reporting or saving:
                guard.settle()
            if saving and config.checkpoint.enabled:
                _save(saves, guard, state, progress, tell, last=stopping or last)
            if stopping and not last:
                stands(saved(config, progress.step))
                raise KeyboardInterrupt
            every = config.evaluate.every
            if evaluator and every and not last and progress.step % every == 0:
                _evaluate(evaluator, state, progress, tell)
        stopping = evaluator is not None and stop.requested()
    stands(finished(config, progress.step))
    if stopping:
        raise KeyboardInterrupt
    return _evaluate(evaluator, state, progress, tell) if evaluator else {}


def steps(
    experiment: Experiment, state: Any, progress: Progress, tell: Listener = nobody
) -> Iterator[tuple[Any, Taken]]:
    """Take the steps that are left; yields the new state and what was taken.

    The old state is donated to the step. `progress` is advanced before each yield. A step is
    dispatched while the one before may still run: its loss is waited for before the next.

    Args:
        tell: is told of all events but those that are yielded.
    """
    config = experiment.config
    schedule = learning_rate(config.train)
    # Emulated devices share the host's threads: more than one step at a time could starve.
    ahead = 1 if config.parallel.platform == "cpu" else 2
    running: deque[tuple[int, jax.Array]] = deque()
    take = compiled_together("the train step", experiment.step.step)
    with open_loader(experiment, progress.loader) as loader:
        since = Stopwatch()
        carried: dict[str, jax.Array] | None = None
        read = microbatches(experiment, loader, config.train.steps - progress.step)
        while progress.step < config.train.steps:
            number = progress.step + 1
            tell(Reading(number))
            reading = Stopwatch()
            own, following = next(read)
            tell(Read(number, reading.seconds, own))
            placing = Stopwatch()
            batch = batch_of(experiment, state, own, following, carried)
            tell(Placed(number, placing.seconds))
            while len(running) >= ahead:
                tell(_done(*running.popleft()))
            dispatching = Stopwatch()
            if number == config.run.trace_step:
                state, scalars = traced(experiment, state, batch, number)
            else:
                state, scalars = take(state, batch)
            tell(Dispatched(number, dispatching.seconds))
            running.append((number, scalars["loss"]))
            carried = scalars["carried"]
            seconds, since = since.seconds, Stopwatch()
            _advance(progress, own, seconds)
            rate = float(schedule(progress.step - 1 - progress.skipped_updates))
            paused = progress.paused
            yield state, Taken(number, seconds, own, scalars, rate, len(progress.skipped.kinds))
            since.leave_out(progress.paused - paused)
    while running:
        tell(_done(*running.popleft()))


def _done(number: int, loss: jax.Array) -> Done:
    """Wait for a step."""
    waiting = Stopwatch()
    loss.block_until_ready()
    return Done(number, waiting.seconds)


def _advance(progress: Progress, microbatches: Sequence[Step], seconds: float) -> None:
    progress.step += 1
    progress.loader = microbatches[-1].state
    progress.seconds += seconds
    progress.skipped.note(progress.step, (skip for m in microbatches for skip in m.skipped))


def _save(
    saves: Saves, guard: Guard, state: Any, progress: Progress, tell: Listener, *, last: bool
) -> None:
    """Save a state that may be saved; with `last`, until it is."""
    tell(Saving(progress.step))
    saving = Stopwatch()
    guard.check_state(progress.step, state)
    saves.save(state, progress, guard.sane, last=last)
    tell(Saved(progress.step, saving.seconds))


def _evaluate(
    evaluator: Evaluator, state: Any, progress: Progress, tell: Listener
) -> dict[str, Any]:
    tell(Evaluating(progress.step))
    evaluating = Stopwatch()
    result = evaluator(state["params"])
    tell(Evaluated(progress.step, evaluating.seconds, result))
    progress.paused += evaluating.seconds
    return result

"""Training: restore the state, then read, place and take steps, and do the work between them.

`StepRunner.train_step` has the line that runs the compiled step. The trainer sends events
(`events.py`); listeners (`listeners/`), which it does not know, turn them into metrics, log lines
and messages to the other processes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any

import jax
from rich.console import Console

from data.loading.identity import Identities
from data.loading.loader import Microbatch, MicrobatchLoader
from mllm_jax.config.load import ExperimentConfig
from mllm_jax.runtime.devices import is_primary
from mllm_jax.runtime.folder import check_space
from mllm_jax.runtime.interrupt import set_interrupt_status
from mllm_jax.runtime.run_peers import current_peers, waiting_for_peers
from mllm_jax.runtime.run_status import status_after_step, status_after_training, status_unsaved
from mllm_jax.runtime.supervised.process import was_restarted
from mllm_jax.train.components.components import RunComponents, due_work
from mllm_jax.train.components.evaluator import StoppedError
from mllm_jax.train.components.guard import DivergedError
from mllm_jax.train.components.replica_check import ReplicaCheck, check_replicas
from mllm_jax.train.components.start import check_health, locked_run, print_start, restore_or_init
from mllm_jax.train.components.traced_step import take_traced_step
from mllm_jax.train.events import (
    Listener,
    PhaseName,
    StepEnded,
    StepStarted,
    StepStopwatch,
    ignore_event,
)
from mllm_jax.train.experiment import Experiment
from mllm_jax.train.listeners.goodput.ledger import TimeLedger, process_age
from mllm_jax.train.listeners.goodput.record import TimeRecord
from mllm_jax.train.listeners.listeners import open_listeners
from mllm_jax.train.listeners.profile import check_processes
from mllm_jax.train.loading.batches import (
    StepMicrobatches,
    mask_missing_samples,
    place_step,
    read_steps,
)
from mllm_jax.train.loading.groups import state_of_all
from mllm_jax.train.loading.loader import check_sources, open_loader
from mllm_jax.train.phases import STEP, PhaseWork, measure_phase
from mllm_jax.train.records.dashboards.open import check_loggers
from mllm_jax.train.records.resolved import write_resolved
from mllm_jax.train.results import EvaluationMetrics, RunSummary, StepGenerator, StepResult
from mllm_jax.train.state.checkpoint import CheckpointManager
from mllm_jax.train.state.mirrors.copier import copy_records, copying_checkpoints
from mllm_jax.train.state.mirrors.remote_checkpoints import open_remote_checkpoints
from mllm_jax.train.state.progress import Progress
from mllm_jax.train.state.snapshots.memory import open_snapshots
from mllm_jax.train.step.gradient_program import Batch


class StoppedRun(KeyboardInterrupt):
    """The run was asked to stop, and its state is saved."""


class StepRunner:
    """Takes steps of an experiment and nothing else: without signals, saves or evaluation.

    Args:
        experiment: what is trained.
        state: the state to continue from; steps take its memory.
        progress: progress of that state.
        notify: listener of all events.

    Attributes:
        state: state after the last step that was dispatched.
        progress: progress after that step.
        loader: gives the microbatches of this process, while the runner is open.
        in_flight: steps that may be running on the devices, by number, with their losses.
        step: the compiled step: state and batch to the next state and results; takes the memory of
            the state (see `train_step`).
    """

    loader: MicrobatchLoader

    def __init__(
        self,
        experiment: Experiment,
        state: Any,
        progress: Progress,
        notify: Listener = ignore_event,
    ) -> None:
        config = experiment.config
        self.experiment, self.config = experiment, config
        self.state, self.progress, self.notify = state, progress, notify
        self.in_flight: deque[tuple[int, jax.Array]] = deque()
        self.step = experiment.update
        self._replica_check = (
            ReplicaCheck(experiment.joint_step) if config.train.check_every else None
        )
        # Emulated devices share the host's threads: more than one step at a time could starve.
        self._most_in_flight = 1 if config.parallel.platform == "cpu" else 2
        self._carried: dict[str, jax.Array] | None = None

    @property
    def is_done(self) -> bool:
        """Whether no step is left."""
        return self.progress.step >= self.config.train.steps

    @contextmanager
    def opened_run(self) -> Iterator[None]:
        """Context in which steps are taken: the loader is open."""
        with open_loader(self.experiment, self.progress.loader) as self.loader:
            count = self.config.train.steps - self.progress.step
            self._batches = read_steps(self.experiment, self.loader, count)
            self._stopwatch, self._paused = StepStopwatch(), self.progress.paused
            yield
        self.wait_for_steps()

    def train_step(self) -> StepEnded:
        """Read the next batch, place it on the devices, and dispatch the step.

        The step before may still run meanwhile; the one before that is waited for.

        `self.step` is `TrainStep.update`, compiled (`train/step/step.py`), or for modules in groups
        `MpmdStep.update`, which starts a program a task (`train/step/mpmd`). Forward and backward
        are in `GradientProgram.accumulate_gradients`, in `train/step/plain.py` and `pipeline.py`;
        clipping and optimizer are in `train/state/optimizer.py`, the update in `_update_state`.

        Raises:
            CorruptionError: replicas differ (`train.check_every`).
            DataError: the data cannot be read any more.
        """
        number = self.progress.step + 1
        self.notify(StepStarted(number))
        with jax.profiler.StepTraceAnnotation(STEP, step_num=number):
            read = self._read_batch(number)
            batch = self._place_batch(number, read)
            self.wait_for_steps(self._most_in_flight - 1)
            self._compare_replicas(number, batch)
            with self.phase("dispatch", number):
                if number == self.config.run.trace_step:
                    traced = take_traced_step(self.experiment, self.state, batch, number)
                    self.state, results = traced
                else:
                    self.state, results = self.step(self.state, batch)
            self.in_flight.append((number, results["loss"]))
            if self.must_wait_for(number):
                self.wait_for_steps()
        return self._end_step(read.microbatches, results)

    def wait_for_steps(self, most: int = 0) -> None:
        """Wait until no more than `most` steps are in flight."""
        while len(self.in_flight) > most:
            number, loss = self.in_flight.popleft()
            with self.phase("wait", number), waiting_for_peers(f"step {number}"):
                loss.block_until_ready()

    def must_wait_for(self, step: int) -> bool:
        """Whether a step is waited for before it ends."""
        return False

    def phase(self, name: PhaseName, step: int) -> AbstractContextManager[PhaseWork]:
        """Context of a phase, which listeners receive and profiles show."""
        return measure_phase(name, step, self.notify)

    def _read_batch(self, number: int) -> StepMicrobatches:
        """The microbatches of a step; all processes leave out the same samples."""
        with self.phase("read", number) as work:
            read = next(self._batches)
            work.result = read.microbatches
        with self.phase("agree", number):
            mask_missing_samples(self.experiment, read.microbatches)
        return read

    def _place_batch(self, number: int, read: StepMicrobatches) -> Batch:
        with self.phase("place", number) as work:
            placed = place_step(self.experiment, self.state, read, self._carried)
            work.result = placed
        return placed.batch

    def _compare_replicas(self, number: int, batch: Batch) -> None:
        """Compare the replicas before a step, where that is due."""
        every = self.config.train.check_every
        if self._replica_check and every and number % every == 0:
            with self.phase("check", number):
                check_replicas(self._replica_check, number, self.state["params"], batch)

    def _end_step(self, microbatches: Sequence[Microbatch], results: dict[str, Any]) -> StepEnded:
        """Advance the progress after a step that is dispatched."""
        progress, self._carried = self.progress, results["carried"]
        self._stopwatch.leave_out(progress.paused - self._paused)
        self._paused = progress.paused
        seconds, self._stopwatch = self._stopwatch.seconds, StepStopwatch()
        advance_progress(progress, microbatches, seconds)
        refused = progress.skipped.samples.total()
        rate = results["learning_rate"]
        return StepEnded(progress.step, seconds, microbatches, results, rate, refused)


class Trainer(StepRunner):
    """Trains an experiment to `train.steps`: takes steps, and does the work between them.

    Args:
        experiment, state, progress, notify: see `StepRunner`.
        components: the components that work between steps.
    """

    def __init__(
        self,
        experiment: Experiment,
        state: Any,
        progress: Progress,
        notify: Listener,
        components: RunComponents,
    ) -> None:
        super().__init__(experiment, state, progress, notify)
        self.components = components
        self._first_step = progress.step + 1

    # ---- all steps -------------------------------------------------------------------------------

    def train(self) -> EvaluationMetrics:
        """Take the remaining steps, then evaluate.

        Returns:
            The results of the evaluation.

        Raises:
            Exception: as of the function `train`.
        """
        with self.opened_run():
            while not self.is_done:
                self.after_step(self.train_step())
        return self.evaluate_last_state()

    def steps(self) -> Generator[StepResult, None, EvaluationMetrics]:
        """Yield each of the remaining steps after it was taken, then evaluate.

        The result of the last step has the last evaluation. Time between steps is no part of them.

        Returns:
            The results of the evaluation.
        """
        result = None
        with self.opened_run():
            while not self.is_done:
                result = self.after_step(self.train_step())
                if not self.is_done:
                    pause = StepStopwatch()
                    yield result
                    self.progress.paused += pause.seconds
        evaluation = self.evaluate_last_state()
        if result:
            yield replace(result, evaluation=evaluation or None)
        return evaluation

    @contextmanager
    def opened_run(self) -> Iterator[None]:
        """Context in which steps are taken: the loader is open, signals ask the run to stop."""
        with self.components.stop, super().opened_run():
            yield

    def must_wait_for(self, step: int) -> bool:
        """Whether a step is waited for before it ends: the first, and where work is due."""
        # The first loss is reported as soon as it is there.
        return step == self._first_step or any(due_work(self.config, step))

    def evaluate_last_state(self) -> EvaluationMetrics:
        """Evaluate the state after the last step.

        Raises:
            StoppedRun: a signal came in the last step, and leaves the evaluation to another run.
        """
        set_interrupt_status(status_after_training(self.config, self.progress.step))
        if self.config.evaluate.enabled and self.components.stop.is_requested():
            raise StoppedRun
        return self.evaluate_state() or {}

    # ---- between steps ---------------------------------------------------------------------------

    def after_step(self, ended: StepEnded) -> StepResult:
        """Do the work that is due after a step: report, guard, copy, save, evaluate, stop.

        Raises:
            DivergedError: the run is not to go on.
            SaveError: saving has failed too often.
            StoppedRun: a signal came, and the state is saved; after the last step, not yet.
        """
        step, guard, stop = ended.step, self.components.guard, self.components.stop
        work, is_last = due_work(self.config, step), self.is_done
        stop.start_listening()
        set_interrupt_status(status_unsaved(self.config))
        guard.watch_step(ended)
        self.notify(ended)
        with self.phase("agree", step):
            stopping = stop.agree_on_stop(step)
        if stopping or work.report or work.save or work.copy:
            guard.check_all()
        if work.copy and not stopping:
            self.copy_snapshot()
        if stopping or work.save:
            self.save_checkpoint(is_last=stopping or is_last)
        evaluation = None
        if work.evaluate and not stopping:
            evaluation = self.evaluate_state(stop.is_requested)
            stopping = stop.is_requested()
            if stopping:
                guard.check_all()
                self.save_checkpoint(is_last=True)
        if stopping and not is_last:
            set_interrupt_status(status_after_step(self.config, step))
            raise StoppedRun
        return StepResult(self.components.listeners.record, self.state, evaluation)

    def copy_snapshot(self) -> None:
        """Copy a snapshot of the state into the memory of the hosts, if the run takes any."""
        if self.components.snapshots is None:
            return
        step = self.progress.step
        with self.phase("copy", step):
            progress = progress_of_all(self.progress)
            self.components.snapshots.take_snapshot(step, self.state, progress.to_json())

    def save_checkpoint(self, *, is_last: bool) -> None:
        """Save the state if it is finite and checkpoints are enabled; wait for the last save.

        Raises:
            DivergedError: the state holds numbers that are not finite.
            SaveError: saving has failed too often.
        """
        if not self.config.checkpoint.enabled:
            return
        step, guard = self.progress.step, self.components.guard
        with self.phase("save", step):
            guard.check_state(step, self.state)
            progress = progress_of_all(self.progress)
            saved = self.experiment.step.to_saved(self.state)
            self.components.checkpoints.save_state(saved, progress, guard.usual_step, last=is_last)

    def evaluate_state(
        self, stopping: Callable[[], bool] = lambda: False
    ) -> EvaluationMetrics | None:
        """Evaluate the state; None without evaluation, or if `stopping` holds meanwhile."""
        evaluator = self.components.evaluator
        if evaluator is None:
            return None
        try:
            with self.phase("evaluate", self.progress.step) as work:
                work.result = evaluator(self.state["params"], stopping)
        except StoppedError:
            return None
        self.progress.paused += work.seconds
        return work.result


def advance_progress(
    progress: Progress, microbatches: Sequence[Microbatch], seconds: float
) -> None:
    """Advance the progress by a step of so many seconds."""
    progress.step += 1
    progress.loader, progress.group = microbatches[-1].state, microbatches[-1].stats.group
    progress.seconds += seconds
    progress.skipped.note_skipped(progress.step, (skip for m in microbatches for skip in m.skipped))


def progress_of_all(progress: Progress) -> Progress:
    """The progress of all groups, from that of the group of this process."""
    return replace(progress, loader=state_of_all(progress.loader, progress.group))


# ---- a run ---------------------------------------------------------------------------------------


def train(config: ExperimentConfig, console: Console, from_step: int | None = None) -> RunSummary:
    """Train to `train.steps`, or continue the run of this name; then evaluate.

    Args:
        from_step: step of the checkpoint to continue from; newer ones are set aside. None: newest.

    Returns:
        The content of `summary.json`.

    Raises:
        RunError: the folder cannot be written, or `run.profile_processes` are not there.
        DivergedError: loss, gradients or parameters are no longer finite.
        SaveError: saving has failed too often.
        DataError: the data cannot be used, or are not those that the run was trained on.
        CheckpointError: no checkpoint of the run can be read, or they are of another model.
        KeyboardInterrupt: SIGINT or SIGTERM came; a checkpoint has been saved. In the last step or
            after it, no evaluation has been made.
        LockedError: another run has the folder.
        AgreementError: the processes of the run differ.
        CorruptionError: replicas have made other bits of the same rows (`train.check_every`).
        HealthError: a self-check (`run.self_check`) has found something wrong with this process.
    """
    ledger = TimeLedger(process_age())
    with locked_run(config.run.path):
        record, sources = begin_record(ledger, config)
        record.note_time("data", "build")
        experiment = Experiment.build(config)
        record.note_time("build", "restore")
        with open_trainer(experiment, console, sources, from_step, record) as trainer:
            evaluation = trainer.train()
        return write_summary(trainer, evaluation)


def training_steps(
    experiment: Experiment, console: Console, from_step: int | None = None
) -> StepGenerator:
    """The steps of `train` as a generator; stopping early leaves the run at its last step.

    Steps after the newest checkpoint are lost if the run is left. While steps are taken, SIGINT
    and SIGTERM ask for a checkpoint after the running one, in the main thread.

    Args:
        from_step: as of `train`.

    Raises:
        Exception: as of `train`.
    """
    config, ledger = experiment.config, TimeLedger(0.0, shared=True)
    with locked_run(config.run.path):
        record, sources = begin_record(ledger, config)
        record.note_time("data", "restore")
        with open_trainer(experiment, console, sources, from_step, record) as trainer:
            evaluation = yield from trainer.steps()
        return write_summary(trainer, evaluation)


def begin_record(ledger: TimeLedger, config: ExperimentConfig) -> tuple[TimeRecord, Identities]:
    """Begin the record of this attempt, and check devices and data.

    Returns:
        The record, and the identities of the data.
    """
    record = TimeRecord(ledger, config.run.path)
    record.write_record()
    check_health(config)
    return record, check_sources(config)


@contextmanager
def open_trainer(
    experiment: Experiment,
    console: Console,
    sources: Identities,
    from_step: int | None,
    record: TimeRecord,
) -> Iterator[Trainer]:
    """Context with the trainer of a run, in a folder that no other run writes to.

    Args:
        sources: identities of the data.
        from_step: as of `train`.
        record: record of this attempt.
    """
    config = experiment.config
    check_processes(config.run)
    check_loggers(config.run)
    stored = (config.checkpoint.keep + 1) * config.checkpoint.enabled
    check_space(config.run.path, stored * experiment.state_bytes(), lenient=was_restarted())
    print_start(experiment, console)
    if is_primary():
        write_resolved(config, lenient=was_restarted())
    remote = open_remote_checkpoints(config, from_step)
    folder, regrouping = config.run.path / "checkpoints", experiment.step.form.regrouping
    checkpoints = CheckpointManager(folder, config.checkpoint, regrouping)
    try:
        current_peers().note_activity("restoring or making the state", limited=False)
        final_errors = DivergedError, GeneratorExit, StoppedRun
        with open_snapshots(config, final_errors) as snapshots:
            state, progress = restore_or_init(
                experiment, checkpoints, console, sources, from_step, snapshots, remote
            )
            record.note_time("restore", "compile")
            # Only now are copies set aside that the run has left.
            with (
                copying_checkpoints(remote, progress.step),
                open_listeners(experiment, progress, console, record) as listeners,
            ):
                components = RunComponents.build(
                    experiment, progress, checkpoints, listeners, snapshots, remote
                )
                yield Trainer(experiment, state, progress, listeners, components)
    finally:
        checkpoints.close()


def write_summary(trainer: Trainer, evaluation: EvaluationMetrics) -> RunSummary:
    """Write `summary.json` of a run that is done, and copy its records; returns the content."""
    summary = trainer.components.listeners.write_summary(trainer.config.run.path, evaluation)
    copy_records(trainer.components.remote)
    return summary

"""The training loop: restore, then load, step, tell, save, evaluate.

The loop sends events (`events.py`); listeners (`listeners.py`), which it does not know, turn them
into metrics, log lines and messages to the other processes. `train` runs the loop to its end,
`training` gives its steps one by one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
from rich.console import Console

from data.loading.identity import Identities
from data.loading.loader import Microbatch
from mllm_jax.config.load import ExperimentConfig
from mllm_jax.runtime.compiled.synchronized import compiled_together
from mllm_jax.runtime.devices import is_primary
from mllm_jax.runtime.folder import check_room
from mllm_jax.runtime.interrupt import stands
from mllm_jax.runtime.part import peers, waiting
from mllm_jax.runtime.standing import finished, saved, unsaved
from mllm_jax.runtime.stop import StopSignal
from mllm_jax.runtime.supervised.process import restarted
from mllm_jax.train.components.evaluator import Evaluator, StoppedError
from mllm_jax.train.components.guard import DivergedError, Guard
from mllm_jax.train.components.replicas.check import ReplicaCheck
from mllm_jax.train.components.replicas.corruption import checked
from mllm_jax.train.components.saves import Saves
from mllm_jax.train.components.start import announce, check_health, claimed, restore_or_init
from mllm_jax.train.components.traced_step import traced
from mllm_jax.train.events import (
    Agreed,
    Copied,
    Copying,
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
from mllm_jax.train.experiment import STEP_PROGRAM, Experiment
from mllm_jax.train.feed.batches import batch_of, leave_out_everywhere, microbatches
from mllm_jax.train.feed.feed import check_sources, open_loader
from mllm_jax.train.feed.groups import state_of_all
from mllm_jax.train.listeners.goodput.ledger import Ledger, age
from mllm_jax.train.listeners.goodput.record import Record
from mllm_jax.train.listeners.listeners import Listeners, listeners
from mllm_jax.train.phases import STEP, check_processes, phase
from mllm_jax.train.records.dashboards.open import check_loggers
from mllm_jax.train.records.metrics import StepRecord
from mllm_jax.train.records.resolved import keep
from mllm_jax.train.state.checkpoint import Checkpoints
from mllm_jax.train.state.copies.copier import copy_records, copying
from mllm_jax.train.state.copies.offers import offered
from mllm_jax.train.state.progress import Progress
from mllm_jax.train.state.snapshots.memory import Memory, opened


@dataclass(frozen=True)
class StepResult:
    """A step that has been taken, with all that was due after it.

    Attributes:
        record: figures of the step.
        state: `params`, `optimizer` and `step` after it, on the devices; the next step takes their
            memory, so whoever wants to keep of them copies it.
        evaluation: results on held-out samples, see `Evaluator`; None where none was due.
    """

    record: StepRecord
    state: Any
    evaluation: dict[str, Any] | None = None

    @property
    def step(self) -> int:
        """The number of the step, from 1."""
        return self.record.step

    @property
    def loss(self) -> float:
        """Mean loss of its target tokens; waits for the step."""
        return float(self.record.loss)


#: Gives the steps of a run one by one, and the content of `summary.json` at its end.
Training = Generator[StepResult, None, dict[str, Any]]


class StoppedRun(KeyboardInterrupt):
    """The run was asked to stop, and its state is saved."""


def train(
    config: ExperimentConfig, console: Console, from_step: int | None = None
) -> dict[str, Any]:
    """Train to `train.steps`, or go on where the run of this name stopped; then evaluate.

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
            behind it, no evaluation has been made.
        LockedError: another run has the folder.
        AgreementError: the processes of the run differ.
        CorruptionError: replicas have made other bits of the same rows (`train.check_every`).
        HealthError: a self-check (`run.self_check`) has found something wrong with this process.
    """
    ledger = Ledger(age())
    with claimed(config.run.path):
        record = Record(ledger, config.run.path)
        record.write()
        check_health(config)
        sources = check_sources(config)
        record.spend("data", "build")
        experiment = Experiment.build(config)
        record.spend("build", "restore")
        return _ended(_training(experiment, console, sources, from_step, record))


def training(experiment: Experiment, console: Console, from_step: int | None = None) -> Training:
    """The steps of `train` as a generator; stopping early leaves the run at its last step.

    Steps behind the newest checkpoint are lost if the run is left. While steps are taken, SIGINT
    and SIGTERM ask for a checkpoint behind the running one, in the main thread.

    Args:
        from_step: as of `train`.

    Raises:
        Exception: as of `train`.
    """
    config, ledger = experiment.config, Ledger(0.0, shared=True)
    with claimed(config.run.path):
        record = Record(ledger, config.run.path)
        record.write()
        check_health(config)
        sources = check_sources(config)
        record.spend("data", "restore")
        return (yield from _training(experiment, console, sources, from_step, record))


def _ended(run: Training) -> dict[str, Any]:
    """Take all steps of a run; what it returns."""
    while True:
        try:
            next(run)
        except StopIteration as end:
            summary: dict[str, Any] = end.value
            return summary


def _training(
    experiment: Experiment,
    console: Console,
    sources: Identities,
    from_step: int | None,
    record: Record,
) -> Training:
    """`training` in a folder that no other run writes to."""
    config = experiment.config
    check_processes(config.run)
    check_loggers(config.run)
    kept = (config.checkpoint.keep + 1) * config.checkpoint.enabled
    check_room(config.run.path, kept * experiment.state_bytes(), lenient=restarted())
    announce(experiment, console)
    if is_primary():
        keep(config, lenient=restarted())
    offers = offered(config, from_step)
    checkpoints = Checkpoints(
        config.run.path / "checkpoints", config.checkpoint, experiment.step.form.regrouping
    )
    try:
        peers().note("restoring or making the state", limited=False)
        over = DivergedError, GeneratorExit, StoppedRun
        with opened(config, over) as memory:
            state, progress = restore_or_init(
                experiment, checkpoints, console, sources, from_step, memory, offers
            )
            record.spend("restore", "compile")
            # Only now are copies set aside that the run has left.
            beside = copying(offers, progress.step)
            with beside, listeners(experiment, progress, console, record) as tell:
                result = yield from _run(experiment, state, progress, checkpoints, tell, memory)
    finally:
        checkpoints.close()
    summary = tell.finish(config.run.path, result)
    copy_records(offers)
    return summary


def _run(
    experiment: Experiment,
    state: Any,
    progress: Progress,
    checkpoints: Checkpoints,
    tell: Listeners,
    memory: Memory | None,
) -> Training:
    """All steps that are left, with what happens between them; what the evaluation has given."""
    config = experiment.config
    between = _Between.made(experiment, progress, checkpoints, tell, memory)
    due, result, first = between.due, None, progress.step + 1

    def awaited(step: int) -> bool:
        # The first loss is told as soon as it is there.
        return step == first or due.anything(step)

    with StopSignal() as stop:
        for state, taken in steps(experiment, state, progress, tell, awaited):  # noqa: B020 - the old is donated
            stop.listen()
            result = between.after(state, taken, stop)
            if not due.last(taken.step):
                elsewhere = Stopwatch()
                yield result
                progress.paused += elsewhere.seconds
        stopping = config.evaluate.enabled and stop.requested()
    stands(finished(config, progress.step))
    if stopping:
        raise StoppedRun
    found = between.evaluate(state) or {}
    if result:
        yield replace(result, evaluation=found or None)
    return found


@dataclass(frozen=True)
class _Between:
    """The work between the steps of a run: evaluations, saves and guards."""

    config: ExperimentConfig
    progress: Progress
    tell: Listeners
    saves: Saves
    guard: Guard
    evaluator: Evaluator | None
    memory: Memory | None

    @classmethod
    def made(
        cls,
        experiment: Experiment,
        progress: Progress,
        checkpoints: Checkpoints,
        tell: Listeners,
        memory: Memory | None,
    ) -> _Between:
        """The value for an experiment whose run has made `progress`."""
        config = experiment.config
        evaluator = Evaluator(experiment) if config.evaluate.enabled else None
        saves = Saves(checkpoints, config, progress)
        layers = config.model.decoder.layers_with_experts
        guard = Guard(config.train.guard, progress, saves.advice, layers)
        return cls(config, progress, tell, saves, guard, evaluator, memory)

    @property
    def due(self) -> Due:
        """After which step there is what."""
        return Due(self.config)

    def after(self, state: Any, taken: Taken, stop: StopSignal) -> StepResult:
        """All that is due after a step.

        Raises:
            KeyboardInterrupt: a signal came, and the state is saved; after the last step, not yet.
        """
        due, step = self.due, taken.step
        stands(unsaved(self.config))
        self.guard.watch(taken)
        self.tell(taken)
        stopping = self.agreed(stop, step)
        if stopping or due.report(step) or due.save(step) or due.copy(step):
            self.guard.settle()
        if due.copy(step) and not stopping:
            self.copy(state)
        if stopping or due.save(step):
            self.save(state, last=stopping or due.last(step))
        evaluation = None
        if due.evaluate(step) and not stopping:
            evaluation = self.evaluate(state, stop.requested)
            stopping = stop.requested()
            if stopping:
                self.guard.settle()
                self.save(state, last=True)
        if stopping and not due.last(step):
            stands(saved(self.config, step))
            raise StoppedRun
        return StepResult(self.tell.record, state, evaluation)

    def agreed(self, stop: StopSignal, step: int) -> bool:
        """Whether the processes stop behind a step, as far as they agree on that behind it."""
        with phase("agree") as agreeing:
            stopping = stop.agreed(step)
        self.tell(Agreed(step, agreeing.seconds))
        return stopping

    def copy(self, state: Any) -> None:
        """Take a snapshot of a state into the memory of the hosts, if any are taken."""
        if self.memory is None:
            return
        step = self.progress.step
        self.tell(Copying(step))
        with phase("copy") as copying:
            self.memory.take(step, state, self._whole_progress().to_json())
        self.tell(Copied(step, copying.seconds))

    def _whole_progress(self) -> Progress:
        """The progress of all groups."""
        loader = state_of_all(self.progress.loader, self.progress.group)
        return replace(self.progress, loader=loader)

    def save(self, state: Any, *, last: bool) -> None:
        """Save a state that may be saved, if checkpoints are made; with `last`, until it is."""
        if not self.config.checkpoint.enabled:
            return
        step = self.progress.step
        self.tell(Saving(step))
        with phase("save") as saving:
            self.guard.check_state(step, state)
            self.saves.save(state, self._whole_progress(), self.guard.sane, last=last)
        self.tell(Saved(step, saving.seconds))

    def evaluate(
        self, state: Any, stopping: Callable[[], bool] = lambda: False
    ) -> dict[str, Any] | None:
        """The results on held-out samples; None without evaluation, or if `stopping` holds."""
        if self.evaluator is None:
            return None
        step = self.progress.step
        self.tell(Evaluating(step))
        with phase("evaluate") as evaluating:
            try:
                result = self.evaluator(state["params"], stopping)
            except StoppedError:
                return None
        self.progress.paused += evaluating.seconds
        self.tell(Evaluated(step, evaluating.seconds, result))
        return result


@dataclass(frozen=True)
class Due:
    """The work that is due after each step of a run.

    Attributes:
        config: configuration of the run.
    """

    config: ExperimentConfig

    def last(self, step: int) -> bool:
        """Whether the run ends after the step, before the last evaluation."""
        return step == self.config.train.steps

    def report(self, step: int) -> bool:
        """Whether a log line is due after the step."""
        return self.last(step) or step % self.config.run.log_every == 0

    def save(self, step: int) -> bool:
        """Whether a checkpoint is due after the step."""
        return self.last(step) or step % self.config.checkpoint.every == 0

    def copy(self, step: int) -> bool:
        """Whether a snapshot in memory is due after the step; after the last, it is of no use."""
        own = self.config.checkpoint
        every = own.local_every if own.enabled else None
        return every is not None and not self.last(step) and step % every == 0

    def evaluate(self, step: int) -> bool:
        """Whether an evaluation that is not the last is due after the step."""
        wanted = self.config.evaluate
        every = wanted.every if wanted.enabled else None
        return every is not None and not self.last(step) and step % every == 0

    def anything(self, step: int) -> bool:
        """Whether work is due that needs the results of the step."""
        return self.report(step) or self.copy(step) or self.save(step) or self.evaluate(step)


def nothing(step: int) -> bool:
    """Whether a step is awaited at once: never, as only the next step waits for it."""
    del step
    return False


def steps(
    experiment: Experiment,
    state: Any,
    progress: Progress,
    tell: Listener = nobody,
    awaited: Callable[[int], bool] = nothing,
) -> Iterator[tuple[Any, Taken]]:
    """Take the steps that are left; yields the new state and what was taken.

    The old state is donated to the step. `progress` is advanced before each yield. A step is
    dispatched while the one before may still run: its loss is waited for before the next.

    Args:
        tell: is told of all events but those that are yielded.
        awaited: whether a step's own loss is waited for, too, before it is yielded.
    """
    config = experiment.config
    # Emulated devices share the host's threads: more than one step at a time could starve.
    ahead = 1 if config.parallel.platform == "cpu" else 2
    running: deque[tuple[int, jax.Array]] = deque()
    take = compiled_together(STEP_PROGRAM, experiment.step.update, experiment.compiled_ahead)
    compare = ReplicaCheck(experiment.step) if config.train.check_every else None
    with open_loader(experiment, progress.loader) as loader:
        since, paused = Stopwatch(), progress.paused
        carried: dict[str, jax.Array] | None = None
        read = microbatches(experiment, loader, config.train.steps - progress.step)
        while progress.step < config.train.steps:
            number = progress.step + 1
            tell(Reading(number))
            with jax.profiler.StepTraceAnnotation(STEP, step_num=number):
                own, following = _next(read, experiment, number, tell)
                with phase("place") as placing:
                    made = batch_of(experiment, state, own, following, carried)
                batch, units, spilled = made
                tell(Placed(number, placing.seconds, units, spilled))
                while len(running) >= ahead:
                    tell(_done(*running.popleft()))
                if compare and number % (config.train.check_every or 1) == 0:
                    tell(checked(compare, number, state["params"], batch))
                with phase("dispatch") as dispatching:
                    if number == config.run.trace_step:
                        state, scalars = traced(experiment, state, batch, number)
                    else:
                        state, scalars = take(state, batch)
                tell(Dispatched(number, dispatching.seconds))
                running.append((number, scalars["loss"]))
                while running and awaited(number):
                    tell(_done(*running.popleft()))
            carried = scalars["carried"]
            since.leave_out(progress.paused - paused)
            paused = progress.paused
            seconds, since = since.seconds, Stopwatch()
            _advance(progress, own, seconds)
            refused = progress.skipped.samples.total()
            rate = scalars["learning_rate"]
            yield state, Taken(number, seconds, own, scalars, rate, refused)
    while running:
        tell(_done(*running.popleft()))


def _next(
    read: Iterator[tuple[list[Microbatch], list[Microbatch] | None]],
    experiment: Experiment,
    number: int,
    tell: Listener,
) -> tuple[list[Microbatch], list[Microbatch] | None]:
    """The microbatches of a step, of which all processes leave the same samples out."""
    with phase("read") as reading:
        own, following = next(read)
    tell(Read(number, reading.seconds, own))
    with phase("agree") as agreeing:
        leave_out_everywhere(experiment, own)
    tell(Agreed(number, agreeing.seconds))
    return own, following


def _done(number: int, loss: jax.Array) -> Done:
    """Wait for a step."""
    with phase("wait") as awaited, waiting(f"step {number}"):
        loss.block_until_ready()
    return Done(number, awaited.seconds)


def _advance(progress: Progress, microbatches: Sequence[Microbatch], seconds: float) -> None:
    progress.step += 1
    progress.loader, progress.group = microbatches[-1].state, microbatches[-1].stats.group
    progress.seconds += seconds
    progress.skipped.note(progress.step, (skip for m in microbatches for skip in m.skipped))

"""The training loop: restore, then load, step, report, save, evaluate."""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import jax
from rich.console import Console

from data.loading.identity import Identities
from data.loading.loader import Step, StepLoader
from data.planning.stream import LoaderState
from mllm_jax.config.load import ExperimentConfig
from mllm_jax.config.schedule import encoder_pieces, task_costs
from mllm_jax.models.config.model import ModelConfig
from mllm_jax.models.multimodal import compute_dtype, model_flops
from mllm_jax.models.work.profile import tower_profiles
from mllm_jax.runtime.devices import is_primary, peak_flops
from mllm_jax.runtime.folder import RunError, prepare_folder
from mllm_jax.runtime.interrupt import stands
from mllm_jax.runtime.lock import locked
from mllm_jax.runtime.part import peers
from mllm_jax.runtime.standing import finished, saved, unsaved
from mllm_jax.runtime.stop import StopSignal
from mllm_jax.runtime.together import compiled_together
from mllm_jax.train.evaluate import Evaluator, figures_of
from mllm_jax.train.experiment import Experiment
from mllm_jax.train.feed import check_sources, go_on_with, open_loader
from mllm_jax.train.guard import Guard
from mllm_jax.train.notices import Notices, Waiting
from mllm_jax.train.records.metrics import Meter, PhaseLoad, StepRecord
from mllm_jax.train.records.recorder import UNKNOWN_RATE, Recorder, own_name, write_timelines
from mllm_jax.train.records.sinks import Metrics, write_summary
from mllm_jax.train.records.skips import LIST
from mllm_jax.train.saves import Saves
from mllm_jax.train.state.changes import tell_changes
from mllm_jax.train.state.checkpoint import Checkpoints
from mllm_jax.train.state.optimizer import learning_rate
from mllm_jax.train.state.pretrained import start_from
from mllm_jax.train.state.progress import Progress
from mllm_jax.train.step.batch import place
from scheduling.simulate.timeline import timeline

logger = logging.getLogger(__name__)


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
    _announce(experiment, console)
    checkpoints = Checkpoints(
        config.run.path / "checkpoints", config.checkpoint, experiment.step.form.regrouping
    )
    try:
        peers().note("restoring or making the state", limited=False)
        state, progress = _restore_or_init(experiment, checkpoints, console, from_step)
        go_on_with(config, progress, sources)
        with Metrics.open(
            config.run.path,
            console,
            tensorboard=config.run.tensorboard,
            primary=is_primary(),
            resumed_step=progress.step,
        ) as metrics:
            figures = pipeline_figures(experiment)
            if figures:
                metrics.log(progress.step, {f"pipeline/{k}": v for k, v in figures.items()})
            summary = _run(experiment, state, progress, checkpoints, metrics)
            summary |= {"pipeline": figures} if figures else {}
    finally:
        checkpoints.close()
    if is_primary():
        _write_summary(config.run.path / "summary.json", summary)
        console.print(f"summary in {config.run.path / 'summary.json'}", soft_wrap=True)
    return summary


def _write_summary(path: Path, summary: dict[str, Any]) -> None:
    """Raises RunError if it cannot be written."""
    try:
        write_summary(path, summary)
    except OSError as error:
        raise RunError(f"the run is done, but {path} cannot be written: {error}") from error


def _run(
    experiment: Experiment,
    state: Any,
    progress: Progress,
    checkpoints: Checkpoints,
    metrics: Metrics,
) -> dict[str, Any]:
    """All steps that are left, with what happens between them, and the evaluation."""
    config = experiment.config
    evaluator = Evaluator(experiment) if config.evaluate.enabled else None
    saves = Saves(checkpoints, config, progress)
    guard = Guard(config.train.guard, progress, saves.advice)
    progress.skipped.listed_in(config.run.path / f"{own_name(LIST)}.jsonl", progress.step)
    meter = Meter(config.train.steps, _peak(experiment), config.run.log_every, progress.figures)
    waiting = Waiting(config.data)
    with StopSignal() as stop:
        for state, record in steps(experiment, state, progress):  # noqa: B020 - the old is donated
            stop.listen()
            stands(unsaved(config))
            guard.watch(record)
            report = meter.add(record)
            if report:
                metrics.write(report)
                waiting(report)
                progress.loss = report.loss
            last = progress.step == config.train.steps
            # Processes agree on stopping by a collective, which must not be part of every step.
            stopping = (jax.process_count() == 1 or report is not None) and stop.requested()
            saving = stopping or last or progress.step % config.checkpoint.every == 0
            if report or saving:
                guard.settle()
            if saving and config.checkpoint.enabled:
                peers().note(f"saving after step {progress.step}")
                guard.check_state(progress.step, state)
                progress.figures = meter.sums
                saves.save(state, progress, guard.sane, last=stopping or last)
            if stopping and not last:
                stands(saved(config, progress.step))
                raise KeyboardInterrupt
            every = config.evaluate.every
            if evaluator and every and not last and progress.step % every == 0:
                _evaluate(evaluator, state, progress, metrics)
        stopping = evaluator is not None and stop.requested()
    stands(finished(config, progress.step))
    if stopping:
        raise KeyboardInterrupt
    result = _evaluate(evaluator, state, progress, metrics) if evaluator else {}
    return {
        "steps": progress.step,
        "seconds": progress.seconds,
        "final_loss": progress.loss,
        **result,
        **meter.totals(),
        "skipped_updates": progress.skipped_updates,
        "skipped": progress.skipped.summary(),
    }


def steps(
    experiment: Experiment, state: Any, progress: Progress
) -> Iterator[tuple[Any, StepRecord]]:
    """Take the steps that are left; yields the new state and the step's figures.

    The old state is donated to the step. `progress` is advanced before each yield. A step is
    dispatched while the one before may still run: its loss is waited for before the next.
    """
    config = experiment.config
    schedule = learning_rate(config.train)
    # Emulated devices share the host's threads: more than one step at a time could starve.
    ahead = 1 if config.parallel.platform == "cpu" else 2
    running: deque[jax.Array] = deque()
    notice = Notices(experiment)
    take = compiled_together("the train step", experiment.step.step)
    with open_loader(experiment, progress.loader) as loader:
        began = time.perf_counter()
        carried: dict[str, jax.Array] | None = None
        read = _microbatches(experiment, loader, config.train.steps - progress.step)
        while progress.step < config.train.steps:
            asked = time.perf_counter()
            peers().note(f"waiting for the data of step {progress.step + 1}")
            microbatches, following = next(read)
            notice(microbatches)
            waited = time.perf_counter() - asked
            batch = _batch(experiment, state, microbatches, following, carried)
            peers().note(f"step {progress.step + 1}")
            while len(running) >= ahead:
                running.popleft().block_until_ready()
            if progress.step + 1 == config.run.trace_step:
                state, scalars = _traced(experiment, state, batch, progress.step + 1)
            else:
                state, scalars = take(state, batch)
            running.append(scalars["loss"])
            carried = scalars["carried"]
            now = time.perf_counter()
            _advance(progress, microbatches, now - began)
            rate = float(schedule(progress.step - 1 - progress.skipped_updates))
            record = _record(experiment, progress, microbatches, scalars, rate, now - began, waited)
            began, paused = now, progress.paused
            yield state, record
            began += progress.paused - paused


def _microbatches(
    experiment: Experiment, loader: StepLoader, steps: int
) -> Iterator[tuple[list[Step], list[Step] | None]]:
    """The microbatches of `steps` steps, with those of the next step if this one works ahead."""

    def read() -> list[Step]:
        return [next(loader) for _ in range(experiment.config.train.accumulate)]

    following: list[Step] | None = None
    for left in range(steps - 1, -1, -1):
        microbatches = following or read()
        following = read() if experiment.step.program.ahead and left else None
        yield microbatches, following


def _batch(
    experiment: Experiment,
    state: Any,
    microbatches: list[Step],
    following: list[Step] | None,
    carried: dict[str, jax.Array] | None,
) -> Any:
    """The batch of a step on the devices; `carried` is what the step before has left."""
    own = [m.batch for m in microbatches]
    step = experiment.step
    # After the last step there is none: its work ahead is thrown away.
    batch = place(own, step, following and [m.batch for m in following])
    if carried is None and step.program.ahead:
        carried = step.primed(state["params"], place(own, step))["carried"]
    return batch | {"carried": carried or {}}


def _traced(experiment: Experiment, state: Any, batch: Any, number: int) -> tuple[Any, Any]:
    """One step that is measured tick by tick, and its timeline written into the run's folder."""
    config, recorder = experiment.config, Recorder(experiment.grid)
    observed = experiment.observed(recorder)
    schedule = observed.program.schedule
    assert schedule is not None  # a configuration without stages has no trace_step
    state, scalars = observed.step(state, batch)
    jax.block_until_ready(scalars)
    jax.effects_barrier()
    rate = peak_flops(experiment.mesh.devices.flat[0]) or UNKNOWN_RATE
    write_timelines(
        config.run.path,
        own_name(f"step-{number}"),
        schedule,
        task_costs(config, encoder_pieces(config)),
        rate,
        recorder.records(),
    )
    return state, scalars


def pipeline_figures(experiment: Experiment) -> dict[str, float]:
    """What the schedule of the pipeline predicts; nothing without one.

    Returns:
        `bubble_share`, the share of the devices' time that is idle; `encoder_hidden`, the share of
        the encoders' work that lies in time which the decoder leaves idle; `tick_imbalance`, the
        step's time over what it would be if the stages that work in a tick all took as long.
    """
    schedule = experiment.step.program.schedule
    if schedule is None:
        return {}
    costs = task_costs(experiment.config, encoder_pieces(experiment.config))
    line = timeline(schedule, costs)
    figures = {"bubble_share": line.bubble_share, "tick_imbalance": line.tick_imbalance}
    hidden = line.encoder_hidden
    return figures if hidden is None else figures | {"encoder_hidden": hidden}


def _advance(progress: Progress, microbatches: list[Step], seconds: float) -> None:
    progress.step += 1
    progress.loader = microbatches[-1].state
    progress.seconds += seconds
    progress.skipped.note(progress.step, (skip for m in microbatches for skip in m.skipped))


def _record(
    experiment: Experiment,
    progress: Progress,
    microbatches: list[Step],
    scalars: dict[str, jax.Array],
    rate: float,
    seconds: float,
    waited: float,
) -> StepRecord:
    used: Counter[str] = Counter()
    capacity: Counter[str] = Counter()
    for microbatch in microbatches:
        used.update(microbatch.stats.used)
        capacity.update(microbatch.stats.capacity)
    config = experiment.config
    return StepRecord(
        step=progress.step,
        loss=scalars["loss"],
        learning_rate=rate,
        gradient_norm=scalars["grad_norm"],
        seconds=seconds,
        wait_seconds=waited,
        used=used,
        capacity=capacity,
        flops=sum(
            model_flops(config.model, m.stats.lengths, config.train.freeze) for m in microbatches
        ),
        head_flops=model_flops(config.model, {}, config.train.freeze, targets=1),
        targets=scalars["targets"],
        skips=experiment.step.skips,
        skipped=len(progress.skipped.kinds),
        loads=_loads(experiment, microbatches),
        moved_bytes=sum(_moved_bytes(config.model, m) for m in microbatches),
        planning_seconds=sum(m.stats.seconds for m in microbatches),
    )


def _moved_bytes(model: ModelConfig, microbatch: Step) -> float:
    """Of encoder outputs that go to another host and of their gradients that come back, and of
    samples that one host has read for another."""
    outputs = sum(microbatch.stats.crossing.values())
    width = model.decoder.d_model * compute_dtype(model).itemsize
    return 2 * outputs * width + microbatch.stats.sent


def _loads(experiment: Experiment, microbatches: list[Step]) -> dict[str, PhaseLoad]:
    """Work of the ranks that each phase is dealt over, microbatch by microbatch."""
    loads: dict[str, PhaseLoad] = {}
    for name, view in experiment.step.program.views.items():
        ranks = view.degree(view.batch)
        for microbatch in microbatches:
            own = microbatch.stats.loads[name]
            packed, balanced = (rows.reshape(ranks, -1).sum(1) for rows in (own.before, own.after))
            load = PhaseLoad(float(packed.mean()), float(packed.max()), float(balanced.max()))
            loads[name] = loads.get(name, PhaseLoad()) + load
    return loads


def _restore_or_init(
    experiment: Experiment, checkpoints: Checkpoints, console: Console, from_step: int | None
) -> tuple[Any, Progress]:
    config, restored = experiment.config, None
    if config.checkpoint.enabled:
        restored = checkpoints.restore(experiment.step.abstract, from_step)
    elif from_step is not None:
        raise RunError(f"--from-step {from_step} needs checkpoint.enabled=true")
    if restored is None:
        state = initial_state(experiment, console)
        return state, Progress(0, LoaderState(config.train.seed))
    progress = restored.progress
    if is_primary():
        tell_changes(restored.config, config.model_dump(mode="json"))
        console.print(f"resuming {config.run.path} after step {progress.step}", soft_wrap=True)
    return restored.state, progress


def initial_state(experiment: Experiment, console: Console) -> Any:
    """The state before the first step, its parameters at random or from released weights."""
    config, step = experiment.config, experiment.step
    state = step.init(jax.random.key(config.train.seed))
    if config.model.pretrained is None:
        return state

    def tell(text: str) -> None:
        if is_primary():
            console.print(text, markup=False, soft_wrap=True)

    params = state.pop("params")
    return state | {"params": start_from(config.model, params, step.abstract["params"], tell)}


def _evaluate(
    evaluator: Evaluator, state: Any, progress: Progress, metrics: Metrics
) -> dict[str, Any]:
    began = time.perf_counter()
    peers().note(f"evaluating after step {progress.step}", limited=False)
    result = evaluator(state["params"])
    metrics.log(progress.step, figures_of(result))
    progress.paused += time.perf_counter() - began
    return result


def _peak(experiment: Experiment) -> float | None:
    devices = list(experiment.mesh.devices.flat)
    peak = peak_flops(devices[0])
    return None if peak is None else peak * len(devices)


def _announce(experiment: Experiment, console: Console) -> None:
    if is_primary():
        profiles = tower_profiles(experiment.config.model).values()
        count = sum(tower.parameters for tower in profiles)
        console.print(f"{count / 1e6:.2f}M parameters on", soft_wrap=True)
        console.print(str(experiment.grid), soft_wrap=True, markup=False)

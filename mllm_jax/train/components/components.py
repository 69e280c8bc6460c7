"""The components that work between the steps of a run, and the steps after which each is due."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from mllm_jax.config.load import ExperimentConfig
from mllm_jax.runtime.stop import StopSignal
from mllm_jax.train.components.checkpoint_saver import CheckpointSaver
from mllm_jax.train.components.evaluator import LossEvaluator
from mllm_jax.train.components.guard import StepGuard
from mllm_jax.train.experiment import Experiment
from mllm_jax.train.listeners.listeners import RunListeners
from mllm_jax.train.state.checkpoint import CheckpointManager
from mllm_jax.train.state.mirrors.remote_checkpoints import RemoteCheckpoints
from mllm_jax.train.state.progress import Progress
from mllm_jax.train.state.snapshots.memory import SnapshotMemory


@dataclass(frozen=True)
class RunComponents:
    """The components that work between the steps of a run.

    Attributes:
        listeners: the listeners of the run.
        stop: signals that ask the run to stop.
        guard: ends the run where it diverges.
        checkpoints: when a save is tried again, and which checkpoints are good.
        snapshots: snapshots in the memory of the hosts; None if the run takes none.
        evaluator: evaluates held-out samples; None if the run does not.
        remote: copies of checkpoints at a URL; None if the run makes none.
    """

    listeners: RunListeners
    stop: StopSignal
    guard: StepGuard
    checkpoints: CheckpointSaver
    snapshots: SnapshotMemory | None
    evaluator: LossEvaluator | None
    remote: RemoteCheckpoints | None

    @classmethod
    def build(
        cls,
        experiment: Experiment,
        progress: Progress,
        checkpoints: CheckpointManager,
        listeners: RunListeners,
        snapshots: SnapshotMemory | None,
        remote: RemoteCheckpoints | None,
    ) -> RunComponents:
        """Build the components of a run that continues from `progress`."""
        config = experiment.config
        saver = CheckpointSaver(checkpoints, config, progress)
        layers = config.model.backbone_config.layers_with_experts
        names = experiment.step.form.names
        guard = StepGuard(config.train.guard, progress, saver.give_advice, layers, names)
        evaluator = LossEvaluator(experiment) if config.evaluate.enabled else None
        return cls(listeners, StopSignal(), guard, saver, snapshots, evaluator, remote)


class DueWork(NamedTuple):
    """The work that is due after a step; all of it needs the results of the step.

    Attributes:
        report: a log line.
        copy: a snapshot in the memory of the hosts; after the last step it is of no use.
        save: a checkpoint.
        evaluate: an evaluation; the one after the last step is no part of training.
    """

    report: bool
    copy: bool
    save: bool
    evaluate: bool


def due_work(config: ExperimentConfig, step: int) -> DueWork:
    """The work that is due after a step by the configuration."""
    is_last = step == config.train.steps

    def is_due(every: int | None) -> bool:
        return every is not None and step % every == 0

    copies = config.checkpoint.enabled and is_due(config.checkpoint.local_every)
    evaluates = config.evaluate.enabled and is_due(config.evaluate.every)
    return DueWork(
        report=is_last or is_due(config.run.log_every),
        copy=copies and not is_last,
        save=is_last or is_due(config.checkpoint.every),
        evaluate=evaluates and not is_last,
    )

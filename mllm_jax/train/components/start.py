"""The start of a run: its newest checkpoint, or an initial state."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import jax
from rich.console import Console

from data.loading.identity import Identities
from data.loading.shared_memory import loaders_of_run, owner_of, remove_left
from data.planning.stream import LoaderState
from mllm_jax.config.checks.period_checks import short_run_notes
from mllm_jax.config.load import ExperimentConfig
from mllm_jax.health.check import list_checks, require_healthy, run_checks, should_check
from mllm_jax.models.work.profile import module_parameters
from mllm_jax.runtime.devices import is_primary
from mllm_jax.runtime.folder import IDENTITY, RunError, created_folder, read_identity
from mllm_jax.runtime.lock import GLANCE, check_unsupervised, run_lock
from mllm_jax.runtime.lock import NAME as LOCK
from mllm_jax.runtime.run_peers import current_peers
from mllm_jax.runtime.supervised.process import PATIENCE, supervisor_settings, was_restarted
from mllm_jax.train.experiment import Experiment
from mllm_jax.train.loading.loader import check_continuation
from mllm_jax.train.state.changes import log_config_changes
from mllm_jax.train.state.checkpoint import CheckpointManager, RestoredState
from mllm_jax.train.state.mirrors.remote_checkpoints import RemoteCheckpoints
from mllm_jax.train.state.pretrained import FirstAdapters, start_from
from mllm_jax.train.state.progress import Progress
from mllm_jax.train.state.snapshots.memory import SnapshotMemory

logger = logging.getLogger(__name__)


@contextmanager
def locked_run(folder: Path) -> Iterator[None]:
    """Context in which the run's folder exists, is writable, and is locked against other runs.

    A run that ends with an error before it has written anything leaves no new folder. One
    that its supervisor has started again goes on where the disk is full.

    Raises:
        RunError: the folder cannot be written.
        LockedError: another run has it, or a supervisor that did not start this process, which may
            be between two attempts.
    """
    patience = PATIENCE if supervisor_settings() else GLANCE
    lock = run_lock(folder, patience=patience) if is_primary() else nullcontext()
    with created_folder(folder, LOCK, IDENTITY, lenient=was_restarted()), lock:
        if is_primary():
            if supervisor_settings() is None:
                check_unsupervised(folder)
            read_identity(folder)  # before the others read it, as a damaged one is removed
        current_peers().gather_values("the run's folder is locked", None)
        remove_left(run := owner_of(folder))
        with loaders_of_run(run):
            yield


def check_health(config: ExperimentConfig) -> None:
    """Check devices, links and machines, if the configuration requests it.

    Raises:
        HealthError: something is wrong with this process.
        PeerError: something is wrong with another one.
    """
    if not should_check(config.run.self_check, config.parallel.platform):
        return
    devices = jax.devices()[: config.parallel.jax_devices]
    health = run_checks(list_checks(config.run.path, devices))
    if is_primary():
        logger.info("%s", health)
    require_healthy(health)


def restore_or_init(
    experiment: Experiment,
    checkpoints: CheckpointManager,
    console: Console,
    sources: Identities,
    from_step: int | None,
    memory: SnapshotMemory | None = None,
    remote: RemoteCheckpoints | None = None,
) -> tuple[Any, Progress]:
    """The state that a run continues from, and its progress.

    Args:
        sources: identities of the present data.
        from_step: step of the checkpoint to continue from; None: the newest.
        memory: snapshots in the memory of the hosts, if the run takes any.
        remote: copies of checkpoints at a URL, if the run makes any.

    Raises:
        RunError: `from_step` without checkpoints.
        CheckpointError: no checkpoint of the run can be read, or they are of another model.
        DataError: the data are not those that the run was trained on; no file has changed.
    """
    config, restored = experiment.config, None

    def accept(candidate: RestoredState) -> None:
        check_continuation(config, candidate.progress, sources)

    if config.checkpoint.enabled:
        restored = checkpoints.restore_state(
            experiment.step.saved_shapes, from_step, accept, memory, remote
        )
    elif from_step is not None:
        raise RunError(f"--from-step {from_step} needs checkpoint.enabled=true")
    if restored is None:
        state = initial_state(experiment, console)
        return state, Progress(0, LoaderState(config.train.seed), sources=sources)
    progress = restored.progress
    if is_primary():
        log_config_changes(restored.config, config.model_dump(mode="json"))
        warn_of_passed_trace(config, progress.step)
        console.print(_describe_resumption(config, progress.step), soft_wrap=True)
    return experiment.step.from_saved(restored.state), progress


def warn_of_passed_trace(config: ExperimentConfig, step: int) -> None:
    """Warn if the run resumes after the step that was to be measured."""
    traced, folder = config.run.trace_step, config.run.path
    if traced is not None and traced <= step and not (folder / f"step-{traced}.json").exists():
        logger.warning(
            "no timeline is written, as the run goes on after step %d, and run.trace_step is %d",
            step,
            traced,
        )


def _describe_resumption(config: ExperimentConfig, step: int) -> str:
    text = f"resuming {config.run.path} after step {step}"
    if step < config.train.steps:
        return text
    return (
        f"{text} of {config.train.steps}: nothing is left to train; another run.name begins a new "
        "run, and more train.steps go on with this one"
    )


def initial_state(experiment: Experiment, console: Console) -> Any:
    """The state before the first step, its parameters at random or from released weights."""
    config, step = experiment.config, experiment.step
    released, lora = config.model.pretrained is not None, config.train.lora
    first_adapters = lora.begin_with if lora else None
    # Opened before weights are initialised and read, which may take minutes.
    adapters = None
    if first_adapters is not None:
        adapters = FirstAdapters.open(config.model, Path(first_adapters))
    make = step.init_before_release if released else step.init
    state = make(jax.random.key(config.train.seed))
    if not released and adapters is None:
        return state

    def print_line(text: str) -> None:
        if is_primary():
            console.print(text, markup=False, soft_wrap=True)

    params, target = state.pop("params"), step.abstract_state["params"]
    if released:
        params = start_from(config.model, params, target, print_line)
    if adapters is not None:
        params = adapters.place_adapters(params, target, print_line)
    return state | {"params": params}


def print_start(experiment: Experiment, console: Console) -> None:
    """Print the size of the model and the plans, on process 0; warn of what a short run lacks."""
    if is_primary():
        for note in short_run_notes(experiment.config):
            logger.warning("%s", note)
        model, frozen = experiment.config.model, experiment.config.frozen
        if model.adapters and (left_out := frozen.fully_trained(model.parts)):
            logger.warning(
                "%s train in full next to adapters, so that `export --adapters` has no place for "
                "them; export all weights in the end, or name them in train.freeze",
                ", ".join(left_out),
            )
        count = sum(module_parameters(experiment.config.model).values())
        step = experiment.step
        trained, constant = step.program.frozen.partition(step.abstract_state["params"])
        train = sum(leaf.size for leaf in jax.tree.leaves(trained)) / 1e6
        some = f", of which {train:.2f}M train," if jax.tree.leaves(constant) else ""
        console.print(f"{count / 1e6:.2f}M parameters{some} on", soft_wrap=True)
        lines = *experiment.config.parallel.group_lines, str(step.program)
        console.print("\n".join(lines), soft_wrap=True, markup=False)

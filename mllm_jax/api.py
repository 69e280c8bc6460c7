"""The package as a library: what `import mllm_jax` offers, for notebooks and scripts.

Each function is what the command of that name does, see docs/how-to/python.md. Libraries that
compute are imported inside the functions: importing this module and `load` need none of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from mllm_jax.evaluation.metrics import METRICS

if TYPE_CHECKING:  # which `import mllm_jax` does not need
    from mllm_jax.check.verify import VerificationResult
    from mllm_jax.config.sections import ExperimentConfig
    from mllm_jax.evaluation.evaluate import EvaluationResult
    from mllm_jax.generate.generator import AnswerGenerator, AnswerOptions
    from mllm_jax.plan.report import PlannedRun
    from mllm_jax.train.experiment import Experiment
    from mllm_jax.train.results import StepResult


def load(path: str | Path, *overrides: str, planned: bool = True) -> ExperimentConfig:
    """Read and check a configuration.

    Args:
        path: YAML file, e.g. `configs/demo.yaml`.
        overrides: `section.key=value`, as on the command line, e.g. `"train.steps=5"`.
        planned: whether plans must fit devices, model and rows; False if `find_plans` is to find
            them.

    Raises:
        ConfigError: anything is wrong; the message lists all of it.
    """
    from mllm_jax.config.load import load_config as read

    return read(path, overrides, planned=planned)


def build(config: ExperimentConfig) -> Experiment:
    """Find the devices and lay the plans on them; nothing is computed yet.

    Where `data.budgets` is `auto`, they are chosen, for which all samples are measured.

    JAX finds its devices once in a process: a second configuration has the first ones of them.
    Several processes are started by `launch.py`, or found by `parallel.distributed`.

    Raises:
        DeviceError: the devices are not there.
        PlanError, ScheduleError, DataError: as of `Experiment.build`.
    """
    from mllm_jax.plan.settled import settle_budgets
    from mllm_jax.runtime.devices import start_in_process
    from mllm_jax.train.experiment import Experiment

    start_in_process(config.parallel)
    return Experiment.build(settle_budgets(config))


def steps(
    experiment: Experiment, from_step: int | None = None, *, log: bool = False
) -> Iterator[StepResult]:
    """Train, one step for every one that is asked for; the loop of `launch.py train`.

    The run's folder is used as the command uses it: training goes on after its newest checkpoint,
    and saves, evaluates, writes `metrics.jsonl` and, after the last step, `summary.json`. Where
    no more steps are asked for, it ends; steps since the newest checkpoint are lost.

    Args:
        from_step: step of the checkpoint to continue from; newer ones are set aside. None: newest.
        log: print what the command prints.

    Raises:
        Exception: as of `mllm_jax.train.trainer.train`.
    """
    from rich.console import Console

    from mllm_jax.console import open_console
    from mllm_jax.train.trainer import training_steps

    return training_steps(experiment, open_console() if log else Console(quiet=True), from_step)


def generator(
    *overrides: str,
    run: str | Path | None = None,
    release: str | Path | None = None,
    alone: bool = False,
    gather: Literal["step", "layer"] = "step",
    print_line: Callable[[str], None] = lambda line: None,
) -> AnswerGenerator:
    """Open a model that answers prompts with media, as `launch.py generate` does.

    Args:
        overrides: `section.key=value`, e.g. `"parallel.platform=gpu"`.
        run: folder of a run, whose newest checkpoint answers under its plans.
        release: folder of a released checkpoint with its tokenizer; one of both is given.
        alone: on one device, whatever the plans are.
        gather: when parameters are made whole along fsdp: once, or layer by layer for every token.
        print_line: is given a line of progress now and then.

    Raises:
        ConfigError: both or neither are given, or an override is wrong.
        RunError, NoCheckpointError, CheckpointError: of the run.
        PretrainedError, DataError: of the release or its tokenizer.
        DeviceError: the devices are not there.
    """
    from mllm_jax.generate.generator import AnswerGenerator
    from mllm_jax.generate.opened import open_model
    from mllm_jax.runtime.devices import start_in_process

    opened = open_model(run, release, overrides, one_device=alone, notify=print_line)
    start_in_process(opened.config.parallel)
    return AnswerGenerator(opened, gather, print_line)


def evaluate(
    generator: AnswerGenerator,
    questions: str | Path,
    metrics: Sequence[str] = tuple(METRICS),
    options: AnswerOptions | None = None,
    media: str | Path | None = None,
) -> EvaluationResult:
    """Answer the questions of a file and compare the answers, as `launch.py evaluate` does.

    Args:
        generator: the model.
        questions: JSON Lines of prompts with right answers, see docs/how-to/generate.md.
        metrics: names of metrics, see `mllm_jax.evaluation.metrics`; all by default.
        options: what answers are wanted; None: greedy ones.
        media: folder of images and clips; None: the folder of the file.

    Raises:
        ConfigError: there is no such metric.
        DataError: the file cannot be read, or none of its questions can be used.
    """
    from mllm_jax.evaluation.evaluate import evaluate_answers as run
    from mllm_jax.generate.generator import AnswerOptions

    folder = None if media is None else Path(media)
    return run(generator, Path(questions), metrics, options or AnswerOptions(), folder)


def verify(config: ExperimentConfig, seed: int = 0) -> VerificationResult:
    """Compare loss and every gradient under the configured plans with a single device.

    Raises:
        DeviceError: the devices are not there.
    """
    from mllm_jax.check.verify import verify_plans as run
    from mllm_jax.plan.settled import settle_budgets
    from mllm_jax.runtime.devices import start_in_process

    start_in_process(config.parallel)
    return run(settle_budgets(config), seed)


def find_plans(
    config: ExperimentConfig,
    *,
    hardware: str | None = None,
    memory: float | None = None,
    within: float = 0.0,
    top: int = 1,
    file: str | Path | None = None,
    print_line: Callable[[str], None] = lambda line: None,
) -> PlannedRun:
    """Search the fastest plans for the model, the rows of a step and the devices, as `plan` does.

    Args:
        hardware: a name in configs/hardware/, or a file of `launch.py calibrate`; None: the
            configuration's, else h100.
        memory: bytes of a device that a step may take; None: what the hardware has.
        within: share by which what is found may miss the fastest.
        top: how many plans to tell.
        file: file for the best plan's configuration; None: `plan.yaml` in the run's folder.
        print_line: is given a line of progress now and then.

    Raises:
        PlanningError: no plan fits, or the file cannot be written.
        HardwareError: there is no such hardware.
    """
    from mllm_jax.config.hardware import load_hardware
    from mllm_jax.plan.comparison import other_systems
    from mllm_jax.plan.planner import PlanSearch
    from mllm_jax.plan.report import plan_run as run
    from mllm_jax.plan.settled import settle_budgets
    from mllm_jax.runtime.devices import use_cpu_only

    use_cpu_only()
    config = settle_budgets(config, planned=False)
    name = hardware or config.schedule.hardware or "h100"
    planner = PlanSearch(config, load_hardware(name), name, memory, within)
    target = config.run.path / "plan.yaml" if file is None else Path(file)
    return run(planner, top, target, time.perf_counter, print_line, systems=other_systems())

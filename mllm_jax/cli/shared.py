"""What several commands do: devices, tables, exit codes, lines of progress."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from mllm_jax.cli.benchmark import EMULATED
from mllm_jax.runtime.exits import Exit
from mllm_jax.runtime.part import Processes, peers

if TYPE_CHECKING:  # which --help does not need
    from jax import Device
    from rich.console import Console

    from mllm_jax.config.sections import ExperimentConfig


def code(well: bool) -> Exit:
    return Exit.OK if well else Exit.FAILED


def hardware_of(args: argparse.Namespace, config: ExperimentConfig) -> str:
    """The description that was asked for, or that the configuration was planned for."""
    return args.hardware or config.schedule.hardware or "h100"


def seed_of(args: argparse.Namespace, config: ExperimentConfig) -> int:
    """The seed that is asked for, else that of the run."""
    seed: int = config.train.seed if args.seed is None else args.seed
    return seed


def teller(console: Console) -> Callable[[object], None]:
    """Tells of progress, from one of the processes."""

    def tell(line: object) -> None:
        if peers().index == 0:
            console.print(line, markup=False, soft_wrap=True)

    return tell


def with_budgets(
    config: ExperimentConfig, console: Console, *, planned: bool = True
) -> ExperimentConfig:
    """`config` with `data.budgets` chosen where they are `auto`; behind the start of processes."""
    from mllm_jax.plan.settled import settled

    return settled(config, teller(console), planned=planned)


def processes_of(args: argparse.Namespace) -> Processes:
    """The place of this process among those of the run."""
    return Processes(args.processes, args.process, args.coordinator, args.join_seconds)


def begin_any(args: argparse.Namespace) -> None:
    """The devices that this process finds by itself; DeviceError for several processes."""
    from mllm_jax.runtime.devices import DeviceError, start_any

    if args.processes > 1:
        raise DeviceError(
            f"--processes {args.processes}: bench {args.benchmark} measures the devices of one "
            "process; valid: 1"
        )
    start_any(EMULATED)


def begin(
    args: argparse.Namespace,
    config: ExperimentConfig,
    *,
    one_thread: bool = False,
    keep: bool = False,
) -> list[Device]:
    """Start devices and processes; with `keep`, compiled programs are kept between runs.

    Returns:
        The devices of all processes.
    """
    from mllm_jax.runtime.agreement import agree, code, configured
    from mllm_jax.runtime.devices import start
    from mllm_jax.runtime.folder import has_trained
    from mllm_jax.runtime.supervised.process import LATER, supervised
    from mllm_jax.runtime.watch import Limits

    processes = processes_of(args)
    run, told = config.run, supervised()
    later = LATER if told else 0.0
    trained = args.name == "train" and has_trained(run.path)
    trained = trained or (told is not None and told.trained)
    limits = Limits(run.hang_seconds + later, run.stall_seconds, run.phase_seconds)
    same = partial(agree, "configuration and code")
    if keep:
        from mllm_jax.runtime.compiled.cache import keep_compiled

        keep_compiled(config.run.compilation_cache)
    facts = {
        "command": args.name,
        "--from-step": getattr(args, "from_step", None),
        **configured(config.model_dump(mode="json")),
    }

    def check() -> None:
        from data.planning.balance import fingerprints

        same(facts | code() | fingerprints(config.data))

    how = {"one_thread": one_thread, "trained": trained}
    return start(config.parallel, processes, limits, check, **how)

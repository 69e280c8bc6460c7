"""Start the devices and processes of a command, before numerical libraries are loaded."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from mllm_jax.cli.command import CommandCall
from mllm_jax.runtime.run_peers import ProcessPlace

if TYPE_CHECKING:  # which --help does not need
    from jax import Device

    from mllm_jax.config.sections import ExperimentConfig
    from mllm_jax.runtime.slices.limits import SliceLimits

#: CPU devices that are emulated for a call that takes any devices.
EMULATED = 2


def processes_of(args: argparse.Namespace) -> ProcessPlace:
    """The place of this process among those of the run."""
    return ProcessPlace(args.processes, args.process, args.coordinator, args.join_seconds)


def start_devices(
    call: CommandCall, args: argparse.Namespace, config: ExperimentConfig | None
) -> Sequence[Device]:
    """Start the devices that a call needs.

    Returns:
        The devices of all processes, of a call that needs the configured ones.

    Raises:
        DeviceError: the devices are not there, or are of several processes and must not be.
        JoinError: the other processes do not come.
        AgreementError: configuration or code of the processes differ.
    """
    if call.devices == "configured":
        assert config is not None
        return start_configured(
            args, config, one_thread=call.one_thread, keep_compiled=call.compiled
        )
    if call.devices == "any":
        start_any_devices(args)
    elif call.devices == "host":
        from mllm_jax.runtime.devices import use_cpu_only

        use_cpu_only()
    elif call.devices == "compiler":
        from mllm_jax.config.run import ParallelConfig
        from mllm_jax.runtime.devices import start_devices

        start_devices(ParallelConfig())
    return ()


def start_any_devices(args: argparse.Namespace) -> None:
    """Start the devices that this process finds by itself.

    Raises:
        DeviceError: there are several processes.
    """
    from mllm_jax.runtime.devices import DeviceError, start_any_platform

    if args.processes > 1:
        raise DeviceError(
            f"--processes {args.processes}: bench {args.benchmark} measures the devices of one "
            "process; valid: 1"
        )
    start_any_platform(EMULATED)


def start_configured(
    args: argparse.Namespace,
    config: ExperimentConfig,
    *,
    one_thread: bool = False,
    keep_compiled: bool = False,
) -> Sequence[Device]:
    """Start the configured devices, with all processes.

    Args:
        one_thread: whether every emulated device has one thread.
        keep_compiled: whether compiled programs are stored for later runs.

    Returns:
        The devices of all processes.

    Raises:
        DeviceError, JoinError, AgreementError: as of `start_devices`.
    """
    from mllm_jax.runtime.agreement import check_agreement, code_facts, config_facts
    from mllm_jax.runtime.devices import start_devices
    from mllm_jax.runtime.folder import has_trained
    from mllm_jax.runtime.supervised.process import LATER, supervisor_settings
    from mllm_jax.runtime.watch import WatchLimits

    run, supervisor = config.run, supervisor_settings()
    later = 0.0 if supervisor is None else LATER
    trained = args.name == "train" and has_trained(run.path)
    trained = trained or (supervisor is not None and supervisor.trained)
    limits = WatchLimits(run.hang_seconds + later, run.stall_seconds, run.phase_seconds)
    compare = partial(check_agreement, "configuration and code")
    if keep_compiled:
        from mllm_jax.runtime.compiled.cache import enable_compilation_cache

        enable_compilation_cache(config.run.compilation_cache)
    facts = {
        "command": args.name,
        "--from-step": getattr(args, "from_step", None),
        **config_facts(config.model_dump(mode="json")),
    }

    def compare_processes() -> None:
        from data.planning.balance import fingerprints

        compare(facts | code_facts() | fingerprints(config.data))

    threads = {"one_thread": one_thread, "trained": trained}
    return start_devices(config.parallel, processes_of(args), limits, compare_processes, **threads)


def slices_to_launch(
    call: CommandCall, args: argparse.Namespace, config: ExperimentConfig | None
) -> SliceLimits | None:
    """The limits of the slices whose processes this one launches; None: it runs the command.

    Raises:
        MpsError: the processes would be on several hosts.
    """
    if config is None or call.devices != "configured":
        return None
    from mllm_jax.runtime.slices.control import MpsError
    from mllm_jax.runtime.slices.launch import is_launched
    from mllm_jax.runtime.slices.limits import SliceLimits

    limits = SliceLimits.from_config(config.parallel)
    if limits is None or is_launched(os.environ):
        return None
    if args.processes > 1 or config.parallel.distributed:
        reason = "parallel.groups: quotas on GPUs are for one host, whose processes this command"
        raise MpsError(f"{reason} starts; valid: neither --processes nor parallel.distributed")
    return limits


def launch_command(config: ExperimentConfig, limits: SliceLimits) -> int:
    """Run this command in a process for each slice, and return the exit code.

    Raises:
        MpsError: MPS cannot give the slices their parts.
    """
    from mllm_jax.runtime.slices.launch import launch_slices

    return launch_slices(sys.orig_argv, limits, config.parallel.devices, os.environ)

"""Devices of a run: platform, emulated CPU devices, processes.

`start` must run before anything asks JAX for a device; JAX settles these choices only once.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import jax
import numpy as np
from jax.experimental import multihost_utils

from mllm_jax.config.load import ParallelConfig
from mllm_jax.runtime.backends.listening import coordinator_addresses
from mllm_jax.runtime.collective import join_discovered
from mllm_jax.runtime.hardware.gpu_memory import set_share
from mllm_jax.runtime.peers import join_peers
from mllm_jax.runtime.run_peers import ALONE, PeerError, ProcessPlace, current_peers, exit_after
from mllm_jax.runtime.watch import LIMITS, WatchLimits
from mllm_jax.runtime.wire import HostAddress


class DeviceError(RuntimeError):
    """The devices or processes that the configuration asks for are not there."""


class DevicesLostError(DeviceError):
    """Devices of this process that the run has had are not there any more."""


class DevicesStartedError(DeviceError):
    """JAX has opened its devices before those of the configuration were chosen."""


#: Makes every emulated CPU device compute with one thread.
ONE_THREAD_FLAGS = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"


#: Seconds after which JAX itself takes a process for dead, and aborts all: never, within a run. Our
#: watch (`mllm_jax.runtime.peers`) says which it was, and ends the others in good order.
NEVER = 7 * 24 * 3600
#: Seconds by which JAX's deadline for processes that it discovers is later than ours.
MARGIN = 60


def start_devices(
    parallel: ParallelConfig,
    processes: ProcessPlace = ALONE,
    limits: WatchLimits = LIMITS,
    check: Callable[[], None] = lambda: None,
    *,
    one_thread: bool = False,
    trained: bool = False,
) -> list[jax.Device]:
    """Configure JAX, join the other processes and return the devices of the run.

    Args:
        parallel: platform and number of devices, all processes together.
        processes: this process's place; with `parallel.distributed` JAX finds it by itself.
        limits: limits beyond which another process counts as stuck.
        check: compares the processes once they have met; before JAX connects them, if it does not
            find them by itself.
        one_thread: give every emulated CPU device one thread, for measurements.
        trained: whether the run has taken a step before, so that the devices were there.

    Raises:
        DeviceError: JAX was started before, does not find the other processes, or finds another
            number of devices.
        DevicesLostError: this process has lost devices; others have theirs, or it had them itself.
        JoinError: the processes were not started alike.
        PeerError: another process did not come, or has lost devices.
    """
    if one_thread:
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {ONE_THREAD_FLAGS}".strip()
    if parallel.platform == "gpu":
        set_share(os.environ)
    _choose_platform(parallel, processes.count)
    if processes.count > 1 or (parallel.distributed and not jax.distributed.is_initialized()):
        _join_processes(processes, limits, check)
    with _looking_for_devices(parallel, limits):
        devices = _find_devices(parallel, trained=trained)
    if jax.process_count() > 1 and current_peers().count == 1:
        join_discovered(limits, processes.join_seconds)
        check()
    if current_peers().count > 1:
        _shake_hands()
    return devices


def start_in_process(parallel: ParallelConfig) -> list[jax.Device]:
    """`start` for a single process in which JAX may have started before, such as a notebook's.

    JAX does not change the devices that it has opened first: a later configuration has the first
        ones of them.

    Raises:
        DeviceError: JAX finds too few devices, or has started on another platform.
    """
    try:
        return start_devices(parallel)
    except DevicesStartedError:
        devices = _find_devices(parallel)
        if devices[0].platform != parallel.platform:
            raise DeviceError(
                f"parallel.platform is {parallel.platform}, but JAX has started on "
                f"{devices[0].platform} in this process; valid: {devices[0].platform}, or a new "
                "process"
            ) from None
        return devices


def start_any_platform(emulated: int) -> list[jax.Device]:
    """The devices of this process, of the platform that JAX finds; `JAX_PLATFORMS` insists on one.

    Args:
        emulated: CPU devices, where there is nothing else.

    Raises:
        DeviceError: JAX was started before, or finds none on the platform that it must use.
    """
    set_share(os.environ, logging.DEBUG)  # it may be that there are no GPUs
    try:
        jax.config.update("jax_num_cpu_devices", emulated)
        return jax.devices()
    except (RuntimeError, AssertionError) as error:
        raise DeviceError(f"JAX finds no devices: {error}") from error


def disconnect_processes() -> None:
    """Disconnect from the other processes, once all are done."""
    jax.distributed.shutdown()


def use_cpu_only() -> None:
    """Use the host's CPU alone, for work on shapes: looking for accelerators takes long to fail.

    Without effect where JAX has started before.
    """
    jax.config.update("jax_platforms", "cpu")


def is_primary() -> bool:
    """Whether this process writes logs, metrics and summaries."""
    return jax.process_index() == 0


def _join_processes(
    processes: ProcessPlace, limits: WatchLimits, check: Callable[[], None]
) -> None:
    """Meet the other processes; a single `processes` lets JAX find them."""
    # The handler of SIGTERM of JAX's service would replace the framework's, which agrees on a step
    # to save after as `reached_preemption_sync_point` does.
    jax.config.update("jax_enable_preemption_service", False)
    if processes.count == 1:
        return _join_discovered(processes.join_seconds)
    assert processes.coordinator is not None
    address = HostAddress.parse(processes.coordinator)
    group = join_peers(processes.index, processes.count, address, limits, processes.join_seconds)
    check()
    seconds = processes.join_seconds

    def why() -> str:
        return (
            f"process {group.index} of {group.count} has waited {seconds:g} s (--join-seconds) for "
            "JAX to connect all processes by its own coordinator, which it finds at "
            f"{group.coordinator} (--coordinator {address}). Process {group.index} hears of the "
            f"others: {group.describe_all()}"
        )

    try:
        # JAX's deadline aborts the process, before anybody could say what has happened.
        with (
            group.noting_activity("joining JAX's coordinator", limited=True),
            exit_after(seconds, why),
        ):
            jax.distributed.initialize(
                str(group.coordinator),
                group.count,
                group.index,
                coordinator_bind_address=str(group.bind) if group.bind else None,
                # Under Slurm JAX would take this process for one of several on its node, and show
                # it one GPU only.
                cluster_detection_method="deactivate",
                heartbeat_timeout_seconds=NEVER,
                initialization_timeout=round(seconds) + MARGIN,
            )
        group.note_activity("JAX's coordinator is joined", limited=False)
    except (RuntimeError, ValueError, OSError) as error:
        raise DeviceError(
            f"--coordinator {address}: process {group.index} of {group.count} could not join JAX's "
            f"own coordinator{f', which process 0 begins at {group.bind}' * bool(group.bind)}: "
            f"{error}"
        ) from error


def _join_discovered(seconds: float) -> None:
    """Join the processes that JAX finds by itself; if one never comes, this process ends."""
    why = (
        f"parallel.distributed: within {seconds:g} s (--join-seconds) not all processes came to "
        "the coordinator that JAX looks for by itself. JAX does not say which are missing: all "
        "that came end with this message, and one whose last lines lack it was not started, or "
        "cannot reach the coordinator"
    )
    at = coordinator_addresses(os.environ)
    try:
        with exit_after(seconds, why):
            # JAX's deadline aborts the process, before anybody could say what has happened.
            jax.distributed.initialize(
                at.coordinator,
                coordinator_bind_address=at.bind,
                initialization_timeout=round(seconds) + MARGIN,
            )
    except (RuntimeError, ValueError, OSError) as error:
        raise DeviceError(
            f"parallel.distributed: JAX cannot join the processes that it looks for: {error}; its "
            f"coordinator listens at {at.bind} on process 0 (JAX_COORDINATOR_BIND_ADDRESS)"
        ) from error


@contextmanager
def _looking_for_devices(parallel: ParallelConfig, limits: WatchLimits) -> Iterator[None]:
    """Context of looking for devices: each of several processes waits for those of all others."""

    def why() -> str:
        return (
            "parallel.distributed: JAX has looked for the devices of all processes for "
            f"{limits.stalled:g} s (run.stall_seconds). It does not say which process has not told "
            "of its own: see the last lines of each"
        )

    alone = current_peers().count == 1
    seconds = limits.stalled if alone and parallel.distributed else None
    with (
        current_peers().noting_activity("looking for devices", limited=True),
        exit_after(seconds, why),
    ):
        yield


def _shake_hands() -> None:
    """A first collective of little work, begun by all at once: how devices of different processes
    reach each other is settled before anything takes long."""
    with current_peers().watching_collective("devices are found"):
        multihost_utils.process_allgather(np.zeros(1))
    current_peers().gather_values("hands are shaken", None)


def _choose_platform(parallel: ParallelConfig, processes: int) -> None:
    platforms = {"cpu": "cpu", "gpu": "cuda", "tpu": "tpu"}
    try:
        jax.config.update("jax_platforms", platforms[parallel.platform])
        if parallel.platform == "cpu":
            jax.config.update(
                "jax_num_cpu_devices", _devices_per_process(parallel.jax_devices, processes)
            )
    except RuntimeError as error:
        raise DevicesStartedError(
            f"JAX was started before the devices were chosen: {error}"
        ) from error


def _devices_per_process(devices: int, processes: int) -> int:
    """Devices of each process; 4 devices in 2 processes are 2 each."""
    if devices % processes:
        valid = [n for n in range(1, devices + 1) if devices % n == 0]
        raise DeviceError(
            f"parallel.devices {devices} cannot be shared evenly by {processes} processes; "
            f"valid --processes: {', '.join(map(str, valid))}"
        )
    return devices // processes


def _find_devices(parallel: ParallelConfig, *, trained: bool = False) -> list[jax.Device]:
    """The first `parallel.devices` devices; several processes must use all they have."""
    kind = DevicesLostError if trained else DeviceError
    try:
        devices = jax.devices()
    except RuntimeError as error:
        raise kind(f"parallel.platform {parallel.platform}: {error}") from error
    except AssertionError as error:  # JAX's way to say that it sees no NVIDIA GPU
        raise kind(
            f"parallel.platform {parallel.platform}: JAX finds no such device; valid: a machine "
            "with its devices, and the extra that is for them (make install EXTRAS=cuda13)"
        ) from error
    count = jax.process_count()
    counts = [
        sum(device.process_index == process for device in devices) for process in range(count)
    ]
    share = parallel.jax_devices / count
    lacking = [process for process in range(count) if counts[process] < share]
    if not lacking and (len(devices) == parallel.jax_devices or count == 1):
        return devices[: parallel.jax_devices]
    each = ", ".join(f"process {process} has {counts[process]} of {share:g}" for process in lacking)
    message = (
        f"parallel.devices is {parallel.devices}, but {len(devices)} {parallel.platform} devices "
        f"in {count} processes were found{f' ({each})' * bool(each)}; set parallel.devices to "
        f"{len(devices)} and the plans to match"
    )
    # All know of it before the first one ends: process 0 has JAX's coordinator, and a process that
    # still waits for that would not know that it has lost devices.
    current_peers().gather_values("devices are counted", None)
    if not lacking or (len(lacking) == count and not trained):
        raise DeviceError(message)
    raise (DevicesLostError if jax.process_index() in lacking else PeerError)(message)

"""One process for each slice of GPUs: a command is started again for each of them."""

from __future__ import annotations

import logging
import os
import re
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import distributions
from types import FrameType

from mllm_jax.runtime.exits import ExitCode
from mllm_jax.runtime.hardware.gpu_memory import SLICE, VARIABLES
from mllm_jax.runtime.interrupt import SIGNALS
from mllm_jax.runtime.slices.control import MpsControl, MpsError
from mllm_jax.runtime.slices.daemon import PARTITION, PERCENTAGE, VISIBLE, serve_slices
from mllm_jax.runtime.slices.limits import SliceLimits
from mllm_jax.runtime.slices.process import LAUNCHER

logger = logging.getLogger(__name__)

#: The first version of NCCL in which ranks of one communicator may share a GPU.
NCCL = (2, 30)
#: Seconds in which nvidia-smi lists GPUs.
PATIENCE = 60.0

Process = subprocess.Popen[bytes]


def is_launched(environment: Mapping[str, str]) -> bool:
    """Whether a process is that of a slice."""
    return SLICE in environment


def launch_slices(
    command: Sequence[str], limits: SliceLimits, devices: int, environment: Mapping[str, str]
) -> int:
    """Run a command in a process for each slice of the GPUs of this machine.

    Args:
        command: words of the command.
        limits: limits of the slices.
        devices: number of GPUs.
        environment: variables of this process.

    Returns:
        The exit code of the process that explains the end.

    Raises:
        MpsError: MPS cannot give the slices their parts.
    """
    check_environment(environment)
    check_nccl()
    control = MpsControl.from_environment(environment)
    gpus = list_gpus(devices, environment)
    with serve_slices(control, limits, gpus) as variables:
        return run_processes(
            command,
            [
                {
                    **_without(environment),
                    **limits.process_environment(number, environment),
                    **of_slice,
                    SLICE: str(number),
                }
                for number, of_slice in enumerate(variables)
            ],
        )


def check_environment(environment: Mapping[str, str]) -> None:
    """Refuse variables that would give all slices the same limit.

    Raises:
        MpsError: there is one.
    """
    for name in (PERCENTAGE, PARTITION, *VARIABLES):
        if environment.get(name):
            raise MpsError(
                f"{name}={environment[name]} is set, and slices have limits of their own; valid: "
                "unset it, and set quota and memory of parallel.groups"
            )


def check_nccl() -> None:
    """Refuse an installed NCCL that has no ranks on the same GPU.

    Raises:
        MpsError: it is too old.
    """
    for package in distributions():
        name = package.metadata["Name"] or ""
        if not re.fullmatch(r"nvidia-nccl-cu\d+", name):
            continue
        version = tuple(int(part) for part in re.findall(r"\d+", package.version)[:2])
        if version < NCCL:
            valid = ".".join(map(str, NCCL))
            raise MpsError(
                f"{name} {package.version} refuses several processes on one GPU; valid: NCCL "
                f"{valid} or later (pip install -U {name})"
            )


def list_gpus(count: int, environment: Mapping[str, str]) -> list[str]:
    """Names of the first GPUs that this process may use, `GPU-...`.

    Raises:
        MpsError: there are fewer.
    """
    visible = environment.get(VISIBLE)
    words = ["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"]
    words += ["-i", visible] if visible else []
    try:
        done = subprocess.run(
            words,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            env=dict(environment),
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MpsError(f"nvidia-smi does not list GPUs: {error}; valid: NVIDIA's driver") from error
    names = re.findall(r"GPU-\S+", done.stdout)
    if len(names) < count:
        output = done.stderr.strip() or f"nvidia-smi lists {len(names)}"
        raise MpsError(f"parallel.devices is {count}, but {output}; valid: 1 to the number of GPUs")
    return names[:count]


def run_processes(command: Sequence[str], environments: Sequence[Mapping[str, str]]) -> int:
    """Run a command in processes of one run until all have ended.

    Returns:
        The exit code of the process that explains the end.
    """
    place = ["--processes", str(len(environments)), "--coordinator", f"127.0.0.1:{_free_port()}"]
    started = [
        subprocess.Popen(
            [*command, *place, "--process", str(number)],
            env={**environment, LAUNCHER: str(os.getpid())},
            start_new_session=True,
        )
        for number, environment in enumerate(environments)
    ]
    with _passing_signals(started):
        codes = [process.wait() for process in started]
    return _explaining_code(codes)


@contextmanager
def _passing_signals(processes: Sequence[Process]) -> Iterator[None]:
    """Context that passes signals on to processes, which end in good order."""

    def send(number: int, frame: FrameType | None) -> None:
        del frame
        for process in processes:
            process.send_signal(number)

    before = {number: signal.signal(number, send) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _explaining_code(codes: Sequence[int]) -> int:
    """The code of a process that did not end because of another one, if there is one."""
    failed = [code for code in codes if code]
    causes = [code for code in failed if code != ExitCode.LOST_PEER]
    first = next(iter(causes or failed), ExitCode.OK)
    return first if first >= 0 else ExitCode.FAILED


def _without(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables without the list of GPUs, which the daemon knows."""
    return {name: value for name, value in environment.items() if name != VISIBLE}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])

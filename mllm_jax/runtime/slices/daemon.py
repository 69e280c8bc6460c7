"""The control daemon of a run: one that runs already, or one that the run starts and ends.

A daemon that runs already is used if it lets every slice have its quota, and stays. Without one a
daemon is started, with static partitions if the driver has them and every quota is a number of
their chunks; otherwise processes are limited to percentages of the threads.
"""

from __future__ import annotations

import logging
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from mllm_jax.runtime.slices import guard
from mllm_jax.runtime.slices.control import LOGS, PATIENCE, PIPES, PROGRAM, MpsControl, MpsError
from mllm_jax.runtime.slices.limits import SliceLimits

logger = logging.getLogger(__name__)

#: Variables that limit a client of MPS.
PERCENTAGE, PARTITION = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "CUDA_MPS_SM_PARTITION"
#: The variable that names the GPUs of the daemon, or of a client of a daemon that has all.
VISIBLE = "CUDA_VISIBLE_DEVICES"
#: Seconds between two looks at a daemon that starts.
TICK = 0.05


@contextmanager
def serve_slices(
    control: MpsControl, limits: SliceLimits, gpus: Sequence[str]
) -> Iterator[list[dict[str, str]]]:
    """Context in which MPS serves the slices; gives the variables of MPS for each one's process.

    Args:
        control: the daemon whose client this process would be, if it runs.
        limits: limits of the slices.
        gpus: names of the GPUs, `GPU-...`.

    Raises:
        MpsError: MPS cannot be started, or has other limits.
    """
    with ExitStack() as stack:
        if control.is_running:
            logger.info("MPS runs already in %s, and stays when this run ends", control.pipes)
            variables = _limit_threads(control, limits)
            yield [{**of_slice, VISIBLE: ",".join(gpus)} for of_slice in variables]
        else:
            yield _start_serving(stack, control, limits, gpus)


def _start_serving(
    stack: ExitStack, control: MpsControl, limits: SliceLimits, gpus: Sequence[str]
) -> list[dict[str, str]]:
    """Start a daemon that ends with `stack`, and limit slices by what it has."""
    if control.has_static_partitions and len(gpus) == 1:
        with ExitStack() as attempt:
            started = attempt.enter_context(_started_daemon(control, gpus, "-S"))
            chunks = limits.chunks_of(started.free_chunks() or 0)
            if chunks is not None:
                variables = _make_partitions(started, gpus[0], chunks)
                stack.enter_context(attempt.pop_all())
                return variables
        # Such a daemon serves no client without a partition: another one takes its place.
        logger.info("quotas %s are no numbers of chunks of %s", limits.percentages, gpus[0])
    return _limit_threads(stack.enter_context(_started_daemon(control, gpus)), limits)


@contextmanager
def _started_daemon(
    control: MpsControl, gpus: Sequence[str], *options: str
) -> Iterator[MpsControl]:
    """A daemon with folders of its own, which ends with this context or this process.

    Raises:
        MpsError: it does not start.
    """
    folder = Path(tempfile.mkdtemp(prefix="mllm_jax-mps-"))
    folders = {PIPES: str(folder / "pipes"), LOGS: str(folder / "logs")}
    for path in folders.values():
        Path(path).mkdir()
    started = replace(control, folders=folders)
    command = [sys.executable, guard.__file__, str(folder), control.program, *options]
    environment = {**control.environment, **folders, VISIBLE: ",".join(gpus)}
    keeper = subprocess.Popen(
        command, stdin=subprocess.PIPE, env=environment, start_new_session=True
    )
    assert keeper.stdin is not None
    try:
        _wait_until_running(started, keeper)
        yield started
    finally:
        keeper.stdin.close()
        keeper.wait()


def _wait_until_running(control: MpsControl, keeper: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + PATIENCE
    while not control.is_running:
        code = keeper.poll()
        if code is not None:
            raise MpsError(f"{PROGRAM} has ended with code {code} as soon as it was started")
        if time.monotonic() > until:
            raise MpsError(f"{PROGRAM} does not answer {PATIENCE:g} s after it was started")
        time.sleep(TICK)


def _make_partitions(control: MpsControl, gpu: str, chunks: Sequence[int]) -> list[dict[str, str]]:
    """Variables of processes that have a static partition each."""
    logger.info("MPS: partitions of %s chunks of %s", ", ".join(map(str, chunks)), gpu)
    return [{**control.folders, PARTITION: control.add_partition(gpu, count)} for count in chunks]


def _limit_threads(control: MpsControl, limits: SliceLimits) -> list[dict[str, str]]:
    """Variables of processes that have percentages of the threads.

    Raises:
        MpsError: the daemon allows a slice less than its quota.
    """
    if control.free_chunks() is not None:
        raise MpsError(
            f"MPS runs with static partitions in {control.pipes}, which others have made; valid: "
            f"end it (echo quit | {PROGRAM}), so that this run starts its own, or another {PIPES}"
        )
    most = max(limits.percentages)
    allowed = {"new servers": control.default_percentage()}
    allowed |= {f"server {id_}": n for id_, n in control.server_percentages().items()}
    for name, percentage in allowed.items():
        if percentage < most:
            raise MpsError(
                f"MPS runs in {control.pipes} and allows clients of {name} {percentage:g} % of "
                f"the threads of a GPU, and quotas ask for {most} %; valid: a daemon that allows "
                f"100 %, or none, so that this run starts its own"
            )
    logger.info("MPS: %s %% of the threads", ", ".join(map(str, limits.percentages)))
    return [{**control.folders, PERCENTAGE: str(share)} for share in limits.percentages]

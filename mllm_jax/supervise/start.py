"""The start of a supervisor."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from dataclasses import replace

from mllm_jax.runtime.exits import ExitCode
from mllm_jax.runtime.folder import prepare_folder
from mllm_jax.runtime.lock import GLANCE, SUPERVISOR, LockedError, cluster_job, run_lock
from mllm_jax.runtime.run_peers import JoinError
from mllm_jax.runtime.supervised.process import PATIENCE
from mllm_jax.supervise.coordinator_events import FinishRun
from mllm_jax.supervise.follower import FollowerSupervisor
from mllm_jax.supervise.leader import LeaderSupervisor
from mllm_jax.supervise.plans import FallbackSearch
from mllm_jax.supervise.supervisor import SupervisorConfig

logger = logging.getLogger(__name__)


def supervise_training(
    command: Sequence[str], settings: SupervisorConfig, planning: FallbackSearch | None = None
) -> int:
    """Keep the training process of this host going until it is done, or cannot go on.

    Args:
        command: words of the supervisor's command.
        planning: search for plans that goes on meanwhile, and is ended with the run.

    Returns:
        The exit code of the process that explains the end of the run.

    Raises:
        RunError: the folder cannot be written.
        LockedError: another supervisor has the folder.
        LockHeldError: likewise, in a job, and it is of no other job.
        JoinError: the supervisor of process 0 cannot listen at its address.
    """
    with contextlib.closing(planning) if planning else contextlib.nullcontext():
        return _run_supervisor(command, settings)


def _run_supervisor(command: Sequence[str], settings: SupervisorConfig) -> int:
    prepare_folder(settings.folder)
    name = f"{SUPERVISOR}-{settings.process}" if settings.process else SUPERVISOR
    # On a disk that hosts share, one that is gone may have it for a time.
    with run_lock(settings.folder, name, settings.wait if cluster_job() else GLANCE):
        finish = asyncio.run(_run_supervised(command, settings))
    if finish.code != ExitCode.OK:
        logger.error("%s", finish.why)
    return finish.code


async def _run_supervised(command: Sequence[str], settings: SupervisorConfig) -> FinishRun:
    if settings.process == 0:
        return await _lead_run(LeaderSupervisor(command, settings))
    follower = FollowerSupervisor(command, settings)
    finish = await follower.run()
    if follower.lead is None:
        return finish
    logger.warning("%s: it takes the lead", finish.why)
    try:
        # On a disk that hosts share, one whose network alone is gone still has it.
        patience = PATIENCE if follower.left else GLANCE
        with run_lock(settings.folder, SUPERVISOR, patience):
            return await _lead_run(LeaderSupervisor(command, settings, follower.lead))
    except (LockedError, JoinError) as error:
        return replace(finish, why=f"{finish.why}; {error}")


async def _lead_run(leader: LeaderSupervisor) -> FinishRun:
    await leader.start_listening()
    return await leader.run()

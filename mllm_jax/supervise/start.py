"""The start of a supervisor."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from dataclasses import replace

from mllm_jax.runtime.exits import Exit
from mllm_jax.runtime.folder import prepare_folder
from mllm_jax.runtime.lock import GLANCE, SUPERVISOR, LockedError, job, locked
from mllm_jax.runtime.part import JoinError
from mllm_jax.runtime.supervised.process import PATIENCE
from mllm_jax.supervise.conductor import Finish
from mllm_jax.supervise.follower import Follower
from mllm_jax.supervise.leader import Leader
from mllm_jax.supervise.plans import Planning
from mllm_jax.supervise.supervisor import Settings

logger = logging.getLogger(__name__)


def supervise(command: Sequence[str], settings: Settings, planning: Planning | None = None) -> int:
    """Keep the training process of this host going until it is done, or cannot go on.

    Args:
        command: words of the supervisor's command.
        planning: search for plans that goes on meanwhile, and is ended with the run.

    Returns:
        The exit code of the process that explains the end of the run.

    Raises:
        RunError: the folder cannot be written.
        LockedError: another supervisor has the folder.
        HeldError: likewise, in a job, and it is of no other job.
        JoinError: the supervisor of process 0 cannot listen at its address.
    """
    with contextlib.closing(planning) if planning else contextlib.nullcontext():
        return _supervise(command, settings)


def _supervise(command: Sequence[str], settings: Settings) -> int:
    prepare_folder(settings.folder)
    name = f"{SUPERVISOR}-{settings.process}" if settings.process else SUPERVISOR
    # On a disk that hosts share, one that is gone may have it for a time.
    with locked(settings.folder, name, settings.wait if job() else GLANCE):
        finish = asyncio.run(_run(command, settings))
    if finish.code != Exit.OK:
        logger.error("%s", finish.why)
    return finish.code


async def _run(command: Sequence[str], settings: Settings) -> Finish:
    if settings.process == 0:
        return await _leads(Leader(command, settings))
    follower = Follower(command, settings)
    finish = await follower.run()
    if follower.lead is None:
        return finish
    logger.warning("%s: it takes the lead", finish.why)
    try:
        # On a disk that hosts share, one whose network alone is gone still has it.
        patience = PATIENCE if follower.left else GLANCE
        with locked(settings.folder, SUPERVISOR, patience):
            return await _leads(Leader(command, settings, follower.lead))
    except (LockedError, JoinError) as error:
        return replace(finish, why=f"{finish.why}; {error}")


async def _leads(leader: Leader) -> Finish:
    await leader.listen()
    return await leader.run()

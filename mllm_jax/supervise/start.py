"""The start of a supervisor."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from mllm_jax.runtime.exits import Exit
from mllm_jax.runtime.folder import prepare_folder
from mllm_jax.runtime.lock import locked
from mllm_jax.supervise.conductor import Finish
from mllm_jax.supervise.follower import Follower
from mllm_jax.supervise.leader import Leader
from mllm_jax.supervise.supervisor import Settings

logger = logging.getLogger(__name__)

#: Name of the lock of a supervisor in the folder of its run; that of another process than 0 has its
#: number behind it.
LOCK = ".supervisor"


def supervise(own: Sequence[str], settings: Settings) -> int:
    """Keep the training process of this host going until it is done, or cannot go on.

    Args:
        own: words of the supervisor's command.

    Returns:
        The exit code of the process that explains the end of the run.

    Raises:
        RunError: the folder cannot be written.
        LockedError: another supervisor has the folder.
        JoinError: the supervisor of process 0 cannot listen at its address.
    """
    prepare_folder(settings.folder)
    name = f"{LOCK}-{settings.process}" if settings.process else LOCK
    with locked(settings.folder, name):
        finish = asyncio.run(_run(own, settings))
    if finish.code != Exit.OK:
        logger.error("%s", finish.why)
    return finish.code


async def _run(own: Sequence[str], settings: Settings) -> Finish:
    if settings.process:
        return await Follower(own, settings).run()
    leader = Leader(own, settings)
    await leader.listen()
    return await leader.run()

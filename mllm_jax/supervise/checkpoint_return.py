"""Return to a checkpoint (`--from-step`) once, however often the same command is started.

Clusters start a supervisor again with the words of its first start. What has been trained since the
run went back must stay, so the folder of the run keeps the command that has led it back, as soon as
a step was taken from there. The same command leads back no more; another one does.
"""

from __future__ import annotations

import logging
import shlex
from collections.abc import Sequence
from pathlib import Path

from mllm_jax.runtime.records import RecordDamageError, check_text, signed_text, write_atomically
from mllm_jax.runtime.run_status import FROM_STEP, remove_option

logger = logging.getLogger(__name__)

#: Name of the file.
NAME = ".from-step"


class CheckpointReturn:
    """The return to a checkpoint that a command requests, if it does.

    Args:
        words: words of the command that are the same on all hosts.
        folder: folder of the run.
    """

    def __init__(self, words: Sequence[str], folder: Path) -> None:
        self._text, self._file = shlex.join(words) + "\n", folder / NAME
        self._requested = remove_option(FROM_STEP, words) != [*words]

    def has_gone_back(self) -> bool:
        """Whether an earlier start of the same command has returned; records of others are removed.

        Raises:
            OSError: the folder cannot be read, or written.
        """
        if not self._file.exists():
            return False
        if not self._requested or not self._is_same_command():
            self._file.unlink()
            return False
        logger.warning(
            "an earlier start of this command has gone back by %s: the run goes on from its newest "
            "checkpoint; to go back again, remove %s",
            *(FROM_STEP, self._file),
        )
        return True

    def _is_same_command(self) -> bool:
        """Whether the file holds this command; one that is damaged may, so that nothing is lost."""
        try:
            check_text(self._file)
        except RecordDamageError as error:
            logger.warning("%s; it is taken for this command's", error)
            return True
        return self._file.read_bytes().startswith(self._text.encode())

    def record_return(self) -> None:
        """Record that the run has returned to the checkpoint, if that was requested.

        Raises:
            OSError: the folder takes no file.
        """
        if self._requested:
            write_atomically(self._file, signed_text(self._text), part=f"{NAME}.part")

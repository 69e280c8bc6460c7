"""The programs of the clusters that submit and query jobs."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence

#: Seconds within which a program answers.
PATIENCE = 120


class SubmitError(RuntimeError):
    """A job that could not be submitted."""


def require_programs(*programs: str) -> None:
    """Raise SubmitError if one of the programs is not here."""
    for program in programs:
        if shutil.which(program) is None:
            raise SubmitError(
                f"--go: {program} is not on this machine's PATH; valid: without --go, which writes "
                f"the files, and tells how they are submitted where {program} is"
            )


def run_program(words: Sequence[str]) -> str:
    """The output of a program.

    Raises:
        SubmitError: the program fails, or does not answer within `PATIENCE`.
    """
    try:
        result = subprocess.run(
            words, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
    except subprocess.TimeoutExpired:
        raise SubmitError(
            f"{' '.join(words)} has not answered within {PATIENCE} s; look whether the cluster has "
            "a job of this run before you try again"
        ) from None
    if result.returncode:
        output = (result.stderr or result.stdout).strip()
        raise SubmitError(
            f"{' '.join(words)} has ended with exit code {result.returncode}: {output}; the job is "
            "not submitted"
        )
    return result.stdout

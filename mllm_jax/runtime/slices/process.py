"""The side of the process of a slice, which a launcher has started: it ends with the launcher."""

from __future__ import annotations

import os

from mllm_jax.runtime.supervised.process import end_with_parent

#: Name of the variable that holds the id of the launcher's process.
LAUNCHER = "MLLM_JAX_LAUNCHER"


def end_with_launcher() -> None:
    """Let the kernel kill this process with its launcher, if it has one; called first."""
    launcher = os.environ.pop(LAUNCHER, None)  # which is not for processes that this one starts
    if launcher is not None:
        end_with_parent(int(launcher))

"""Python's garbage, collected after the same steps on all processes.

A collection stops its process for a while. Python collects whenever enough objects have been
created, on each process at another time, and all others wait for it each time: the more processes,
the more often (MegaScale, arXiv 2402.15627). So processes collect together.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from mllm_jax.train.events import Event, Listener, StepEnded, ignore_event


@contextmanager
def collect_together(every: int | None) -> Iterator[Listener]:
    """Context in which a listener collects garbage, in place of Python's automatic collection.

    What is there at its begin is not looked through again: it is frozen. What a caller has frozen
    stays so, and nothing is added to it.

    Args:
        every: steps between two collections; None: Python collects whenever it wants to.
    """
    if every is None or not gc.isenabled():
        yield ignore_event
        return

    def collect(event: Event) -> None:
        if isinstance(event, StepEnded) and event.step % every == 0:
            gc.collect()

    gc.collect()
    frozen_before = _is_frozen()
    if not frozen_before:
        gc.freeze()
    gc.disable()
    try:
        yield collect
    finally:
        gc.enable()
        if not frozen_before:
            gc.unfreeze()


def _is_frozen() -> bool:
    """Whether the caller has frozen what is there.

    The number of frozen objects does not tell: Python 3.12 freezes its immortal ones by itself.
    """
    return not any(tracked is sys.modules for tracked in gc.get_objects())

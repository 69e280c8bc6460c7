"""Worker processes end with the process that has started them, however that one ends.

Neither Grain's workers nor those of `concurrent.futures` notice that the process which they work
for was killed: they would wait for ever, and hold their memory.
"""

from __future__ import annotations

import multiprocessing
import os
import threading


def end_with_parent() -> None:
    """Let this process end with its parent; a worker calls it first."""
    parent = multiprocessing.parent_process()
    assert parent is not None, "this is no worker process"

    def wait_for_end() -> None:
        parent.join()
        os._exit(1)  # whatever the other threads are at; nobody takes their results any more

    threading.Thread(target=wait_for_end, name="end with parent", daemon=True).start()

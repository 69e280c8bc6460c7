"""Grain's prefetching, by a thread or by worker processes, as an iterator that closes."""

from __future__ import annotations

import multiprocessing
import signal
import threading
from collections.abc import Iterator
from typing import Any

import grain
from absl import flags


class Prefetched(Iterator[Any]):
    """The elements of a Grain data set, made ahead; close it.

    Args:
        elements: of which worker k of N makes k, k + N, ...
        workers: processes; 0 for a thread of this one.
        ahead: elements made ahead, by each worker.
    """

    def __init__(self, elements: grain.IterDataset, workers: int, ahead: int) -> None:
        if workers:
            # Grain's worker processes read absl flags, which nobody parses in this program.
            if not flags.FLAGS.is_parsed():
                flags.FLAGS.mark_as_parsed()
            options = grain.MultiprocessingOptions(
                num_workers=workers, per_worker_buffer_size=ahead
            )
            made = elements.mp_prefetch(options)
        else:
            made = grain.experimental.ThreadPrefetchIterDataset(
                elements, prefetch_buffer_size=ahead
            )
        self._iterator: Any = made.__iter__()

    def __next__(self) -> Any:
        return next(self._iterator)

    def close(self) -> None:
        """Stop workers and threads; idempotent. After it, `next` raises StopIteration."""
        close = getattr(self._iterator, "close", None)
        if close is not None:
            close()
        # Grain's iterators close again in __del__, which must not wait for the interpreter's end.
        self._iterator = iter(())


class Sliced(grain.IterDataset):
    """An endless stream, of which Grain's workers take every n-th element each."""

    def __init__(self) -> None:
        super().__init__()
        self.offset, self.stride = 0, 1

    def set_slice(self, sl: slice, sequential_slice: bool = False) -> None:
        """Keep only elements start, start + step, ... (called by Grain inside a worker)."""
        if sequential_slice or sl.stop is not None:
            raise ValueError(f"an endless stream cannot be cut into {sl}")
        self.offset, self.stride = sl.start, sl.step


class Unseekable(grain.DatasetIterator):
    """An iterator whose place Grain's prefetching may ask for, but not change."""

    def __init__(self) -> None:
        super().__init__()
        _leave_interrupts_to_the_parent()
        self._count = 0

    def __next__(self) -> Any:
        self._count += 1
        return self.make()

    def make(self) -> Any:
        """The next element."""
        raise NotImplementedError

    def get_state(self) -> dict[str, Any]:
        """Only Grain's own prefetching asks; resuming goes through `LoaderState`."""
        return {"elements": self._count}

    def set_state(self, state: dict[str, Any]) -> None:
        """Refused: a new loader is how to go elsewhere."""
        if state != self.get_state():
            raise ValueError("a loader does not seek; make a new one with `state`")


def _leave_interrupts_to_the_parent() -> None:
    """Ignore SIGINT in a worker process; nothing else, in any other.

    Ctrl-C reaches the parent and its workers at once. The parent may want to finish its step and
    to save, for which it needs batches; when it closes the loader, its workers end.
    """
    worker = multiprocessing.parent_process() is not None
    if worker and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)

"""Grain's prefetching, by a thread or by worker processes, as an iterator that closes."""

from __future__ import annotations

import logging
import multiprocessing
import re
import signal
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import grain
from absl import flags

from data.loading.shared_memory import LoaderLock, pack_element, unpack_element
from data.sample import DataError
from data.waits import Table, tell_in
from data.workers import end_with_parent

logger = logging.getLogger(__name__)

#: Most restarts of the workers after one of them has died.
RESTARTS = 3
#: Number of elements without a death after which earlier deaths no longer count.
DEATHS_FORGIVEN_AFTER = 1000
#: Grain's message for a dead worker.
_DIED = re.compile(r"Worker process was terminated unexpectedly with exit code (-?\d+)")


class PrefetchIterator(Iterator[Any]):
    """Prefetched elements of a Grain data set; to be closed.

    No element is lost if a worker process dies, say because memory runs out: all workers are
    started again and continue after the last element that has been taken.

    Args:
        elements: the data set without as many first elements as have been taken; worker k of N
            makes its elements k, k + N, ...
        workers: number of processes; 0 for a thread of this one.
        buffer_size: number of elements that each worker prefetches.

    Raises (from `next`):
        DataError: workers died more often than `RESTARTS` times.
    """

    def __init__(
        self, elements: Callable[[int], grain.IterDataset], workers: int, buffer_size: int
    ) -> None:
        if workers and not flags.FLAGS.is_parsed():
            # Grain's worker processes read absl flags, which this program does not parse.
            flags.FLAGS.mark_as_parsed()
        self._elements, self._workers, self._buffer_size = elements, workers, buffer_size
        self._consumed, self._deaths, self._last_death = 0, 0, 0
        self._processes: set[Any] = set()
        self._others = set(multiprocessing.active_children())
        self._waits = Table() if workers else None
        self._shared = LoaderLock() if workers else None
        self._iterator = self._start_iterator()

    def _start_iterator(self) -> Any:
        """The elements that have not been taken."""
        elements = self._elements(self._consumed)
        if self._waits is None or self._shared is None:
            prefetched = grain.experimental.ThreadPrefetchIterDataset(
                elements, prefetch_buffer_size=self._buffer_size
            )
        else:
            # Grain's own shared memory has names that do not say whose it is.
            prefetched = elements.map(partial(pack_element, self._shared.begin)).mp_prefetch(
                grain.MultiprocessingOptions(
                    num_workers=self._workers, per_worker_buffer_size=self._buffer_size
                ),
                partial(_begin_work, self._waits.path),
            )
        iterator = prefetched.__iter__()
        if self._shared is not None:
            self._shared.list_semaphores()
        return iterator

    def __next__(self) -> Any:
        while True:
            try:
                element = next(self._iterator)
            except RuntimeError as error:
                self._restart_workers(error)
                continue
            self._consumed += 1
            if self._shared is None:
                return element
            if len(self._processes) < self._workers:
                self._processes = set(multiprocessing.active_children()) - self._others
                self._shared.list_semaphores()
            return unpack_element(element)

    def _restart_workers(self, error: RuntimeError) -> None:
        """Start the workers again after the death of one.

        Raises:
            RuntimeError: `error` has another cause. DataError: too many workers died.
        """
        died = _DIED.search(str(error))
        if died is None:
            raise error
        if self._consumed - self._last_death > DEATHS_FORGIVEN_AFTER:
            self._deaths = 0
        self._deaths, self._last_death = self._deaths + 1, self._consumed
        death = self._describe_death(int(died[1]))
        self._end_iterator()
        if self._deaths > RESTARTS:
            raise DataError(
                f"{death}, after workers had been started again {RESTARTS} times; where memory "
                "runs out, lower data.workers, data.prefetch or data.image.max_pixels"
            ) from error
        logger.warning(
            "%s; its batches are made again, the same ones (%d of %d times)",
            death,
            self._deaths,
            RESTARTS,
        )
        self._processes = set()
        self._iterator = self._start_iterator()

    def _describe_death(self, code: int) -> str:
        """Which worker died, and how."""
        pids = sorted(str(p.pid) for p in self._processes if p.exitcode == code)
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
        return f"a worker process of the loader ({', '.join(pids) or 'just started'}) {how}"

    def close(self) -> None:
        """Stop workers and threads; idempotent. After it, `next` raises StopIteration."""
        self._end_iterator()
        if self._shared is not None:
            self._shared.close()
        if self._waits is not None:
            self._waits.close()

    def _end_iterator(self) -> None:
        close = getattr(self._iterator, "close", None)
        if close is not None:
            close()
        # Grain's iterators close again in __del__, which must not wait for the interpreter's end.
        self._iterator = iter(())
        if self._shared is not None:
            self._shared.remove_elements()


def _begin_work(waits: str, number: int, count: int) -> None:
    """What a worker does first; Grain gives it its number."""
    del count
    end_with_parent()
    tell_in(waits, number)


class SlicedDataset(grain.IterDataset):
    """An endless stream, of which Grain's workers take every n-th element each."""

    def __init__(self) -> None:
        super().__init__()
        self.offset, self.stride = 0, 1

    def set_slice(self, sl: slice, sequential_slice: bool = False) -> None:
        """Keep only elements start, start + step, ... (called by Grain inside a worker)."""
        if sequential_slice or sl.stop is not None:
            raise ValueError(f"an endless stream cannot be cut into {sl}")
        self.offset, self.stride = sl.start, sl.step


class UnseekableIterator(grain.DatasetIterator):
    """An iterator whose state Grain's prefetching may read, but not set."""

    def __init__(self) -> None:
        super().__init__()
        _leave_interrupts_to_the_parent()
        self._count = 0

    def __next__(self) -> Any:
        self._count += 1
        return self.make_element()

    @abstractmethod
    def make_element(self) -> Any:
        """The next element."""

    def get_state(self) -> dict[str, Any]:
        """An empty state for Grain's prefetching; a run resumes from `LoaderState`."""
        return {"elements": self._count}

    def set_state(self, state: dict[str, Any]) -> None:
        """Raises ValueError: a new loader starts elsewhere."""
        if state != self.get_state():
            raise ValueError("a loader does not seek; make a new one with `state`")


def _leave_interrupts_to_the_parent() -> None:
    """Ignore SIGINT in a worker process; do nothing in any other process.

    Ctrl-C reaches the parent and its workers at once. The parent may want to finish its step and
    to save, for which it needs batches; when it closes the loader, its workers end.
    """
    worker = multiprocessing.parent_process() is not None
    if worker and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)

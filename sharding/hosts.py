"""Numbers from host to host, over the network of the devices.

One device of each process takes part. A transfer that is begun is only dispatched: it runs after
the earlier work of its devices, and no process waits before it asks for the answer. All processes
of a cluster must begin the same transfers in the same order; processes that are in no cluster
together need not know of each other's transfers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from itertools import chain, repeat
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from numpy.typing import NDArray

from sharding.collectives import all_to_all

Words = NDArray[np.int32]
AXIS = "host"


class PrepareProgram(Protocol):
    """Prepares a jitted program of that name: for all processes at once, if they need that."""

    def __call__(self, name: str, program: Any) -> Callable[..., jax.Array]:
        """The function to call instead of `program`."""


class WaitContext(Protocol):
    """The context of a wait for the other processes."""

    def __call__(self, what: str) -> AbstractContextManager[Any]:
        """The context of a wait for `what`, which may end the process if it takes too long."""


def _wait_endlessly(what: str) -> AbstractContextManager[Any]:
    """A wait that may take any time."""
    return nullcontext(what)


class ProcessGroup:
    """The processes of a run, or some of them, see `data.loading.on_read.HostGroup`.

    Sizes are rounded up to powers of two, so that few programs are compiled.

    Args:
        begin: prepares a program, so that all processes of the run have compiled it before any
            calls it; a network may allow processes little time to meet. Of a cluster of some
            processes only the first transfer is begun so; the others then have met.
        members: the processes, this one among them; None for all of the run.
        wait: context of every wait for an answer.

    Attributes:
        members: the processes, in the order of their numbers in the cluster.
    """

    def __init__(
        self,
        begin: PrepareProgram,
        members: Sequence[int] | None = None,
        wait: WaitContext = _wait_endlessly,
    ) -> None:
        every = tuple(range(jax.process_count()))
        self.members = every if members is None else tuple(members)
        self._begin, self._parted, self._wait = begin, self.members != every, wait
        self._room = 1024  # words that a process can send to all others at once

    @property
    def index(self) -> int:
        """Number of this process."""
        return self.members.index(jax.process_index())

    @property
    def count(self) -> int:
        """Number of processes."""
        return len(self.members)

    @cached_property
    def _host_mesh(self) -> Mesh:
        first = {device.process_index: device for device in reversed(jax.devices())}
        return Mesh(np.array([first[process] for process in self.members]), (AXIS,))

    def _make_global(self, words: Words) -> jax.Array:
        """`words`, `[1, ...]` on every process, as `[processes, ...]`."""
        sharding = NamedSharding(self._host_mesh, PartitionSpec(AXIS))
        return jax.make_array_from_process_local_data(sharding, words)

    def gather(self, numbers: Words) -> Callable[[], list[Words]]:
        """Begin to send `numbers`, `[n]`, to all processes; the result waits for each one's."""
        sent = self._share_numbers(numbers, self._room)

        def answer() -> list[Words]:
            with self._wait("numbers of all"):
                messages = np.asarray(sent.addressable_data(0))
            longest = int(messages[:, 0].max())
            if longest > self._room:
                # All processes see the same number here and make the same room.
                self._room = _power_of_two(longest)
                return self.gather(numbers)()
            return [message[1 : 1 + message[0]] for message in messages]

        return answer

    def _share_numbers(self, numbers: Words, room: int) -> jax.Array:
        """Every process's count of numbers, and its first `room` numbers."""
        message = np.zeros((1, 1 + room), np.int32)
        message[0, 0] = len(numbers)
        message[0, 1 : 1 + len(numbers)] = numbers[:room]
        return self._share_program(self._make_global(message))

    @cached_property
    def _share_program(self) -> Callable[[jax.Array], jax.Array]:
        """A program from `[processes, n]`, split over processes, to the same array on all."""
        everywhere = NamedSharding(self._host_mesh, PartitionSpec())
        program = jax.jit(lambda x: x, out_shardings=everywhere)
        begun = self._begin("numbers to all", program)
        return _call_once(begun, program) if self._parted else begun

    def exchange(
        self, parts: Sequence[Words], sizes: NDArray[np.int64]
    ) -> Callable[[], list[Words]]:
        """Begin to send `parts[j]` to process j; the result waits for the parts sent to this one.

        Args:
            parts: `[n]` for every process.
            sizes: words from process i to process j, `[i, j]`, the same on all processes.
        """
        most = int(sizes.max())
        if not most:
            return lambda: [np.zeros(0, np.int32) for _ in parts]
        message = np.zeros((1, self.count, _power_of_two(most)), np.int32)
        for process, words in enumerate(parts):
            message[0, process, : len(words)] = words
        received = self._exchange_program(self._make_global(message))

        def answer() -> list[Words]:
            with self._wait("samples from other hosts"):
                arrived = np.asarray(received.addressable_data(0))[0]
            return [words[:size] for words, size in zip(arrived, sizes[:, self.index], strict=True)]

        return answer

    @cached_property
    def _exchange_program(self) -> Callable[[jax.Array], jax.Array]:
        """A program from `[from, to, n]`, split over senders, to `[to, from, n]` over receivers."""

        def body(x: jax.Array) -> jax.Array:
            return jnp.expand_dims(all_to_all(x[0], (AXIS,)), 0)

        spec = PartitionSpec(AXIS)
        program = jax.jit(jax.shard_map(body, mesh=self._host_mesh, in_specs=spec, out_specs=spec))
        if self._parted:  # its sizes are of this cluster alone, and numbers went before
            return program
        return self._begin("samples to their hosts", program)


def _call_once(
    first: Callable[..., jax.Array], others: Callable[..., jax.Array]
) -> Callable[..., jax.Array]:
    """`first` for the first call, `rest` for all others."""
    calls = chain([first], repeat(others))
    return lambda *arguments: next(calls)(*arguments)


def _power_of_two(number: int) -> int:
    return 1 << (number - 1).bit_length()

"""Checks of the links: collectives within a host, and with the neighbours on both sides."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from numpy.typing import NDArray

from mllm_jax.health.devices import SIZES, place_of, timed
from mllm_jax.health.finding import Finding, per_second
from mllm_jax.runtime.part import peers, waiting
from mllm_jax.runtime.together import compiled_together

#: Name of the one axis of the devices.
ALL = "all"
#: Bytes that each device sends, where links are fast; on CPUs a part of it.
BYTES = 2**26
#: Runs a program on an array that lies over all devices.
Run = Callable[[Callable[..., Any], jax.Array], jax.Array]


def run(program: Callable[..., Any], x: jax.Array) -> jax.Array:
    """The result of a program, when this process has its part of it."""
    done = program(x)
    for shard in done.addressable_shards:
        shard.data.block_until_ready()
    result: jax.Array = done
    return result


def loopback(devices: Sequence[jax.Device], by: Run = run) -> Iterator[Finding]:
    """A sum over the devices of this process."""
    if len(devices) < 2:
        return
    mesh, size = Mesh(np.array(devices), (ALL,)), _size(devices)
    x = _placed(mesh, size)
    program = jax.jit(_mapped(mesh, lambda own: lax.psum(own, ALL), alike=True))
    wanted = np.sum([_sent(at, size) for at in range(len(devices))], axis=0, dtype=np.uint32)
    done = by(program, x)
    bad = [
        place_of(shard.device)
        for shard in done.addressable_shards
        if not np.array_equal(np.asarray(shard.data)[0], wanted)
    ]
    seconds = timed(lambda: by(program, x))
    rate = 2 * (len(devices) - 1) / len(devices) * 4 * size / seconds
    fault = f"a sum over the devices of the process is wrong on {', '.join(bad)}" if bad else ""
    place = f"devices of process {peers().index}"
    yield Finding("loopback", place, per_second(rate), rate, fault=fault)


def neighbours(devices: Sequence[jax.Device], by: Run = run) -> Iterator[Finding]:
    """Exchanges of every device of all processes with the ones before and behind it.

    Args:
        devices: those of all processes.
    """
    count = len(devices)
    if count < 2:
        return
    mesh, size = Mesh(np.array(devices), (ALL,)), _size(devices)
    x = _placed(mesh, size)
    for first in (0, 1):
        partner = _partners(count, first)
        moves = [(at, to) for at, to in enumerate(partner) if at != to]
        if not moves:
            continue
        name = f"exchange with neighbours, round {first}"
        body = _mapped(mesh, partial(lax.ppermute, axis_name=ALL, perm=moves))
        program = compiled_together(name, jax.jit(body))
        with waiting(name):
            done = by(program, x)
            seconds = timed(partial(by, program, x))
        yield from _received(done, devices, partner, 4 * size / seconds)


def _received(
    done: jax.Array, devices: Sequence[jax.Device], partner: Sequence[int], rate: float
) -> Iterator[Finding]:
    """A finding for every device of this process that has a partner."""
    numbers = {device: at for at, device in enumerate(devices)}
    for shard in done.addressable_shards:
        at = numbers[shard.device]
        if partner[at] == at:
            continue
        other, got = devices[partner[at]], np.asarray(shard.data)[0]
        wrong = int(np.count_nonzero(got != _sent(partner[at], got.size)))
        fault = f"{wrong} of {got.size} numbers have changed on the way" if wrong else ""
        link = f"link of device {other.id} to {place_of(shard.device)}"
        yield Finding("neighbours", link, per_second(rate), rate, fault=fault)


def _partners(count: int, first: int) -> list[int]:
    """By device, the one that it exchanges with: pairs from `first` on, around the end."""
    partner = list(range(count))
    for at in range(first, count - 1 + first, 2):
        left, right = at % count, (at + 1) % count
        if partner[left] == left and partner[right] == right and left != right:
            partner[left], partner[right] = right, left
    return partner


def _size(devices: Sequence[jax.Device]) -> int:
    """Numbers that each device sends."""
    small = devices[0].platform in SIZES
    return (BYTES // 16 if small else BYTES) // 4


def _sent(at: int, size: int) -> NDArray[np.uint32]:
    """What the device with that number sends."""
    return np.arange(size, dtype=np.uint32) * np.uint32(2654435761) + np.uint32(at)


def _placed(mesh: Mesh, size: int) -> jax.Array:
    """`[devices, size]`, a row on each device."""
    layout = NamedSharding(mesh, PartitionSpec(ALL))

    def row(index: tuple[slice, ...] | None) -> NDArray[np.uint32]:
        assert index is not None  # every device holds a row
        return _sent(index[0].start or 0, size)[None]

    return jax.make_array_from_callback((mesh.size, size), layout, row)


def _mapped(
    mesh: Mesh, body: Callable[[jax.Array], jax.Array], *, alike: bool = False
) -> Callable[..., Any]:
    """`body` on the row of each device; with `alike` all devices get the same."""
    spec = PartitionSpec(ALL)
    out = PartitionSpec() if alike else spec
    return jax.shard_map(body, mesh=mesh, in_specs=(spec,), out_specs=out)

"""Checks of the links: collectives within a host, and exchanges of neighbours, pair by pair.

Every device exchanges with the next one by number, the last with the first. Each pair has a time
of its own::

    devices    0   1   2   3 | 4   5   6   7      of two processes
    turn 0     0---1           4---5              pairs of different processes at the same time,
    turn 1         1---2           5---6          those of one process one after another
    turn 2             2---3           6---7
    turn 3                 3---4                  between processes
    turn 4     0---------------------------7

So the check takes as many turns as a process has pairs, and not longer with more processes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from numpy.typing import NDArray

from mllm_jax.config.hardware import of_kind
from mllm_jax.health.devices import SIZES, device_label, time_best
from mllm_jax.health.finding import HealthFinding, per_second
from mllm_jax.runtime.run_peers import current_peers, waiting_for_peers

#: Name of the one axis of the devices.
ALL = "all"
#: Bytes that each device sends, where links are fast; on CPUs a part of it.
BYTES = 2**26
#: Exchanges of one run of a program, whose start takes as long as some of them; an odd number,
#: so that each device ends with what the other one had.
EXCHANGES = 5
#: The host, or slice, of a device, and there the number of the part that fast links join.
Domain = tuple[int, int]
#: Links of one domain.
INSIDE = "links within domains"
#: Runs a program on an array that lies over its devices.
Run = Callable[[Callable[..., Any], jax.Array], jax.Array]


@dataclass(frozen=True)
class DeviceLink:
    """A link between two devices, by their numbers.

    Attributes:
        left, right: the numbers.
        compared_with: kind of links with which its rate is compared.
        sheet: bytes per second of its data sheet, if there is one.
    """

    left: int
    right: int
    compared_with: str
    sheet: float | None = None

    def other_end(self, at: int) -> int:
        """The device at the other end."""
        return self.left + self.right - at


def run_until_ready(program: Callable[..., Any], x: jax.Array) -> jax.Array:
    """The result of a program, when this process has its part of it."""
    output = program(x)
    for shard in output.addressable_shards:
        shard.data.block_until_ready()
    result: jax.Array = output
    return result


def check_loopback(
    devices: Sequence[jax.Device], runner: Run = run_until_ready
) -> Iterator[HealthFinding]:
    """A sum over the devices of this process."""
    if len(devices) < 2:
        return
    mesh, size = Mesh(np.array(devices), (ALL,)), _row_size(devices)
    x = _place_rows(mesh, range(len(devices)), size)
    program = jax.jit(_map_over_devices(mesh, lambda row: lax.psum(row, ALL), replicated=True))
    expected = np.sum([_row_of(at, size) for at in range(len(devices))], axis=0, dtype=np.uint32)
    output = runner(program, x)
    bad = [
        device_label(shard.device)
        for shard in output.addressable_shards
        if not np.array_equal(np.asarray(shard.data)[0], expected)
    ]
    seconds = time_best(lambda: runner(program, x))
    rate = 2 * (len(devices) - 1) / len(devices) * 4 * size / seconds
    fault = f"a sum over the devices of the process is wrong on {', '.join(bad)}" if bad else ""
    place = f"devices of process {current_peers().index}"
    yield HealthFinding("loopback", place, per_second(rate), rate, fault=fault)


def check_neighbours(
    devices: Sequence[jax.Device], runner: Run = run_until_ready
) -> Iterator[HealthFinding]:
    """Exchanges of every device of all processes with the ones before and after it.

    Args:
        devices: those of all processes.
    """
    size = _row_size(devices)
    links = [
        link for link in order_by_turn(list_links(devices), devices) if _is_local(link, devices)
    ]
    with current_peers().noting_activity("compiling exchanges with neighbours", limited=False):
        programs = [_compile_exchange(_link_mesh(link, devices), size) for link in links]
    current_peers().gather_values("exchanges with neighbours are compiled", None)
    for link, program in zip(links, programs, strict=True):
        x = _place_rows(_link_mesh(link, devices), (link.left, link.right), size)
        with waiting_for_peers(
            f"the exchange of devices {link.left} and {link.right}", by_all=False
        ):
            output = runner(program, x)
            seconds = time_best(partial(runner, program, x))
        yield from _received_findings(output, devices, link, EXCHANGES * 4 * size / seconds)


def list_links(devices: Sequence[jax.Device]) -> list[DeviceLink]:
    """The links of each device to the next one, and of the last to the first."""
    count, domains = len(devices), _device_domains(devices)
    hardware = of_kind(devices[0].device_kind)
    links = []
    for left in range(count if count > 2 else count - 1):
        right = (left + 1) % count
        link_group = _link_group(domains[left], domains[right])
        sheet = None
        if hardware:
            kind = hardware.link if link_group == INSIDE else hardware.network
            sheet = kind.bandwidth / kind.directions
        links.append(DeviceLink(left, right, link_group, sheet))
    return links


def _link_group(domain: Domain, other: Domain) -> str:
    """The kind of a link; kinds are judged separately, as some are slower by nature."""
    if domain == other:
        return INSIDE
    return "links within hosts" if domain[0] == other[0] else "links between hosts"


def _device_domains(devices: Sequence[jax.Device]) -> list[Domain]:
    """The domain of each device.

    JAX knows the host of a GPU, and the slice of a TPU; devices without that are their process's.
    """
    hardware, counts, domains = of_kind(devices[0].device_kind), Counter[int](), []
    for device in devices:
        host = getattr(device, "slice_index", device.process_index)
        domains.append((host, counts[host] // hardware.domain if hardware else 0))
        counts[host] += 1
    return domains


def order_by_turn(links: Sequence[DeviceLink], devices: Sequence[jax.Device]) -> list[DeviceLink]:
    """The links in an order in which no process waits for more than those of its neighbours.

    Each link has the first turn in which neither of its processes has another.
    """
    busy: defaultdict[int, set[int]] = defaultdict(set)
    turns = []
    for link in links:
        ends = {devices[at].process_index for at in (link.left, link.right)}
        busy_turns = set().union(*(busy[process] for process in ends))
        turn = min(set(range(len(busy_turns) + 1)) - busy_turns)
        for process in ends:
            busy[process].add(turn)
        turns.append((turn, link.left, link))
    return [link for *_, link in sorted(turns, key=lambda item: item[:2])]


def _is_local(link: DeviceLink, devices: Sequence[jax.Device]) -> bool:
    """Whether a device of this process has the link."""
    ends = (devices[link.left], devices[link.right])
    return any(device.process_index == jax.process_index() for device in ends)


def _link_mesh(link: DeviceLink, devices: Sequence[jax.Device]) -> Mesh:
    return Mesh(np.array([devices[link.left], devices[link.right]]), (ALL,))


def _compile_exchange(mesh: Mesh, size: int) -> Callable[..., Any]:
    """The compiled program in which two devices exchange their rows, `EXCHANGES` times."""

    def exchange_rows(row: jax.Array) -> jax.Array:
        swap = partial(lax.ppermute, axis_name=ALL, perm=[(0, 1), (1, 0)])
        return lax.fori_loop(0, EXCHANGES, lambda _, row: swap(row), row)

    sharding = NamedSharding(mesh, PartitionSpec(ALL))
    rows = jax.ShapeDtypeStruct((mesh.size, size), np.uint32, sharding=sharding)
    return jax.jit(_map_over_devices(mesh, exchange_rows)).lower(rows).compile()


def _received_findings(
    output: jax.Array, devices: Sequence[jax.Device], link: DeviceLink, rate: float
) -> Iterator[HealthFinding]:
    """A finding for every end of a link that this process has."""
    numbers = {devices[at]: at for at in (link.left, link.right)}
    for shard in output.addressable_shards:
        at = link.other_end(numbers[shard.device])
        received = np.asarray(shard.data)[0]
        wrong = int(np.count_nonzero(received != _row_of(at, received.size)))
        fault = f"{wrong} of {received.size} numbers have changed on the way" if wrong else ""
        place = f"link of device {devices[at].id} to {device_label(shard.device)}"
        summary = per_second(rate)
        ends = tuple({device.process_index: None for device in numbers})
        yield HealthFinding(
            "neighbours", place, summary, rate, link.sheet, fault, link.compared_with, ends
        )


def _row_size(devices: Sequence[jax.Device]) -> int:
    """Numbers that each device sends."""
    small = devices[0].platform in SIZES
    return (BYTES // 16 if small else BYTES) // 4


def _row_of(at: int, size: int) -> NDArray[np.uint32]:
    """The values that the device with that number sends."""
    return np.arange(size, dtype=np.uint32) * np.uint32(2654435761) + np.uint32(at)


def _place_rows(mesh: Mesh, numbers: Sequence[int], size: int) -> jax.Array:
    """`[devices, size]`, on each device the row of its number."""
    sharding = NamedSharding(mesh, PartitionSpec(ALL))

    def make_row(index: tuple[slice, ...] | None) -> NDArray[np.uint32]:
        assert index is not None  # every device holds a row
        return _row_of(numbers[index[0].start or 0], size)[None]

    return jax.make_array_from_callback((mesh.size, size), sharding, make_row)


def _map_over_devices(
    mesh: Mesh, body: Callable[[jax.Array], jax.Array], *, replicated: bool = False
) -> Callable[..., Any]:
    """`body` on the row of each device; if `replicated` all devices get the same."""
    spec = PartitionSpec(ALL)
    out = PartitionSpec() if replicated else spec
    return jax.shard_map(body, mesh=mesh, in_specs=(spec,), out_specs=out)

"""Accelerators as data: speeds and sizes of a chip and its links, and the fractions reached.

`mllm_jax.config.hardware` reads descriptions, YAML files, by name.
Figures are peaks of data sheets; `efficiency` says which fractions of them real layers and
collectives reach. Links are two-level: `domain` devices are joined by the fast `link` (NVLink,
the torus of a TPU slice), and domains by the `network`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from math import ceil
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

Positive = Annotated[float, Field(gt=0)]
Fraction = Annotated[float, Field(gt=0, le=1)]

#: Types of operands that `flops` may name.
TYPES = ("bfloat16", "float32", "float8", "int8")


#: Bytes of a device that a program cannot use: CUDA's context and NCCL's buffers, or the TPU's
#: runtime, take them.
RESERVED = {"cpu": 0, "gpu": 2 * 2**30, "tpu": 2**29}
#: Share of a GPU's memory that JAX takes for programs (`mllm_jax.runtime.hardware.gpu_memory`).
GPU_SHARE = 0.975

#: Chips of the shortest side of a TPU's torus (Google Cloud documentation, pages "TPU v4" and "TPU
#: v5p": sides that wrap around are multiples of four).
SIDE = 4


class HardwareError(ValueError):
    """A description of hardware that is missing, unknown or wrong."""


class _Data(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class HardwareLink(_Data):
    """A link between devices.

    Attributes:
        bandwidth: bytes per second that one device sends in a ring, over all its links together.
        latency: seconds of one hop of a ring, in addition to the transfer of its bytes.
        directions: number of directions in which a ring sends at the same time, each with an equal
            part of the bandwidth: 2 on an axis of a TPU's torus.
        axes: number of axes of the torus that the links form; None: switches join all devices.
    """

    bandwidth: Positive
    latency: Annotated[float, Field(ge=0)]
    directions: Literal[1, 2] = 1
    axes: Literal[1, 2, 3] | None = None

    def ring_seconds(self, data: float, devices: int, fraction: float = 1.0) -> float:
        """Seconds in which a ring of `devices` gathers, or scatters, `data` bytes.

        In two directions, half as many hops reach all devices ("How to scale your model", chapter
        on sharding).

        Args:
            data: bytes of the gathered array.
            devices: number of devices in the ring, at least 1.
            fraction: fraction of the bandwidth that is reached.
        """
        others = devices - 1
        hops = -(-others // self.directions)
        return hops * self.latency + data * others / devices / (self.bandwidth * fraction)

    def exchange_seconds(self, data: float, devices: int, fraction: float = 1.0) -> float:
        """Seconds of an all-to-all in which each of `devices` sends `data` bytes, as many to each.

        Switches carry the bytes of all pairs at the same time. In a torus bytes also pass the links
        between: round an axis of n devices, floor(n^2 / 4) / n links in the mean. The axes carry
        bytes at the same time, and the longest side of the group takes the most ("How to scale your
        model", chapter on sharding: V max(A, B, C) / (4 N W), with V = N `data`).

        Args:
            data: bytes that one device sends, those to itself included.
            devices: number of devices, at least 1.
            fraction: fraction of the bandwidth that is reached.
        """
        if self.axes is None:
            return self.ring_seconds(data, devices, fraction)
        side = self._longest_side(devices, self.axes)
        passed = side**2 // 4 / side
        return side // 2 * self.latency + data * passed / (self.bandwidth * fraction)

    @staticmethod
    def _longest_side(devices: int, axes: int) -> int:
        """Longest side of a group in a torus, as nearly a cube as multiples of four can be."""
        return max(min(devices, SIDE), ceil(round(devices ** (1 / axes), 6)))

    def send_seconds(self, data: float) -> float:
        """Seconds in which `data` bytes reach a neighbour, in one direction."""
        return self.latency + data * self.directions / self.bandwidth

    def with_fraction(self, fraction: float) -> HardwareLink:
        """The link with a `fraction` of its bandwidth."""
        return self.model_copy(update={"bandwidth": self.bandwidth * fraction})


class Efficiency(_Data):
    """Fractions of the peaks that are reached.

    Attributes:
        matmul: fraction of the peak FLOP/s that products with parameters reach.
        attention: fraction of the peak FLOP/s that the products of attention reach.
        memory: fraction of the memory bandwidth that all other operations reach.
        rows: fraction of the memory bandwidth that gathers of rows in any order reach; None: that
            of `memory`. CPUs reach much less.
        link, network: fractions of the links' bandwidths that collectives reach.
        layer_seconds: seconds that a layer's forward, or backward, takes in addition.
    """

    matmul: Fraction
    attention: Fraction
    memory: Fraction
    link: Fraction
    network: Fraction
    layer_seconds: Annotated[float, Field(ge=0)] = 0.0
    rows: Fraction | None = None


class Hardware(_Data):
    """A kind of device, and the number of devices that its links join.

    Attributes:
        name: name of the file without its suffix.
        title: name for people.
        platform: JAX's name of the platform.
        kinds: prefixes of `jax.Device.device_kind`.
        flops: peak dense FLOP/s of one device by type of the operands, one of `TYPES`.
        memory: bytes of one device's memory.
        memory_bandwidth: bytes per second between a device and its memory.
        host: number of devices of one host.
        domain: number of devices joined by `link`: one NVLink domain, the largest TPU slice.
        link, network: the links within a domain and between domains.
        efficiency: fractions of these peaks that are reached.
        topology: name of a TPU's slices for its compiler, as `launch.py compile` uses it: `v5p`.
        target_config: description of a GPU for its compiler, as text of XLA's
            `GpuTargetConfigProto`.
    """

    name: str
    title: str
    platform: Literal["cpu", "gpu", "tpu"]
    kinds: tuple[str, ...]
    flops: Mapping[str, Positive]
    memory: Positive
    memory_bandwidth: Positive
    host: Annotated[int, Field(ge=1)]
    domain: Annotated[int, Field(ge=1)]
    link: HardwareLink
    network: HardwareLink
    efficiency: Efficiency
    topology: str | None = None
    target_config: str | None = None

    @property
    def cores(self) -> int | None:
        """Streaming multiprocessors of a GPU; None without a `target_config` for its compiler."""
        match = re.search(r"core_count: (\d+)", self.target_config or "")
        return int(match[1]) if match else None

    @property
    def usable_memory(self) -> float:
        """Bytes of one device that a program may use."""
        return self.room_within(GPU_SHARE)

    def room_within(self, share: float) -> float:
        """Bytes of one device that a program may use, if JAX takes this share of a GPU's memory."""
        free = self.memory - RESERVED[self.platform]
        return min(free, share * self.memory) if self.platform == "gpu" else free

    @field_validator("flops")
    @classmethod
    def _check_types(cls, flops: Mapping[str, float]) -> Mapping[str, float]:
        if wrong := [name for name in flops if name not in TYPES]:
            raise ValueError(f"{', '.join(wrong)}: unknown type; valid: {', '.join(TYPES)}")
        if not flops:
            raise ValueError(f"names no type; valid: {', '.join(TYPES)}")
        return flops

    @property
    def gather_bandwidth(self) -> float:
        """Bytes per second that are read and written when rows are gathered in any order."""
        efficiency = self.efficiency
        return self.memory_bandwidth * (
            efficiency.memory if efficiency.rows is None else efficiency.rows
        )

    @property
    def reached_link(self) -> HardwareLink:
        """`link` with the bandwidth that collectives reach."""
        return self.link.with_fraction(self.efficiency.link)

    @property
    def reached_network(self) -> HardwareLink:
        """`network` with the bandwidth that collectives reach."""
        return self.network.with_fraction(self.efficiency.network)

    def peak_flops(self, dtype: str) -> float:
        """Peak FLOP/s of products in `dtype`.

        Raises:
            HardwareError: the description has no peak for `dtype`.
        """
        if dtype not in self.flops:
            valid = ", ".join(sorted(self.flops))
            raise HardwareError(
                f"model.dtype: {dtype} has no speed in hardware {self.name}; valid: {valid}"
            )
        return self.flops[dtype]

    def group_seconds(self, data: float, devices: int, span: int) -> float:
        """Seconds of an all-gather, or a reduce-scatter, of `data` bytes; see `digits_seconds`.

        Args:
            data: bytes of the full array.
            devices: number of devices in the group, evenly spaced.
            span: number of devices from the group's first to its last, in their numbering.
        """
        return self._two_levels(data, devices, self._count_inside(devices, span))

    def digits_seconds(self, data: float, spans: Iterable[tuple[int, int]]) -> float:
        """Seconds of an all-gather, or a reduce-scatter, of `data` bytes.

        Within a domain it is one ring. A group that spans domains works in two levels (as NCCL and
        XLA do): rings within each domain, and between the domains rings of the devices that hold
        the same share, all domains' devices at the same time. Groups are taken to start where a
        domain does.

        Args:
            data: bytes of the full array.
            spans: digits of the devices' numbers that differ within the group, see
                `sharding.numbering`.
        """
        return self._two_levels(data, *self._count_devices(spans))

    def exchange_seconds(self, data: float, spans: Iterable[tuple[int, int]]) -> float:
        """Seconds of an all-to-all in which every device sends `data` bytes, as many to each.

        Every pair of devices has other bytes. So no device fetches for its domain, as in a
        gather: all bytes for other domains cross the network, and the others the links, one after
        the other. Messages to a domain are sent as one (NCCL 2.12, "Doubling all2all performance").

        Args:
            data: bytes that one device sends, those to itself included.
            spans: as of `digits_seconds`.
        """
        devices, inside = self._count_devices(spans)
        if devices == 1 or data == 0:
            return 0.0
        outside, efficiency = -(-devices // inside), self.efficiency
        near = self.link.exchange_seconds(data / outside, inside, efficiency.link)
        return near + self.network.exchange_seconds(data, outside, efficiency.network)

    def _count_devices(self, spans: Iterable[tuple[int, int]]) -> tuple[int, int]:
        """Number of a group's devices, and of those that share a domain."""
        devices = inside = 1
        for low, high in spans:
            devices *= high // low
            inside *= self._count_inside(high // low, high)
        return devices, inside

    def _two_levels(self, data: float, devices: int, inside: int) -> float:
        if devices == 1 or data == 0:
            return 0.0
        outside = -(-devices // inside)
        seconds, efficiency = 0.0, self.efficiency
        if inside > 1:
            seconds += self.link.ring_seconds(data, inside, efficiency.link)
        if outside > 1:
            seconds += self.network.ring_seconds(data / inside, outside, efficiency.network)
        return seconds

    def _count_inside(self, devices: int, span: int) -> int:
        """Number of a group's devices that share a domain."""
        if span <= self.domain:
            return devices
        # Rounded up: three devices that are 8 apart span 17.
        stride = -(-span // devices)
        return max(1, self.domain // stride)

    def send_seconds(self, data: float, distance: int) -> float:
        """Seconds in which one device sends `data` bytes to another, `distance` numbers away."""
        link = self.reached_link if distance < self.domain else self.reached_network
        return link.send_seconds(data)

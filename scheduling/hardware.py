"""Accelerators as data: what a chip computes, holds and sends, and how much of that is reached.

A description is a YAML file in `configs/hardware/`, or one that `launch.py calibrate` has written.
Figures are peaks of data sheets; `efficiency` says which fractions of them real layers and
collectives reach. Links are two-level: `domain` devices are joined by the fast `link` (NVLink,
the torus of a TPU slice), and domains by the `network`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

FOLDER = Path(__file__).resolve().parents[1] / "configs" / "hardware"

Positive = Annotated[float, Field(gt=0)]
Fraction = Annotated[float, Field(gt=0, le=1)]


class HardwareError(ValueError):
    """A description of hardware that is missing, unknown or wrong."""


class _Data(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Link(_Data):
    """What joins devices.

    Attributes:
        bandwidth: bytes per second that one device sends in a ring, all its links together.
        latency: seconds that one step of a ring takes beside its bytes.
    """

    bandwidth: Positive
    latency: Annotated[float, Field(ge=0)]

    def ring_seconds(self, data: float, devices: int) -> float:
        """Seconds in which a ring of `devices` gathers, or scatters, `data` bytes.

        Args:
            data: bytes of the whole, gathered array.
        """
        steps = devices - 1
        return steps * self.latency + data * steps / devices / self.bandwidth


class Efficiency(_Data):
    """Fractions of the peaks that are reached.

    Attributes:
        matmul: of the peak FLOP/s, by products with parameters.
        attention: of the peak FLOP/s, by attention's own products.
        memory: of the memory bandwidth, by what is no product.
        link, network: of the links' bandwidths, by collectives.
        layer_seconds: what a layer takes beside that, forward or backward.
    """

    matmul: Fraction
    attention: Fraction
    memory: Fraction
    link: Fraction
    network: Fraction
    layer_seconds: Annotated[float, Field(ge=0)] = 0.0


class Hardware(_Data):
    """One kind of device and how many of them are joined.

    Attributes:
        name: of the file.
        title: as people call it.
        platform: what JAX calls it.
        kinds: how `jax.Device.device_kind` starts.
        flops: peak dense FLOP/s of one device by type of the operands.
        memory: bytes of one device.
        memory_bandwidth: bytes per second.
        host: devices of one host.
        domain: devices joined by `link`: one NVLink domain, one TPU slice.
        link, network: within a domain and between domains.
        efficiency: what is reached of all that.
        topology: how `launch.py compile` names slices of a TPU to its compiler, e.g. `v5p`.
        target_config: a GPU for its compiler, as text of XLA's `GpuTargetConfigProto`.
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
    link: Link
    network: Link
    efficiency: Efficiency
    topology: str | None = None
    target_config: str | None = None

    @property
    def reached_link(self) -> Link:
        """`link` with the bandwidth that collectives reach."""
        return Link(bandwidth=self.link.bandwidth * self.efficiency.link, latency=self.link.latency)

    @property
    def reached_network(self) -> Link:
        """`network` with the bandwidth that collectives reach."""
        return Link(
            bandwidth=self.network.bandwidth * self.efficiency.network,
            latency=self.network.latency,
        )

    def group_seconds(self, data: float, devices: int, span: int) -> float:
        """Seconds of an all-gather, or a reduce-scatter, of `data` bytes.

        Within a domain it is one ring. A group that spans domains works in two levels (as NCCL and
        XLA do): rings within each domain, and between the domains rings of the devices that hold
        the same share, all domains' devices at the same time.

        Args:
            data: bytes of the whole array.
            devices: in the group.
            span: devices from the group's first to its last, as they are numbered.
        """
        if devices == 1 or data == 0:
            return 0.0
        stride = max(1, span // devices)
        inside = min(devices, max(1, self.domain // stride)) if span > self.domain else devices
        outside = devices // inside
        seconds = self.reached_link.ring_seconds(data, inside) if inside > 1 else 0.0
        if outside > 1:
            seconds += self.reached_network.ring_seconds(data / inside, outside)
        return seconds

    def send_seconds(self, data: float, distance: int) -> float:
        """Seconds in which one device sends `data` bytes to another, `distance` numbers away."""
        link = self.reached_link if distance < self.domain else self.reached_network
        return link.latency + data / link.bandwidth


@cache
def named(name: str) -> Hardware:
    """The description in `configs/hardware/<name>.yaml`, or in the file of that path.

    Raises:
        HardwareError: there is none, or it is wrong.
    """
    path = Path(name) if name.endswith((".yaml", ".yml")) else FOLDER / f"{name}.yaml"
    if not path.is_file():
        raise HardwareError(
            f"hardware {name!r} is unknown; valid: {', '.join(names())}, or a file that "
            "`launch.py calibrate` has written"
        )
    return read(path)


def names() -> list[str]:
    """The shipped descriptions."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def read(path: Path) -> Hardware:
    """The description in a YAML file.

    Raises:
        HardwareError: it is no description; the message says which key is wrong and why.
    """
    try:
        return Hardware.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except yaml.YAMLError as error:
        raise HardwareError(f"{path}: is not YAML: {error}") from None
    except ValidationError as error:
        problems = [
            f"{'.'.join(map(str, detail['loc']))}: {detail['msg']}"
            for detail in error.errors(include_url=False)
        ]
        raise HardwareError(f"{path}: {'; '.join(problems)}") from None


def of_kind(device_kind: str) -> Hardware | None:
    """The shipped description of a `jax.Device.device_kind`, None if there is none.

    Where one kind starts another, the longer one counts.
    """
    found = [
        (len(kind), hardware)
        for hardware in map(named, names())
        for kind in hardware.kinds
        if device_kind.startswith(kind)
    ]
    return max(found, key=lambda pair: pair[0])[1] if found else None

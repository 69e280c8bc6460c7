"""Probes: a fixed amount of work on the host and on every device of this process, timed.

Emulated devices share the cores of their host, so that none is slower than another by itself: only
the host is probed.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from statistics import median

import jax
import jax.numpy as jnp

#: Bytes that the host's probe digests.
BYTES = 2**20
#: Size of the matrices of the devices' probe, and how often they are multiplied, by platform.
PRODUCTS = {"cpu": (128, 8)}
ACCELERATOR = 2048, 32
#: Times that a probe is repeated; their median counts.
REPEATS = 5


class DeviceProbes:
    """The probes of this process.

    Args:
        devices: devices to probe; None: those of this process, if they are not emulated.
    """

    def __init__(self, devices: Sequence[jax.Device] | None = None) -> None:
        real = [device for device in jax.local_devices() if device.platform != "cpu"]
        self._devices = real if devices is None else devices
        self._bytes = bytes(BYTES)

    def time_host(self) -> float:
        """Seconds of a digest on one core of the host."""
        return _time_work(lambda: hashlib.sha256(self._bytes).digest())

    def time_devices(self) -> list[float]:
        """Seconds of a few products of matrices on each device, whose queue must be empty."""
        return [_time_work(work) for work in self._probe_products]

    @cached_property
    def names(self) -> list[str]:
        """Names of the devices."""
        return [f"device {device.id}" for device in self._devices]

    @cached_property
    def _probe_products(self) -> list[Callable[[], object]]:
        """For each device a compiled function that does its work."""
        if not self._devices:
            return []
        size, times = PRODUCTS.get(self._devices[0].platform, ACCELERATOR)
        dtype = jnp.float32 if size < ACCELERATOR[0] else jnp.bfloat16

        @jax.jit
        def products(matrix: jax.Array) -> jax.Array:
            for _ in range(times):
                matrix = matrix @ matrix
            return matrix

        def run_products(matrix: jax.Array) -> None:
            products(matrix).block_until_ready()

        one = jnp.eye(size, dtype=dtype)
        matrices = [jax.device_put(one, device) for device in self._devices]
        for matrix in matrices:
            run_products(matrix)
        return [partial(run_products, matrix) for matrix in matrices]


def _time_work(work: Callable[[], object]) -> float:
    """Seconds of `work`, in the median of a few times."""
    seconds = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return median(seconds)

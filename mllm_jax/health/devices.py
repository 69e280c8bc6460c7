"""Checks of single devices: products whose bits are known, and the bandwidths of their memory.

Products of matrices of small integers are exact in every type and in every order of summation,
so each of their bits is known: a device that computes wrongly without any error shows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from mllm_jax.config.hardware import of_kind
from mllm_jax.health.finding import HealthFinding, per_second
from mllm_jax.runtime.run_peers import current_peers

Multiply = Callable[[jax.Array, jax.Array], jax.Array]

#: Size of the matrices, and bytes that are moved, by platform.
SIZES = {"cpu": (256, 2**24)}
ACCELERATOR = 2048, 2**28
#: Largest number in a matrix; sums of 2048 products stay below 2**24, up to which float32 is exact.
LARGEST = 8
#: Types of the matrices; products are summed in float32.
TYPES = ("float32", "bfloat16")
#: Products of each type, of other numbers each time, and repetitions of what is timed.
TIMES, REPEATS = 3, 7


def device_label(device: jax.Device) -> str:
    """Name of a device of this process."""
    group = current_peers()
    return f"device {device.id} ({device.device_kind}) of process {group.index}"


@jax.jit
def multiply_matrices(left: jax.Array, right: jax.Array) -> jax.Array:
    """The product of two matrices, in float32."""
    return jnp.matmul(left, right, preferred_element_type=jnp.float32)


def check_products(
    devices: Sequence[jax.Device], product: Multiply = multiply_matrices
) -> Iterator[HealthFinding]:
    """Whether every bit of some products is right on each device.

    Args:
        product: multiplies on the device where its arguments are.
    """
    size, _ = SIZES.get(devices[0].platform, ACCELERATOR)
    cases = [(dtype, *_whole_matrices(size, seed)) for dtype in TYPES for seed in range(TIMES)]
    for device in devices:
        faults = [fault for case in cases if (fault := _find_wrong(device, product, *case))]
        summary = f"{len(cases)} products [{size}, {size}] are right in every bit"
        yield HealthFinding(
            "products", device_label(device), summary, fault=faults[0] if faults else ""
        )


def _whole_matrices(size: int, seed: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Two matrices of integers, and their product."""
    random = np.random.default_rng(seed)
    left, right = random.integers(-LARGEST, LARGEST + 1, (2, size, size)).astype(np.float64)
    return left, right, (left @ right).astype(np.float32)


def _find_wrong(
    device: jax.Device,
    product: Multiply,
    dtype: str,
    left: NDArray[Any],
    right: NDArray[Any],
    expected: NDArray[Any],
) -> str:
    """The error of a product; empty if there is none."""
    operands = [jax.device_put(x.astype(jnp.dtype(dtype)), device) for x in (left, right)]
    return describe_wrong_bits(dtype, np.asarray(product(*operands)), expected)


def describe_wrong_bits(dtype: str, product: NDArray[Any], expected: NDArray[Any]) -> str:
    """The errors of a product of matrices of that type; empty if every bit is right."""
    bad = np.argwhere(product.view(np.uint32) != expected.view(np.uint32))
    if not len(bad):
        return ""
    row, column = bad[0]
    return (
        f"{len(bad)} of {product.size} numbers of a product of {dtype} matrices are wrong, the "
        f"first at [{row}, {column}]: {product[row, column]:g}, not {expected[row, column]:g}"
    )


def time_best(work: Callable[[], object]) -> float:
    """Least seconds of `work`, as other work on a machine only slows it."""
    seconds = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    return min(seconds)


@jax.jit
def _add_one(x: jax.Array) -> jax.Array:
    return x + 1


def _copy_array(x: jax.Array) -> None:
    _add_one(x).block_until_ready()


def _send_data(data: NDArray[Any], device: jax.Device) -> None:
    jax.device_put(data, device).block_until_ready()


def check_memory(
    devices: Sequence[jax.Device], clock: Callable[[Callable[[], object]], float] = time_best
) -> Iterator[HealthFinding]:
    """Bytes per second that each device reads and writes in its memory.

    Args:
        clock: gives the seconds of some work.
    """
    _, size = SIZES.get(devices[0].platform, ACCELERATOR)
    for device in devices:
        x = jax.device_put(np.zeros(size // 4, np.float32), device)
        rate = 2 * size / clock(partial(_copy_array, x))
        hardware = of_kind(device.device_kind)
        sheet = hardware.memory_bandwidth if hardware else None
        yield HealthFinding("memory", device_label(device), per_second(rate), rate, sheet)


def check_host_transfer(
    devices: Sequence[jax.Device], clock: Callable[[Callable[[], object]], float] = time_best
) -> Iterator[HealthFinding]:
    """Bytes per second from the host to each device, and whether they come back as they were."""
    _, size = SIZES.get(devices[0].platform, ACCELERATOR)
    data = np.random.default_rng(0).integers(0, 2**32, size // 4, np.uint32)
    for device in devices:
        rate = size / clock(partial(_send_data, data, device))
        yield HealthFinding(
            "host to device",
            device_label(device),
            per_second(rate),
            rate,
            fault=_find_changes(data, device),
        )


def _find_changes(data: NDArray[np.uint32], device: jax.Device) -> str:
    """The changes of values sent to a device and back; empty without any."""
    bad = np.flatnonzero(np.asarray(jax.device_put(data, device)) != data)
    if not len(bad):
        return ""
    return f"{len(bad)} of {data.size} numbers have changed on the way to the device and back"

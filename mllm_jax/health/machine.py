"""Checks of machines: the disk of the run, clocks, and the versions of all packages."""

from __future__ import annotations

import os
import platform
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

import numpy as np

from mllm_jax.health.finding import HealthFinding, per_second
from mllm_jax.runtime.agreement import installed_versions, list_differences
from mllm_jax.runtime.folder import FREE_BYTES
from mllm_jax.runtime.run_peers import current_peers

#: Bytes that are written to the disk and read again.
BYTES = 2**23
#: Bytes per second below which a disk is too slow for checkpoints.
SLOWEST = 10e6
#: Seconds by which a clock may be from the median of all, and how often they are compared.
SKEW, TIMES = 0.5, 5
#: Packages that differ and are told.
SHOWN = 5


def machine_label() -> str:
    """Name of this process and its machine."""
    return f"process {current_peers().index} (host {platform.node()})"


def check_disk(folder: Path) -> Iterator[HealthFinding]:
    """Whether the folder of the run has room, takes data fast enough, and gives them back."""
    place, file = (
        f"{folder} of {machine_label()}",
        folder / f".checked-{os.getpid()}-{platform.node()}",
    )
    data = np.random.default_rng(0).bytes(BYTES)
    try:
        rate = BYTES / _time_write(file, data)
        same = file.read_bytes() == data
        free = shutil.disk_usage(folder).free
    except OSError as error:
        yield HealthFinding("disk", place, fault=f"cannot be written: {error.strerror}")
        return
    finally:
        file.unlink(missing_ok=True)
    summary = f"{per_second(rate)}, {free / 2**30:.1f} GiB free"
    yield HealthFinding("disk", place, summary, fault=_fault_of_disk(rate, free, same))


def _time_write(file: Path, data: bytes) -> float:
    """Seconds in which data are written, and are on the disk."""
    began = time.perf_counter()
    with file.open("wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())
    return time.perf_counter() - began


def _fault_of_disk(rate: float, free: float, same: bool) -> str:
    if not same:
        return "what was written is not what is read"
    if free < FREE_BYTES:
        return f"{free / 2**20:.0f} MiB are free; logs alone need {FREE_BYTES / 2**20:.0f} MiB"
    if rate < SLOWEST:
        return f"writes {per_second(rate)}; checkpoints need at least {per_second(SLOWEST)}"
    return ""


def check_clock(now: Callable[[], float] = time.time) -> Iterator[HealthFinding]:
    """How far this machine's clock is from the median of all.

    All processes read their clocks once they have met; messages take much less
    than `SKEW`. Which of two clocks is wrong is unknown: both are named.
    """
    skews = []
    for number in range(TIMES):
        current_peers().gather_values(f"clocks are looked at, {number}", None)
        readings = current_peers().gather_values(f"clocks, {number}", reading := now())
        skews.append(reading - median(readings))
    skew = median(skews)
    summary = f"{1e3 * skew:+.0f} ms from the median of all"
    yield HealthFinding("clock", machine_label(), summary, fault=fault_of_clock(skew))


def fault_of_clock(skew: float) -> str:
    """The fault of a clock that is `skew` seconds from the median of all; empty without one."""
    return f"its clock is {skew:+.1f} s from the median of all" if abs(skew) > SKEW else ""


def check_packages(
    installed: Callable[[], dict[str, str]] = installed_versions,
) -> Iterator[HealthFinding]:
    """Whether this process has the packages that most processes have, all in the same version."""
    versions = current_peers().gather_values("packages", installed())
    prefix = f"process {current_peers().index} has "
    differences = [
        line.removeprefix(prefix) for line in list_differences(versions) if line.startswith(prefix)
    ]
    more = f" and {len(differences) - SHOWN} more" if len(differences) > SHOWN else ""
    fault = f"has {'; '.join(differences[:SHOWN])}{more}" if differences else ""
    summary = f"{len(versions[current_peers().index])} packages"
    if len(versions) > 1:
        summary += ", as all processes have them"
    yield HealthFinding("packages", machine_label(), summary, fault=fault)

"""The peak FLOP/s of a device, against which MFU is reported: one for each kind of device.

That of an accelerator is in configs/hardware/. That of a CPU is the best that any process has
measured on the machine, and stored: what a busy machine reaches is no peak, whether first or later.
"""

from __future__ import annotations

import logging
import os
import platform
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np

from mllm_jax.config.hardware import of_kind
from mllm_jax.runtime.compiled.cache import cpu_kind, user_caches
from mllm_jax.runtime.records import (
    INT,
    KNOWN_NUMBER,
    TEXT,
    RecordDamageError,
    RecordSchema,
    read_record,
    record_document,
    write_atomically,
)

logger = logging.getLogger(__name__)

#: Type of the operands of a CPU's peak, and of that of other devices.
CPU_TYPE, TYPE = "float32", "bfloat16"
#: Seconds for which a CPU is measured, and the fewest products: at first, and to compare with the
#: stored rate.
_FIRST, _AGAIN = (0.25, 4), (0.05, 2)
#: Factor by which a better rate replaces the stored one: below it lies noise.
_BETTER = 1.05
_FORM = RecordSchema({"flops": KNOWN_NUMBER, "cpu": TEXT, "cores": INT})


@dataclass(frozen=True)
class DevicePeak:
    """The peak of one device, or of the host where emulated devices share it.

    Attributes:
        of: what it is the peak of: equal texts are equal devices.
        flops: FLOP/s.
        source: where the number comes from, in words.
    """

    of: str
    flops: float
    source: str

    def to_json(self) -> dict[str, Any]:
        """As stored with a run."""
        return {"of": self.of, "flops": self.flops, "source": self.source}

    def flops_of_device(self, device: jax.Device) -> float:
        """FLOP/s of one device; emulated ones have their parts of the host's."""
        return self.flops / jax.local_device_count() if device.platform == "cpu" else self.flops

    def __str__(self) -> str:
        return f"{self.of}: {self.flops / 1e12:.3g} TFLOP/s {self.source}"


def device_peak(device: jax.Device) -> DevicePeak | None:
    """The peak of a device, dense; None for one that configs/hardware/ lacks, which is logged once.

    Raises:
        HardwareError: configs/hardware/ is missing or wrong.
    """
    if device.platform == "cpu":
        return host_peak()
    hardware = of_kind(device.device_kind)
    if hardware is None:
        _warn_of_unknown(device.device_kind)
        return None
    source = f"({TYPE}, configs/hardware/{hardware.name}.yaml)"
    return DevicePeak(hardware.title, hardware.flops[TYPE], source)


def peak_flops(device: jax.Device) -> float | None:
    """FLOP/s of `peak`, of one device; None where it is not known."""
    peak = device_peak(device)
    return None if peak is None else peak.flops_of_device(device)


@cache
def _warn_of_unknown(kind: str) -> None:
    logger.warning(
        "the peak FLOP/s of device kind %r is not known, so MFU is not reported; describe the "
        "device in configs/hardware/ (docs/reference/hardware.md)",
        kind,
    )


@cache
def host_peak() -> DevicePeak:
    """The best that a matrix product has reached on all cores that this process may use."""
    cpu, cores = cpu_name(), len(os.sched_getaffinity(0))
    file = user_caches() / f"peak-{cpu_kind().partition('-')[2]}-{cores}-cores.json"
    stored = _read_stored(file, cpu, cores)
    measured = _measure_flops(*(_FIRST if stored is None else _AGAIN))
    flops, source = stored, f"({CPU_TYPE}, the best measured here, stored in {file})"
    if flops is None or measured > _BETTER * flops:
        flops = measured
        source = _store_number(file, {"flops": flops, "cpu": cpu, "cores": cores}, source)
    return DevicePeak(f"{cores} cores of {cpu}", flops, source)


def _read_stored(file: Path, cpu: str, cores: int) -> float | None:
    """Return the number in a file, if it is of this CPU."""
    try:
        record = read_record(file, _FORM)
    except FileNotFoundError:
        return None
    except (RecordDamageError, OSError) as error:
        logger.warning("%s: the peak of this CPU is measured again: %s", file, error)
        return None
    same = (record["cpu"], record["cores"]) == (cpu, cores) and record["flops"] > 0
    return float(record["flops"]) if same else None


def _store_number(file: Path, values: dict[str, Any], source: str) -> str:
    """Store a number that was measured; return where the number comes from."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, record_document(values), part=f".{file.name}-{os.getpid()}")
    except OSError as error:
        logger.warning("%s: the peak of this CPU cannot be stored: %s", file, error)
        return f"({CPU_TYPE}, measured by this process)"
    logger.info(
        "the peak of %d cores of this CPU is %.3g GFLOP/s, stored for MFU in %s until a process "
        "measures more",
        *(values["cores"], values["flops"] / 1e9, file),
    )
    return source


def _measure_flops(seconds: float, products: int, size: int = 1024) -> float:
    """Best rate of a float32 `[size, size]` product on the host in FLOP/s."""
    matrix = np.ones((size, size), np.float32)
    best, until, count = float("inf"), time.perf_counter() + seconds, 0
    while count < products or time.perf_counter() < until:
        begin = time.perf_counter()
        matrix @ matrix
        best, count = min(best, time.perf_counter() - begin), count + 1
    return 2 * size**3 / best


def cpu_name() -> str:
    """The name of this machine's CPU."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()

"""`launch.py calibrate`: the constants of the cost model, measured on the machine at hand.

Devices that configs/hardware/ describes keep the peaks of their description. Peaks of other
devices, CPUs among them, are the best measured large product and the best measured large copy.
Which fractions of the peaks a step reaches is fitted to real layers, to the optimizer and to real
collectives (`mllm_jax.calibrate.probes`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
import yaml

from mllm_jax.calibrate.probes import (
    TimedProbe,
    collective_probes,
    gather_probes,
    layer_probes,
    make_copy,
    make_matmul,
    update_probe,
)
from mllm_jax.calibrate.timing import lower_quartiles, time_samples
from mllm_jax.config.configured_step import on_platform
from mllm_jax.config.hardware import of_kind
from mllm_jax.config.load import ExperimentConfig
from mllm_jax.runtime.devices import is_primary
from mllm_jax.runtime.folder import prepare_folder
from scheduling.costs.fit import MeasuredTime, fit_efficiency, fit_link, fit_rows
from scheduling.costs.hardware import Efficiency, Hardware, HardwareError, HardwareLink

#: Repetitions of every program; the lower quartile counts, and the best for peaks.
REPETITIONS = 9
#: Efficiency assumed for an unknown device where the times do not determine it.
USUAL = Efficiency(matmul=0.8, attention=0.3, memory=0.8, link=1.0, network=1.0)
#: A link of an unknown device that has nothing to be joined to. Assumed.
UNKNOWN_LINK = HardwareLink(bandwidth=1e9, latency=1e-5)

#: Shows a line of progress.
Notify = Callable[[str], None]


@dataclass(frozen=True)
class HardwareCalibration:
    """Measured times, and the constants that were fitted to them.

    Attributes:
        hardware: the description.
        timed: the measured times.
        unfitted: constants that the times do not tell, as they were assumed or described before.
        bounds: constants that were left at a bound, beyond which the times would have had them.
    """

    hardware: Hardware
    timed: Sequence[MeasuredTime]
    unfitted: tuple[str, ...]
    bounds: Mapping[str, float]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """`{"what", "measured", "fitted", "error"}` of every time, in seconds and as a fraction."""
        rows = []
        for timed in self.timed:
            fitted = timed.predict(self.hardware)
            error = fitted / timed.seconds - 1
            rows.append(
                {"what": timed.name, "measured": timed.seconds, "fitted": fitted, "error": error}
            )
        return rows

    @property
    def constants(self) -> dict[str, float]:
        """Measured or fitted constants, by their keys in the file."""
        hardware, dtype = self.hardware, next(iter(self.hardware.flops))
        values = {
            f"flops.{dtype}": hardware.flops[dtype],
            "memory_bandwidth": hardware.memory_bandwidth,
        }
        for name in ("link", "network"):
            link: HardwareLink = getattr(hardware, name)
            values |= {f"{name}.bandwidth": link.bandwidth, f"{name}.latency": link.latency}
        return values | {f"efficiency.{k}": v for k, v in hardware.efficiency.model_dump().items()}

    @property
    def notes(self) -> list[str]:
        """Lines below the table."""
        lines = [f"{name}: kept as it was; the times do not tell it" for name in self.unfitted]
        for name, bound in self.bounds.items():
            direction = "more" if bound else "less"
            lines.append(f"{name}: left at {bound:.4g}, its bound; the times ask for {direction}")
        return lines

    def to_json(self) -> dict[str, Any]:
        """`{"hardware", "timings": [{"what", "measured", "fitted", "error"}], "kept",
        "bounds": {constant: bound}}`."""
        return {
            "hardware": self.hardware.model_dump(mode="json", exclude_none=True),
            "timings": self.rows,
            "kept": list(self.unfitted),
            "bounds": dict(self.bounds),
        }


def calibrate_hardware(
    config: ExperimentConfig, output: Path, notify: Notify
) -> HardwareCalibration:
    """Measure, fit, and write the description to `output`.

    Raises:
        HardwareError: `output` is no `.yaml` file, or the times tell nothing.
        RunError: the folder of `output` cannot be written.
    """
    if output.suffix not in (".yaml", ".yml"):
        raise HardwareError(
            f"--output {output}: the name of a description of hardware ends in .yaml or .yml"
        )
    if is_primary():
        prepare_folder(output.parent)
    bench = CalibrationPrograms.build(config, notify)
    notify(f"timing {len(bench.programs)} programs in turns, {REPETITIONS} times")
    calibration = bench.fit_constants(lower_quartiles(bench.programs, REPETITIONS), output.stem)
    if is_primary():
        write_hardware(calibration.hardware, output)
    return calibration


@dataclass(frozen=True)
class CalibrationPrograms:
    """The compiled programs of a calibration.

    Attributes:
        hardware: description to start from, with the peaks.
        measured_peaks: whether these were measured.
        tasks: layers and the optimizer.
        gathers: gathers of rows.
        link, network: collectives within a domain, and between domains.
    """

    hardware: Hardware
    measured_peaks: bool
    tasks: Sequence[TimedProbe]
    gathers: Sequence[TimedProbe]
    link: Sequence[TimedProbe]
    network: Sequence[TimedProbe]

    @classmethod
    def build(cls, config: ExperimentConfig, notify: Notify) -> CalibrationPrograms:
        """Measure peaks if they are not known, and compile everything."""
        devices = jax.devices()[: config.parallel.devices]
        platform_config = on_platform(config, devices[0].platform)
        known = of_kind(devices[0].device_kind)
        if known is None:
            notify("measuring peaks")
        start = known or measure_unknown_hardware(devices, platform_config.model.dtype)
        grid = _split_domains(devices, start.domain)
        notify("compiling layers, the optimizer, gathers and collectives")
        tasks = [*layer_probes(platform_config, devices), update_probe(platform_config, devices)]
        gathers = list(gather_probes(platform_config, devices))
        links = [
            tuple(collective_probes(grid, axis)) if grid.shape[axis] > 1 else () for axis in (0, 1)
        ]
        return cls(start, known is None, tasks, gathers, link=links[1], network=links[0])

    @property
    def programs(self) -> dict[str, Callable[[], Any]]:
        """All programs, by name."""
        return {probe.name: probe.run for probe in self._all_probes}

    @property
    def _all_probes(self) -> tuple[TimedProbe, ...]:
        return (*self.tasks, *self.gathers, *self.link, *self.network)

    def fit_constants(self, seconds: Mapping[str, float], name: str) -> HardwareCalibration:
        """The constants that fit best.

        Args:
            seconds: seconds of each of `programs`.
            name: name of the description.
        """

        def with_seconds(probes: Sequence[TimedProbe]) -> list[MeasuredTime]:
            return [
                MeasuredTime(probe.name, seconds[probe.name], probe.predict) for probe in probes
            ]

        hardware, undetermined, bounds = self.hardware, list[str](), dict[str, float]()
        for link in ("link", "network"):
            probes = with_seconds(getattr(self, link))
            if not probes:
                undetermined.append(link)
                continue
            fitted = fit_link(probes, hardware, link, raise_peaks=self.measured_peaks)
            hardware, undetermined = fitted.hardware, [*undetermined, *fitted.undetermined]
            bounds |= fitted.bounds
        fitted = fit_efficiency(with_seconds(self.tasks), hardware, raise_peaks=self.measured_peaks)
        rows = fit_rows(with_seconds(self.gathers), fitted.hardware)
        title = hardware.title if self.measured_peaks else f"{hardware.title}, calibrated"
        named = rows.hardware.model_copy(update={"name": name, "title": title, "kinds": ()})
        bounds |= {**fitted.bounds, **rows.bounds}
        return HardwareCalibration(
            _round_numbers(named),
            with_seconds(self._all_probes),
            (*undetermined, *fitted.undetermined),
            bounds,
        )


def measure_unknown_hardware(devices: Sequence[jax.Device], dtype: str) -> Hardware:
    """A description of devices of a kind that configs/hardware/ lacks; its peaks are measured."""
    device, local = devices[0], len(devices) // jax.process_count()
    product, flops = make_matmul(list(devices), dtype)
    copy_run, moved_bytes = make_copy(list(devices))
    seconds = {
        name: min(seconds_of_runs)
        for name, seconds_of_runs in time_samples(
            {"product": product, "copy": copy_run}, REPETITIONS
        ).items()
    }
    return Hardware(
        name="unknown",
        title=f"{device.device_kind}, {local} on a host",
        platform=device.platform,
        kinds=(),
        flops={dtype: flops / seconds["product"]},
        memory=_device_memory(device, local),
        memory_bandwidth=moved_bytes / seconds["copy"],
        host=local,
        domain=local,
        link=UNKNOWN_LINK,
        network=UNKNOWN_LINK,
        efficiency=USUAL,
    )


def _device_memory(device: jax.Device, local: int) -> float:
    """Bytes of a device; emulated ones share those of the host."""
    if device.platform == "cpu":
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / local
    stats = device.memory_stats()
    if not stats or "bytes_limit" not in stats:
        raise HardwareError(
            f"device kind {device.device_kind!r}: its memory is not known; describe the device in "
            "configs/hardware/ (docs/reference/hardware.md)"
        )
    return float(stats["bytes_limit"])


def _split_domains(devices: Sequence[jax.Device], domain: int) -> np.ndarray:
    """`[domains, devices of a domain]`; devices that do not fill domains make one."""
    inside = domain if len(devices) % domain == 0 else len(devices)
    return np.array(devices).reshape(-1, inside)


def _round_numbers(hardware: Hardware) -> Hardware:
    """Four digits of every number, which is more than is known; checked as a file would be."""

    def round_number(value: Any) -> Any:
        if isinstance(value, float):
            return float(f"{value:.4g}")
        if isinstance(value, dict):
            return {key: round_number(inner) for key, inner in value.items()}
        return value

    return Hardware.model_validate(round_number(hardware.model_dump()))


def write_hardware(hardware: Hardware, path: Path) -> None:
    """A file that `mllm_jax.config.hardware.read_hardware` reads."""
    device = jax.devices()[0]
    head = (
        "# Written by `launch.py calibrate`: constants of the cost model, measured.\n"
        f"# Machine: {jax.device_count()} x {device.device_kind} ({device.platform}) in "
        f"{jax.process_count()} processes, JAX {jax.__version__}.\n"
    )
    values = hardware.model_dump(mode="json", exclude_none=True)
    path.write_text(head + yaml.safe_dump(values, sort_keys=False), encoding="utf-8")

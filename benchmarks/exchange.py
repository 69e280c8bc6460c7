"""Benchmark of the exchanges of encoder outputs: measured and predicted seconds.

Outputs are merged into random tokens of all devices. In the sparse workload an eighth of the tokens
takes an output; in the dense one there are twice as many outputs as tokens, as in rows with room
for more media than the decoder takes. The links are calibrated in the same go.
"""

from __future__ import annotations

from collections.abc import Mapping

import jax
import numpy as np

from benchmarks.cases.exchange import MergeCase
from benchmarks.pipeline import PrintLine, Row
from mllm_jax.calibrate.measure import REPETITIONS, measure_unknown_hardware
from mllm_jax.calibrate.probes import collective_probes
from mllm_jax.calibrate.timing import lower_quartiles
from mllm_jax.config.hardware import of_kind
from mllm_jax.config.load import ExperimentConfig
from scheduling.costs.exchange import OutputExchange
from scheduling.costs.fit import MeasuredTime, fit_link
from scheduling.costs.hardware import Hardware
from sharding.exchange_kinds import EXCHANGES

#: Outputs and tokens of a device, by the name of the workload, and the width of an output.
WORKLOADS: Mapping[str, tuple[int, int]] = {"sparse": (512, 4096), "dense": (4096, 2048)}
WIDTH = 1024


def bench_exchange(
    config: ExperimentConfig,
    print_line: PrintLine,
    workloads: Mapping[str, tuple[int, int]] = WORKLOADS,
    width: int = WIDTH,
    repetitions: int = REPETITIONS,
) -> list[Row]:
    """Seconds of every exchange, forward and backward, of all workloads.

    Args:
        workloads: by name, outputs and tokens of a device.
        width: width of an output.

    Returns:
        Rows with the seconds, their ratio to the all-to-all's, whether the exchange is the one
        that is chosen, and the largest difference from a lookup, which is 0.
    """
    devices = jax.devices()[: config.parallel.devices]
    dtype = config.model.dtype_on(devices[0].platform)
    print_line("measuring peaks, and calibrating links")
    hardware = _measure_links(devices, dtype, repetitions)
    ragged = devices[0].platform != "cpu"
    cases = {
        (what, name): MergeCase(devices, 1, *sizes, width, ragged, name, dtype)
        for what, sizes in workloads.items()
        for name in EXCHANGES
    }
    programs = {key: case.compile_program() for key, case in cases.items()}
    print_line(f"timing {len(programs)} programs in turns, {repetitions} times")
    seconds = lower_quartiles(programs, repetitions)
    rows: list[Row] = []
    for (what, name), case in cases.items():
        exchanged = _exchange_costs(case)
        rows.append(
            {
                "workload": what,
                "exchange": name,
                "chosen": exchanged.find_cheapest(hardware) == name,
                "predicted": 2 * exchanged.exchange_seconds(name, hardware),
                "measured": seconds[what, name],
                "ratio": seconds[what, name] / seconds[what, "all_to_all"],
                "difference": case.largest_error(programs[what, name]()),
            }
        )
    return rows


def _exchange_costs(case: MergeCase) -> OutputExchange:
    count, tokens = len(case.devices), case.bytes * case.tokens / case.outputs
    return OutputExchange(count, ((1, count),), case.bytes, tokens, separate_media=True)


def _measure_links(devices: list[jax.Device], dtype: str, repetitions: int) -> Hardware:
    """The devices with their links as measured."""
    known = of_kind(devices[0].device_kind)
    start = known or measure_unknown_hardware(devices, dtype)
    probes = collective_probes(np.array(devices).reshape(1, -1), 1) if len(devices) > 1 else []
    seconds = lower_quartiles({probe.name: probe.run for probe in probes}, repetitions)
    timed = [MeasuredTime(probe.name, seconds[probe.name], probe.predict) for probe in probes]
    if not timed:
        return start
    return fit_link(timed, start, "link", raise_peaks=known is None).hardware

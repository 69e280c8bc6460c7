"""The machine that the benchmark of an accelerator measures, and sizes of what it measures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax

from benchmarks.cases.attention import AttentionCase
from benchmarks.cases.grouped import GroupedCase
from benchmarks.pipeline import PrintLine, Row
from mllm_jax.calibrate.measure import REPETITIONS
from mllm_jax.calibrate.timing import lower_quartiles
from mllm_jax.config.load import ExperimentConfig
from scheduling.costs.hardware import Hardware

#: Yields rows while it measures, so that rows before an error are kept.
Measure = Callable[[], Iterator[Row]]


@dataclass(frozen=True)
class MeasurementSizes:
    """Sizes of all measurements but the step.

    Attributes:
        matrices: rows and columns of products.
        attention: shapes that are timed; errors are those of small ones.
        exchange: rows of a device, outputs and tokens of a row, width.
        grouped: products by groups that are timed; errors are those of small ones.
        repetitions: number of repetitions of every timed program.
    """

    matrices: tuple[int, ...]
    attention: AttentionCase
    exchange: tuple[int, int, int, int]
    grouped: GroupedCase
    repetitions: int


SIZES = MeasurementSizes(
    (2048, 4096, 8192),
    AttentionCase(4096, 16, 8, 128),
    (4, 2048, 4096, 2048),
    # Widths of Qwen3-30B-A3B, and half of its experts.
    GroupedCase(rows=32768, trailing=0, groups=64, inputs=2048, outputs=768),
    REPETITIONS,
)
SMALL_SIZES = MeasurementSizes(
    (128,),
    AttentionCase(512, 2, 1, 16),
    (2, 16, 32, 8),
    GroupedCase(96, 0, 4, inputs=16, outputs=8),
    2,
)


@dataclass(frozen=True)
class MachineSetting:
    """The machine and its configuration.

    Attributes:
        config: configuration for all `devices`.
        hardware: the shipped description of the devices; None if there is none.
        steps: seconds and bytes of the measured step, once they are known.
    """

    config: ExperimentConfig
    devices: list[jax.Device]
    sizes: MeasurementSizes
    hardware: Hardware | None
    print_line: PrintLine
    steps: dict[str, float] = field(default_factory=dict)

    @property
    def platform(self) -> str:
        """`cpu`, `gpu` or `tpu`."""
        return self.devices[0].platform

    def time_programs(self, programs: Mapping[Any, Callable[[], Any]]) -> dict[Any, float]:
        """Seconds of every program, run in turns."""
        return lower_quartiles(programs, self.sizes.repetitions)

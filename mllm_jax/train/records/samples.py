"""The samples of every step, in `samples.jsonl`: with which samples did the loss spike?

    {"step": 12, "samples": [96, 97, 99, 101], "crc": "eb3be94c"}

The numbers are positions in the stream of samples: position `p` is a sample of epoch
`p // len(source)`, so that none occurs twice in a run. Process 0 writes the file; with
`data.balance_group` the first process of each group writes one for the samples of its group.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import jax

from data.loading.loader import Microbatch
from data.planning.groups.group import HostGroupSpec
from mllm_jax.train.records.forms import SAMPLES
from mllm_jax.train.records.recorder import name_by_process
from mllm_jax.train.records.sinks import JsonlSink, MetricSinks

LIST = "samples"


class SampleList:
    """The file of a run, which is opened with the first step that is noted.

    Args:
        folder: folder of the run.
        resumed_step: step that the run continues from; lines of later steps are dropped.
    """

    def __init__(self, folder: Path, resumed_step: int) -> None:
        self._folder, self._resumed = folder, resumed_step
        self._file: MetricSinks | None = None
        self._opened = ExitStack()

    def note_step(self, step: int, microbatches: Sequence[Microbatch]) -> None:
        """Append a line for a step; after a failed write it is written later."""
        if self._file is None:
            group = microbatches[0].stats.group
            self._file = self._opened.enter_context(self._open_file(group))
        positions = [p for microbatch in microbatches for p in microbatch.stats.stream_positions]
        self._file.log_values(step, {"samples": positions})

    def close(self) -> None:
        """Write lines that could not be written before."""
        self._opened.close()

    def _open_file(self, group: HostGroupSpec) -> MetricSinks:
        """The file; nothing for a process that writes none."""
        if jax.process_index() != (group.hosts or (0,))[0]:
            return MetricSinks(())
        name = name_by_process(LIST) if group.count > 1 else LIST
        return MetricSinks((JsonlSink(self._folder / f"{name}.jsonl", self._resumed, SAMPLES),))

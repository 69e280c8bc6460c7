"""Steps of `bench slices` in a process of their own (`benchmarks.turns`).

Threads of emulated devices are settings of a process: in one a device has all cores, in the other
each of two devices has one core. The argument says which, `whole` or `slices`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import jax

from benchmarks.turns import serve_requests
from mllm_jax.check.synthetic import synthetic_batch
from mllm_jax.check.synthetic_state import synthetic_state
from mllm_jax.config.load import ExperimentConfig, resolve_config
from mllm_jax.config.run import ParallelConfig
from mllm_jax.runtime.devices import start_devices
from mllm_jax.train.step.batch_placement import local_rows, place_microbatches, select_rows
from mllm_jax.train.step.build import build_train_step
from mllm_jax.train.step.mpmd.build import build_grouped_step
from mllm_jax.train.step.step import Step

#: Devices of the processes.
DEVICES = {"whole": 1, "slices": 2}


class SteppedRun:
    """Steps of a configuration on random samples, one after the other."""

    def __init__(self, config: ExperimentConfig) -> None:
        grouped = bool(config.parallel.groups)
        self._step: Step = build_grouped_step(config) if grouped else build_train_step(config)
        self._state = synthetic_state(self._step.abstract_state, seed=0)
        self._batch = _make_batch(config, self._step)
        self.take_steps(1)
        self._usual = self.take_steps(1)

    def time_steps(self, seconds: float) -> float:
        """Seconds of a step, the mean over about so many seconds."""
        return self.take_steps(max(1, round(seconds / self._usual)))

    def take_steps(self, count: int) -> float:
        """Seconds of each of so many steps."""
        begin = time.perf_counter()
        for _ in range(count):
            self._state, results = self._step.update(self._state, self._batch)
        jax.block_until_ready((self._state, results["loss"]))
        return (time.perf_counter() - begin) / count


def _make_batch(config: ExperimentConfig, step: Step) -> Any:
    budgets, rows = config.data.budgets, config.data.rows
    media = {name: budgets[name] for name in config.model.buckets}
    local = local_rows(step, rows)
    microbatches = [
        select_rows(synthetic_batch(config.model, rows, budgets["tokens"], media, seed), local)
        for seed in range(config.train.accumulate)
    ]
    return place_microbatches(microbatches, step)


class StepWorker:
    """Compiles and times the variants of one size at a time."""

    def __init__(self) -> None:
        self._runs: dict[str, SteppedRun] = {}

    @property
    def actions(self) -> Mapping[str, Callable[..., Any]]:
        """What the benchmark may ask for."""
        return {"compile": self.compile_variants, "time": self.time_steps}

    def compile_variants(self, configs: Mapping[str, Any]) -> None:
        """Take a step of every variant, in the place of those before.

        Args:
            configs: plain values of their configurations, by name.
        """
        self._runs.clear()
        for name, values in configs.items():
            self._runs[name] = SteppedRun(resolve_config(values, source=name))

    def time_steps(self, name: str, seconds: float) -> float:
        """`SteppedRun.time_steps` of a variant."""
        return self._runs[name].time_steps(seconds)


def main() -> None:
    """Answer the benchmark's requests until there are no more."""
    (kind,) = sys.argv[1:]
    start_devices(ParallelConfig(devices=DEVICES[kind]), one_thread=kind == "slices")
    serve_requests(StepWorker().actions)


if __name__ == "__main__":
    main()

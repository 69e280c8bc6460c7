"""Benchmark of the train step: the gain of balancing, and its prediction by loads of ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

import jax

from benchmarks.pipeline import PrintLine, Row
from data.config import Balance
from data.planning.stream import LoaderState
from mllm_jax.config.load import ConfigError, ExperimentConfig
from mllm_jax.runtime.hardware.peak import peak_flops
from mllm_jax.train.experiment import Experiment
from mllm_jax.train.listeners.figures import StepRecorder
from mllm_jax.train.records.step_record import StepRecord
from mllm_jax.train.state.progress import Progress
from mllm_jax.train.trainer import StepRunner

#: Steps that are measured, after as many as `WARM_UP`; the fastest of so many passes over them.
STEPS, WARM_UP, REPETITIONS = 6, 1, 3


def bench_step(config: ExperimentConfig, print_line: PrintLine) -> list[Row]:
    """Train steps on the same samples under every balance, as the loop runs them.

    With `data.batch: samples` the steps of every `data.balance` have the same samples, and there is
    a row for each; otherwise there is one row, for the balance of the configuration.

    Columns: `tokens_per_second`; `over_none`, this over that of the first row; `predicted`, what
    that should be if every phase took as long as its heaviest rank has work; `padding`, the share
    of the computed positions of all modules that hold no sample; `mfu`, null where the peak of the
    device is unknown; `wait`, the share of time spent waiting for data. A pass over the steps has
    compiled all their shapes before; the fastest pass of each balance counts, in turns.

    Raises:
        ConfigError: samples wait for the next step under one balance and not under another.
    """
    fixed = config.data.batch == "samples"
    names: Sequence[Balance] = get_args(Balance) if fixed else (config.data.balance,)
    runs = {}
    for name in names:
        print_line(f"balance {name}: compiling for {WARM_UP + STEPS} steps")
        runs[name] = _Run(config, name)
    for repetition in range(REPETITIONS):
        print_line(f"pass {repetition + 1} of {REPETITIONS}")
        for run in runs.values():
            run.measure_pass()
    _check_same(runs)
    first = next(iter(runs.values()))
    return [{"balance": name, **run.columns_of(first)} for name, run in runs.items()]


class _Run:
    """The steps of one balance."""

    def __init__(self, config: ExperimentConfig, balance: Balance) -> None:
        data = config.data.model_copy(update={"balance": balance})
        train = config.train.model_copy(update={"steps": WARM_UP + STEPS})
        self._experiment = Experiment.build(
            config.model_copy(update={"data": data, "train": train})
        )
        self._seconds = float("inf")
        self.records = self._measure_pass()

    def _measure_pass(self) -> list[StepRecord]:
        """Take the steps from the beginning; those that are measured."""
        experiment = self._experiment
        seed = experiment.config.train.seed
        state: Any = experiment.step.init(jax.random.key(seed))
        records, recorder = [], StepRecorder(experiment)
        trainer = StepRunner(experiment, state, Progress(0, LoaderState(seed)), recorder)
        with trainer.opened_run():
            while not trainer.is_done:
                ended = trainer.train_step()
                # Until the step is over: the next is not dispatched before.
                float(ended.loss)
                records.append(recorder.make_record(ended))
        return records[WARM_UP:]

    def measure_pass(self) -> None:
        """Take the steps once more, and keep the pass if it is the fastest."""
        records = self._measure_pass()
        seconds = sum(record.seconds for record in records)
        if seconds < self._seconds:
            self._seconds, self.records = seconds, records

    @property
    def tokens(self) -> list[int]:
        """Tokens of every step."""
        return [record.used["tokens"] for record in self.records]

    @property
    def tokens_per_second(self) -> float:
        """Tokens per second."""
        return sum(self.tokens) / self._seconds

    @property
    def work(self) -> float:
        """Work of the heaviest rank of every phase of every step, in forward FLOPs."""
        return sum(load.balanced for record in self.records for load in record.loads.values())

    def columns_of(self, first: _Run) -> dict[str, float | None]:
        """Columns of the table, compared with the `first` run."""
        records, grid = self.records, self._experiment.grid
        peak = peak_flops(self._experiment.step.devices[0])
        flops = sum(record.model_flops for record in records) / self._seconds
        used, capacity = (
            sum(sum(getattr(record, kind).values()) for record in records)
            for kind in ("used", "capacity")
        )
        return {
            "tokens_per_second": self.tokens_per_second,
            "over_none": self.tokens_per_second / first.tokens_per_second,
            "predicted": first.work / self.work,
            "padding": 1 - used / capacity,
            "mfu": None if peak is None else flops / (peak * grid.devices),
            "wait": sum(record.wait_seconds for record in records) / self._seconds,
        }


def _check_same(runs: dict[Balance, _Run]) -> None:
    """Raise ConfigError unless all runs have had the same tokens in every step."""
    tokens = {name: run.tokens for name, run in runs.items()}
    for name, counts in tokens.items():
        for number, (mine, other) in enumerate(
            zip(counts, next(iter(tokens.values())), strict=True)
        ):
            if mine != other:
                raise ConfigError(
                    "bench step",
                    [
                        f"data.budgets: step {number} holds {mine} tokens with balance {name} and "
                        f"{other} without, as samples wait for room; raise the budgets, or lower "
                        "data.samples"
                    ],
                )

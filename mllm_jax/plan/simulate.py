"""The configured step, simulated on hardware that need not be here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from mllm_jax.config.configured_step import configure_step
from mllm_jax.config.load import ExperimentConfig
from mllm_jax.plan.exchanges import BucketExchange, bucket_exchanges
from mllm_jax.runtime.folder import prepare_folder
from scheduling.costs import estimate
from scheduling.costs.hardware import Hardware
from scheduling.costs.times import StepTimes
from scheduling.schedules.schedule import Schedule
from scheduling.simulate.lockstep import microbatches_of
from scheduling.simulate.lockstep import simulate_step as simulate_schedule
from scheduling.simulate.simulation import IDLE_KINDS, Replica, Simulation, SimulationOptions
from scheduling.simulate.trace import write_chrome_trace, write_picture


@dataclass(frozen=True)
class TimeVariation:
    """Differences of replicas from the configuration.

    Attributes:
        slow: by stage, a factor on the compute of the first replica's devices.
        sigma: spread of the microbatches' lengths: standard deviation of their logarithm.
        seed: seed of the lengths.
    """

    slow: Mapping[int, float]
    sigma: float = 0.0
    seed: int = 0

    def draw_replicas(self, count: int, microbatches: Mapping[str, int]) -> tuple[Replica, ...]:
        """Replicas that differ from the usual ones, of `count`, the first of them first.

        Args:
            microbatches: number of microbatches by module; those of encoders may be independent.
        """
        if not self.sigma:
            return (Replica(self.slow),) if self.slow else ()
        draw = np.random.default_rng(self.seed)

        def factors(number: int) -> list[float]:
            # The mean of a log-normal variable is exp(mean + sigma^2 / 2).
            return draw.lognormal(-(self.sigma**2) / 2, self.sigma, number).tolist()

        return tuple(
            Replica(
                self.slow if index == 0 else {},
                {module: factors(number) for module, number in microbatches.items()},
            )
            for index in range(count)
        )


#: Replicas as the configuration says.
NO_VARIATION = TimeVariation({})


@dataclass(frozen=True)
class SimulatedStep:
    """Results of `simulate`, and the files that it wrote.

    Attributes:
        exchanges: of every bucket, its exchange and predicted seconds of all.
    """

    hardware: Hardware
    simulation: Simulation
    files: tuple[Path, ...]
    exchanges: tuple[BucketExchange, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the table."""
        return "what", "seconds", "share"

    @property
    def rows(self) -> list[tuple[str, float, str]]:
        """Table rows: work and idle time of devices, the mean over all, in seconds and shares."""
        simulation = self.simulation
        idle = [(f"idle: {kind}", simulation.idle[kind]) for kind in IDLE_KINDS]
        parts = [("compute", simulation.compute), *idle, ("step", simulation.makespan)]
        total = simulation.makespan or 1.0
        return [(name, seconds, f"{seconds / total:.1%}") for name, seconds in parts]

    @property
    def notes(self) -> list[str]:
        """Lines below the table."""
        hidden = self.simulation.encoder_hidden
        share = (
            []
            if hidden is None
            else [f"encoder compute that does not lengthen the step: {hidden:.1%}"]
        )
        return [*share, *map(str, self.exchanges), *(f"written: {path}" for path in self.files)]

    def to_json(self) -> dict[str, Any]:
        """`{"hardware", "seconds", "compute", "idle": {kind: seconds}, "encoder_hidden",
        "exchanges", "files"}`; exchanges as of `BucketExchange.to_json`."""
        return {
            "hardware": self.hardware.name,
            **self.simulation.to_json(),
            "exchanges": [exchange.to_json() for exchange in self.exchanges],
            "files": [str(path) for path in self.files],
        }


def simulate_config(
    config: ExperimentConfig, hardware: Hardware, folder: Path, variation: TimeVariation
) -> SimulatedStep:
    """Simulate the configured step and write its timeline into `folder`.

    Raises:
        ScheduleError: a slow stage does not exist, or its factor is no positive number.
        HardwareError: `hardware` lacks the type of the activations.
        RunError: `folder` cannot be written.
    """
    simulation = simulate_step(config, hardware, variation)
    prepare_folder(folder)
    files = folder / "simulation.json", folder / "simulation.png"
    lines = {f"simulated, {hardware.title}": simulation.timeline}
    write_chrome_trace(files[0], lines)
    write_picture(lines, files[1])
    return SimulatedStep(hardware, simulation, files, bucket_exchanges(config, hardware))


def simulate_step(
    config: ExperimentConfig, hardware: Hardware, variation: TimeVariation = NO_VARIATION
) -> Simulation:
    """The configured step on `hardware`; raises as `simulate` does."""
    schedule, overlaps = _step_schedule(config)
    times = measure_step_times(config, hardware)
    numbers = microbatches_of(schedule, times)
    names = config.model.backbone, *config.model.buckets
    microbatches = {name: numbers[name] for name in names}
    replicas = config.parallel.backbone_plan.batch
    distinct = variation.draw_replicas(replicas, microbatches)
    options = SimulationOptions(*overlaps, replicas=replicas, distinct=distinct)
    return simulate_schedule(schedule, times, options)


def _step_schedule(config: ExperimentConfig) -> tuple[Schedule, tuple[bool, bool]]:
    """The schedule, whether it co-issues and whether its ends overlap with collectives.

    Without a pipeline, the only stage runs all tasks of a microbatch after those of the one before.
    """
    lowered = configure_step(config)
    plan = lowered.pipeline
    overlaps = (False, False) if plan is None else (plan.co_issue, plan.overlap_gather)
    return lowered.schedule, overlaps


def measure_step_times(config: ExperimentConfig, hardware: Hardware) -> StepTimes:
    """Times of all tasks.

    Raises:
        HardwareError: `hardware` has no speed for the type of the activations.
    """
    there = configure_step(config, hardware.platform)
    strategy = replace(configure_step(config).strategy, overlap=there.chosen.overlap)
    return estimate.step_times(there.workload, strategy, hardware)

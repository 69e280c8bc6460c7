"""The exchange by which a run moves the outputs of every bucket, and what each would take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mllm_jax.config.configured_step import configure_step
from mllm_jax.config.load import ExperimentConfig
from scheduling.costs.exchange import OutputExchange, exchange_of
from scheduling.costs.hardware import Hardware
from sharding.exchange_kinds import Exchange


@dataclass(frozen=True)
class BucketExchange:
    """The exchange of one bucket.

    Attributes:
        bucket: name of the bucket.
        runs: the exchange of a training run.
        why: what a run chooses it by.
        counted: the exchange whose seconds predictions on `hardware` count; None without hardware.
        hardware: name of the hardware.
        seconds: predicted seconds of every possible exchange there, for one microbatch.
    """

    bucket: str
    runs: Exchange
    why: str
    counted: Exchange | None
    hardware: str | None
    seconds: Mapping[Exchange, float]

    def __str__(self) -> str:
        text = f"exchange of {self.bucket}: a run uses {self.runs}, by {self.why}"
        if self.counted is None:
            return text
        if self.counted != self.runs:
            text += f"; this prediction uses {self.counted}, the fastest on {self.hardware}"
        each = ", ".join(f"{kind} {seconds:.3g} s" for kind, seconds in self.seconds.items())
        return f"{text}; predicted for a microbatch on {self.hardware}: {each}"

    def to_json(self) -> dict[str, Any]:
        """`{"bucket", "runs", "why", "counted", "hardware", "microbatch_seconds": {exchange}}`."""
        return {
            "bucket": self.bucket,
            "runs": self.runs,
            "why": self.why,
            "counted": self.counted,
            "hardware": self.hardware,
            "microbatch_seconds": dict(self.seconds),
        }


def bucket_exchanges(
    config: ExperimentConfig, hardware: Hardware | None = None
) -> tuple[BucketExchange, ...]:
    """The exchange of every bucket.

    Args:
        hardware: hardware of the predicted seconds; None: that of `schedule.hardware`, if given.

    Raises:
        ScheduleError: there is no such hardware as the schedule's.
        HardwareError: `hardware` has no speed for the type of the activations.
    """
    if not config.model.buckets:
        return ()
    configured = configure_step(config)
    hardware = hardware or configured.hardware
    return tuple(
        _exchange_of(config, hardware, bucket, runs)
        for bucket, runs in configured.exchanges.items()
    )


def _exchange_of(
    config: ExperimentConfig, hardware: Hardware | None, bucket: str, runs: Exchange
) -> BucketExchange:
    why = _choice_reason(config)
    if hardware is None:
        return BucketExchange(bucket, runs, why, None, None, {})
    there = configure_step(config, hardware.platform)
    parts = there.workload, there.chosen, bucket
    counted = exchange_of(*parts, hardware, hardware.platform)
    seconds = OutputExchange.of_bucket(*parts).predicted_seconds(hardware)
    return BucketExchange(bucket, runs, why, counted, hardware.name, seconds)


def _choice_reason(config: ExperimentConfig) -> str:
    """The key or rule that chooses the exchanges of a run."""
    if config.parallel.exchange != "auto":
        return "parallel.exchange"
    if config.schedule.hardware is None:
        return "the bytes that it moves, as schedule.hardware is not given"
    return f"the seconds on schedule.hardware {config.schedule.hardware}"

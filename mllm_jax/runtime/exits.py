"""Exit codes by cause, so that programs that start runs need not read messages."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """Exit codes of commands."""

    OK = 0
    FAILED = 1
    BAD_INPUT = 2
    BAD_DATA = 3
    DIVERGED = 4
    DAMAGED = 5
    LOST_PEER = 6
    OUT_OF_REACH = 7
    UNFIT = 8
    INTERRUPTED = 130


#: Meanings of the codes, as in `--help` and the documentation.
MEANINGS = {
    Exit.OK: "done",
    Exit.FAILED: "a check failed, or an error that is none of those below",
    Exit.BAD_INPUT: "bad input: command line, configuration, devices, run folder",
    Exit.BAD_DATA: "data that cannot be used",
    Exit.DIVERGED: "loss, gradients or state are not finite, the loss has spiked, or replicas "
    "differ",
    Exit.DAMAGED: "no checkpoint can be read, or they belong to something else",
    Exit.LOST_PEER: "another process is gone, is stuck, is unfit or never came",
    Exit.OUT_OF_REACH: "a place of data or checkpoints stays out of reach, a disk is full, or a "
    "job's run folder stays locked; start again when that is over",
    Exit.UNFIT: "devices of this process are lost, or a self-check has found something wrong here",
    Exit.INTERRUPTED: "interrupted by SIGINT or SIGTERM; the message says what is saved",
}


def table() -> str:
    """A line for every code."""
    return "\n".join(f"  {code:>3}  {meaning}" for code, meaning in MEANINGS.items())


#: Errors whose message says all, which are told without a traceback: module and name. They are
#: named, not imported, as most of their modules load what computes.
CODES = {
    ("data.sample", "DataError"): Exit.BAD_DATA,
    ("data.sample", "SampleError"): Exit.BAD_DATA,
    ("data.sample", "AwayError"): Exit.OUT_OF_REACH,
    ("mllm_jax.checkout", "CheckoutError"): Exit.BAD_INPUT,
    ("mllm_jax.config.sections", "ConfigError"): Exit.BAD_INPUT,
    ("mllm_jax.runtime.devices", "DeviceError"): Exit.BAD_INPUT,
    ("mllm_jax.runtime.devices", "LostError"): Exit.UNFIT,
    ("mllm_jax.health.finding", "HealthError"): Exit.UNFIT,
    ("mllm_jax.layers.attention.limits", "AttentionError"): Exit.BAD_INPUT,
    ("mllm_jax.hf_format.files", "PretrainedError"): Exit.BAD_INPUT,
    ("mllm_jax.plan.report", "PlanningError"): Exit.BAD_INPUT,
    ("mllm_jax.runtime.agreement", "AgreementError"): Exit.BAD_INPUT,
    ("mllm_jax.runtime.lock", "LockedError"): Exit.BAD_INPUT,
    ("mllm_jax.runtime.lock", "HeldError"): Exit.OUT_OF_REACH,
    ("mllm_jax.runtime.part", "JoinError"): Exit.BAD_INPUT,
    ("mllm_jax.runtime.part", "PeerError"): Exit.LOST_PEER,
    ("mllm_jax.runtime.folder", "RunError"): Exit.BAD_INPUT,
    ("mllm_jax.runtime.folder", "RoomError"): Exit.OUT_OF_REACH,
    ("mllm_jax.submit.backends", "ClusterError"): Exit.BAD_INPUT,
    ("mllm_jax.submit.programs", "SubmitError"): Exit.BAD_INPUT,
    ("mllm_jax.train.decoding.sampling", "SamplingError"): Exit.BAD_INPUT,
    ("mllm_jax.train.components.guard", "DivergedError"): Exit.DIVERGED,
    ("mllm_jax.train.components.replica_check", "CorruptionError"): Exit.DIVERGED,
    ("mllm_jax.train.components.saves", "SaveError"): Exit.OUT_OF_REACH,
    ("mllm_jax.train.state.saved", "CheckpointError"): Exit.DAMAGED,
    ("mllm_jax.train.state.saved", "NoCheckpointError"): Exit.BAD_INPUT,
    ("scheduling.costs.hardware", "HardwareError"): Exit.BAD_INPUT,
    ("scheduling.schedules.schedule", "ScheduleError"): Exit.BAD_INPUT,
    ("sharding.plan", "PlanError"): Exit.BAD_INPUT,
}


def of_others(code: int) -> int:
    """Exit code of processes that end because another one has ended with `code`."""
    return Exit.LOST_PEER if code == Exit.UNFIT else code


def code_of(error: BaseException) -> Exit | None:
    """Exit code of an error, of the nearest class that has one; None: it needs a traceback."""
    kinds = [CODES.get((kind.__module__, kind.__qualname__)) for kind in type(error).__mro__]
    return next((code for code in kinds if code is not None), None)

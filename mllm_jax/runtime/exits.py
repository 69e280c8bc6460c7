"""Exit codes by cause, so that programs that start runs need not read messages."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
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
    ExitCode.OK: "done",
    ExitCode.FAILED: "a check failed, or an error that is none of those below",
    ExitCode.BAD_INPUT: "bad input: command line, configuration, devices, run folder",
    ExitCode.BAD_DATA: "data that cannot be used",
    ExitCode.DIVERGED: "loss, gradients or state are not finite, the loss has spiked, or replicas "
    "differ",
    ExitCode.DAMAGED: "no checkpoint can be read, or they belong to something else",
    ExitCode.LOST_PEER: "another process is gone, is stuck, is unfit or never came",
    ExitCode.OUT_OF_REACH: "a place of data or checkpoints stays out of reach, a disk is full, or "
    "a job's run folder stays locked; start again when that is over",
    ExitCode.UNFIT: "devices of this process are lost, or a self-check has found something wrong "
    "here",
    ExitCode.INTERRUPTED: "interrupted by SIGINT or SIGTERM; the message says what is saved",
}


def exit_code_table() -> str:
    """A line for every code."""
    return "\n".join(f"  {code:>3}  {meaning}" for code, meaning in MEANINGS.items())


#: Errors whose message says all, which are printed without a traceback: module and name. They are
#: named, not imported, as most of their modules load what computes.
CODES = {
    ("data.sample", "DataError"): ExitCode.BAD_DATA,
    ("data.sample", "SampleError"): ExitCode.BAD_DATA,
    ("data.sample", "UnreachableError"): ExitCode.OUT_OF_REACH,
    ("mllm_jax.checkout", "CheckoutError"): ExitCode.BAD_INPUT,
    ("mllm_jax.config.sections", "ConfigError"): ExitCode.BAD_INPUT,
    ("mllm_jax.runtime.devices", "DeviceError"): ExitCode.BAD_INPUT,
    ("mllm_jax.runtime.devices", "DevicesLostError"): ExitCode.UNFIT,
    ("mllm_jax.health.finding", "HealthError"): ExitCode.UNFIT,
    ("mllm_jax.layers.attention.limits", "AttentionError"): ExitCode.BAD_INPUT,
    ("mllm_jax.hf_format.files", "PretrainedError"): ExitCode.BAD_INPUT,
    ("mllm_jax.plan.report", "PlanningError"): ExitCode.BAD_INPUT,
    ("mllm_jax.runtime.agreement", "AgreementError"): ExitCode.BAD_INPUT,
    ("mllm_jax.runtime.lock", "LockedError"): ExitCode.BAD_INPUT,
    ("mllm_jax.runtime.lock", "LockHeldError"): ExitCode.OUT_OF_REACH,
    ("mllm_jax.runtime.run_peers", "JoinError"): ExitCode.BAD_INPUT,
    ("mllm_jax.runtime.run_peers", "PeerError"): ExitCode.LOST_PEER,
    ("mllm_jax.runtime.folder", "RunError"): ExitCode.BAD_INPUT,
    ("mllm_jax.runtime.folder", "UnwritableError"): ExitCode.OUT_OF_REACH,
    ("mllm_jax.runtime.slices.control", "MpsError"): ExitCode.BAD_INPUT,
    ("mllm_jax.submit.backends", "BackendError"): ExitCode.BAD_INPUT,
    ("mllm_jax.submit.programs", "SubmitError"): ExitCode.BAD_INPUT,
    ("mllm_jax.train.decoding.sampling", "SamplingError"): ExitCode.BAD_INPUT,
    ("mllm_jax.train.components.guard", "DivergedError"): ExitCode.DIVERGED,
    ("mllm_jax.train.components.replica_check", "CorruptionError"): ExitCode.DIVERGED,
    ("mllm_jax.train.components.checkpoint_saver", "SaveError"): ExitCode.OUT_OF_REACH,
    ("mllm_jax.train.state.saved", "CheckpointError"): ExitCode.DAMAGED,
    ("mllm_jax.train.state.saved", "NoCheckpointError"): ExitCode.BAD_INPUT,
    ("scheduling.costs.hardware", "HardwareError"): ExitCode.BAD_INPUT,
    ("scheduling.schedules.schedule", "ScheduleError"): ExitCode.BAD_INPUT,
    ("sharding.plan", "PlanError"): ExitCode.BAD_INPUT,
}


def exit_code_of_others(code: int) -> int:
    """Exit code of processes that end because another one has ended with `code`."""
    return ExitCode.LOST_PEER if code == ExitCode.UNFIT else code


def exit_code_of(error: BaseException) -> ExitCode | None:
    """Exit code of an error, of the nearest class that has one; None: it needs a traceback."""
    kinds = [CODES.get((kind.__module__, kind.__qualname__)) for kind in type(error).__mro__]
    return next((code for code in kinds if code is not None), None)

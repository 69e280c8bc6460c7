"""Checks of quotas of groups: parts of devices that modules share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isclose

from mllm_jax.config.checks.problems import ConfigProblem
from mllm_jax.config.run import DeviceGroupConfig
from mllm_jax.config.sections import ExperimentConfig

GROUPS = "parallel.groups"
#: How far a sum of quotas may be from one.
EPSILON = 1e-6
#: Why GPUs are not divided differently.
_UNEVEN = (
    "slices of some GPUs alone are refused, as each process under MPS is a slice of every GPU; "
    "valid: a quota of all devices for each group, or for none"
)


def check_quotas(config: ExperimentConfig) -> Iterator[ConfigProblem]:
    """Quotas on the same devices sum to one, and are such that the platform has."""
    sharing, platform = config.parallel.sharing_groups, config.parallel.platform
    yield from _check_memory_keys(config)
    if len(config.parallel.separate_groups) < len(config.parallel.groups):
        yield from _check_streams(config)
        return
    if platform == "tpu" and sharing:
        reason = "quotas are refused, as TPUs have no slices; valid: devices of its own for each"
        yield ConfigProblem(GROUPS, f"{reason} group")
        return
    for groups in sharing.values():
        yield from _check_shares(config, groups)
    if platform == "gpu" and any(
        len(groups) < len(config.parallel.groups) for groups in sharing.values()
    ):
        yield ConfigProblem(GROUPS, _UNEVEN)


def _check_shares(
    config: ExperimentConfig, groups: Mapping[str, DeviceGroupConfig]
) -> Iterator[ConfigProblem]:
    """Quotas of groups that share devices."""
    quotas = {name: group.share or 0.0 for name, group in groups.items()}
    if not isclose(sum(quotas.values()), 1, abs_tol=EPSILON):
        listed = ", ".join(f"{name} {quota:g}" for name, quota in quotas.items())
        reason = f"quotas of the same devices, {listed}, sum to {sum(quotas.values()):g}"
        yield ConfigProblem(GROUPS, f"{reason}; valid: quotas that sum to 1")
    elif config.parallel.platform == "gpu":
        yield from _check_percents(quotas)
        yield from _check_memory(groups)
    else:
        yield from _check_equal(quotas)


def _check_streams(config: ExperimentConfig) -> Iterator[ConfigProblem]:
    """Groups that share devices without quotas are all groups, and share all devices."""
    groups, others = config.parallel.groups, config.parallel.separate_groups
    shared = ", ".join(name for name in groups if name not in others)
    if config.parallel.platform == "tpu":
        reason = "quota none is refused, as streams are of GPUs; valid: devices of its own for each"
        yield ConfigProblem(GROUPS, f"{reason} group, or no groups")
    elif others:
        reason = f"{shared} with quota none beside {', '.join(others)} of other devices or quotas"
        yield ConfigProblem(GROUPS, f"{reason}; valid: quota none for each group, or for none")
    elif any(group.devices is not None for group in groups.values()):
        reason = "a group has devices and quota none, by which all groups share all devices"
        yield ConfigProblem(GROUPS, f"{reason}; valid: devices null")
    elif len(groups) == 1:
        reason = f"{shared} with quota none is the only group, and runs beside no other one"
        yield ConfigProblem(GROUPS, f"{reason}; valid: two groups or more, or no groups")


def _check_percents(quotas: Mapping[str, float]) -> Iterator[ConfigProblem]:
    """Quotas of GPUs are whole percents, as MPS has no others."""
    for name, quota in quotas.items():
        percents = 100 * quota
        if not isclose(percents, round(percents), abs_tol=1e-4):
            valid = " or ".join(f"{n / 100:g}" for n in (int(percents), int(percents) + 1) if n)
            reason = f"{quota:g} is no whole number of percents, and MPS has no others"
            yield ConfigProblem(f"{GROUPS}.{name}.quota", f"{reason}; valid: {valid}")


def _check_memory(groups: Mapping[str, DeviceGroupConfig]) -> Iterator[ConfigProblem]:
    """Slices of a GPU have room in its memory."""
    shares = {name: group.memory or group.share or 0.0 for name, group in groups.items()}
    total = sum(shares.values())
    if total > 1 + EPSILON:
        listed = ", ".join(f"{name} {share:g}" for name, share in shares.items())
        reason = f"shares of memory {listed} sum to {total:g} (memory, or else quota)"
        yield ConfigProblem(GROUPS, f"{reason}; valid: shares that sum to 1 at most")


def _check_memory_keys(config: ExperimentConfig) -> Iterator[ConfigProblem]:
    """Shares of memory are of slices of GPUs."""
    for name, group in config.parallel.groups.items():
        if group.memory is None or (config.parallel.platform == "gpu" and group.share):
            continue
        reason = f"{group.memory:g} has no effect, as {name} has no slice of a GPU"
        yield ConfigProblem(f"{GROUPS}.{name}.memory", f"{reason}; valid: null")


def _check_equal(quotas: Mapping[str, float]) -> Iterator[ConfigProblem]:
    """Slices on CPUs, emulated devices of one process, have as many threads each."""
    equal = 1 / len(quotas)
    if all(isclose(quota, equal, abs_tol=EPSILON) for quota in quotas.values()):
        return
    listed = ", ".join(f"{name} {quota:g}" for name, quota in quotas.items())
    reason = (
        f"quotas {listed} are unequal, and devices of one process on CPUs have as many threads "
        f"each; valid: quota {equal:g} for each group"
    )
    yield ConfigProblem(GROUPS, reason)

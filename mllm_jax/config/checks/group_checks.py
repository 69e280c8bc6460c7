"""Checks of groups of modules that have devices of their own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial

from mllm_jax.config.checks.group_stage_checks import check_group_stages
from mllm_jax.config.checks.problems import ConfigProblem, choose_only
from mllm_jax.config.checks.quota_checks import GROUPS, check_quotas
from mllm_jax.config.sections import ExperimentConfig


def group_checks(config: ExperimentConfig) -> list[ConfigProblem]:
    """Groups against modules, devices and the platform; nothing without groups."""
    if not config.parallel.groups:
        return []
    problems = [*_check_modules(config), *_check_devices(config), *check_quotas(config)]
    return problems or [*_check_features(config)]


def _check_modules(config: ExperimentConfig) -> Iterator[ConfigProblem]:
    """Every module is in one group."""
    known = config.model.backbone, *config.model.buckets
    counts = Counter(n for group in config.parallel.groups.values() for n in group.modules)
    for name, group in config.parallel.groups.items():
        for module in group.modules:
            key = f"{GROUPS}.{name}.modules"
            if module not in known:
                yield ConfigProblem(key, f"{module} is no module; valid: {', '.join(known)}")
            elif counts[module] > 1:
                reason = f"{module} is in {counts[module]} groups; valid: {module} in one of them"
                yield ConfigProblem(key, reason)
    yield from _check_buckets(config)
    for module in known:
        if not counts[module]:
            names = ", ".join(config.parallel.groups)
            reason = f"{module} is in no group; valid: {module} among the modules of one of {names}"
            yield ConfigProblem(GROUPS, reason)


def _check_buckets(config: ExperimentConfig) -> Iterator[ConfigProblem]:
    """Buckets of an encoder, which share its parameters, are in one group."""
    buckets = config.model.buckets
    places = {n: name for name, group in config.parallel.groups.items() for n in group.modules}
    firsts: dict[str, str] = {}
    for bucket, module in buckets.items():
        first = firsts.setdefault(module, bucket)
        if bucket in places and first in places and places[bucket] != places[first]:
            reason = f"{first} is in {places[first]} and {bucket} in {places[bucket]}, but both are"
            valid = f"of {module} and share its parameters; valid: one group for both"
            yield ConfigProblem(GROUPS, f"{reason} {valid}")


def _check_devices(config: ExperimentConfig) -> Iterator[ConfigProblem]:
    """Groups have devices that exist, and that no other group has but for quotas of all of them."""
    count, owners = config.parallel.devices, dict[int, str]()
    sharing = config.parallel.sharing_groups
    for name, group in config.parallel.groups.items():
        key = f"{GROUPS}.{name}.devices"
        first, last = config.parallel.group_range(name)
        neighbours = {name, *sharing.get((first, last), {})} if group.share else {name}
        if not 0 <= first <= last < count:
            reason = f"[{first}, {last}] are no devices of {count}"
            yield ConfigProblem(key, f"{reason}; valid: first and last of 0 to {count - 1}")
            continue
        for device in () if group.quota == "none" else range(first, last + 1):
            owner = owners.setdefault(device, name)
            if owner not in neighbours:
                reason = f"device {device} belongs to {owner}, too; valid: devices of {name} alone"
                valid = "or a quota for each of the groups, on the same devices"
                yield ConfigProblem(key, f"{reason}, {valid}")
                break


def _check_features(config: ExperimentConfig) -> Iterator[ConfigProblem]:
    """Keys of other steps have their values of no effect."""
    if not config.parallel.separate_groups:
        yield from _check_streams(config)
        return
    yield from check_group_stages(config)
    needed = {
        "train.check_every": (config.train.check_every, None),
        "run.trace_step": (config.run.trace_step, None),
    }
    for key, (value, valid) in needed.items():
        if value is not None:
            reason = f"{value} is refused, as modules in groups have no program in common"
            yield ConfigProblem(key, reason, partial(choose_only, key, valid))
    if config.train.gradient_caching:
        key = "train.gradient_caching"
        reason = "true is refused, as programs of groups keep what backwards need"
        yield ConfigProblem(key, reason, partial(choose_only, key, None))


def _check_streams(config: ExperimentConfig) -> Iterator[ConfigProblem]:
    """Modules on streams of a device have no stages."""
    for name, plan in config.parallel.plans.items():
        if plan.stage > 1:
            key = f"{config.plan_key(name)}.stage"
            reason = f"{plan.stage} is refused, as modules in groups with quota none have no stages"
            yield ConfigProblem(key, reason, partial(choose_only, key, 1))

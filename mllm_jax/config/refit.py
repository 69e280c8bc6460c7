"""Plans of a run for fewer hosts, with which its supervisors continue if hosts do not come back.

The model, the rows of a step and the order of the samples stay as they are, so that the losses do,
too. Replicas become fewer: a plan of `run.fallback` with as many devices, or else the configured
plans with other degrees of data and fsdp.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import reduce
from itertools import islice, product
from pathlib import Path
from typing import Any

from mllm_jax.config.load import load_config, resolve_config
from mllm_jax.config.run import FallbackPlan
from mllm_jax.config.sections import ConfigError, ExperimentConfig
from mllm_jax.models.short_form import sections_of_modules
from sharding.plan import ParallelPlan, divisors_of

#: Combinations of plans that are tried for a number of hosts.
_TRIED = 64

#: Overrides of a configuration by the number of hosts that they are for.
Fallbacks = dict[int, tuple[str, ...]]
#: Keys that the search over plans chooses.
_SEARCHED = ("parallel", "schedule", "model", "data.rows", "train.accumulate")


def resolve_fallbacks(config: ExperimentConfig, hosts: int) -> Fallbacks:
    """Overrides for every number of hosts below `hosts` that the run may go on with.

    Raises:
        ConfigError: there is no plan for `run.min_hosts` hosts, or a plan of `run.fallback` cannot
            run; the message says why.
    """
    fewest = config.run.min_hosts
    if fewest is None:
        return {}
    if not 1 <= fewest <= hosts:
        raise ConfigError(
            "train --supervise", [f"run.min_hosts {fewest} of {hosts} hosts; valid: 1 to {hosts}"]
        )
    _check_configured(config, hosts)
    overrides_by_hosts = {
        n: words for n in range(fewest, hosts) if (words := _fallback_overrides(config, hosts, n))
    }
    if fewest < hosts and fewest not in overrides_by_hosts and config.run.fallback != "plan":
        raise ConfigError(
            "train --supervise",
            [
                f"run.min_hosts {fewest}: no degrees of data and fsdp make the plans fit "
                f"{_device_count(config, hosts, fewest)} devices and the rows of a step; valid: "
                f"{', '.join(map(str, [*overrides_by_hosts, hosts]))}, or a plan for them in "
                "run.fallback"
            ],
        )
    return overrides_by_hosts


def devices_to_search(config: ExperimentConfig, hosts: int) -> dict[int, int]:
    """Devices by the numbers of hosts for which plans are to be searched.

    Raises:
        ConfigError: the search does not know the hardware.
    """
    if config.run.fallback != "plan" or config.run.min_hosts is None:
        return {}
    if config.schedule.hardware is None:
        raise ConfigError(
            "train --supervise",
            ["run.fallback plan: schedule.hardware null; valid: a description of the devices"],
        )
    numbers = range(config.run.min_hosts, hosts)
    return {n: devices for n in numbers if (devices := _device_count(config, hosts, n)) is not None}


def plan_overrides(config: ExperimentConfig, file: Path, devices: int) -> tuple[str, ...]:
    """Overrides that make `config` the one that the search has written to `file`.

    Raises:
        ConfigError: the file is no configuration, or one that leaves some of the devices idle.
    """
    plan = load_config(file)
    if plan.parallel.devices != devices:
        problem = f"the plan has {plan.parallel.devices} devices, and the hosts have {devices}"
        raise ConfigError(str(file), [problem])
    values = plan.model_dump(mode="json")
    before = config.model_dump(mode="json")

    def value_at(value: Any, key: str) -> Any:
        return reduce(lambda node, part: node[part], key.split("."), value)

    changed = [key for key in _SEARCHED if value_at(values, key) != value_at(before, key)]
    return tuple(f"{key}={json.dumps(value_at(values, key))}" for key in changed)


def _check_configured(config: ExperimentConfig, hosts: int) -> None:
    """Check that the plans of `run.fallback` are for fewer hosts, and can run."""
    valid = [
        device_count
        for n in range(1, hosts)
        if (device_count := _device_count(config, hosts, n)) is not None
    ]
    for configured in _configured_plans(config):
        if configured.devices not in valid:
            raise ConfigError(
                "train --supervise",
                [
                    f"run.fallback: a plan for {configured.devices} devices, which no "
                    f"number of hosts below {hosts} has; valid: {', '.join(map(str, valid))}"
                ],
            )
        resolve_config(_values_with_plans(config, configured.plans), source="run.fallback")


def _configured_plans(config: ExperimentConfig) -> tuple[FallbackPlan, ...]:
    return () if config.run.fallback == "plan" else config.run.fallback


def _fallback_overrides(config: ExperimentConfig, hosts: int, fewer: int) -> tuple[str, ...]:
    """The overrides for `fewer` hosts; empty if no plan fits."""
    devices = _device_count(config, hosts, fewer)
    if devices is None:
        return ()
    for plans in islice(_candidate_plans(config, devices), _TRIED):
        try:
            resolve_config(_values_with_plans(config, plans), source="")
        except ConfigError:  # the next one may fit
            continue
        sections = {"devices": devices, **_plan_sections(config, plans)}
        return tuple(f"parallel.{key}={json.dumps(value)}" for key, value in sections.items())
    return ()


def _device_count(config: ExperimentConfig, hosts: int, fewer: int) -> int | None:
    """Devices of fewer hosts; None if hosts do not share the devices evenly."""
    devices, remainder = divmod(config.parallel.devices * fewer, hosts)
    return None if remainder else devices


def _candidate_plans(config: ExperimentConfig, devices: int) -> Iterator[dict[str, ParallelPlan]]:
    """Plans for so many devices, those that change the least first."""
    for configured in _configured_plans(config):
        if configured.devices == devices:
            yield configured.plans
    plans = config.parallel.plans
    for chosen in product(*(_scaled_plans(plan, devices) for plan in plans.values())):
        yield dict(zip(plans, chosen, strict=True))


def _scaled_plans(plan: ParallelPlan, devices: int) -> list[ParallelPlan]:
    """The plan with other degrees of data and fsdp: the same fsdp first, and then larger ones."""
    replicas, remainder = divmod(devices, plan.stage * plan.inner_devices)
    if remainder:
        return []
    degrees = sorted(divisors_of(replicas), key=lambda fsdp: (fsdp != plan.fsdp, -fsdp))
    return [plan.model_copy(update={"data": replicas // fsdp, "fsdp": fsdp}) for fsdp in degrees]


def _plan_sections(config: ExperimentConfig, plans: Mapping[str, ParallelPlan]) -> dict[str, Any]:
    """Keys of `parallel` for the plans of all modules."""
    values = {name: plan.model_dump() for name, plan in plans.items()}
    return sections_of_modules(values, config.model.backbone)


def _values_with_plans(
    config: ExperimentConfig, plans: Mapping[str, ParallelPlan]
) -> dict[str, Any]:
    """The values of the configuration with other plans."""
    values = config.model_dump(mode="json")
    devices = plans[config.model.backbone].devices
    values["parallel"] |= {"devices": devices, **_plan_sections(config, plans)}
    return values

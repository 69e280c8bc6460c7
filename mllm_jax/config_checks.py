"""What the sections of a configuration must agree on, before anything is started.

Each check yields sentences that give the key, its value, the reason and the valid choices.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sharding.grid import JointGrid, refining_plans
from sharding.plan import ParallelPlan, PlanError, divisors

if TYPE_CHECKING:
    from mllm_jax.config import ExperimentConfig

#: Plan axes that the train step does not run yet.
SINGLE_AXES = ("stage", "context", "expert")
#: Attention implementations by platform; `auto` picks one of them.
BACKENDS = {
    "cpu": ("auto", "reference"),
    "gpu": ("auto", "reference", "cudnn", "pallas_gpu"),
    "tpu": ("auto", "reference", "splash"),
}


def check(config: ExperimentConfig) -> list[str]:
    """All disagreements between the sections of `config`; empty if it can run."""
    problems = [*_names(config), *_attention(config)]
    if problems:  # what follows looks modules up by name
        return problems
    plans = [*_single(config), *_counts(config)]
    return [*(plans or _grid(config)), *_sizes(config), *_positions(config), *_rows(config)]


def module_path(name: str) -> str:
    """Key of the plan of module `name`: `parallel.decoder` or `parallel.encoders.<name>`."""
    return "parallel.decoder" if name == "decoder" else f"parallel.encoders.{name}"


def _names(config: ExperimentConfig) -> Iterator[str]:
    """Every encoder has a plan and a budget, and nothing else has one."""
    encoders = list(config.model.encoders)
    valid = ", ".join(encoders) or "none, as model.encoders is empty"
    for name in sorted({"decoder", "tokens", "segments"} & set(encoders)):
        yield f"model.encoders.{name}: the name is taken; choose another, e.g. vision"
    for name in encoders:
        if name not in config.parallel.encoders:
            yield (
                f"parallel.encoders.{name}: required, as model.encoders.{name} exists; "
                f"give degrees that multiply to {config.parallel.devices}"
            )
        if name not in config.data.budgets:
            yield f"data.budgets.{name}: required, as model.encoders.{name} exists"
    for name in config.parallel.encoders:
        if name not in encoders:
            yield f"parallel.encoders.{name}: no such encoder in the model; valid: {valid}"
    for name in config.data.budgets:
        if name not in (*encoders, "tokens", "segments"):
            yield f"data.budgets.{name}: no such encoder; valid: tokens, segments, {valid}"


def _attention(config: ExperimentConfig) -> Iterator[str]:
    platform, backend = config.parallel.platform, config.model.attention
    if backend not in BACKENDS[platform]:
        yield (
            f"model.attention: {backend} does not run on parallel.platform {platform}; "
            f"valid: {', '.join(BACKENDS[platform])}"
        )


def _single(config: ExperimentConfig) -> Iterator[str]:
    for name, plan in config.parallel.plans.items():
        for axis in SINGLE_AXES:
            if getattr(plan, axis) > 1:
                degree = getattr(plan, axis)
                yield f"{module_path(name)}.{axis}: {degree} is not supported; valid: 1"


def _counts(config: ExperimentConfig) -> Iterator[str]:
    """Every plan multiplies to the device count."""
    devices = config.parallel.devices
    for name, plan in config.parallel.plans.items():
        if plan.devices != devices:
            yield (
                f"{module_path(name)}: {plan} covers {_devices(plan.devices)}, but "
                f"parallel.devices is {devices}; {_valid_plans(config, name)}"
            )


def _valid_plans(config: ExperimentConfig, name: str) -> str:
    decoder, devices = config.parallel.decoder, config.parallel.devices
    if name == "decoder":
        alone = refining_plans(ParallelPlan(data=devices))
        return f"valid: {'; '.join(map(str, alone))}, or with part of data as fsdp"
    if decoder.devices != devices:
        return f"choose degrees that multiply to {devices}"
    return f"valid beside decoder {decoder}: {'; '.join(map(str, refining_plans(decoder)))}"


def _grid(config: ExperimentConfig) -> Iterator[str]:
    """All plans refine into one grid."""
    try:
        JointGrid.build(config.parallel.plans)
    except PlanError as error:
        yield f"parallel: {error}"


def _sizes(config: ExperimentConfig) -> Iterator[str]:
    """Heads, widths and vocabulary divide by the degrees that split them."""
    for name, plan in config.parallel.plans.items():
        where = "model.decoder" if name == "decoder" else f"model.encoders.{name}"
        for need in config.model.requirements(name):
            degree = getattr(plan, need.axis)
            if need.axis not in SINGLE_AXES and need.size % degree:
                fitting = [n for n in divisors(config.parallel.devices) if need.size % n == 0]
                yield (
                    f"{module_path(name)}.{need.axis}: {degree} does not divide {need.name} "
                    f"{need.size} of {where}; valid: {_listed(fitting)}, "
                    f"or a {need.name} that is a multiple of {degree}"
                )


def _positions(config: ExperimentConfig) -> Iterator[str]:
    """Rows split into whole shards (sequence parallelism) and whole encoder outputs."""
    tokens, tensor = config.data.budgets["tokens"], config.parallel.decoder.tensor
    yield from _multiple("tokens", tokens, tensor, f"parallel.decoder.tensor {tensor}")
    for name, encoder in config.model.encoders.items():
        tensor = config.parallel.encoders[name].tensor
        reason = f"reduction {encoder.reduction} x parallel.encoders.{name}.tensor {tensor}"
        budget = config.data.budgets[name]
        yield from _multiple(name, budget, encoder.reduction * tensor, reason)
    decoder = config.model.decoder
    if decoder.family == "gpt" and decoder.max_positions < tokens:
        yield (
            f"model.decoder.max_positions: {decoder.max_positions} learned positions are fewer "
            f"than data.budgets.tokens {tokens}; valid: {tokens} or more"
        )


def _multiple(key: str, budget: int, unit: int, reason: str) -> Iterator[str]:
    if budget % unit:
        below = budget // unit * unit
        near = [n for n in (below, below + unit) if n]
        yield (
            f"data.budgets.{key}: {budget} is not a multiple of {unit} ({reason}); "
            f"nearest valid: {_listed(near)}"
        )


def _rows(config: ExperimentConfig) -> Iterator[str]:
    """Every share of the batch is a whole number of rows."""
    rows = config.data.rows
    for name, plan in config.parallel.plans.items():
        if rows % plan.batch:
            yield (
                f"data.rows: {rows} is not a multiple of {plan.batch}, the data x fsdp degree of "
                f"{module_path(name)}; nearest valid: {-(-rows // plan.batch) * plan.batch}"
            )


def _devices(count: int) -> str:
    return "1 device" if count == 1 else f"{count} devices"


def _listed(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers))

"""What benchmarks need of a configuration, checked before any device is looked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mllm_jax.cli.benchmark import Benchmark
from mllm_jax.config.sections import ConfigError, ExperimentConfig

#: What is missing, and what is valid; empty if nothing is.
Check = Callable[[ExperimentConfig], str]


def check_needs(benchmark: Benchmark, config: ExperimentConfig) -> None:
    """Check that a configuration has what a benchmark measures.

    Raises:
        ConfigError: it lacks something; the message names all of it, and a file that has it.
    """
    problems = [problem for need in benchmark.needs if (problem := NEEDS[need](config))]
    if problems:
        raise ConfigError(
            f"bench {benchmark.name}", [f"{why}, as in {benchmark.config}" for why in problems]
        )


def _check_stages(config: ExperimentConfig) -> str:
    stages = config.parallel.backbone_plan.stage
    return "" if stages > 1 else f"{config.stage_key}: {stages} is no pipeline; valid: 2 or more"


def _check_encoder(config: ExperimentConfig) -> str:
    return "" if config.model.others else "model: there is no encoder; valid: one"


def _one_encoder(config: ExperimentConfig) -> str:
    buckets = config.model.buckets
    if len(buckets) == 1:
        return ""
    reason = f"{', '.join(buckets)} are {len(buckets)}" if buckets else "there is none"
    return f"the encoders of the model: {reason}; valid: one encoder without buckets"


def _own_rows(config: ExperimentConfig) -> str:
    missing = [
        name for name in config.model.buckets if name not in config.schedule.independent_budgets
    ]
    if not missing:
        return ""
    return (
        f"schedule.independent_budgets: there is none of {', '.join(missing)}; valid: positions of "
        "a row of the encoder's independent microbatches"
    )


def _short_and_long(config: ExperimentConfig) -> str:
    buckets = [*config.model.buckets]
    if {*buckets} == {"short", "long"} and len(config.model.others) == 1:
        return ""
    names = ", ".join(buckets) or "nothing"
    return f"model: media go through {names}; valid: one encoder with buckets short and long"


def _check_synthetic(config: ExperimentConfig) -> str:
    kind = config.data.source.kind
    return "" if kind == "synthetic" else f"data.source.kind: {kind}; valid: synthetic"


def _data_alone(config: ExperimentConfig) -> str:
    split = ("context", "tensor", "expert", "stage")
    degrees = {
        name: [f"{axis} {degree}" for axis in split if (degree := getattr(plan, axis)) > 1]
        for name, plan in config.parallel.plans.items()
    }
    reasons = [f"{name} has {' and '.join(axes)}" for name, axes in degrees.items() if axes]
    if not reasons:
        return ""
    return f"parallel: {', '.join(reasons)}, and hosts are lost and come back; valid: data and fsdp"


#: Checks by the names in `Benchmark.needs`.
NEEDS: Mapping[str, Check] = {
    "stages": _check_stages,
    "encoder": _check_encoder,
    "one encoder": _one_encoder,
    "own rows": _own_rows,
    "short and long": _short_and_long,
    "synthetic": _check_synthetic,
    "data alone": _data_alone,
}

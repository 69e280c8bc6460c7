"""What stages of a backbone in a group of devices can do, and what is refused by name."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import partial

from mllm_jax.config.checks.problems import ConfigProblem, choose_only
from mllm_jax.config.sections import ExperimentConfig
from mllm_jax.models.model_config import ModelConfig


def check_group_stages(config: ExperimentConfig) -> Iterator[ConfigProblem]:
    """Checks of stages in groups; nothing without stages."""
    backbone, stages = config.model.backbone, config.parallel.backbone_plan.stage
    for name, plan in config.parallel.others.items():
        if plan.stage > 1:
            key = f"{config.plan_key(name)}.stage"
            reason = f"{plan.stage} is refused, as in groups {backbone} alone has stages"
            yield ConfigProblem(key, reason, partial(choose_only, key, 1))
    if stages == 1:
        return
    groups = config.parallel.groups.values()
    beside = next(group.modules for group in groups if backbone in group.modules)
    for reason in find_stage_problems(config.model, stages, {*beside} - {backbone}):
        reason = f"{stages} is refused, as stages in a group {reason}"
        yield ConfigProblem(config.stage_key, reason, partial(choose_only, config.stage_key, 1))
    yield from _check_schedule(config)


def _check_schedule(config: ExperimentConfig) -> Iterator[ConfigProblem]:
    """The schedule of stages in a group is 1F1B with one chunk each."""
    default = type(config.schedule)()
    for name, value in config.schedule:
        idle = value == getattr(default, name) or (name == "chunks" and {*value.values()} == {1})
        if name != "hardware" and not idle:
            key = f"schedule.{name}"
            reason = f"{value} is refused, as stages in a group run 1f1b with one chunk each"
            yield ConfigProblem(key, reason, partial(choose_only, key, getattr(default, name)))


def find_stage_problems(model: ModelConfig, stages: int, beside: Collection[str]) -> Iterator[str]:
    """Why the backbone of a group cannot have so many stages.

    Args:
        model: resolved model configuration.
        stages: number of stages.
        beside: other modules of the group.
    """
    settings, graph = model.backbone_config, model.graph
    if settings.layers % (stages * settings.period):
        yield f"cannot divide {settings.layers} layers in runs of {settings.period} evenly"
    if beside:
        yield f"have no place for {', '.join(sorted(beside))} beside them"
    if settings.experts:
        yield "have no auxiliary losses and loads of experts"
    if settings.tie_embeddings:
        yield "share no table of tied embeddings"
    if graph.layer_inputs(model.backbone):
        yield "carry no outputs of earlier layers of an encoder"
    for name, objective in graph.objectives.items():
        if objective.scope == "step":
            yield f"compute no losses of a whole step, such as {name}"
    for name in graph.modules:
        if name != model.backbone and graph.heads_of(name):
            yield f"take no outputs of {name} to {', '.join(graph.heads_of(name))}"

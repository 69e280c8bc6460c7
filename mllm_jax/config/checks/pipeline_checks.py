"""Requirements of a pipeline's schedule on a configuration, checked before it is built."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from mllm_jax.config.checks.plan_checks import (
    choice_of_other_key,
    covering_plans,
    nearby_multiples,
    plans_for,
    whole_shards,
)
from mllm_jax.config.checks.problems import LEFT_OUT, Candidates, ConfigProblem, ProblemChoice
from mllm_jax.config.hardware import hardware_names, load_hardware
from mllm_jax.config.inputs import longest_medium, unbounded_by
from mllm_jax.config.pipeline_plan import StageLayers
from mllm_jax.config.sections import ExperimentConfig
from scheduling.costs.hardware import HardwareError
from scheduling.schedules.backbone_schedules import MOST_FORWARDS, most_microbatches
from scheduling.schedules.kinds import SPLIT_BACKWARD
from scheduling.schedules.tasks import valid_chunks
from sharding.plan import ParallelPlan


def pipeline_checks(config: ExperimentConfig) -> list[ConfigProblem]:
    """Checks of the section `schedule`, and of stages."""
    if config.parallel.backbone_plan.stage == 1:
        return [*_check_hardware(config), *_without_stages(config)]
    if config.parallel.groups:
        return [*_check_hardware(config), *_check_unused_checks(config, "stages are in a group")]
    layers = [
        *_check_layers(config),
        *_check_length(config),
        *_check_encoder_chunks(config),
        *_check_deepstack(config),
    ]
    placing = [*_first_stage(config), *_check_max_waiting(config), *_of_bubbles_alone(config)]
    further = [
        *_independent_microbatches(config),
        *_check_split_weights(config),
        *_check_objectives(config),
    ]
    return [*_check_hardware(config), *_check_module_names(config), *layers, *placing, *further]


def _check_objectives(config: ExperimentConfig) -> Iterator[ConfigProblem]:
    """Stages learn a microbatch's objectives where it leaves the last stage of the backbone."""
    stages = config.parallel.backbone_plan.stage
    for name, objective in config.model.graph.objectives.items():
        if objective.scope == "step":
            reason = (
                f"{objective.kind} waits for the outputs of all microbatches, and in a schedule of "
                f"{config.stage_key} {stages} backwards run before the last forward"
            )
            valid = f"an objective of a microbatch, or {config.stage_key} 1"
            yield ConfigProblem(f"model.objectives.{name}", reason, further=valid)


def _check_hardware(config: ExperimentConfig) -> Iterator[ConfigProblem]:
    chosen, key = config.schedule.hardware, "schedule.hardware"
    if chosen is None:
        return
    try:
        load_hardware(chosen)
    except HardwareError as error:
        if chosen.endswith((".yaml", ".yml")):
            yield ConfigProblem(key, str(error))
        else:
            files = "a file NAME.yaml that `launch.py calibrate` has written"
            known = [[ProblemChoice.of_key(key, name) for name in hardware_names()]]
            yield ConfigProblem(key, f"{chosen!r} is unknown", lambda: known, further=files)


def _without_stages(config: ExperimentConfig) -> Iterator[ConfigProblem]:
    """Stages of encoders need stages of the decoder, and so does a schedule."""
    if config.run.trace_step is not None:
        reason = f"{config.run.trace_step} has no pipeline to measure, as {_one_stage(config)}"
        yield _or_default("run.trace_step", None, reason)
    for name, plan in covering_plans(config).items():
        if plan.stage > 1:
            key = f"{config.plan_key(name)}.stage"
            reason = f"{plan.stage} needs a decoder with stages"
            yield ConfigProblem(key, reason, partial(_other_plans, config, name), 4)
    yield from _check_unused_checks(config, _one_stage(config))
    default = type(config.schedule)()
    for key, value in config.schedule:
        # `simulate` and `plan` take the hardware, with stages or without.
        idle = value == getattr(default, key) or (key == "chunks" and _is_one_chunk(config, value))
        if key != "hardware" and not idle:
            reason = f"{value} has no effect, as {_one_stage(config)}"
            yield _or_default(f"schedule.{key}", getattr(default, key), reason)


def _check_unused_checks(config: ExperimentConfig, cause: str) -> Iterator[ConfigProblem]:
    if config.train.check_schedules:
        reason = f"true has no effect, as {cause}"
        yield _or_default("train.check_schedules", False, reason)


def _is_one_chunk(config: ExperimentConfig, chunks: Mapping[str, int]) -> bool:
    """Whether chunks are those of a step without stages: one of each module."""
    return {*chunks.values()} == {1} and chunks.keys() <= config.parallel.plans.keys()


def _other_plans(config: ExperimentConfig, name: str) -> list[Candidates]:
    return [plans_for(config, name)]


def _one_stage(config: ExperimentConfig) -> str:
    return f"{config.stage_key} is 1"


def _or_default(key: str, value: object, reason: str) -> ConfigProblem:
    return ConfigProblem(key, reason, lambda: [[ProblemChoice.of_key(key, value)]])


def _check_module_names(config: ExperimentConfig) -> Iterator[ConfigProblem]:
    for key in ("chunks", "independent_budgets", "independent_rows"):
        names = [*[config.model.backbone] * (key == "chunks"), *config.model.buckets]
        for name in getattr(config.schedule, key):
            if name not in names:
                what = "module; its modules" if key == "chunks" else "encoder; its encoders"
                reason = f"the model has no such {what} are {', '.join(names) or 'none'}"
                yield _or_default(f"schedule.{key}.{name}", LEFT_OUT, reason)


def _of_bubbles_alone(config: ExperimentConfig) -> Iterator[ConfigProblem]:
    """Keys that only the placement in bubbles reads."""
    chosen, default = config.schedule, type(config.schedule)()
    if chosen.placement == "bubbles":
        return
    microbatch_keys = ("independent_microbatches", "independent_budgets", "independent_rows")
    for key in ("fill", *microbatch_keys, "max_waiting", "prefetch"):
        value, valid = getattr(chosen, key), getattr(default, key)
        if value != valid:
            because = f"as schedule.placement is {chosen.placement}"
            yield _or_default(f"schedule.{key}", valid, f"{value} has no effect, {because}")


def _check_split_weights(config: ExperimentConfig) -> Iterator[ConfigProblem]:
    """A decoder with split weight gradients has some."""
    key, kind = "schedule.kind", config.schedule.kind
    if kind in SPLIT_BACKWARD and config.frozen.is_trunk_frozen(config.model.backbone):
        name = config.model.backbone
        reason = f"{kind} has no effect, as train.freeze has {name}, which has no weight gradients"
        yield _or_default(key, "1f1b", reason)


def _independent_microbatches(config: ExperimentConfig) -> Iterator[ConfigProblem]:
    """Independent microbatches of encoders go with media that are distributed by themselves."""
    key = "schedule.independent_microbatches"
    if not config.schedule.independent_microbatches:
        if config.train.check_schedules:
            reason = f"true has no effect, as {key} is false: all steps have one schedule"
            yield _or_default("train.check_schedules", False, reason)
        for section in ("independent_budgets", "independent_rows"):
            for name in getattr(config.schedule, section):
                reason = f"it has no effect, as {key} is false"
                yield _or_default(f"schedule.{section}.{name}", LEFT_OUT, reason)
        return
    yield from _own_budgets(config)
    usual = ProblemChoice.of_key(key, False)
    if config.data.balance != "per_phase":
        reason = f"true needs media in rows of their own, and data.balance is {config.data.balance}"
        per_phase = choice_of_other_key("data.balance", "per_phase")
        yield ConfigProblem(key, reason, lambda: [[per_phase], [usual]])
    if config.run.trace_step is not None:
        reason = f"{config.run.trace_step} is drawn beside one schedule, and with {key}: true every"
        yield _or_default("run.trace_step", None, f"{reason} step has its own")


def _own_budgets(config: ExperimentConfig) -> Iterator[ConfigProblem]:
    """A row of an independent microbatch has room for every medium, and is no larger.

    A size outside these bounds is refused as such; its choices are full shards.
    """
    for name, positions in config.schedule.independent_budgets.items():
        if name not in config.model.buckets or name not in config.data.budgets:
            continue
        unit = config.budget_unit(name, config.parallel.others[name])
        least, most = longest_medium(config, name), config.data.budgets[name]
        key, room = (
            f"schedule.independent_budgets.{name}",
            range(-(-least // unit), most // unit + 1),
        )
        if positions < least:
            reason = f"{positions} is less than {least}, {_longest_medium(config, name)}"
            yield ConfigProblem(key, reason, partial(_multiple_choices, key, unit, room))
        elif positions > most:
            reason = f"{positions} is more than data.budgets.{name} {most}"
            yield ConfigProblem(key, reason, partial(_multiple_choices, key, unit, room))
        elif name in covering_plans(config):
            yield from whole_shards(config, name, key, positions)


def _longest_medium(config: ExperimentConfig, name: str) -> str:
    """The bound of the media of an encoder, in words."""
    keys = " and ".join(unbounded_by(config, name))
    if not keys:
        return "the longest medium"
    return f"the longest medium: data.budgets.{name}, as {keys} allows longer ones"


def _multiple_choices(key: str, unit: int, room: range) -> list[Candidates]:
    return [[ProblemChoice.of_key(key, n * unit) for n in room]]


def _check_layers(config: ExperimentConfig) -> Iterator[ConfigProblem]:
    """The decoder's layers can be assigned to stages and chunks."""
    stages, chunks = config.parallel.backbone_plan.stage, config.backbone_chunks
    layers, model_key = config.model.backbone_config.layers, config.model_key(config.model.backbone)
    period = config.model.backbone_config.period
    unit = stages * chunks * period
    if layers % unit and not config.schedule.pad_layers:
        runs = f"stages {stages} x chunks {chunks}"
        runs += f" x {period} layers of {model_key}.pattern" if period > 1 else ""
        reason = f"{layers} is not a multiple of {unit}, {runs}"
        yield ConfigProblem(f"{model_key}.layers", reason, partial(_other_runs, config), 1)


def _chunks_key(config: ExperimentConfig) -> str:
    return f"schedule.chunks.{config.model.backbone}"


def _other_runs(config: ExperimentConfig) -> list[Candidates]:
    """Fewer chunks, layers that are padding, other layers, other stages."""
    layers, stages = config.model.backbone_config.layers, config.parallel.backbone_plan.stage
    chunks, period = config.backbone_chunks, config.model.backbone_config.period
    fewer = [n for n in range(chunks, 0, -1) if layers % (stages * n * period) == 0]
    sides: list[Candidates] = [
        [choice_of_other_key(_chunks_key(config), n) for n in fewer],
        [choice_of_other_key("schedule.pad_layers", True)],
        plans_for(config, config.model.backbone),
    ]
    key = f"{config.model_key(config.model.backbone)}.layers"
    return sides + _near_layers(config, key, layers, stages * chunks * period)


def _near_layers(config: ExperimentConfig, key: str, layers: int, unit: int) -> list[Candidates]:
    """Choices of other numbers of layers; the number of a released model does not change."""
    return nearby_multiples(key, layers, unit) if config.model.pretrained is None else []


def _check_length(config: ExperimentConfig) -> Iterator[ConfigProblem]:
    """The schedule is not too long."""
    stages, chunks = config.parallel.backbone_plan.stage, config.backbone_chunks
    microbatches, most = config.train.accumulate, most_microbatches(stages, chunks)
    if microbatches > most:
        key = "train.accumulate"
        reason = (
            f"{microbatches} microbatches on {config.stage_key} {stages} x schedule.chunks "
            f"{chunks} are more than {MOST_FORWARDS} forwards to schedule"
        )
        fewer = [[ProblemChoice(f"at most {most}", {key: most})]] if most else []
        once = [choice_of_other_key(_chunks_key(config), 1)]
        yield ConfigProblem(key, reason, lambda: [*fewer, once])


def _encoder_plans(config: ExperimentConfig) -> dict[str, ParallelPlan]:
    plans, backbone = covering_plans(config), config.model.backbone
    return {name: plan for name, plan in plans.items() if name != backbone}


def _check_encoder_chunks(config: ExperimentConfig) -> Iterator[ConfigProblem]:
    """Every encoder's layers can be cut over its stages, in as many chunks as are configured."""
    chosen = config.schedule
    for name, plan in _encoder_plans(config).items():
        stages, settings = plan.stage, config.model.encoder(name)
        encoder, layers, periods = (
            config.model.buckets[name],
            settings.layers,
            settings.layers // settings.period,
        )
        if periods % stages:
            key = f"{config.model_key(encoder)}.layers"
            reason = f"{layers} cannot be cut over the {stages} stages of {config.plan_key(name)}"
            yield ConfigProblem(key, reason, partial(_other_layers, config, name), 2)
        elif (chunks := chosen.chunks.get(name, 1)) not in (valid := valid_chunks(periods, stages)):
            key = f"schedule.chunks.{name}"
            reason = (
                f"{chunks} on each of {stages} stages do not split the {layers} layers of "
                f"{config.model_key(encoder)} evenly"
            )
            yield ConfigProblem(key, reason, partial(_value_choices, key, valid))


def _other_layers(config: ExperimentConfig, name: str) -> list[Candidates]:
    key = f"{config.model_key(name)}.layers"
    encoder = config.model.encoder(name)
    unit = config.parallel.others[name].stage * encoder.period
    return [plans_for(config, name), *_near_layers(config, key, encoder.layers, unit)]


def _value_choices(key: str, valid: Sequence[object]) -> list[Candidates]:
    return [[ProblemChoice.of_key(key, value) for value in valid]]


def _check_deepstack(config: ExperimentConfig) -> Iterator[ConfigProblem]:
    """Layers with side inputs are in the first chunk, and those that give them together."""
    stages, chunks = config.parallel.backbone_plan.stage, config.backbone_chunks
    decoder = config.model.backbone_config
    most = StageLayers(decoder.layers, stages, chunks, decoder.period).per_chunk
    for name, plan in _encoder_plans(config).items():
        layers = config.model.graph.intermediate_layers(config.model.buckets[name])
        key = f"{config.model_key(name)}.deepstack"
        if layers and plan.stage > 1:
            reason = f"{list(layers)} needs an encoder on one stage, and this one has {plan.stage}"
            none = [ProblemChoice.of_key(key, [])]
            yield ConfigProblem(key, reason, partial(_one_stage_or, config, name, none))
        elif len(layers) > most:
            reason = (
                f"{list(layers)} are more than the {most} layers of the first of stages {stages} x "
                f"chunks {chunks}, after which they are added"
            )
            yield ConfigProblem(key, reason, partial(_value_choices, key, [list(layers[:most])]))


def _one_stage_or(config: ExperimentConfig, name: str, other: Candidates) -> list[Candidates]:
    return [plans_for(config, name), other]


def _first_stage(config: ExperimentConfig) -> Iterator[ConfigProblem]:
    chosen = config.schedule.placement
    staged = [name for name, plan in _encoder_plans(config).items() if plan.stage > 1]
    if chosen == "first_stage" and staged:
        key = "schedule.placement"
        reason = f"{chosen} runs encoders on one stage, and {', '.join(staged)} has several"
        others = [[ProblemChoice.of_key(key, value)] for value in ("bubbles", "prologue")]
        yield ConfigProblem(key, reason, lambda: others)


def _check_max_waiting(config: ExperimentConfig) -> Iterator[ConfigProblem]:
    """`schedule.max_waiting` admits all outputs that a round of every encoder makes."""
    waiting, stages = config.schedule.max_waiting, config.parallel.backbone_plan.stage
    rounds = {name: stages // plan.stage for name, plan in _encoder_plans(config).items()}
    least = max(rounds.values(), default=1)
    if config.schedule.placement == "bubbles" and waiting is not None and waiting < least:
        name = max(rounds, key=lambda name: rounds[name])
        reason = f"{waiting} is refused: a round of {name} makes {least} outputs"
        enough = ProblemChoice(f"{least} or more", {"schedule.max_waiting": least})
        usual = ProblemChoice.of_key("schedule.max_waiting", None)
        yield ConfigProblem("schedule.max_waiting", reason, lambda: [[enough], [usual]])

"""What the sections of a configuration must agree on, before anything is started.

Each check yields sentences that give the key, its value, the reason and the valid choices.
"""

from __future__ import annotations

from collections.abc import Iterator

from data.balance import check_balancing
from data.ladder import Ladder
from data.sample import DataError
from mllm_jax.config_sections import ExperimentConfig, ScheduleConfig
from mllm_jax.models.attention_limits import LIMITS, able_backends
from mllm_jax.models.config import ImageEncoderConfig
from mllm_jax.train.schedule import pipeline_plan
from scheduling.hardware import HardwareError, named
from scheduling.schedule import ScheduleError
from sharding.grid import JointGrid, refining_plans
from sharding.plan import ParallelPlan, PlanError, divisors
from sharding.stages import StageViews, without_stages

#: Axes whose product splits what no axis of a plan splits alone.
PRODUCTS = {"sequence": ("context", "tensor")}

#: Forwards of chunks in a schedule; larger ones take minutes to make.
MOST_FORWARDS = 2**18

#: Plan axes that nothing is split over: no family has experts.
SINGLE_AXES = ("expert",)


def check(config: ExperimentConfig) -> list[str]:
    """All disagreements between the sections of `config`; empty if it can run."""
    return check_sections(config) or [*_schedule(config)]


def check_sections(config: ExperimentConfig) -> list[str]:
    """Those that show without a schedule, which takes seconds for a large pipeline."""
    problems = [*_plan_names(config), *_given(config)]
    if problems:  # what follows looks modules up by name
        return problems
    plans = [*_single(config), *_counts(config)]
    splits = [*(plans or _grid(config)), *_sizes(config), *_positions(config), *_rows(config)]
    return [
        *splits,
        *_learned_positions(config),
        *_attention(config),
        *_balancing(config),
        *_freeze(config),
        *_stages(config),
        *_stages_as_fsdp(config),
    ]


def check_unplanned(config: ExperimentConfig) -> list[str]:
    """What is wrong whatever the plans are; empty if there may be plans with which it can run."""
    problems = [*_given(config)]
    return problems or [*_learned_positions(config), *_balancing(config), *_freeze(config)]


def _given(config: ExperimentConfig) -> list[str]:
    """Names, media and evaluation, which no plan changes."""
    return [*_names(config), *_media(config), *_placeholders(config), *_evaluation(config)]


def module_path(name: str) -> str:
    """Key of the plan of module `name`: `parallel.decoder` or `parallel.encoders.<name>`."""
    return "parallel.decoder" if name == "decoder" else f"parallel.encoders.{name}"


def _plan_names(config: ExperimentConfig) -> Iterator[str]:
    """Every encoder has a plan, and nothing else has one."""
    encoders = list(config.model.encoders)
    for name in encoders:
        if name not in config.parallel.encoders:
            yield (
                f"parallel.encoders.{name}: required, as model.encoders.{name} exists; "
                f"give degrees that multiply to {config.parallel.devices}"
            )
    for name in config.parallel.encoders:
        if name not in encoders:
            valid = ", ".join(encoders) or "none, as model.encoders is empty"
            yield f"parallel.encoders.{name}: no such encoder in the model; valid: {valid}"


def _names(config: ExperimentConfig) -> Iterator[str]:
    """Every encoder has a budget, and nothing else has one."""
    encoders = list(config.model.encoders)
    valid = ", ".join(encoders) or "none, as model.encoders is empty"
    for name in sorted({"decoder", "tokens", "segments"} & set(encoders)):
        yield f"model.encoders.{name}: the name is taken; choose another, e.g. vision"
    for name in encoders:
        if name not in config.data.budgets:
            yield f"data.budgets.{name}: required, as model.encoders.{name} exists"
    for name in config.data.budgets:
        if name not in (*encoders, "tokens", "segments"):
            yield f"data.budgets.{name}: no such encoder; valid: tokens, segments, {valid}"


def _media(config: ExperimentConfig) -> Iterator[str]:
    """One encoder for each kind of media, and constants for all channels of an image."""
    owners: dict[str, str] = {}
    for name, encoder in config.model.encoders.items():
        first = owners.setdefault(encoder.modality, name)
        if first != name:
            yield (
                f"model.encoders.{name}: {encoder.family} takes {encoder.modality}, as "
                f"model.encoders.{first} does; valid: one encoder for each kind of media"
            )
        if isinstance(encoder, ImageEncoderConfig):
            yield from _constants(config, f"model.encoders.{name}", encoder.channels)


def _constants(config: ExperimentConfig, where: str, channels: int) -> Iterator[str]:
    image = config.data.image
    valid = [1] if channels == 1 else [1, channels]
    for key, values in (("mean", image.mean), ("std", image.std)):
        if len(values) not in valid:
            yield (
                f"data.image.{key}: {list(values)} is not one value for all channels or one for "
                f"each of {where}.channels {channels}; valid lengths: {_listed(valid)}"
            )


def _placeholders(config: ExperimentConfig) -> Iterator[str]:
    image, audio = config.data.image.placeholder, config.data.audio.placeholder
    if image == audio:
        yield (
            f"data.audio.placeholder: {audio} is data.image.placeholder as well, so that a text "
            f"would not say which is meant; valid: any other special token, e.g. <audio>"
        )


def _evaluation(config: ExperimentConfig) -> Iterator[str]:
    """An answer leaves room for its prompt, and a rhythm belongs to an evaluation."""
    evaluate, tokens = config.evaluate, config.data.budgets["tokens"]
    if evaluate.enabled and not (evaluate.loss or evaluate.exact_match):
        yield (
            "evaluate.enabled: true measures nothing, as evaluate.loss and evaluate.exact_match "
            "are false; valid: false, or one of them true"
        )
    if evaluate.enabled and evaluate.exact_match and evaluate.max_new_tokens >= tokens:
        yield (
            f"evaluate.max_new_tokens: {evaluate.max_new_tokens} leaves no room for a prompt in "
            f"data.budgets.tokens {tokens}; valid: less than {tokens}"
        )
    if evaluate.every is not None and not evaluate.enabled:
        yield (
            f"evaluate.every: {evaluate.every} has no effect, as evaluate.enabled is false; "
            "valid: null, or evaluate.enabled true"
        )


def _attention(config: ExperimentConfig) -> Iterator[str]:
    """An explicit backend runs the rows of every module on the platform."""
    platform, backend = config.parallel.platform, config.model.attention
    if backend == "auto":
        return
    dtype = config.model.dtype_on(platform)
    able, reasons = list(LIMITS), dict[str, list[str]]()
    for module, tokens, head_dim in _attended(config):
        reason = LIMITS[backend].refusal(platform, tokens, head_dim, dtype)
        if reason is not None:
            reasons.setdefault(reason, []).append(module)
        here = able_backends(platform, tokens=tokens, head_dim=head_dim, dtype=dtype)
        able = [name for name in able if name in here]
    for reason, modules in reasons.items():
        yield (
            f"model.attention: {backend} cannot run {', '.join(dict.fromkeys(modules))}: {reason}; "
            f"valid: auto, {', '.join(able)}"
        )


def _attended(config: ExperimentConfig) -> Iterator[tuple[str, int, int]]:
    """Each module with the lengths of rows that its attention sees, and its head_dim."""
    rungs, decoder = Ladder.build(config.data, config.budget_units).rungs, config.model.decoder
    for tokens in rungs["tokens"]:
        yield "model.decoder", tokens, decoder.head_dim
    for name, encoder in config.model.encoders.items():
        for inputs in rungs[name]:
            yield f"model.encoders.{name}", inputs // encoder.stride, encoder.head_dim


def _balancing(config: ExperimentConfig) -> Iterator[str]:
    """What deals the samples of a tower is known."""
    try:
        check_balancing(config.data, ["decoder", *config.model.encoders])
    except DataError as error:
        yield str(error)


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
    if name == "decoder" and decoder.stage > 1:
        stages = _listed(divisors(devices))
        return f"choose degrees that multiply to {devices}; valid stages: {stages}"
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
    """Heads and widths divide by the degrees that split them."""
    for name, plan in config.parallel.plans.items():
        where = "model.decoder" if name == "decoder" else f"model.encoders.{name}"
        for need in config.model.requirements(name):
            degree, axis = getattr(plan, need.axis), _axis_name(plan, need.axis)
            if need.size % degree:
                fitting = [n for n in divisors(config.parallel.devices) if need.size % n == 0]
                yield (
                    f"{module_path(name)}.{axis}: {degree} does not divide {need.name} "
                    f"{need.size} of {where}; valid: {_listed(fitting)}, "
                    f"or a {need.name} that is a multiple of {degree}"
                )


def _axis_name(plan: ParallelPlan, axis: str) -> str:
    """How errors call an axis; of a product those that split anything, `tensor` if none does."""
    axes = [name for name in PRODUCTS.get(axis, (axis,)) if getattr(plan, name) > 1]
    return " x ".join(axes) or PRODUCTS.get(axis, (axis,))[-1]


def _positions(config: ExperimentConfig) -> Iterator[str]:
    """Rows split into whole shards (sequence parallelism) and whole encoder outputs."""
    tokens, units = config.data.budgets["tokens"], config.budget_units
    yield from _multiple("tokens", tokens, units["tokens"], _shards(config, "decoder"))
    for name, encoder in config.model.encoders.items():
        reason = f"reduction {encoder.reduction} x {_shards(config, name)}"
        yield from _multiple(name, config.data.budgets[name], units[name], reason)


def _learned_positions(config: ExperimentConfig) -> Iterator[str]:
    """A row has no more tokens than the decoder has positions."""
    decoder, tokens = config.model.decoder, config.data.budgets["tokens"]
    if not decoder.traits.rotary and decoder.max_positions < tokens:
        yield (
            f"model.decoder.max_positions: {decoder.max_positions} learned positions are fewer "
            f"than data.budgets.tokens {tokens}; valid: {tokens} or more"
        )


def _shards(config: ExperimentConfig, name: str) -> str:
    """What splits the positions of a row, with its degree."""
    plan = config.parallel.plans[name]
    return f"{module_path(name)}.{_axis_name(plan, 'sequence')} {plan.sequence}"


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
    for name, degree in _row_shares(config).items():
        if rows % degree:
            yield (
                f"data.rows: {rows} is not a multiple of {degree}, the data x fsdp degree of "
                f"{module_path(name)}{_in_a_stage(config)}; "
                f"nearest valid: {-(-rows // degree) * degree}"
            )


def _row_shares(config: ExperimentConfig) -> dict[str, int]:
    """Into how many shares each module deals the rows of a microbatch.

    A pipeline's stages are dealt whole microbatches of an encoder.
    """
    stages = config.parallel.decoder.stage
    return {
        name: plan.batch if name == "decoder" else max(plan.batch * plan.stage // stages, 1)
        for name, plan in config.parallel.plans.items()
    }


def _in_a_stage(config: ExperimentConfig) -> str:
    return " inside a stage" if config.parallel.decoder.stage > 1 else ""


def _freeze(config: ExperimentConfig) -> Iterator[str]:
    valid = config.model.parts
    for key, names in (("freeze", config.train.freeze), ("groups", config.train.groups)):
        for name in names:
            if name not in valid:
                yield f"train.{key}: {name} is no part of the model; valid: {', '.join(valid)}"
    for name in config.train.groups:
        if name in config.train.freeze:
            yield (
                f"train.groups.{name} has no effect, as train.freeze has {name}, too; valid: one "
                "of them"
            )
    if set(config.train.freeze) >= set(valid):
        yield f"train.freeze: {', '.join(config.train.freeze)} leave nothing to train; valid: fewer"


def _stages(config: ExperimentConfig) -> Iterator[str]:
    """Stages of encoders need stages of the decoder, and so does a schedule."""
    decoder, chosen = config.parallel.decoder, config.schedule
    if decoder.stage > 1:
        for name in chosen.pieces:
            if name not in config.model.encoders:
                valid = ", ".join(config.model.encoders) or "none"
                yield f"schedule.pieces.{name}: no such encoder; valid: {valid}"
        yield from _of_bubbles_alone(chosen)
        return
    if config.run.trace_step is not None:
        yield (
            f"run.trace_step: {config.run.trace_step} has no pipeline to measure, as "
            "parallel.decoder.stage is 1; valid: null"
        )
    for name, plan in config.parallel.encoders.items():
        if plan.stage > 1:
            yield (
                f"parallel.encoders.{name}.stage: {plan.stage} needs stages of the decoder; "
                "valid: 1, or a divisor of parallel.decoder.stage if that is above 1"
            )
    if chosen.hardware is not None:
        try:
            named(chosen.hardware)
        except HardwareError as error:
            yield f"schedule.hardware: {error}"
    default = type(chosen)()
    for key, value in chosen:
        # `simulate` and `plan` take the hardware, with stages or without.
        if key != "hardware" and value != getattr(default, key):
            yield (
                f"schedule.{key}: {value} has no effect, as parallel.decoder.stage is 1; "
                f"valid: {getattr(default, key)}"
            )


def _of_bubbles_alone(chosen: ScheduleConfig) -> Iterator[str]:
    """Keys that only the placement in bubbles reads."""
    if chosen.encoder_placement == "bubbles":
        return
    default = type(chosen)()
    for key in ("fill", "live", "work_ahead"):
        value, valid = getattr(chosen, key), getattr(default, key)
        if value != valid:
            yield (
                f"schedule.{key}: {value} has no effect, as schedule.encoder_placement is "
                f"{chosen.encoder_placement}; valid: {valid}"
            )


def _stages_as_fsdp(config: ExperimentConfig) -> Iterator[str]:
    """Evaluation runs without a pipeline, the stages as part of fsdp."""
    if not config.evaluate.enabled:
        return
    plans = config.parallel.plans
    if len({plan.devices for plan in plans.values()}) > 1:
        return  # refused already
    for name, plan in without_stages(plans).items():
        degree = plan.fsdp
        for need in config.model.requirements(name):
            if plan != plans[name] and need.axis == "fsdp" and need.size % degree:
                yield (
                    f"evaluate.enabled: evaluation shards {need.name} {need.size} of {name} over "
                    f"fsdp x stage, and {degree} does not divide it; valid: false, or other degrees"
                )


def _length(config: ExperimentConfig) -> Iterator[str]:
    """The schedule is not too long to be made."""
    stages, chunks = config.parallel.decoder.stage, config.schedule.chunks
    microbatches, most = config.train.accumulate, MOST_FORWARDS // (stages * chunks)
    if microbatches > most:
        yield (
            f"train.accumulate: {microbatches} microbatches on parallel.decoder.stage {stages} x "
            f"schedule.chunks {chunks} are more than {MOST_FORWARDS} forwards to schedule; valid: "
            f"at most {most}"
        )


def _schedule(config: ExperimentConfig) -> Iterator[str]:
    """The pipeline can be scheduled, and its encoders run inside its stages."""
    if config.parallel.decoder.stage == 1:
        return
    if problems := [*_length(config)]:
        yield from problems
        return
    try:
        StageViews.build(JointGrid.build(config.parallel.plans), config.schedule.fsdp_gather)
        pipeline_plan(config)
    except (PlanError, ScheduleError) as error:
        where = "parallel" if isinstance(error, PlanError) else "schedule"
        named = str(error).startswith(("parallel.", "schedule.", "model."))
        yield str(error) if named else f"{where}: {error}"


def _devices(count: int) -> str:
    return "1 device" if count == 1 else f"{count} devices"


def _listed(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers))

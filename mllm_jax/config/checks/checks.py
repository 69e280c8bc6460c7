"""Checks of the agreement between sections of a configuration, before anything is started.

Each check yields problems with what may do instead (`problems.py`). The checks of plans are in
`plan_checks.py`, those of schedules in `pipeline_checks.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from data.config import RouteConfig
from data.planning.balance import check_balancing
from data.planning.ladder import Ladder
from data.sample import DataError
from mllm_jax.config.checks.group_checks import group_checks
from mllm_jax.config.checks.overlap_checks import overlap_checks
from mllm_jax.config.checks.period_checks import check_periods
from mllm_jax.config.checks.pipeline_checks import pipeline_checks
from mllm_jax.config.checks.plan_checks import (
    bucket_path,
    choice_of_other_key,
    nearby_multiples,
    no_evaluation,
    plan_checks,
    present_plans,
)
from mllm_jax.config.checks.problems import (
    LEFT_OUT,
    Candidates,
    ConfigProblem,
    ProblemChoice,
    advise_problems,
)
from mllm_jax.config.configured_step import configure_step
from mllm_jax.config.hardware import hardware_names
from mllm_jax.config.inputs import bucket_positions, further_budgets, media_specs
from mllm_jax.config.sections import ExperimentConfig
from mllm_jax.layers.attention.limits import LIMITS, able_backends
from mllm_jax.layers.config.encoder import ImageEncoderConfig
from mllm_jax.layers.config.kinds import has_spans
from scheduling.schedules.schedule import ScheduleError
from sharding.plan import ParallelPlan


def find_problems(config: ExperimentConfig) -> list[str]:
    """All disagreements between the sections of `config`; empty if it can run."""
    return [*map(str, advise_problems(config, check_sections))] or [*_check_schedule(config)]


def check_sections(config: ExperimentConfig) -> list[ConfigProblem]:
    """Disagreements that show without a schedule, which takes seconds for a large pipeline."""
    plans = [*group_checks(config), *plan_checks(config)]
    plans += [*pipeline_checks(config), *overlap_checks(config)]
    further = [
        *_check_without_plans(config),
        *_check_attention(config),
        *_check_buckets(config),
        *_check_replicas(config),
    ]
    return [*plans, *further]


def _check_replicas(config: ExperimentConfig) -> Iterator[ConfigProblem]:
    """Replicas that are compared are at least two."""
    key, ranks = "train.check_every", config.parallel.backbone_plan.batch
    if config.train.check_every is not None and ranks == 1:
        backbone = config.model.backbone
        problem = f"{backbone} has one replica, and no other one computes the same"
        further = f"{config.plan_key(backbone)} with data, fsdp or expert above 1"
        yield ConfigProblem(
            key, problem, lambda: [[ProblemChoice.of_key(key, None)]], further=further
        )


def check_unplanned(config: ExperimentConfig) -> list[str]:
    """Problems that no plans solve; empty if `config` may run with some plans."""
    return [*map(str, advise_problems(config, _check_without_plans))]


def _check_without_plans(config: ExperimentConfig) -> list[ConfigProblem]:
    """Checks of names, media, evaluation and all else that does not depend on plans."""
    problems = [
        *_check_budget_names(config),
        *_check_media(config),
        *_check_placeholders(config),
        *_check_evaluation(config),
    ]
    problems += [
        *_learned_positions(config),
        *_check_balancing(config),
        *_check_frozen_parts(config),
    ]
    return [
        *problems,
        *_check_profiled_steps(config),
        *_check_traced_step(config),
        *check_periods(config),
    ]


def _check_profiled_steps(config: ExperimentConfig) -> Iterator[ConfigProblem]:
    """Steps that are profiled are in the run, in their order."""
    if config.run.profile_steps is None:
        return
    (first, last), steps = config.run.profile_steps, config.train.steps
    key = "run.profile_steps"
    if first > last:
        choice = ProblemChoice.of_key(key, [last, first])
        yield ConfigProblem(
            key, f"the first step {first} is after the last, {last}", lambda: [[choice]]
        )
    elif last > steps:
        fit = ProblemChoice.of_key(key, [min(first, steps), steps])
        yield ConfigProblem(key, f"step {last} is after train.steps {steps}", lambda: [[fit]])


def _check_traced_step(config: ExperimentConfig) -> Iterator[ConfigProblem]:
    """A step that is measured is in the run; whether it can be measured, plans say."""
    step, steps = config.run.trace_step, config.train.steps
    piped = config.parallel.backbone_plan.stage > 1
    if step is None or step <= steps or not piped:
        return
    if not config.schedule.independent_microbatches:
        key = "run.trace_step"
        yield ConfigProblem(
            key, f"step {step} is after train.steps {steps}", _value_choices(key, steps, None)
        )


def _check_budget_names(config: ExperimentConfig) -> Iterator[ConfigProblem]:
    """Every bucket of an encoder has a budget, every further axis of it, and nothing else."""
    buckets, reserved = config.model.buckets, {config.model.backbone, "tokens", "segments"}
    names, further = {*config.model.others, *buckets}, further_budgets(config.model)
    free = next(name for name in ("vision", "audio", "images", "clips") if name not in names)
    for name in sorted(reserved & names):
        yield ConfigProblem(
            bucket_path(config, name), "the name is taken", further=f"another, e.g. {free}"
        )
    for name in buckets:
        if name not in config.data.budgets:
            reason = f"required, as {bucket_path(config, name)} exists"
            plan = config.parallel.others.get(name) or ParallelPlan()
            yield _no_budget(config, name, reason, config.budget_unit(name, plan))
    for key, (name, axis) in further.items():
        if key not in config.data.budgets:
            reason = f"required, as media of {bucket_path(config, name)} have entries per {axis}"
            yield _no_budget(config, key, reason, 1)
    valid = ("tokens", "segments", *buckets, *further)
    for name in config.data.budgets:
        if name not in valid:
            key = f"data.budgets.{name}"
            reason = f"the model has no such {_bucket_or_encoder(config, name)}; budgets are of "
            yield ConfigProblem(key, reason + ", ".join(valid), _value_choices(key, LEFT_OUT))


def _bucket_or_encoder(config: ExperimentConfig, name: str) -> str:
    """The kind of thing that an unknown name should name: a bucket or an encoder."""
    return "bucket" if name in config.model.others else "encoder"


def _no_budget(config: ExperimentConfig, name: str, reason: str, unit: int) -> ConfigProblem:
    """A budget that is missing; choices are multiples of its unit near that of tokens."""
    key = f"data.budgets.{name}"

    def list_candidates() -> list[Candidates]:
        some = nearby_multiples(key, config.data.budgets["tokens"], unit)[1]
        return [(ProblemChoice(f"e.g. {budget.label}", budget.changes) for budget in some)]

    return ConfigProblem(key, reason, list_candidates, each=1)


def _check_buckets(config: ExperimentConfig) -> Iterator[ConfigProblem]:
    """Buckets by cost have seconds, and a medium of either fits into the one for long media."""
    for encoder in config.model.others.values():
        short = next((name for name, most in encoder.buckets.items() if most == "auto"), None)
        if short is None:
            continue
        if config.schedule.hardware is None:
            reason = f"required, as {bucket_path(config, short)} is auto and cuts by seconds"
            yield ConfigProblem(
                "schedule.hardware", reason, _value_choices("schedule.hardware", *hardware_names())
            )
        (long,) = (name for name in encoder.buckets if name != short)
        if {short, long} <= {*config.data.budgets}:
            least, most = (bucket_positions(config, name) for name in (short, long))
            if most < least:
                is_own_budget = long in config.schedule.independent_budgets
                key = f"{'schedule' if is_own_budget else 'data'}.budgets.{long}"
                reason = f"{most} is less than the {least} of {short}, whose media may go there"
                yield ConfigProblem(key, reason, _value_choices(key, least))


def _check_media(config: ExperimentConfig) -> Iterator[ConfigProblem]:
    """Constants for all channels of an image, and routes that lead somewhere."""
    for name, encoder in config.model.others.items():
        if isinstance(encoder, ImageEncoderConfig):
            yield from _check_image_constants(config, name, encoder.channels)
    yield from _own_images(config)
    for kind in config.data.routes:
        yield from _check_route(config, kind)


def _check_route(config: ExperimentConfig, kind: str) -> Iterator[ConfigProblem]:
    """A route is to encoders of its kind, and there are several."""
    taking = (spec.module for spec in media_specs(config.model) if kind in spec.kinds)
    encoders_of_kind = tuple(dict.fromkeys(taking))
    routes, where = config.data.routes, f"data.routes.{kind}"
    names = routes[kind].encoders or ()
    if len(encoders_of_kind) < 2:
        other_routes = {other: route for other, route in routes.items() if other != kind}
        has = f"{len(encoders_of_kind)} encoder" + "s" * (len(encoders_of_kind) != 1)
        removal = ProblemChoice("left out", {"data.routes": other_routes})
        reason = f"has no effect, as the model has {has} of {kind}"
        yield ConfigProblem(where, reason, lambda: [[removal]])
    elif unknown := [name for name in names if name not in encoders_of_kind]:
        changed = RouteConfig(encoders=encoders_of_kind, join=routes[kind].join)
        choice = ProblemChoice(
            f"some of {', '.join(encoders_of_kind)}",
            {"data.routes": routes | {kind: changed}},
        )
        reason = f"{', '.join(unknown)} takes no {kind}"
        yield ConfigProblem(f"{where}.encoders", reason, lambda: [[choice]])


def _own_images(config: ExperimentConfig) -> Iterator[ConfigProblem]:
    """Settings of images are of encoders of images."""
    settings_by_encoder, encoders = config.data.image.modules, config.model.others
    images = {name for name, encoder in encoders.items() if encoder.media_kind == "image"}
    if wrong := sorted(settings_by_encoder.keys() - images):
        image_settings = {
            name: settings for name, settings in settings_by_encoder.items() if name in images
        }
        key = "data.image.modules"
        label = f"some of {', '.join(sorted(images))}" if images else "left out"
        choice = ProblemChoice(label, {key: image_settings})
        yield ConfigProblem(key, f"{', '.join(wrong)} takes no image", lambda: [[choice]])


def _check_image_constants(
    config: ExperimentConfig, name: str, channels: int
) -> Iterator[ConfigProblem]:
    section, where = config.data.image, config.model_key(name)
    image = section.for_encoder(name)
    place = f"data.image.modules.{name}" if name in section.modules else "data.image"
    valid = [1] if channels == 1 else [1, channels]
    for key, values in (("mean", image.mean), ("std", image.std)):
        if len(values) not in valid:
            path = f"{place}.{key}"
            reason = (
                f"{list(values)} is not one value for all channels or one for each of "
                f"{where}.channels {channels}"
            )
            fill = values[0] if values else type(image).model_fields[key].default[0]
            lengths = partial(_length_choices, path, fill, valid)
            yield ConfigProblem(path, reason, lengths, word="valid lengths")


def _length_choices(key: str, value: float, valid: list[int]) -> list[Candidates]:
    return [[ProblemChoice(str(n), {key: (value,) * n}) for n in valid]]


def _check_placeholders(config: ExperimentConfig) -> Iterator[ConfigProblem]:
    """Each kind of media has another placeholder."""
    first: dict[str, str] = {}
    for kind, section in config.data.media.items():
        mark = section.placeholder
        if mark in first:
            key = f"data.{kind}.placeholder"
            of = f"data.{first[mark]}.placeholder"
            reason = f"{mark} is {of} as well, so a text would not say which kind is meant"
            token = f"<{kind}>" if mark != f"<{kind}>" else "<sound>"
            choice = ProblemChoice(f"any other special token, e.g. {token}", {key: token})
            yield ConfigProblem(key, reason, lambda side=choice: [[side]])  # type: ignore[misc]
        first.setdefault(mark, kind)


def _check_evaluation(config: ExperimentConfig) -> Iterator[ConfigProblem]:
    """An answer leaves room for its prompt, and a rhythm belongs to an evaluation."""
    evaluate, tokens = config.evaluate, config.data.budgets["tokens"]
    yield from _check_measurements(config)
    measured = evaluate.loss or evaluate.exact_match or config.measures_retrieval
    if evaluate.enabled and not measured:
        reason = "true measures nothing, as evaluate.loss and evaluate.exact_match are false"
        kinds = [_enabling_choice("evaluate.loss"), _enabling_choice("evaluate.exact_match")]
        yield ConfigProblem("evaluate.enabled", reason, lambda: [[no_evaluation(config), *kinds]])
    if evaluate.enabled and evaluate.exact_match and evaluate.max_new_tokens >= tokens:
        key = "evaluate.max_new_tokens"
        reason = (
            f"{evaluate.max_new_tokens} leaves no room for a prompt in data.budgets.tokens {tokens}"
        )
        less = ProblemChoice(f"less than {tokens}", {key: tokens - 1})
        yield ConfigProblem(key, reason, lambda: [[less], [no_evaluation(config)]], each=1)
    if evaluate.every is not None and not evaluate.enabled:
        key = "evaluate.every"
        reason = f"{evaluate.every} has no effect, as evaluate.enabled is false"
        yield ConfigProblem(
            key,
            reason,
            lambda: [[ProblemChoice.of_key(key, None), _enabling_choice("evaluate.enabled")]],
        )


def _check_measurements(config: ExperimentConfig) -> Iterator[ConfigProblem]:
    """What an evaluation measures is something that the model learns."""
    evaluate, graph = config.evaluate, config.model.graph
    learnt = ", ".join(graph.objectives)
    off = [no_evaluation(config)]
    if evaluate.retrieval and not graph.retrieved:
        key = "evaluate.retrieval"
        reason = f"true needs a contrastive objective, and the model learns {learnt}"
        yield ConfigProblem(key, reason, lambda: [[ProblemChoice.of_key(key, None)]])
    if evaluate.enabled and evaluate.exact_match and not graph.writes:
        key = "evaluate.exact_match"
        reason = f"true needs answers, and a model that learns {learnt} writes none"
        yield ConfigProblem(key, reason, lambda: [[ProblemChoice.of_key(key, False), *off]])
    if evaluate.enabled and evaluate.loss and graph.measured is None:
        name = "evaluate.loss"
        why = f"true is refused, as {learnt} has a loss of steps, not of microbatches"
        yield ConfigProblem(name, why, lambda: [[*off, ProblemChoice.of_key(name, False)]])


def _enabling_choice(key: str) -> ProblemChoice:
    return ProblemChoice(f"{key} true", {key: True})


def _check_attention(config: ExperimentConfig) -> Iterator[ConfigProblem]:
    """An explicit backend runs the rows of every module on the platform."""
    platform, backend = config.parallel.platform, config.model.attention
    if backend == "auto":
        return
    dtype = config.model.dtype_on(platform)
    able, reasons = list(LIMITS), dict[str, list[str]]()
    for module, tokens, head_dim, spans in _attention_cases(config):
        reason = LIMITS[backend].refusal_reason(platform, tokens, head_dim, dtype, spans)
        if reason is not None:
            reasons.setdefault(reason, []).append(module)
        here = able_backends(platform, tokens=tokens, head_dim=head_dim, dtype=dtype, spans=spans)
        able = [name for name in able if name in here]
    if reasons:
        cannot = ", nor ".join(
            f"{', '.join(dict.fromkeys(modules))}: {reason}" for reason, modules in reasons.items()
        )
        yield ConfigProblem(
            "model.attention",
            f"{backend} cannot run {cannot}",
            _value_choices("model.attention", "auto", *able),
        )


def _attention_cases(config: ExperimentConfig) -> Iterator[tuple[str, int, int, bool]]:
    """Each module with the lengths of rows that its attention sees, its head_dim, and whether its
    masks have spans."""
    plans, decoder = present_plans(config), config.model.backbone_config
    encoders = {
        name: config.model.encoder(name)
        for name in config.model.buckets
        if name in plans and name in config.data.budgets
    }
    backbone = config.model.backbone
    units = {"tokens": config.budget_unit("tokens", plans[backbone])}
    units |= {name: config.budget_unit(name, plans[name]) for name in encoders}
    rungs = Ladder.build(config.data, units).rungs
    for tokens in rungs["tokens"]:
        yield (
            bucket_path(config, backbone),
            tokens,
            decoder.head_dim,
            has_spans(decoder.layer_kinds),
        )
    for name, encoder in encoders.items():
        for inputs in rungs[name]:
            positions, spans = inputs // encoder.stride, has_spans(encoder.layer_kinds)
            yield bucket_path(config, name), positions, encoder.head_dim, spans


def _check_balancing(config: ExperimentConfig) -> Iterator[ConfigProblem]:
    """The balancing algorithms of all modules are known, and so are seconds that a group costs."""
    if config.data.balance_group == "auto" and config.schedule.hardware is None:
        reason = "required, as data.balance_group is auto and chosen by seconds"
        yield ConfigProblem(
            "schedule.hardware", reason, _value_choices("schedule.hardware", *hardware_names())
        )
    try:
        check_balancing(config.data, [config.model.backbone, *config.model.buckets])
    except DataError as error:
        key, _, reason = str(error).partition(": ")
        yield ConfigProblem(key, reason)


def _learned_positions(config: ExperimentConfig) -> Iterator[ConfigProblem]:
    """A row has no more tokens than the decoder has positions."""
    decoder, tokens = config.model.backbone_config, config.data.budgets["tokens"]
    if not decoder.parts.rotary and decoder.max_positions < tokens:
        most = decoder.max_positions
        key = f"{bucket_path(config, config.model.backbone)}.max_positions"
        reason = f"{most} learned positions are fewer than data.budgets.tokens {tokens}"
        more = ProblemChoice(f"{tokens} or more", {key: tokens})
        fewer = (
            ProblemChoice(f"data.budgets.tokens {n}", {"data.budgets.tokens": n})
            for n in range(most, 0, -1)
        )
        candidates = [[more]] if config.model.pretrained is None else []
        yield ConfigProblem(key, reason, lambda: [*candidates, fewer], each=1)


def _check_frozen_parts(config: ExperimentConfig) -> Iterator[ConfigProblem]:
    """Names of frozen parts and of groups are parts of the model, and some part trains."""
    parts, freeze, groups = config.model.parts, config.train.freeze, config.train.groups
    frozen, grouped = (_unknown_names(names, parts) for names in (freeze, groups))
    both = [name for name in groups if name in freeze and name not in config.model.adapted]
    if frozen:
        instead = [
            ProblemChoice(part, {"train.freeze": _replace_unknown(freeze, frozen, part)})
            for part in parts
            if part not in freeze
        ]
        yield ConfigProblem(
            "train.freeze", f"{', '.join(frozen)} is no part of the model", lambda: [instead]
        )
    elif set(freeze) >= set(parts) and not config.model.adapted:
        reason = f"{', '.join(freeze)} leave nothing to train"
        fewer = ProblemChoice("fewer", {"train.freeze": freeze[1:]})
        yield ConfigProblem("train.freeze", reason, lambda: [[fewer]])
    if grouped:
        yield _unknown_groups(config, grouped)
    elif both:
        reason = f"{', '.join(both)} has no effect, as train.freeze has it, too"
        other_groups = {name: group for name, group in groups.items() if name not in both}
        thawed = tuple(name for name in freeze if name not in both)
        removal = ProblemChoice("left out", {"train.groups": other_groups})
        yield ConfigProblem(
            "train.groups", reason, lambda: [[removal, choice_of_other_key("train.freeze", thawed)]]
        )


def _unknown_names(names: Iterable[str], parts: Sequence[str]) -> list[str]:
    return [name for name in names if name not in parts]


def _replace_unknown(names: Sequence[str], unknown: Sequence[str], part: str) -> tuple[str, ...]:
    """`hardware_names` with `part` for those that are unknown."""
    return (*(name for name in names if name not in unknown), part)


def _unknown_groups(config: ExperimentConfig, unknown: list[str]) -> ConfigProblem:
    groups, freeze = config.train.groups, config.train.freeze
    known = {name: group for name, group in groups.items() if name not in unknown}
    settings = groups[unknown[0]]
    instead = [
        ProblemChoice(part, {"train.groups": known | {part: settings}})
        for part in config.model.parts
        if part not in groups and part not in freeze
    ]
    reason = f"{', '.join(unknown)} is no part of the model"
    return ConfigProblem("train.groups", reason, lambda: [instead])


def _value_choices(key: str, *values: object) -> Callable[[], list[Candidates]]:
    """Choices of other values of a key."""
    return lambda: [[ProblemChoice.of_key(key, value) for value in values]]


def _check_schedule(config: ExperimentConfig) -> Iterator[str]:
    """The pipeline can be scheduled; other checks are in `pipeline_checks.py`."""
    try:
        configure_step(config).pipeline  # noqa: B018  raises if there is no schedule
    except ScheduleError as error:
        named = str(error).startswith(("schedule.", "model."))
        yield str(error) if named else f"schedule: {error}"


# ---- periods -------------------------------------------------------------------------------------

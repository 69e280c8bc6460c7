"""Checks of a configuration's plans against the devices, the model, rows and budgets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import islice
from math import gcd, lcm, log2

from mllm_jax.config.checks.problems import LEFT_OUT, Candidates, ConfigProblem, ProblemChoice
from mllm_jax.config.sections import ExperimentConfig
from sharding.exchange_kinds import possible_exchanges
from sharding.grid import JointGrid
from sharding.plan import (
    AXES,
    ParallelPlan,
    PlanError,
    PlanRequirement,
    divisors_of,
    list_factorizations,
)
from sharding.shared_parameters import check_bucket
from sharding.stages import StageViews, undivided_without_stages, without_stages

#: Products of plan axes that split a dimension together.
PRODUCTS = {"sequence": ("context", "tensor")}
#: Most plans that a message suggests, and most plans that are tried.
PLANS, MOST = 6, 20_000
#: Parts of a budget that are tried on either side of it.
UNITS = 64


def bucket_path(config: ExperimentConfig, name: str) -> str:
    """Key of a bucket: that of its encoder, if the encoder has no other, or of an entry in it."""
    bucket = f".buckets.{name}" if config.model.buckets.get(name, name) != name else ""
    return f"{config.model_key(name)}{bucket}"


def _plan_names(config: ExperimentConfig) -> Iterator[ConfigProblem]:
    """Every bucket of an encoder has a plan, and nothing else has one."""
    buckets = config.model.buckets
    for name in buckets:
        if name not in config.parallel.others:
            reason = f"required, as {bucket_path(config, name)} exists"
            yield _plan_problem(config, name, config.plan_key(name), reason)
    for name in config.parallel.others:
        if name not in buckets:
            has = ", ".join(buckets) or "none"
            reason = f"no such encoder in the model, whose encoders are {has}"
            if name in config.model.others:
                reason = f"has no effect, as {name} has buckets; plans are of {has}"
            key = config.plan_key(name)
            yield ConfigProblem(key, reason, partial(_leave_out, key))


def _check_exchange(config: ExperimentConfig) -> Iterator[ConfigProblem]:
    """The exchange of encoder outputs that is asked for is possible, and there are outputs."""
    asked, key = config.parallel.exchange, "parallel.exchange"
    if asked == "auto":
        return
    able, usual = (
        possible_exchanges(config.data.balance == "per_phase"),
        ProblemChoice.of_key(key, "auto"),
    )
    if not config.model.buckets:
        reason = f"{asked} has no effect, as the model has no encoders"
        yield ConfigProblem(key, reason, lambda: [[usual]])
    elif asked not in able:
        reason = f"{asked} needs routes, which are of media in rows of their own, and data.balance"
        others = [usual, *(ProblemChoice.of_key(key, name) for name in able)]
        per_phase = choice_of_other_key("data.balance", "per_phase")
        yield ConfigProblem(
            key, f"{reason} is {config.data.balance}", lambda: [others, [per_phase]]
        )


def _leave_out(key: str) -> list[Candidates]:
    return [[ProblemChoice.of_key(key, LEFT_OUT)]]


def plan_checks(config: ExperimentConfig) -> list[ConfigProblem]:
    """Plans, each by itself and together; those that are missing are not looked at."""
    plans = [
        *_check_device_counts(config),
        *_check_expert_ranks(config),
        *_plan_names(config),
        *_check_grid(config),
    ]
    plans += [*_check_shared_plans(config), *_check_exchange(config)]
    splits = [*_check_sizes(config), *_check_budgets(config), *_check_rows(config)]
    return [*plans, *splits, *_stages_as_fsdp(config)]


def present_plans(config: ExperimentConfig) -> dict[str, ParallelPlan]:
    """Plans of modules that the model has."""
    modules = (config.model.backbone, *config.model.buckets)
    return {name: plan for name, plan in config.parallel.plans.items() if name in modules}


def covering_plans(config: ExperimentConfig) -> dict[str, ParallelPlan]:
    """Plans over all devices, without those that are refused by themselves."""
    return {
        name: plan
        for name, plan in present_plans(config).items()
        if plan.devices == device_count(config, name)
        and (plan.expert == 1 or _has_experts(config, name))
    }


def device_count(config: ExperimentConfig, name: str) -> int:
    """Number of the devices of a module: those of its group, or all."""
    numbers = config.parallel.module_devices.get(name)
    return config.parallel.devices if numbers is None else len(numbers)


def _has_experts(config: ExperimentConfig, name: str) -> bool:
    """Whether a module has experts, which ranks can share."""
    return config.model.module(name).layer_experts is not None


# ---- plans that may do ---------------------------------------------------------------------------


def _plan_problem(
    config: ExperimentConfig,
    name: str,
    key: str,
    reason: str,
    others: Callable[[], Sequence[Candidates]] = tuple,
) -> ConfigProblem:
    """A problem of the plan of module `name`; other plans may do, or `others`."""
    return ConfigProblem(key, reason, lambda: [plans_for(config, name), *others()], each=PLANS)


def plans_for(config: ExperimentConfig, name: str) -> Iterator[ProblemChoice]:
    """Plans over all devices, those that are most like the present one first."""
    present = config.parallel.plans.get(name)
    devices = device_count(config, name)
    reference = present or ParallelPlan(data=devices)
    axes = [axis for axis in AXES if axis in ("data", "tensor") or getattr(reference, axis) > 1]
    if not _has_experts(config, name):
        axes = [axis for axis in axes if axis != "expert"]
    for plan in sorted(_all_plans(devices, tuple(axes)), key=partial(_plan_distance, reference)):
        if plan != present:
            degrees = {axis: n for axis, n in zip(AXES, plan.degrees, strict=True) if n > 1}
            yield ProblemChoice(str(plan), {config.plan_key(name): degrees})


def _choice_of_other_key(key: str, value: object) -> list[Candidates]:
    """The choice of a value for another key than that of the problem."""
    return [[choice_of_other_key(key, value)]]


def choice_of_other_key(key: str, value: object) -> ProblemChoice:
    """A choice that names its key."""
    return ProblemChoice(f"{key} {ProblemChoice.of_key(key, value).label}", {key: value})


@cache
def _all_plans(devices: int, axes: tuple[str, ...]) -> list[ParallelPlan]:
    degrees_found = islice(list_factorizations(devices, len(axes)), MOST)
    return [ParallelPlan(**dict(zip(axes, degrees, strict=True))) for degrees in degrees_found]


def _plan_distance(reference: ParallelPlan, plan: ParallelPlan) -> tuple[float, str]:
    """Distance of degrees from the given ones."""
    pairs = zip(reference.degrees, plan.degrees, strict=True)
    return sum(abs(log2(one / other)) for one, other in pairs), str(plan)


# ---- devices and grid ----------------------------------------------------------------------------


def _check_expert_ranks(config: ExperimentConfig) -> Iterator[ConfigProblem]:
    """Expert ranks have experts to share."""
    for name, plan in present_plans(config).items():
        if plan.expert > 1 and not _has_experts(config, name):
            reason = (
                f"{plan.expert} is refused, as {name} has no experts to share, only 1 is valid; "
                "more ranks of rows are data or fsdp"
            )
            yield _plan_problem(config, name, f"{config.plan_key(name)}.expert", reason)


def _check_device_counts(config: ExperimentConfig) -> Iterator[ConfigProblem]:
    """Every plan multiplies to the device count."""
    devices, plans = config.parallel.devices, present_plans(config)
    counts = {plan.devices for plan in plans.values()}
    groups = config.parallel.separate_groups
    if len(plans) > 1 and len(counts) == 1 and counts != {devices} and not groups:
        key, covered = "parallel.devices", counts.pop()
        reason = f"{devices}, but all plans cover {_count_devices(covered)}"
        yield ConfigProblem(
            key,
            reason,
            lambda: [[ProblemChoice.of_key(key, covered)], _scaled_choices(config, covered)],
        )
        return
    for name, plan in plans.items():
        count = device_count(config, name)
        if plan.devices != count:
            known = f"{name} has {count}" if groups else f"parallel.devices is {devices}"
            reason = f"{plan} covers {_count_devices(plan.devices)}, but {known}"
            yield _plan_problem(config, name, config.plan_key(name), reason)


def _count_devices(count: int) -> str:
    return "1 device" if count == 1 else f"{count} devices"


def _scaled_choices(config: ExperimentConfig, covered: int) -> Iterator[ProblemChoice]:
    """Plans with more data, for all devices, and as many rows for each."""
    times, remainder = divmod(config.parallel.devices, covered)
    if times > 1 and not remainder:
        plans = present_plans(config)
        data = {f"{config.plan_key(name)}.data": plan.data * times for name, plan in plans.items()}
        label = f"{times} times as much data in every plan"
        yield ProblemChoice(label, data)
        yield ProblemChoice(
            f"{label}, and data.rows", data | {"data.rows": config.data.rows * times}
        )


def _check_grid(config: ExperimentConfig) -> Iterator[ConfigProblem]:
    """All plans refine into one grid, whose encoders run inside the decoder's stages."""
    for plans in _plans_by_group(config):
        yield from _check_group_grid(config, plans)


def _plans_by_group(config: ExperimentConfig) -> list[dict[str, ParallelPlan]]:
    """Plans of modules that share devices, those of the backbone first."""
    plans, numbers = covering_plans(config), config.parallel.module_devices
    if not numbers:
        return [plans] if config.model.backbone in plans else []
    groups: dict[object, dict[str, ParallelPlan]] = {}
    for name, plan in plans.items():
        groups.setdefault(numbers.get(name), {})[name] = plan
    return [*groups.values()]


def _check_group_grid(
    config: ExperimentConfig, plans: dict[str, ParallelPlan]
) -> Iterator[ConfigProblem]:
    """The plans of one group refine into one grid."""
    first = next(iter(plans))
    fitting = {first: plans.pop(first)}
    for name, plan in plans.items():
        try:
            grid = JointGrid.build(fitting | {name: plan})
            StageViews.build(grid, config.schedule.fsdp_gather)
        except PlanError as error:
            reason = error.reason.removeprefix(f"{name}: ")
            step = partial(_choice_of_other_key, "schedule.fsdp_gather", "step")
            yield _plan_problem(config, name, config.plan_key(name), reason, step)
        else:
            fitting[name] = plan


def _check_shared_plans(config: ExperimentConfig) -> Iterator[ConfigProblem]:
    """The buckets of an encoder shard its parameters equally, in evaluation too."""
    plans, buckets = covering_plans(config), config.model.buckets
    shared = len(set(buckets.values())) < len(buckets)
    if config.model.backbone not in plans or not shared or config.parallel.separate_groups:
        return
    unstaged = without_stages(plans)
    for name in (bucket for bucket in buckets if bucket in plans):
        if reason := _differing_bucket(plans, buckets, name):
            yield _plan_problem(config, name, config.plan_key(name), reason)
        elif config.evaluate.enabled and (reason := _differing_bucket(unstaged, buckets, name)):
            reason = f"in evaluation, whose stages are part of fsdp, {reason}"
            others = partial(_no_evaluation, config)
            yield _plan_problem(config, name, config.plan_key(name), reason, others)


def _differing_bucket(
    plans: Mapping[str, ParallelPlan], buckets: Mapping[str, str], name: str
) -> str | None:
    """The reason why a bucket lays out parameters unlike its encoder's first bucket, or None.

    If plans are no views of one grid, `_check_grid` says which plan is at fault.
    """
    try:
        grid = JointGrid.build(plans)
    except PlanError:
        return None
    try:
        check_bucket(grid, buckets, name)
    except PlanError as error:
        return error.reason.removeprefix(f"{name}: ")
    return None


def _stages_as_fsdp(config: ExperimentConfig) -> Iterator[ConfigProblem]:
    """Evaluation runs without a pipeline, the stages as part of fsdp."""
    plans = covering_plans(config)
    if not config.evaluate.enabled or config.model.backbone not in plans:
        return
    requirements = {name: config.model.requirements(name) for name in plans}
    reasons = [
        f"{need.name} {need.size} of {name} over {plan.fsdp}"
        for name, need, plan in undivided_without_stages(
            plans, config.parallel.without_stages(plans), requirements
        )
    ]
    if reasons:
        reason = "true shards parameters over fsdp x stage, which does not divide "
        yield ConfigProblem(
            "evaluate.enabled",
            f"{reason}{', '.join(reasons)}",
            lambda: [[no_evaluation(config)], *(plans_for(config, name) for name in plans)],
            each=2,
        )


def _no_evaluation(config: ExperimentConfig) -> list[Candidates]:
    return [[no_evaluation(config)]]


def no_evaluation(config: ExperimentConfig) -> ProblemChoice:
    """Changes that turn evaluation off, its interval included."""
    rhythm = {} if config.evaluate.every is None else {"evaluate.every": None}
    label = "evaluate.enabled false" + " with evaluate.every null" * bool(rhythm)
    return ProblemChoice(label, {"evaluate.enabled": False} | rhythm)


# ---- the model's sizes ---------------------------------------------------------------------------


def _check_sizes(config: ExperimentConfig) -> Iterator[ConfigProblem]:
    """Heads and widths divide by the degrees that split them."""
    for name, plan in covering_plans(config).items():
        undivided = dict[str, list[PlanRequirement]]()
        for need in config.model.requirements(name):
            if not need.is_met(plan):
                undivided.setdefault(_axis_name(plan, need.axis), []).append(need)
        for axis, needs in undivided.items():
            degree = getattr(plan, needs[0].axis)
            sizes = ", ".join(dict.fromkeys(f"{need.name} {need.size}" for need in needs))
            reason = f"{degree} does not divide {sizes} of {config.model_key(name)}"
            if axis == "expert":
                reason += f", whose divisors are {divisors_of(needs[0].size)}"
            others = partial(_size_choices, config, name, needs, degree)
            yield _plan_problem(config, name, f"{config.plan_key(name)}.{axis}", reason, others)


def _size_choices(
    config: ExperimentConfig, name: str, needs: Sequence[PlanRequirement], degree: int
) -> list[Candidates]:
    """Sizes near those needed that `degree` divides; a released model's do not change."""
    if config.model.pretrained is not None:
        return []
    sides = list[Candidates]()
    for need in needs:
        size_name = need.name.removeprefix("decoder ")
        owner = name if size_name == need.name else config.model.backbone
        key = f"{config.model_key(owner)}.{size_name}"
        below = need.size // degree * degree
        sides.append([choice_of_other_key(key, size) for size in (below, below + degree) if size])
    return sides


def _axis_name(plan: ParallelPlan, axis: str) -> str:
    """The name of an axis in errors; of a product its axes of degree above 1, or `tensor`."""
    axes = [name for name in PRODUCTS.get(axis, (axis,)) if getattr(plan, name) > 1]
    return " x ".join(axes) or PRODUCTS.get(axis, (axis,))[-1]


# ---- rows and their positions --------------------------------------------------------------------


def _check_budgets(config: ExperimentConfig) -> Iterator[ConfigProblem]:
    """Budgets split into full shards; `pipeline_checks` has those of independent microbatches."""
    for module in covering_plans(config):
        for path, positions in config.row_positions(module).items():
            if path.startswith("data."):
                yield from whole_shards(config, module, path, positions)


def whole_shards(
    config: ExperimentConfig, module: str, path: str, positions: int
) -> Iterator[ConfigProblem]:
    """A row splits into full shards (sequence parallelism) and full encoder outputs.

    Args:
        path: key of the row's positions.
    """
    plan = config.parallel.plans[module]
    unit, backbone = config.budget_unit(config.budget_key(module), plan), config.model.backbone
    if positions % unit:
        shards = f"{config.plan_key(module)}.{_axis_name(plan, 'sequence')} {plan.sequence}"
        parts = shards if module == backbone else f"reduction {unit // plan.sequence} x {shards}"
        reason = f"{positions} is not a multiple of {unit} ({parts})"
        yield ConfigProblem(
            path, reason, partial(nearby_multiples, path, positions, unit), 1, "nearest valid"
        )


def nearby_multiples(key: str, value: int, unit: int) -> list[Candidates]:
    """Multiples of `unit` below `value` and above, the nearest first."""
    below = value // unit
    under = range(below, max(below - UNITS, 0), -1)
    over = range(below + 1, below + 1 + UNITS)
    return [_number_choices(key, (n * unit for n in side)) for side in (under, over)]


def _number_choices(key: str, values: Iterable[int]) -> Iterator[ProblemChoice]:
    return (ProblemChoice.of_key(key, value) for value in values)


def _check_rows(config: ExperimentConfig) -> Iterator[ConfigProblem]:
    """Every share of the batch has full rows."""
    rows, shares, spread = config.data.rows, _row_shares(config), config.schedule.independent_rows
    wrong = [
        f"{degree}, {_describe_row_axes(config, name)} of {config.plan_key(name)}"
        for name, degree in shares.items()
        if rows * spread.get(name, 1) % degree
    ]
    if wrong:
        inside = " inside a stage" if config.parallel.backbone_plan.stage > 1 else ""
        times = "".join(f", {factor} times as many for {name}," for name, factor in spread.items())
        reason = f"{rows}{times} is not a multiple of {', nor of '.join(wrong)}{inside}"
        units = [degree // gcd(degree, spread.get(name, 1)) for name, degree in shares.items()]
        sides = partial(nearby_multiples, "data.rows", rows, lcm(*units))
        yield ConfigProblem("data.rows", reason, sides, 1, "nearest valid")


def _describe_row_axes(config: ExperimentConfig, name: str) -> str:
    """The names in errors of the axes that distribute the rows of module `name`."""
    return "data x fsdp" + " x expert" * (config.parallel.plans[name].expert > 1)


def _row_shares(config: ExperimentConfig) -> dict[str, int]:
    """Into how many shares each module distributes the rows of a microbatch.

    A pipeline's stages are assigned full microbatches of an encoder.
    """
    backbone = config.model.backbone
    stages = 1 if config.parallel.groups else config.parallel.backbone_plan.stage
    return {
        name: plan.batch if name == backbone else max(plan.batch * plan.stage // stages, 1)
        for name, plan in covering_plans(config).items()
    }

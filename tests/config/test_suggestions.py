"""The choices that an error suggests are accepted, and end the error."""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mllm_jax.config.checks.checks import check_sections, find_problems
from mllm_jax.config.checks.problems import (
    Changes,
    ConfigProblem,
    ProblemChoice,
    advise_problems,
    change_config,
)
from mllm_jax.config.load import ExperimentConfig
from sharding.plan import divisors_of
from tests.configs import values


@st.composite
def plans(draw: st.DrawFn, devices: int, stages: list[int]) -> dict[str, int]:
    """Degrees that mostly multiply to `devices`."""
    stage = draw(st.sampled_from(stages))
    left = devices // stage if devices % stage == 0 else devices
    plan = {"stage": stage}
    for axis in ("tensor", "context", "fsdp"):
        if draw(st.integers(0, 2)) == 0:
            plan[axis] = draw(st.sampled_from(divisors_of(left)))
            left //= plan[axis]
    return plan | {"data": left if draw(st.integers(0, 7)) else draw(st.integers(1, 8))}


@st.composite
def settings_of_a_run(draw: st.DrawFn) -> dict[str, Any]:
    """Values that are right by themselves, and may not go together."""
    devices = draw(st.sampled_from([1, 2, 3, 4, 6, 8, 12, 16]))
    stages = draw(st.sampled_from([[1], [1, 2, 4], [2, 3, 4]]))
    decoder = draw(plans(devices, stages))
    encoders = {
        n: draw(plans(devices, [1, *divisors_of(decoder["stage"])])) for n in ("vision", "audio")
    }
    if draw(st.integers(0, 9)) == 0:
        del encoders["audio"]
    heads = draw(st.sampled_from([1, 2, 4, 6, 8]))
    tower = {"d_model": 24 * heads, "heads": heads, "d_ff": draw(st.sampled_from([24, 48, 50]))}
    layers = {name: draw(st.integers(1, 6)) for name in ("decoder", "vision", "audio")}
    return {
        "parallel__devices": devices,
        "parallel__decoder": decoder,
        "parallel__encoders": encoders,
        "parallel__platform": draw(st.sampled_from(["cpu", "cpu", "gpu", "tpu"])),
        "model__attention": draw(st.sampled_from(["auto", "auto", "splash", "cudnn"])),
        "model__decoder": {**tower, "layers": layers["decoder"], "vocab": draw(vocabularies())},
        "model__encoders__vision__layers": layers["vision"],
        "model__encoders__audio__layers": layers["audio"],
        "model__encoders__vision__heads": draw(st.sampled_from([1, 2, 4])),
        "data__rows": draw(st.integers(1, 24)),
        "data__budgets": {
            "tokens": draw(st.integers(1, 300)),
            "segments": 4,
            "vision": draw(st.integers(1, 300)),
            "audio": draw(st.integers(1, 300)),
        }
        | ({"video": 8} if draw(st.integers(0, 9)) == 0 else {}),
        "train__accumulate": draw(st.integers(1, 4)),
        "evaluate": {
            "enabled": draw(st.booleans()),
            "max_new_tokens": draw(st.integers(1, 40)),
            "every": draw(st.sampled_from([None, None, 5])),
        },
        "schedule": draw(schedules(decoder["stage"])),
    }


def vocabularies() -> st.SearchStrategy[int]:
    """Sizes with many divisors and with few."""
    return st.sampled_from([5040, 5040, 5041, 5042])


#: Chunks of modules: of those of the model, and of one that it does not have.
CHUNKS: tuple[dict[str, int], ...] = (
    {},
    {"decoder": 2},
    {"decoder": 3, "vision": 2},
    {"vision": 2},
    {"audio": 3},
    {"video": 1},
)


@st.composite
def schedules(draw: st.DrawFn, stages: int) -> dict[str, Any]:
    if stages == 1 and draw(st.integers(0, 3)):
        return {}
    chosen = {
        "chunks": draw(st.sampled_from(CHUNKS)),
        "placement": draw(st.sampled_from(["bubbles", "bubbles", "prologue", "first_stage"])),
        "max_waiting": draw(st.sampled_from([None, None, 1, 2])),
        "fsdp_gather": draw(st.sampled_from(["step", "layer"])),
        "pad_layers": draw(st.booleans()),
        "hardware": draw(st.sampled_from([None, None, "h100", "h1"])),
    }
    kept = draw(st.sets(st.sampled_from(sorted(chosen))))
    return {key: chosen[key] for key in kept}


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(settings_of_a_run(), st.randoms(use_true_random=False))
def test_what_is_suggested_is_accepted(changes: dict[str, Any], random: Random) -> None:
    """The first choices of all problems, and any choice with the first ones of the others."""
    config = ExperimentConfig.model_validate(values(**changes))
    problems = advise_problems(config, check_sections)
    assert all(problem.choices for problem in problems), [*map(str, problems)]
    assert not problems or not find_problems(followed(config, problems))
    for problem in problems:
        for choice in problem.choices:
            assert choice.label in str(problem)
            after = followed(config, problems, problem, choice)
            assert not check_sections(after), (str(problem), choice)
    if problems:
        # Schedules are made for one of them, as that takes long.
        problem = random.choice(problems)
        assert not find_problems(
            followed(config, problems, problem, random.choice(problem.choices))
        )


def followed(
    config: ExperimentConfig,
    problems: list[ConfigProblem],
    problem: ConfigProblem | None = None,
    choice: ProblemChoice | None = None,
) -> ExperimentConfig:
    """The configuration with the first choice of every problem, or with another one of one."""
    first = problem.choices[0] if problem else None
    own = [each.choices[0].changes for each in problems if each.choices[0] is not first]
    after = change_config(config, merged([*own, *([choice.changes] if choice else [])]))
    assert after is not None
    return after


def test_where_no_single_value_does_the_simplest_plans_are_suggested() -> None:
    """Sequences over 16 devices, which divide neither heads nor rows."""
    sequences = {"data": 1, "context": 16}
    config = ExperimentConfig.model_validate(
        values(
            parallel__devices=16,
            parallel__decoder=sequences,
            parallel__encoders={"vision": sequences, "audio": sequences},
            model__decoder__vocab=64,
            model__decoder__heads=6,
            model__decoder__d_model=144,
            model__decoder__kv_heads=6,
            data__rows=2,
            data__budgets={"tokens": 279, "segments": 4, "vision": 134, "audio": 255},
            evaluate__enabled=False,
        )
    )
    problems = advise_problems(config, check_sections)
    assert "valid: data 16 for every module with data.rows 16" in str(problems[0])
    assert not find_problems(followed(config, problems))


def merged(changes: list[Changes]) -> dict[str, Any]:
    return {key: value for own in changes for key, value in own.items()}


def test_what_no_value_mends_leaves_the_choices_of_others() -> None:
    taken = values()["model"]["encoders"]["vision"]
    plan = {"model__encoders__segments": taken, "parallel__encoders__segments": {"data": 4}}
    sizes = {"data__budgets__segments": 64, "data__rows": 6, "model__decoder__vocab": 64}
    config = ExperimentConfig.model_validate(values(**plan, **sizes))
    rows, second = map(str, advise_problems(config, check_sections))
    assert rows.endswith("nearest valid: 4, 8")
    assert second.endswith("the name is taken; valid: another, e.g. images")

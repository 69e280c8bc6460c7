"""A configuration that lacks what a benchmark measures is told of it, with one that has it."""

from __future__ import annotations

from typing import Any

import pytest

import launch
from benchmarks.needs import NEEDS, check_needs
from benchmarks.registry import BENCHMARKS
from mllm_jax.config.load import ExperimentConfig, load_config
from mllm_jax.config.sections import ConfigError
from mllm_jax.runtime.exits import ExitCode
from tests.configs import ROOT, config

NEEDY = [own for own in BENCHMARKS.values() if own.needs]
TEXT: dict[str, Any] = {
    "model__encoders": {},
    "parallel__encoders": {},
    "data__budgets": {"tokens": 96, "segments": 8},
}


@pytest.mark.parametrize("own", NEEDY, ids=lambda own: own.name)
def test_the_configuration_of_a_benchmark_has_what_it_needs(own: Any) -> None:
    assert own.config is not None
    check_needs(own, load_config(ROOT / own.config))


@pytest.mark.parametrize("name", [own.name for own in NEEDY])
@pytest.mark.parametrize("file", ["llava", "demo"])
def test_another_configuration_is_refused_in_a_line(
    name: str, file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = launch.main(["bench", name, "--config", str(ROOT / f"configs/{file}.yaml")])
    told = capsys.readouterr().err
    assert code == ExitCode.BAD_INPUT
    assert f"bench {name}: " in told
    assert "; valid: " in told
    assert f", as in {BENCHMARKS[name].config}" in told


CASES: list[tuple[str, dict[str, Any], str]] = [
    ("stages", {}, "parallel.decoder.stage: 1 is no pipeline"),
    ("encoder", TEXT, "model: there is no encoder"),
    ("one encoder", TEXT, "the encoders of the model: there is none"),
    ("one encoder", {}, "the encoders of the model: vision, audio are 2"),
    ("own rows", {}, "schedule.independent_budgets: there is none of vision, audio"),
    ("short and long", {}, "model: media go through vision, audio;"),
    ("short and long", TEXT, "model: media go through nothing;"),
    (
        "synthetic",
        {"data__source": {"kind": "llava", "path": "a.json"}},
        "data.source.kind: llava; valid: synthetic",
    ),
    (
        "data alone",
        {"parallel__decoder": {"tensor": 2, "data": 2}},
        "parallel: decoder has tensor 2, ",
    ),
]


@pytest.mark.parametrize(("need", "changes", "told"), CASES)
def test_a_need_says_what_is_missing(need: str, changes: dict[str, Any], told: str) -> None:
    assert NEEDS[need](config(**changes)).startswith(told)


def test_every_need_has_a_case() -> None:
    assert {need for need, *_ in CASES} == {*NEEDS} == {need for own in NEEDY for need in own.needs}


@pytest.mark.parametrize(
    ("need", "changes"),
    [
        ("encoder", {}),
        ("own rows", TEXT),
        ("synthetic", {"data__source": {"kind": "synthetic", "samples": 8}}),
        ("data alone", {"parallel__decoder": {"fsdp": 4}, **TEXT}),
    ],
)
def test_a_need_that_is_met_says_nothing(need: str, changes: dict[str, Any]) -> None:
    own: ExperimentConfig = config(**changes)
    assert NEEDS[need](own) == ""


def test_all_that_is_missing_is_told_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        check_needs(BENCHMARKS["mixture"], config())
    assert len(caught.value.problems) == 3

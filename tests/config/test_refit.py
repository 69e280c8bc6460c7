"""Plans for fewer hosts: the same rows on fewer replicas, or a refusal that says what is valid."""

from __future__ import annotations

from typing import Any

import pytest

from mllm_jax.config.load import ConfigError, ExperimentConfig, resolve_config, to_yaml
from mllm_jax.config.refit import devices_to_search, plan_overrides, resolve_fallbacks
from mllm_jax.config.strict_yaml import parse_yaml
from tests.configs import config, values

EIGHT: dict[str, Any] = {
    "parallel__devices": 8,
    "parallel__decoder": {"data": 4, "tensor": 2},
    "parallel__encoders": {"vision": {"data": 8}, "audio": {"data": 4, "tensor": 2}},
    "data__rows": 8,
}


def with_overrides(words: tuple[str, ...], **changes: Any) -> ExperimentConfig:
    """The configuration that a training process would have."""
    told = dict(word.split("=", 1) for word in words)
    changed = {key.replace(".", "__"): parse_yaml(value) for key, value in told.items()}
    return resolve_config(values(**EIGHT | changes | changed), source="test")


def test_replicas_become_fewer_and_nothing_else_changes():
    found = resolve_fallbacks(config(**EIGHT, run__min_hosts=1), 4)
    assert sorted(found) == [1, 2]  # 8 rows are not assigned to 3 replicas
    for hosts, words in found.items():
        own, before = with_overrides(words, run__min_hosts=1), config(**EIGHT, run__min_hosts=1)
        assert own.parallel.devices == 2 * hosts
        assert own.parallel.decoder.tensor == own.parallel.encoders["audio"].tensor == 2
        assert own.parallel.decoder.data == hosts
        same = before.parallel.model_dump() | {
            key: own.parallel.model_dump()[key] for key in ("devices", "decoder", "encoders")
        }
        assert own.parallel.model_dump() == same
        assert own.model_dump(exclude={"parallel"}) == before.model_dump(exclude={"parallel"})


def test_shards_stay_as_small_as_they_were_where_they_can():
    changes = EIGHT | {"parallel__decoder": {"data": 2, "fsdp": 2, "tensor": 2}}
    found = resolve_fallbacks(config(**changes, run__min_hosts=2), 4)
    assert with_overrides(found[2]).parallel.decoder.fsdp == 2


def test_a_configured_plan_comes_first():
    plan = {"decoder": {"fsdp": 4}, "encoders": {"vision": {"data": 4}, "audio": {"data": 4}}}
    found = resolve_fallbacks(config(**EIGHT, run__min_hosts=2, run__fallback=[plan]), 4)
    own = with_overrides(found[2])
    assert own.parallel.decoder.fsdp == 4
    assert own.parallel.encoders["audio"].data == 4


def test_without_a_number_of_hosts_all_are_needed():
    assert resolve_fallbacks(config(**EIGHT), 4) == {}
    assert resolve_fallbacks(config(**EIGHT, run__min_hosts=4), 4) == {}


@pytest.mark.parametrize(
    ("changes", "hosts", "said"),
    [
        ({"run__min_hosts": 5}, 4, "run.min_hosts 5 of 4 hosts; valid: 1 to 4"),
        (
            {"run__min_hosts": 3},
            4,
            "run.min_hosts 3: no degrees of data and fsdp make the plans fit 6 devices and the "
            "rows of a step; valid: 4, or a plan for them in run.fallback",
        ),
        (
            {"run__min_hosts": 2, "run__fallback": [{"decoder": {"data": 3}}]},
            4,
            "run.fallback: a plan for 3 devices, which no number of hosts below 4 has; valid: "
            "2, 4, 6",
        ),
        (
            {"run__min_hosts": 2, "run__fallback": [{"decoder": {"data": 4}}]},
            4,
            "parallel.encoders",
        ),
    ],
)
def test_what_cannot_run_is_refused_when_the_supervisor_starts(changes, hosts, said):
    with pytest.raises(ConfigError) as refused:
        resolve_fallbacks(config(**EIGHT, **changes), hosts)
    assert said in str(refused.value)


def test_a_plan_that_is_found_becomes_overrides(tmp_path):
    own = config(**EIGHT, run__min_hosts=1, run__fallback="plan", schedule__hardware="h100")
    assert devices_to_search(own, 4) == {1: 2, 2: 4, 3: 6}
    assert sorted(resolve_fallbacks(own, 4)) == [1, 2]
    changes = EIGHT | {
        "parallel__devices": 4,
        "parallel__decoder": {"fsdp": 4},
        "parallel__encoders": {"vision": {"data": 4}, "audio": {"data": 4}},
        "data__rows": 4,
        "train__accumulate": 2,
        "model__remat": "layer",
        "schedule__hardware": "h100",
    }
    file = tmp_path / "hosts-2.yaml"
    file.write_text(to_yaml(config(**changes)))
    found = with_overrides(plan_overrides(own, file, 4), schedule__hardware="h100")
    assert found.model_dump(exclude={"run"}) == config(**changes).model_dump(exclude={"run"})
    with pytest.raises(ConfigError, match="the plan has 4 devices, and the hosts have 6"):
        plan_overrides(own, file, 6)


def test_a_search_needs_to_know_the_hardware():
    with pytest.raises(ConfigError, match=r"run\.fallback plan has no effect, as run\.min_"):
        config(**EIGHT, run__fallback="plan", schedule__hardware="h100")
    with pytest.raises(ConfigError, match=r"run\.fallback plan: schedule\.hardware null; valid"):
        devices_to_search(config(**EIGHT, run__min_hosts=1, run__fallback="plan"), 4)

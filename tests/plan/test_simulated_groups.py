"""Seconds and memory of groups of modules: a device holds its modules alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import jax
import pytest

from mllm_jax.config.configured_step import build_workload, on_platform
from mllm_jax.config.hardware import load_hardware
from mllm_jax.config.load import ConfigError, ExperimentConfig, resolve_config
from mllm_jax.plan.groups.memory import (
    check_group_memory,
    check_groups_here,
    predict_group_memory,
    schedule_of_groups,
    with_memory_shares,
)
from mllm_jax.plan.groups.planner import GroupPlanner
from mllm_jax.plan.groups.simulate import configured_plan, simulate_configured_groups
from mllm_jax.train.step.build import build_train_step
from mllm_jax.train.step.mpmd.build import build_grouped_step
from scheduling.costs.hardware import Hardware
from sharding.plan import ParallelPlan, PlanError
from tests.configs import (
    ENCODERS_HALVED,
    HALVED,
    MEDIA_APART,
    STAGES_APART,
    VISION_APART,
    config,
)

H100 = load_hardware("h100")
HALVES_OF_GPUS = {**HALVED, "platform": "gpu"}


def with_memory(gib: float) -> Hardware:
    """An H100 with so much memory that programs may use, and two GiB that they may not."""
    return H100.model_copy(update={"memory": (gib + 2) * 2**30})


@pytest.mark.parametrize("parallel", [MEDIA_APART, VISION_APART])
def test_a_device_holds_the_state_of_its_modules_alone(
    small_config: Callable[..., ExperimentConfig], parallel: dict[str, Any]
) -> None:
    settings = small_config(parallel=parallel)
    state = build_grouped_step(settings).abstract_state
    groups = predict_group_memory(settings, H100)
    held = dict.fromkeys(range(4), 0)
    for leaf in jax.tree.leaves({**state, "step": ()}):
        for device in leaf.sharding.device_set:
            size = math.prod(leaf.sharding.shard_shape(leaf.shape)) * leaf.dtype.itemsize
            held[device.id] += size if leaf.ndim else 0
    for group in groups:
        (first, last) = settings.parallel.groups[group.name].devices or (0, 3)
        expected = group.memory.parameters + group.memory.optimizer
        for device in range(first, last + 1):
            assert held[device] == pytest.approx(expected, rel=1e-3), group.name


def test_the_stages_of_a_group_have_a_column_each() -> None:
    settings = config(parallel=STAGES_APART, model__decoder__layers=4, train__accumulate=4)
    schedule = schedule_of_groups(settings, build_workload(on_platform(settings, "gpu")))
    assert schedule.in_flight == (3, 2, 1, 3)
    table = str(schedule).splitlines()
    assert [row.split()[0] for row in table[1:]] == ["audio", "decoder.0", "decoder.1", "vision"]
    memory = {group.name: group.memory for group in predict_group_memory(settings, H100)}
    single = {**STAGES_APART, "decoder": {"fsdp": 2}}
    changes = {"parallel": single, "model__decoder__layers": 4, "train__accumulate": 4}
    flat = {group.name: group.memory for group in predict_group_memory(config(**changes), H100)}
    assert memory["text"].backbone > flat["text"].backbone
    assert memory["sounds"].sources == 1.5 * flat["sounds"].sources


def test_microbatches_in_flight_are_those_of_the_step() -> None:
    settings = config(parallel=MEDIA_APART, train__accumulate=4)
    schedule = schedule_of_groups(settings, build_workload(on_platform(settings, "gpu")))
    assert schedule.ticks == build_grouped_step(settings).program.make_schedule(4).ticks
    one, four = (
        predict_group_memory(config(parallel=MEDIA_APART, train__accumulate=count), H100)[1].memory
        for count in (1, 4)
    )
    assert four.sources == schedule.in_flight[1] * one.sources == 2 * one.sources


def test_simulate_tells_seconds_and_memory_of_every_group() -> None:
    settings = config(parallel=HALVES_OF_GPUS)
    result = simulate_configured_groups(settings, H100)
    assert [row[:3] for row in result.rows] == [
        ("text", "decoder", "50% of devices 0 to 1"),
        ("media", "vision, audio", "50% of devices 0 to 1"),
    ]
    json = result.to_json()
    assert json["groups"][0]["room_bytes"] == pytest.approx(0.4875 * H100.memory)
    assert result.run is not None
    assert json["groups"][1]["busy"] == result.run.busy[1] > 0
    assert [group.shards for group in result.run.plan.groups] == [2, 1]
    assert result.notes == [
        f"step: {json['seconds']:.4g} s, by counted work on {H100.title}",
        "tick         0     1     2     3     4",
        "decoder      .     .     F0+B0 .     .",
        "vision+audio visF0 audF0 .     visB0 audB0",
    ]


def test_simulate_knows_no_seconds_of_groups_that_split_rows() -> None:
    result = simulate_configured_groups(config(parallel=MEDIA_APART), H100)
    assert result.run is None
    assert [row[3] for row in result.rows] == ["-", "-"]
    assert result.notes[0] == "seconds are predicted of plans with data and fsdp alone"


def test_steps_of_one_program_are_refused() -> None:
    with pytest.raises(PlanError, match="text, media have no program in common"):
        build_train_step(config(parallel=MEDIA_APART))


def test_plans_without_slices_have_no_groups() -> None:
    planned = config(parallel=MEDIA_APART).parallel.with_plans({"decoder": ParallelPlan()})
    assert (planned.devices, planned.groups) == (1, {})


def refused(settings: ExperimentConfig, hardware: Hardware) -> str:
    with pytest.raises(ConfigError) as caught:
        check_group_memory(settings, hardware)
    return str(caught.value)


def test_groups_that_do_not_fit_are_refused_before_compiling() -> None:
    large = {"model__decoder__vocab": 2**21}  # 0.13 GiB of embeddings, as much of the head
    settings = config(parallel=MEDIA_APART, **large)
    message = refused(settings, with_memory(0.01))
    assert "parallel.groups.text: " in message
    assert "on devices 0 to 1; valid: more devices, plans with fsdp" in message
    check_group_memory(settings, with_memory(8))


def test_slices_of_a_device_share_its_memory_and_not_that_of_others() -> None:
    settings = config(parallel=ENCODERS_HALVED, model__decoder__vocab=2**21)
    check_group_memory(settings, with_memory(8))
    text, *encoders = (g.memory.total / 2**30 for g in predict_group_memory(settings, H100))
    assert text > 10 * sum(encoders)
    message = refused(settings, with_memory(1.5 * sum(encoders)))
    assert "parallel.groups.text: " in message
    assert "images" not in message
    assert "slices of a device need images" in refused(settings, with_memory(0.9 * sum(encoders)))


def test_a_plan_of_slices_beside_whole_devices_is_written_as_it_is_read() -> None:
    settings = config(parallel=ENCODERS_HALVED)
    plan = configured_plan(settings)
    assert plan is not None
    assert plan.islands == ((0,), (1, 2))
    written = GroupPlanner(settings, H100).configure_groups(plan)
    assert [*written.parallel.groups.values()] == [*settings.parallel.groups.values()]
    resolve_config(written.model_dump(mode="json"), source="written")


def test_slices_that_do_not_fit_in_their_shares_are_refused_with_shares_that_do() -> None:
    settings = config(parallel=HALVES_OF_GPUS, model__decoder__vocab=2**22)
    text, media = (group.memory.total / 2**30 for group in predict_group_memory(settings, H100))
    assert text > 10 * media
    assert "parallel.groups: slices of a device need text" in refused(settings, with_memory(0.5))
    large = H100.model_copy(update={"memory": 1.5 * text * 2**30})
    message = refused(settings, large)
    assert "parallel.groups.text.memory: " in message
    shares = message.rpartition("valid: at least ")[2]
    named = dict(part.split() for part in shares.split(", "))
    groups = {
        name: {**group, "memory": float(named[name])}
        for name, group in HALVES_OF_GPUS["groups"].items()
    }
    other = config(parallel={**HALVES_OF_GPUS, "groups": groups}, model__decoder__vocab=2**22)
    check_group_memory(other, large)
    planned = with_memory_shares(settings, large)
    check_group_memory(planned, large)
    shares_planned = [group.memory or 0.0 for group in planned.parallel.groups.values()]
    assert sum(shares_planned) <= 1
    assert with_memory_shares(planned, large) == planned


def test_the_memory_of_unknown_devices_is_not_checked() -> None:
    kinds = {"cpu": MEDIA_APART, "NVIDIA H100 80GB HBM3": HALVES_OF_GPUS}
    for kind, parallel in kinds.items():
        devices: Any = [SimpleNamespace(device_kind=kind)]
        check_groups_here(config(parallel=parallel), devices)

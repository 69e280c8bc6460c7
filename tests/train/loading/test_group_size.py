"""The size of groups is that of the fewest predicted seconds."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pytest

from data.planning.packing import make_capacity
from data.sample import Lengths
from data.sources.distributions import draw_lengths
from mllm_jax.config.inputs import row_specs
from mllm_jax.config.load import ExperimentConfig, load_config
from mllm_jax.train.loading import group_size
from mllm_jax.train.loading.group_size import GroupCost, choose_group_size
from tests.configs import ROOT
from tests.data.samples import make_lengths

PLAN = "{data: 40, fsdp: 8}"
SIZES = [1, 2, 4, 8, 20, 40]


def at_scale(lengths: str = "cached", *more: str) -> ExperimentConfig:
    """A 7B on 40 hosts of 8 H100."""
    changes = [
        "schedule.hardware=h100",
        "data.balance_group=auto",
        "data.rows=320",
        f"data.lengths={lengths}",
        "parallel.devices=320",
        f"parallel.decoder={PLAN}",
        f"parallel.encoders={{vision: {PLAN}, audio: {PLAN}}}",
        "model.dtype=bfloat16",
        *more,
    ]
    return load_config(ROOT / "configs" / "bench" / "balance.yaml", changes)


def shipped() -> list[Lengths]:
    return [shape.lengths("decoder") for shape in draw_lengths("web", 300, seed=1)]


def chosen(
    config: ExperimentConfig, samples: list[Lengths], sizes: Sequence[int] = SIZES
) -> GroupCost:
    capacity = make_capacity(config.data.budgets, row_specs(config.model))
    ranks = dict.fromkeys(["decoder", "vision", "audio"], 320)
    return choose_group_size(config, capacity, samples, ranks, 40, sizes)


def test_unlike_samples_are_balanced_by_many_hosts_and_like_ones_by_few(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO, "mllm_jax"):
        many = chosen(at_scale(), shipped())
    assert many.hosts == 40
    assert "auto takes groups of 40 of 40 hosts; predicted by size" in caplog.text
    few = chosen(at_scale(), shipped(), sizes=[1, 2])
    assert few.hosts == 2
    assert few.uneven > many.uneven
    assert few.seconds > many.seconds
    alike = chosen(at_scale(), [make_lengths(1000, {"vision": (256,)}, {"vision": (3,)})])
    assert alike.hosts == 1
    assert alike.uneven == pytest.approx(1)


def test_what_is_sent_and_planned_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    samples = [make_lengths(1000, {"vision": (256,)}, {"vision": (3,)})]
    read, known = (chosen(at_scale(own), samples, sizes=[8]) for own in ("on_read", "cached"))
    assert read.seconds > known.seconds
    monkeypatch.setattr(group_size, "PLANNING", 1.0)
    assert chosen(at_scale(), shipped()).hosts == 1


def test_outputs_that_are_sent_are_as_wide_as_the_decoder(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that is left without work and planning is the time of their sending."""
    monkeypatch.setattr(group_size, "PLANNING", 0.0)
    monkeypatch.setattr(group_size, "_work_seconds", lambda *_: 0.0)
    few, many = (
        chosen(at_scale(), [make_lengths(4000, {"vision": (count,)}, {"vision": (3,)})], sizes=[8])
        for count in (256, 2560)
    )
    assert many.seconds > 2 * few.seconds > 0


def test_phases_that_are_not_distributed_have_no_part_in_it() -> None:
    samples = shipped()
    whole, decoder, none = (
        chosen(at_scale("on_read", f"data.balance={own}"), samples)
        for own in ("per_phase", "backbone", "none")
    )
    assert whole.uneven > decoder.uneven >= 1
    assert whole.seconds > decoder.seconds > none.seconds
    assert (none.hosts, none.uneven) == (1, 0)

"""What `parallel.overlap` stands for, and kinds of overlap that would do nothing."""

from __future__ import annotations

from typing import Any

import pytest

from mllm_jax.config.load import ConfigError, ExperimentConfig
from mllm_jax.config.overlap import OPTIONS, PROVEN, WITHOUT_RINGS, Overlap, resolve_overlap
from tests.configs import config

FSDP = {"devices": 4, "decoder": {"fsdp": 2, "tensor": 2}, "encoders": {}}
STAGES = {"devices": 4, "decoder": {"stage": 2, "tensor": 2}, "encoders": {}}


def of(parallel: dict[str, Any], **changes: Any) -> ExperimentConfig:
    """The small configuration without encoders, under these plans."""
    return config(
        model__encoders={},
        model__decoder__layers=2,
        data__source={"kind": "synthetic"},
        data__tokenizer="bytes",
        data__budgets={"tokens": 64, "segments": 8},
        evaluate={"enabled": False},
        parallel={**parallel, **changes},
    )


def test_nothing_overlaps_with_compute_on_cpus_unless_it_is_asked_for() -> None:
    assert resolve_overlap(of(FSDP)) == Overlap()
    assert resolve_overlap(of(FSDP, overlap=["tensor"])) == Overlap(frozenset({"tensor"}))


@pytest.mark.parametrize("platform", ["gpu", "tpu"])
def test_auto_is_all_that_has_something_to_do(platform: str) -> None:
    proven = frozenset(PROVEN[platform])
    assert resolve_overlap(of(FSDP, platform=platform)) == Overlap(proven, OPTIONS[platform])
    assert resolve_overlap(of(FSDP), platform).kinds == proven
    without_rings = {**OPTIONS[platform], **WITHOUT_RINGS.get(platform, {})}
    assert resolve_overlap(of(STAGES, platform=platform)) == Overlap(frozenset(), without_rings)
    rings, none = (of(FSDP, platform=platform, overlap=["flags", *own]) for own in (["tensor"], []))
    assert resolve_overlap(rings).options == OPTIONS[platform]
    assert resolve_overlap(none).options == without_rings
    assert resolve_overlap(of(FSDP, platform=platform, overlap="off")) == Overlap()
    alone = resolve_overlap(of(FSDP, platform=platform, overlap=["gather"]))
    assert alone == Overlap(frozenset({"gather"}))


def test_auto_leaves_out_what_hides_nothing_on_tpus() -> None:
    """As compiled: gathers and scatters an iteration apart hide less there than none of them."""
    assert resolve_overlap(of(FSDP), "tpu").kinds == {"tensor"}
    assert (
        resolve_overlap(of({"devices": 4, "decoder": {"fsdp": 4}, "encoders": {}}), "tpu").kinds
        == set()
    )


@pytest.mark.parametrize(
    ("parallel", "chosen", "message"),
    [
        (FSDP, ["flags"], "flags are none for platform cpu; valid: auto, off"),
        (
            FSDP,
            ["flags", "gather"],
            r"flags are none for platform cpu; .*\[\"gather\"\]",
        ),
        (
            STAGES,
            ["scatter", "tensor"],
            "scatter is for a decoder without stages.*; tensor is for a decoder without stages.*"
            "valid: auto, off",
        ),
        (
            {"devices": 4, "decoder": {"data": 4}, "encoders": {}},
            ["tensor", "gather"],
            "tensor needs a plan with tensor above 1; gather needs a plan with fsdp above 1",
        ),
    ],
)
def test_kinds_that_would_do_nothing_are_refused(
    parallel: dict[str, Any], chosen: list[str], message: str
) -> None:
    with pytest.raises(ConfigError, match=f"parallel.overlap: {message}"):
        of(parallel, overlap=chosen)


def test_a_type_of_sums_that_nobody_adds_up_is_refused() -> None:
    parallel = {"devices": 4, "decoder": {"data": 4}, "encoders": {}}
    message = "parallel.reduce_dtype: bfloat16 needs a plan with tensor above 1; valid: float32"
    with pytest.raises(ConfigError, match=message):
        of(parallel, reduce_dtype="bfloat16")


def test_the_lines_have_every_option() -> None:
    lines = resolve_overlap(of(FSDP, platform="gpu")).lines
    assert lines[0] == "collectives of layers that overlap with compute: gather, scatter, tensor"
    assert "  xla_gpu_enable_latency_hiding_scheduler=true" in lines
    assert len(lines) == 2 + len(OPTIONS["gpu"])

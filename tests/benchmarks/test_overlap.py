"""Collectives of layers beside compute, compiled for accelerators that are not here."""

from __future__ import annotations

import pytest

from benchmarks.overlap import LIMIT, SETTINGS, TARGETS, bench_overlap, measure_target
from mllm_jax.compile.target import CompileTarget
from mllm_jax.config.load import ConfigError, load_config
from tests.configs import ROOT

CONFIG = ROOT / "configs" / "bench" / "overlap.yaml"
#: Narrow and short.
SMALL = (
    "model.decoder.d_model=1024",
    "model.decoder.heads=8",
    "model.decoder.d_ff=4096",
    "model.decoder.vocab=512",
    "data.budgets={tokens: 2048, segments: 8}",
)
#: The same without tensor ranks, whose rows would move in rings.
FSDP = (*SMALL, "parallel.decoder={fsdp: 32}", "data.rows=32")


def test_the_default_is_measured_beside_its_parts() -> None:
    assert SETTINGS[0] == "off"
    assert SETTINGS[-1] == load_config(CONFIG).parallel.overlap == "auto"


def test_a_step_with_stages_is_refused() -> None:
    config = load_config(CONFIG, ["parallel.decoder={stage: 4, tensor: 8}"])
    with pytest.raises(ConfigError, match=r"parallel\.decoder\.stage: 4 is measured by bench co_i"):
        bench_overlap(config, lambda text: None)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "target",
    [
        pytest.param(TARGETS[0], marks=pytest.mark.tpu_compile),
        pytest.param(TARGETS[1], marks=pytest.mark.gpu_compile),
    ],
    ids=str,
)
def test_more_bytes_have_compute_beside_them(target: CompileTarget) -> None:
    pytest.importorskip(target.compiler.module)
    config = load_config(CONFIG, SMALL)
    before, after = (
        measure_target(config, target, setting) for setting in (SETTINGS[0], SETTINGS[-1])
    )
    assert after["overlapped"] >= max(LIMIT * before["overlapped"], 0.5)


@pytest.mark.slow
@pytest.mark.gpu_compile
@pytest.mark.timeout(600)
def test_pieces_of_fsdp_hide_time_where_there_are_no_rings() -> None:
    pytest.importorskip(TARGETS[1].compiler.module)
    config = load_config(CONFIG, FSDP)
    settings = ["flags"], ["flags", "gather", "scatter"]
    before, after = (measure_target(config, TARGETS[1], setting) for setting in settings)
    assert after["hidden"] >= 1.1 * before["hidden"] > 0


@pytest.mark.slow
@pytest.mark.tpu_compile
@pytest.mark.timeout(600)
def test_gathers_over_three_axes_of_a_torus_run_beside_products() -> None:
    pytest.importorskip(TARGETS[0].compiler.module)
    config = load_config(CONFIG, FSDP)
    assert measure_target(config, TARGETS[0], ["flags"])["hidden"] > 0.1

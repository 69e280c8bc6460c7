"""The exchange of experts beside their products, compiled for accelerators that are not here."""

from __future__ import annotations

import pytest

from benchmarks.dispatch import LIMIT, TARGETS, bench_dispatch, measure_target
from mllm_jax.compile.target import CompileTarget
from mllm_jax.config.load import ConfigError, load_config
from tests.configs import ROOT

CONFIG = ROOT / "configs" / "bench" / "dispatch.yaml"
#: Narrow and short.
SMALL = (
    "model.decoder.d_model=1024",
    "model.decoder.heads=8",
    "model.decoder.vocab=512",
    "data.budgets={tokens: 2048, segments: 8}",
)


def test_a_step_without_an_exchange_is_refused() -> None:
    config = load_config(CONFIG, ["parallel.decoder={data: 8}"])
    with pytest.raises(ConfigError, match=r"parallel\.decoder\.expert: 1 exchanges nothing"):
        bench_dispatch(config, lambda text: None)


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
def test_half_of_the_exchange_is_beside_products(target: CompileTarget) -> None:
    pytest.importorskip(target.compiler.module)
    row = measure_target(load_config(CONFIG, SMALL), target)
    assert row["exchanges"] == 8  # there and back of two parts, forward and backward
    assert row["overlapped"] >= LIMIT
    assert 0 < row["hidden"] <= row["overlapped"] + 1e-6
